"""`rageval evalset pool`: the passages with an answer that several systems found become gold, the Rel of Rel'-recall.

The paper's selection of questions is here too: those for which each system has an answer in its first K passages, and
of these as many in each group.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_rageval.cli.console import echo, format_count
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.ranking import Document, excerpt
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.evalsets.sampling import rank
from pytest_rageval.extensions.evalset_tools.reading import read_evalset, refuse_existing
from pytest_rageval.reports.document import PassageEntry
from pytest_rageval.reports.reading import read_report
from pytest_rageval.scores.contains import contains_answer

System = Mapping[str, Sequence[Document]]  # the ranking of each question, by id
WRITE_REPORT: Final = (
    "Write one with: pytest --rageval-report report.json, of a test that has a score of rankings, and none with "
    'order="random".'
)


def pool_command(options: argparse.Namespace) -> int:
    if (options.n is None) != (options.by is None):
        raise InputError(
            "--n draws as many questions of each value of the tag --by.\nGive both, or neither of them."
        )
    refuse_existing([options.out], read=[options.file, *options.report], force=options.force)
    evalset, _ = read_evalset(options)
    if not any(example.wanted for example in evalset):
        raise InputError(
            f"No example of {evalset.name} has answers, so none can be found in passages.\n"
            "Write `answers` or `answer_set` into the records."
        )
    systems = [system for path in options.report for system in read_systems(path, evalset)]
    kept = [
        example
        for example in evalset
        if options.top is None or all(has_answer(system, example, options.top) for system in systems)
    ]
    if not kept:
        raise InputError(
            f"No question of {evalset.name} has a passage with an answer among the first {options.top} of each of "
            f"{format_count(len(systems), 'system')}, nothing was written.\nRaise --top."
        )
    drawn, groups = kept, dict[str, list[Example]]()
    if options.by is not None:
        drawn, groups = draw_of_each(kept, options.by, options.n, options.seed)
    pooled = [pool(systems, example) for example in drawn]
    write_jsonl(EvalSet(options.out.name, tuple(pooled)), options.out)
    added = sum(len(after.gold) - len(before.gold) for before, after in zip(drawn, pooled, strict=True))
    echo(
        f"{options.out}: {len(pooled):,} of {format_count(len(evalset), 'example')}; "
        f"{format_count(added, 'passage')} with an answer added as gold, of {format_count(len(systems), 'system')}"
    )
    short = {name: len(group) for name, group in groups.items() if len(group) < options.n}
    for name, size in short.items():
        echo(f"{options.by}={name} has {size:,} of {options.n:,}")
    return int(bool(short))


def read_systems(path: Path, evalset: EvalSet) -> Iterator[System]:
    """Yield the rankings of each system in a report: a combination of parametrized fixtures, at its largest cut-off."""
    systems: defaultdict[str, dict[str, Sequence[Document]]] = defaultdict(dict)
    for test in read_report(path)["tests"]:
        if (test.get("evalset") or {}).get("digest") != evalset.digest:
            continue
        if any(score.get("order") == "random" for score in test["scores"]):
            continue  # its rankings may be those of the prompt
        rankings = systems[str(test.get("system", {}).get("rageval_retriever", ""))]
        for question in test.get("questions", ()):
            documents = [_document(entry, path) for entry in question.get("retrieved", ())]
            if len(documents) > len(rankings.get(question["id"], ())):
                rankings[question["id"]] = documents
    if not any(systems.values()):
        raise InputError(f"No test of {path} has rankings for {evalset.name} as it is now.\n{WRITE_REPORT}")
    yield from systems.values()


def _document(entry: PassageEntry, path: Path) -> Document:
    if not entry.get("text"):
        raise InputError(
            f"{path}: the passage {entry['document']} has no text, so that no answer can be found in it.\n"
            "Let the retriever return the texts."
        )
    return Document(entry["text"], None if entry["document"] == excerpt(entry["text"]) else entry["document"])


def has_answer(system: System, example: Example, top: int) -> bool:
    return any(contains_answer(example, document) for document in system.get(example.id, ())[:top])


def draw_of_each(
    examples: Sequence[Example], tag: str, n: int, seed: int
) -> tuple[list[Example], dict[str, list[Example]]]:
    """Return `n` examples of each value of a tag, in their order, and all by value; a larger `n` keeps the others."""
    groups: defaultdict[str, list[Example]] = defaultdict(list)
    for example in examples:
        if tag not in example.tags:
            raise InputError(
                f"The example {example.id!r} has no tag {tag!r}.\nName a tag that all of them have."
            )
        groups[str(example.tags[tag])].append(example)
    chosen = {
        example.id
        for group in groups.values()
        for example in sorted(group, key=lambda each: rank(seed, each.id))[:n]
    }
    return [example for example in examples if example.id in chosen], groups


def pool(systems: Iterable[System], example: Example) -> Example:
    ids, texts = {gold.id for gold in example.gold} - {None}, {gold.text for gold in example.gold}
    found = {
        document.identity: Gold(id=document.id, text=document.text)
        for system in systems
        for document in system.get(example.id, ())
        if document.id not in ids and document.text not in texts and contains_answer(example, document)
    }
    return replace(example, gold=(*example.gold, *found.values()))
