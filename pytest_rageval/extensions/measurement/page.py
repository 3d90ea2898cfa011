"""`rageval measurement`: the numbers of a run as one page of Markdown, from its JSON report.

What the run lacks is listed with what to add; nothing is left out in silence.
"""

import argparse
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isclose
from statistics import fmean
from typing import Any, Final, cast

from pytest_rageval.cli.console import echo
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import YES_THRESHOLD
from pytest_rageval.extensions.measurement.record import MeasurementEntry
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.text import counted, one_line, printable
from pytest_rageval.models.usage import usage_lines
from pytest_rageval.reports.build import evalset_text, sliced_name
from pytest_rageval.reports.document import (
    ComparisonEntry,
    EvaluatedQuestion,
    ReportDocument,
    ScoreEntry,
    TestEntry,
)
from pytest_rageval.reports.notes import NOTE_TEXTS, calibration_lines
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.terminal import interval_text, number_text
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, pearson
from pytest_rageval.stats.intervals import UNIT, Estimate

Lacks = dict[str, str]  # what a measurement lacks, with what to add


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def cell(text: str) -> str:
    """Return a text in one line that ends no cell and begins no HTML."""
    return one_line(text).replace("<", "&lt;").replace("|", "&#124;")


def number(value: float | None) -> str:
    return "-" if value is None else number_text(value)


def rankings(questions: Iterable[EvaluatedQuestion]) -> dict[str, list[str]]:
    return {each["id"]: [passage["document"] for passage in each.get("retrieved", ())] for each in questions}


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


DIGITS: Final = 16  # of a digest
PROMPT: Final = " prompt to "  # in the names of a fingerprint
SAMPLING: Final = [
    "temperature",
    "draws",
    "llm_reteval_temperature",
    "llm_reteval_draws",
    "judge_votes",
    "seed",
]
SCORE_HEAD: Final = (
    "score",
    "mean",
    "95% interval",
    "n",
    "unscored",
    "if these were 0 … 1",
    "spread of runs",
)
METHODS: Final = (
    "Intervals: Wilson's for scores of 0 or 1, else the BCa bootstrap, with the questions as an independent sample. If "
    "these were 0 … 1: the mean if all unscored questions had the lowest, and the highest score."
)
TEST_HEAD: Final = ("score", "baseline", "drop", "interval", "p", "alpha", "tested over", "design effect")
TEST: Final = (
    "One-sided paired test of a drop: the mid-p McNemar test for a single score of 0 or 1, else sign flips, which flip "
    "the questions of a cluster together; adjusted for all scores of a test (step-down max-T). The intervals agree "
    "with it."
)


def measurement_command(options: argparse.Namespace) -> int:
    remedy = "Write one with: pytest --rageval preset=measurement --rageval-report report.json"
    report = read_report(options.report, remedy=remedy)
    second = options.second and read_report(options.second, remedy=remedy)
    scored = [test for test in report["tests"] if test["scores"]]
    tests = [test for test in scored if options.test in {None, test["nodeid"]}]
    if not tests:
        named = ", ".join(test["nodeid"] for test in scored) or "none"
        raise InputError(f"{options.report} has no such test with scores.\nTests with scores: {named}.")
    lines = [*_page(report, tests, second)]
    if options.output is None:
        echo(*lines)
        return 0
    if options.output.resolve() in {path.resolve() for path in (options.report, options.second) if path}:
        raise InputError(f"{options.output} is a report that the page is made of.\nName another file.")
    write_atomically(options.output, (f"{printable(line)}\n".encode() for line in lines))
    echo(f"{options.output}: {counted(len(tests), 'test')}")
    return 0


