"""`rageval evalset from-traces`: writes an eval set with the questions in exported traces."""

import argparse
from pathlib import Path

from pytest_rageval.cli.console import echo, format_count
from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.records import from_records, write_jsonl
from pytest_rageval.extensions.evalset_tools.reading import refuse_existing
from pytest_rageval.extensions.traces.reading import read_traces


def from_traces_command(options: argparse.Namespace) -> int:
    """Write the questions, and print what was left out and what is missing."""
    output: Path = options.output
    refuse_existing([output], read=options.files, force=options.force)
    traces = read_traces(options.files)
    example = next((question for question in traces.questions if question.of_evalset), None)
    if example is not None:
        raise InputError(
            f"{example.place} is an example of an eval set already.\nGive exports of traces, spans or data sets."
        )
    if not traces.questions:
        raise InputError(
            f"No question was found in {traces.counts_text}, nothing was written.{traces.notes_text()}\n"
            "A question is the input of the outermost span, or the query of a retriever's."
        )
    records = (
        (question.place, question.record(answer_is_reference=options.answers_are_references))
        for question in traces.questions
    )
    evalset = from_records(records, name=output.name)
    write_jsonl(evalset, output)
    echo(f"{output}: {format_count(len(evalset), 'question')} of {traces.counts_text}{traces.notes_text()}")
    answered = sum(question.answer is not None for question in traces.questions)
    expected = sum(question.reference is not None for question in traces.questions)
    given = answered if options.answers_are_references else 0
    if expected or given:
        parts = f"expected by data sets: {expected:,}, given by the application: {given:,}"
        echo(f"{format_count(expected + given, 'reference')} ({parts})")
    if answered and not given:
        echo(
            f"{format_count(answered, 'answer')} written as answer_given, not as a reference answer "
            "(--answers-are-references changes this)"
        )
    without = sum(not question.gold for question in traces.questions)
    if without:
        who = "None has" if without == len(evalset) else f"{without:,} of {len(evalset):,} have no"
        echo(f"{who} gold passages yet: add them, and check with `rageval evalset check`.")
    return 0
