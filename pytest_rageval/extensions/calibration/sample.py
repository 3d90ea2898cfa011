"""`rageval judge sample`: draws the answers of a report that people are to label, and records how they were drawn."""

import argparse
import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from pytest_rageval.cli.console import echo
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.reading import read_report


def sample_command(options: argparse.Namespace) -> int:
    """Write a labels file of random answers, in random order, with `"human": null`."""
    report = read_report(options.report, remedy="Write it with pytest --rageval-report report.json.")
    score = _score_of(report, options)
    pool = sorted(_answers(*score), key=lambda record: record["id"])
    if not pool:
        raise InputError(
            f"{options.report.name}: {score[1]['spec']} has no answers with references.\nName a score of answers, such "
            "as --score answer.correct@3."
        )
    count = min(options.count, len(pool))
    drawn = Random(options.seed).sample(pool, count)  # noqa: S311 - no secret
    for place, record in enumerate(drawn, 1):
        record["sample"] = {"seed": options.seed, "of": len(pool), "n": count, "place": place}
    if options.output.exists():
        raise InputError(
            f"{options.output} exists already.\nName another file with --output: labels are not overwritten."
        )
    lines = (
        f"{json.dumps(record, ensure_ascii=False)}\n".encode(errors="backslashreplace") for record in drawn
    )
    write_atomically(options.output, lines)
    echo(
        f"{options.output}: {count} of {counted(len(pool), 'answer')} of {score[1]['spec']}, drawn with seed "
        f'{options.seed}. Write true or false for each "human", from the first line on: the first labels of a file in '
        "random order are a random sample too"
    )
    return 0


def _score_of(
    report: Mapping[str, Any], options: argparse.Namespace
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    scores = [
        (test, score)
        for test in report["tests"]
        for score in test["scores"]
        if options.test in {None, test["nodeid"]} and not score["where"]
    ]
    found = [
        (test, score)
        for test, score in scores
        if (score["spec"] == options.score if options.score else any(_answers(test, score)))
    ]
    if not found:
        names = ", ".join(sorted({score["spec"] for _, score in scores})) or "no score"
        what = options.score or "score of answers"
        raise InputError(
            f"{options.report.name} has no {what}; found {names}.\nUse --test NODEID and --score NAME."
        )
    return found[0]


def _answers(test: Mapping[str, Any], score: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a record without a label for each answer of a score that has a verdict."""
    questions = {question["id"]: question for question in test.get("questions", ())}
    for example in score["examples"]:
        question, expected = questions.get(example["id"]), example.get("expected")
        if question is None or expected is None or example.get("answer") is None or example["score"] is None:
            continue
        yield {
            "id": example["id"],
            "question": question["question"],
            **({"history": question["history"]} if question.get("history") else {}),
            "references": expected["texts"],
            "prediction": example["answer"],
            "human": None,
        }