def _page(report: ReportDocument, tests: Sequence[TestEntry], second: ReportDocument | None) -> Iterator[str]:
    lacks: Lacks = {}
    yield f"# Measurement of {report.get('started', 'an unknown day')[:10]}"
    yield from ("", *table(("", ""), _run_rows(report, lacks)))
    for test in tests:
        yield from ("", f"## {cell(test['nodeid'])}", "", *table(("", ""), _test_rows(test, lacks)))
        yield from ("", *table(SCORE_HEAD, map(_score_row, test["scores"])), "", METHODS, *_notes(test))
        if rows := [
            _drop_row(entry) for entry in test["scores"] if "p_value" in (entry.get("baseline") or {})
        ]:
            yield from ("", *table(TEST_HEAD, rows), "", TEST)
        else:
            lacks[f"a paired test in {test['nodeid']}"] = (
                "write the baseline that it is compared with (--rageval-update-baseline), and give max_drop"
            )
        yield from judge_lines(test, second, lacks)
    yield from ("", "## To repeat it", "", *_commands(report, lacks))
    lacking = [f"- {what}: {cell(remedy.splitlines()[0])}" for what, remedy in lacks.items()]
    yield from ("", "## What it lacks", "", *(lacking or ["Nothing that this page asks for."]))


def _run_rows(report: ReportDocument, lacks: Lacks) -> Iterator[tuple[str, str]]:
    known = cast("MeasurementEntry", report.get("measurement", {}))
    versions = [f"pytest-rageval {report.get('package', 'unknown')}"]
    if known:
        kept = [f"{name} {value}" for name, value in known["settings"].items()]
        yield "Protocol", f"preset measurement: {', '.join(kept)}"
        lacks |= {f"the preset's {name}": f"this run has {value}" for name, value in known["changed"].items()}
        versions += [f"Python {known['python']}", known["platform"]]
    else:
        lacks["the protocol"] = "run it with --rageval preset=measurement, which also records the command"
    yield "Versions", ", ".join(versions)
    revision = report.get("run", {})
    if "commit" in revision:
        yield "Revision", revision["commit"]
    else:
        lacks["a revision"] = "run it in a git repository"
    if revision.get("dirty"):
        lacks["the source"] = "the working tree has changes; commit them, and run it again"
    if report.get("stopped"):
        lacks["its end"] = "the run was stopped"
    settings: Mapping[str, object] = {**report.get("settings", {})}
    yield "Sampling", ", ".join(f"{name} {settings[name]}" for name in SAMPLING if name in settings)
    usage = report.get("llm", {})
    yield "Cost", "; ".join(usage_lines(usage) if usage else ()) or "no request to a model"
    if "cassette" in known:
        yield "Recorded replies", known["cassette"]
    elif usage.get("requests"):
        lacks["recorded replies"] = "add --rageval-cassette=FILE --rageval-record, and publish the file"


def _test_rows(test: TestEntry, lacks: Lacks) -> Iterator[tuple[str, str]]:
    retrieval, questions = test.get("retrieval", {}), test.get("questions", [])
    system = {**test.get("system", {}), **test.get("parameters", {})}
    system["retriever"] = retrieval.get("retriever", "a function")
    system |= dict.fromkeys(test.get("own", ()), "the user's own")
    yield "System", ", ".join(f"{name}: {value}" for name, value in system.items())
    if test["outcome"] == "error":
        lacks[f"a result of {test['nodeid']}"] = test.get("message") or "it is an error"
    if evalset := test.get("evalset"):
        gold = {label for question in questions for label in question.get("gold", ())}
        size = f"{evalset_text(evalset)} questions with {counted(len(gold), 'gold passage')}"
        yield "Eval set", f"{size}; SHA-256 {evalset['digest'][:DIGITS]}"
        if "of" in evalset:
            lacks[f"a part of {evalset['name']}"] = "run it without --rageval-sample and --rageval-shard"
    if retrieved := [question for question in questions if "retrieved" in question]:
        yield "Pool", _pool_text(retrieved)
        yield "Evidence budget", f"k = {retrieval.get('k')}; {_budget_text(retrieved)}"
    else:
        lacks[f"the pool of {test['nodeid']}"] = "add a score of its rankings, such as recall@5"
    depends = {name: str(value) for name, value in test.get("fingerprint", {}).items()}
    models = [f"{role}: {depends[role]}" for role in ("generator", "judge") if role in depends]
    models += [
        f"{name} is served as {', '.join(names)}"
        for name, names in test.get("served", {}).items()
        if names != [name]
    ]
    yield "Models", "; ".join(models) or "none"
    prompts = [f"{name.partition(PROMPT)[2]} {value}" for name, value in depends.items() if PROMPT in name]
    if prompts:
        yield "Prompts, SHA-256", ", ".join(prompts)


