"""The part of the page about the judge: against people, without its errors, and against a second judge."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isclose
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import YES_THRESHOLD
from pytest_rageval.extensions.measurement.layout import Lacks, cell, number, rankings, table
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import ReportDocument, ScoreEntry, TestEntry
from pytest_rageval.reports.notes import NOTE_TEXTS, calibration_lines
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, pearson
from pytest_rageval.stats.intervals import Estimate

CORRECTION_HEAD: Final = ("score", "naive", "Rogan–Gladen", "prediction-powered", "labels")
CORRECTIONS: Final = (
    "Rogan–Gladen corrects by the judge's sensitivity and specificity on the labels, and allows that another share of "
    "the labels is right (label shift); interval of Lang and Reiczigel. Prediction-powered inference (PPI++) needs "
    "labels of a random sample."
)
SECOND_HEAD: Final = ("score", "first judge", "second judge", "n", "equal verdicts", "agreement", "verdicts")
SECOND_RUN: Final = (
    "write a baseline and a report with --rageval-judge-model=OTHER --rageval-baseline=second_baseline.json, and add "
    "--second second.json"
)


def judge_lines(test: TestEntry, second: ReportDocument | None, lacks: Lacks) -> Iterator[str]:
    judged = [
        entry
        for entry in test["scores"]
        if "judge" in entry.get("fingerprint", {}) and entry["mean"] is not None
    ]
    if not judged:
        return
    corrected = [entry for entry in judged if "corrected" in entry]
    for name in [sliced_name(entry) for entry in judged if "corrected" not in entry]:
        lacks[f"labels of people for {name}"] = (
            "`rageval judge sample report.json`, --rageval calibration=FILE"
        )
    if corrected:
        rows = [_correction_row(entry, lacks) for entry in corrected]
        yield from ("", *table(CORRECTION_HEAD, rows), "", CORRECTIONS)
    people = [line for entry in test.get("calibration", ()) for line in calibration_lines(entry)]
    if not people:
        lacks["the judge's agreement with people"] = 'mark the test with rageval_calibration("labels.jsonl")'
    votes = [
        f"{sliced_name(entry)}: {NOTE_TEXTS['judge_votes'](entry)}"
        for entry in judged
        if "judge_votes" in entry
    ]
    yield from [""] * bool(people or votes)
    yield from (f"- {cell(line)}" for line in (*people, *votes))
    if second is None:
        lacks["a second judge"] = SECOND_RUN
    elif rows := [*_second_rows(test, judged, second, lacks)]:
        yield from ("", *table(SECOND_HEAD, rows))


def _correction_row(entry: ScoreEntry, lacks: Lacks) -> Sequence[str]:
    name, corrected = sliced_name(entry), entry["corrected"]
    beside = corrected.get("rogan_gladen", {"mean": None, "refused": "it needs yes/no labels of answers"})
    rates = clipped = ""
    if beside["mean"] is None:
        lacks[f"Rogan–Gladen of {name}"] = beside["refused"]
    else:
        rates = (
            f"; sensitivity {beside['sensitivity']:.3f} on {beside['right']}, specificity "
            f"{beside['specificity']:.3f} on {beside['wrong']}"
        )
        clipped = f", clipped from {beside['clipped']:.3f}" if "clipped" in beside else ""
    if corrected["mean"] is None:
        lacks[f"prediction-powered inference of {name}"] = corrected.get(
            "refused", "there are too few labels"
        )
    elif not corrected.get("sampled"):
        lacks[f"a record that the labels of {name} are a random sample"] = (
            "`rageval judge sample report.json`"
        )
    return (
        name,
        _with_interval(entry),
        f"{_with_interval(beside)}{clipped}",
        _with_interval(corrected),
        f"{corrected['labels']}{rates}",
    )


def _second_rows(
    test: TestEntry, judged: Sequence[ScoreEntry], second: ReportDocument, lacks: Lacks
) -> Iterator[Sequence[str]]:
    """Yield a row for each score of both reports; the second is of the same test with another judge."""
    other = next((each for each in second["tests"] if each["nodeid"] == test["nodeid"]), None)
    if other is None:
        raise InputError(f"The second report has no test {test['nodeid']}.\nFor it, {SECOND_RUN}.")
    digests = {(each.get("evalset") or {}).get("digest") for each in (test, other)}
    if len(digests) > 1:
        raise InputError(
            f"The two reports have other questions of {test['nodeid']}.\nOf the same questions, {SECOND_RUN}."
        )
    entries = {sliced_name(entry): entry for entry in other["scores"]}
    before, after = (rankings(each.get("questions", ())) for each in (test, other))
    unmoved = {name for name in before if before[name] == after.get(name)}
    for entry in judged:
        name = sliced_name(entry)
        again = entries.get(name)
        if again is None or again["mean"] is None:
            reason = again["reason"] if again else None
            lacks[f"a second judge of {name}"] = reason or "the second report has no such score"
            continue
        judges = [str(each.get("fingerprint", {}).get("judge")) for each in (entry, again)]
        if judges[0] == judges[1]:
            raise InputError(
                f"Both reports have the same judge of {name}, {judges[0]}.\nOf another one, {SECOND_RUN}."
            )
        pairs = [*_pairs(entry, again, unmoved)]
        if left_out := min(entry["n"], again["n"]) - len(pairs):
            lacks[f"the same passages and answers for {counted(left_out, 'question')} of {name}"] = (
                "the agreement is without them; replay the replies of the first run"
            )
        means = [
            f"{judge}: {_with_interval(each)}" for judge, each in zip(judges, (entry, again), strict=True)
        ]
        verdicts = ", ".join(each.get("verdict") or "-" for each in (entry, again))
        yield name, *means, str(len(pairs)), *_agreement(entry, pairs), verdicts


def _pairs(entry: ScoreEntry, again: ScoreEntry, unmoved: Collection[str]) -> Iterator[tuple[float, float]]:
    """Yield both scores of each question with the same passages and the same answer."""
    others = {example["id"]: example for example in again["examples"]}
    for example in entry["examples"]:
        other = others.get(example["id"])
        if other is None or example["id"] not in unmoved or example.get("answer") != other.get("answer"):
            continue
        if example["score"] is not None and other["score"] is not None:
            yield example["score"], other["score"]


def _agreement(entry: ScoreEntry, pairs: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Return the share of equal verdicts, and kappa; for grades "-" and their correlation."""
    if not pairs:
        return "-", "-"
    # Of several runs or draws, a mean of verdicts is a multiple of their inverse.
    count = entry.get("runs", 1) * entry.get("draws", 1)
    if "scale" in entry or not all(isclose(count * x, round(count * x)) for pair in pairs for x in pair):
        return "-", f"correlation {_text(pearson(*zip(*pairs, strict=True)))}"
    first, second = zip(*((x >= YES_THRESHOLD, y >= YES_THRESHOLD) for x, y in pairs), strict=True)
    return _text(accuracy(first, second)), f"kappa {_text(cohen_kappa(first, second))}"


def _with_interval(entry: Mapping[str, Any]) -> str:
    interval = entry.get("ci95")
    return _text(Estimate(entry["mean"], *interval)) if interval else number(entry["mean"])


def _text(found: Estimate | None) -> str:
    return "undefined" if found is None else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