def _pool_text(questions: Sequence[EvaluatedQuestion]) -> str:
    documents = {passage["document"] for question in questions for passage in question["retrieved"]}
    ranks = [rank for question in questions for rank in question.get("gold_ranks", {}).values()]
    found = sum(rank is not None for rank in ranks)
    coverage = (
        f"{found} of {len(ranks)} gold passages ({found / len(ranks):.1%})" if ranks else "no gold passages"
    )
    of = f"{counted(len(documents), 'passage')} retrieved for {counted(len(questions), 'question')}"
    return f"{of}, with {coverage}; SHA-256 {digest(rankings(questions))[:DIGITS]}"


def _budget_text(questions: Sequence[EvaluatedQuestion]) -> str:
    sizes = {
        "characters": [
            sum(len(passage.get("text", "")) for passage in each["retrieved"]) for each in questions
        ],
        "tokens, by estimate": [each["context_tokens"] for each in questions if "context_tokens" in each],
    }
    texts = [f"{fmean(of):.0f} {unit}, at most {max(of)}" for unit, of in sizes.items() if of]
    return f"a question has on average {'; '.join(texts)}"


def _score_row(entry: ScoreEntry) -> Sequence[str]:
    mean, n, unscored = entry["mean"], entry.get("n", 0), entry.get("unscored", 0)
    undefined = f", {entry['undefined']} undefined" if entry.get("undefined") else ""
    ends = entry.get("scale", UNIT)
    values = [example["score"] for example in entry["examples"] if example["score"] is not None]
    bounds = "-"
    if unscored and values and mean is not None and "statistic" not in entry:
        extremes = [(n * mean + unscored * end) / (n + unscored) for end in ends]
        # A score without a largest value, such as a cost, has no such bound.
        is_within = ends[0] <= min(values) and max(values) <= ends[1]
        bounds = " … ".join(map(number_text, extremes)) if is_within else "unbounded"
    spread = f"{entry['spread']:.3f} over {entry['runs']}" if "spread" in entry else "-"
    return (
        sliced_name(entry),
        number(mean),
        "-" if mean is None else interval_text(entry),
        str(n),
        f"{unscored}{undefined}",
        bounds,
        spread,
    )


def _notes(test: TestEntry) -> Iterator[str]:
    for entry in test["scores"]:
        texts = [NOTE_TEXTS[key](entry) for key in ("unscored", "undefined") if entry.get(key)]
        texts += [entry["reason"] or "no score"] if entry["mean"] is None else []
        yield from (f"- {cell(f'{sliced_name(entry)}: {text}')}" for text in texts if text)


def _drop_row(entry: ScoreEntry) -> Sequence[str]:
    found = cast("ComparisonEntry", entry["baseline"])
    clusters = f" in {found['clusters']} clusters" if "clusters" in found else ""
    return (
        sliced_name(entry),
        number(found["mean"]),
        number(found["drop"]),
        " to ".join(map(number, found["interval"])),
        f"{found['p_value']:.2g}",
        f"{found['alpha']:.2g}",
        f"{counted(found['n'], 'question')}{clusters}",
        f"{found['design_effect']:.2f}",
    )


def _commands(report: ReportDocument, lacks: Lacks) -> Iterable[str]:
    known = cast("MeasurementEntry", report.get("measurement", {}))
    if not known:
        return ("The report does not have its command.",)
    # With the recorded replies it sends no requests.
    replay = ["--rageval-replay"] if "cassette" in known else []
    words = [word for word in known["command"] if word not in {"--rageval-record", *replay}] + replay
    if any("…" in word for word in words):
        lacks["values of the command that may be secret"] = "put them in place of “…”"
    commit = report.get("run", {}).get("commit")
    return (*([f"    git checkout {commit}"] if commit else ()), f"    {shlex.join(words)}")
