"""Builds the document of a run as plain data (schema 1), from which every report is written.

Entries also travel from xdist workers to the controller.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any, Final

from pytest_rageval.config import sampling_text
from pytest_rageval.datatypes import EvalSet
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.threshold_results import EarlyStopResult, ThresholdResult
from pytest_rageval.gate.verdict import Verdict, excluded_failures_warnings
from pytest_rageval.lazy import Lazy
from pytest_rageval.llm.usage import Usage
from pytest_rageval.plural import counted
from pytest_rageval.reports.document import EarlyStopEntry, ScoreEntry
from pytest_rageval.reports.notes import (
    anomalies_entry,
    beside_entry,
    compared_entry,
    mean_entry,
    repeats_entry,
    slices_entry,
    votes_entry,
    warnings_entry,
)
from pytest_rageval.reports.questions import questions_entry
from pytest_rageval.scores import SCORE_KEYWORDS, Outcome, Places, Score, score_name
from pytest_rageval.spool import Spool, spooled_map
from pytest_rageval.stats.intervals import UNIT

__all__ = [
    "REPORTED",
    "SCHEMA",
    "SCORE_KEYWORDS",
    "Notes",
    "compared_names",
    "entry_name",
    "error_entry",
    "evalset_entry",
    "evalset_text",
    "in_order",
    "models_text",
    "report_document",
    "ruling_entry",
    "score_entry",
    "sliced_name",
    "usage_entry",
    "usage_lines",
]

near_misses: Final = Lazy("evalsets.field_map", "near_misses")  # few sets have keys that are not read

SCHEMA: Final = 1

REPORTED: Final = (
    *("nodeid", "evalset", "function", "system", "parameters", "own", "served", "warnings", "shard"),
    *(
        "scores",
        "accept",
        "retrieval",
        "agreement",
        "battles",
        "calibration",
        "fingerprint",
        "prompts",
        "questions",
    ),
)
"""Keys of a test's results that the reports have."""

COMPARED: Final = ("max_drop", "max_total_drop", "max_lost")
"""The bounds that compare with the baseline."""

OF_ALL: Final = frozenset({"counts", "beside", "pooled", "common", "cases", "spearman"})
"""The keys of an entry that sum up what was asked."""

Notes = Callable[[Score | None], Mapping[str, Any]]
"""The keys of a score's entry that its definition adds; of None where the score could not be computed."""


def report_document(  # noqa: PLR0913 - what a report is made of
    tests: Sequence[Mapping[str, Any]],
    *,
    matrix: Sequence[Mapping[str, Any]] = (),
    ratings: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any],
    llm: Mapping[str, Any],
    package: str,
    started: str,
    duration_s: float,
    stopped: bool = False,
    run: Mapping[str, Any] | None = None,
    merge: str = "",
) -> dict[str, Any]:
    """All results of a run.

    Args:
        tests: a test's node id, outcome, eval set and score entries each.
        matrix: systems × scores, one for each test whose retriever, generator or judge is parametrized.
        ratings: of the systems of parametrized tests, by their battles against the references in the arena.
        settings: the default generator, judge and comparator.
        llm: the model usage, see `usage_entry`.
        package: version of this package.
        started: date and time in ISO 8601, with the offset.
        duration_s: of the whole test run, in seconds.
        stopped: whether it was stopped before its end, so that tests may be missing.
        run: the revision that was tested, and that of the baseline; None where it is not known.
        merge: the command that joined the shards of the run; empty where there are none.
    """
    return {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "stopped": stopped,
        **({"run": dict(run)} if run else {}),
        **({"merge": merge} if merge else {}),
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(each) for each in matrix],
        "ratings": [dict(table) for table in ratings],
    }


def ruling_entry(
    ruling: ThresholdResult, notes: Notes | None = None, *, spool: Spool | None = None
) -> dict[str, Any]:
    """The result of a threshold: of the whole set, of its slice, or with `by` of the worst slice and all others.

    With a spool its examples and questions are in there.
    """
    threshold, verdict = ruling.threshold, ruling.verdict
    if ruling.score is None:
        entry = error_entry(threshold.spec, threshold, verdict.reason, notes)
    else:
        entry = score_entry(ruling.score, threshold, verdict, notes, spool=spool)
    entry = entry if ruling.early is None else _asked_in_part(entry, ruling.early)
    return {
        **entry,
        **compared_entry(ruling),
        **warnings_entry(verdict.warnings),
        **slices_entry(ruling),
        **questions_entry(ruling, spool=spool),
    }


def _asked_in_part(entry: Mapping[str, Any], early: EarlyStopResult) -> dict[str, Any]:
    """The entry of a score that was asked of some examples: without what would seem to be of all."""
    kept = {name: value for name, value in entry.items() if name not in OF_ALL}
    if early.stopped:
        kept |= {"mean": None, "ci95": None}
    found = {example["id"]: example for example in entry["examples"]}
    examples = []
    for name in early.states if early.stopped else found:
        example = found.get(name, {"id": name, "score": None, "unscored": None})
        state = early.states.get(name, "asked")
        examples.append(example if state == "asked" else {**example, "early_stop": state})
    asked = {name: getattr(early, name) for name in EarlyStopEntry.__annotations__}
    return in_order({**kept, "early_stop": asked, "examples": examples})


def score_entry(
    score: Score,
    threshold: Threshold | None,
    verdict: Verdict | None,
    notes: Notes | None = None,
    *,
    spool: Spool | None = None,
) -> dict[str, Any]:
    """One score, of the whole set or of a slice; with `notes` of its definition.

    `threshold` is None where a test only asked for the score, `verdict` where there is none on it. With a spool the
    examples are in there.
    """
    added = {} if notes is None else notes(score)
    triaged = "cases" in added
    entry = {
        "spec": score.spec,
        **_words(threshold),
        **_ignored(threshold),
        "where": _plain(score.slice),
        **mean_entry(score),
        **({"scale": list(score.scale)} if score.scale != UNIT and all(map(isfinite, score.scale)) else {}),
        **repeats_entry(score),
        "oddities": anomalies_entry(score.outcomes),
        **({"counts": dict(score.counts)} if score.counts else {}),
        **votes_entry(score),
        **beside_entry(score),
        **added,
        "threshold": None if threshold is None or not threshold.has_bound else _bounds(threshold),
        "baseline": None,
        "verdict": None if verdict is None else verdict.status,
        "reason": None if verdict is None else verdict.reason,
        # The verdict of a threshold includes these warnings.
        **warnings_entry(list(excluded_failures_warnings(score)) if verdict is None else ()),
        "examples": spooled_map(partial(_example, triaged=triaged), score.outcomes, spool),
    }
    return in_order(entry)


def error_entry(
    spec: str, threshold: Threshold | None, reason: str, notes: Notes | None = None
) -> dict[str, Any]:
    """A score that could not be computed, with the same keys."""
    entry = {
        "spec": spec,
        **_words(threshold),
        **_ignored(threshold),
        "where": {} if threshold is None else _plain(threshold.where),
        **mean_entry(None),
        "oddities": {},
        "threshold": None if threshold is None else _bounds(threshold),
        "baseline": None,
        "verdict": "error",
        "reason": reason,
        **({} if notes is None else notes(None)),
        "examples": [],
    }
    return in_order(entry)


def in_order(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The keys in the order of the schema, then any others."""
    return {name: entry[name] for name in (*ScoreEntry.__annotations__, *entry) if name in entry}


def _example(outcome: Outcome, *, triaged: bool) -> dict[str, Any]:
    evidence = outcome.evidence
    optional = {
        "explanation": evidence.explanation,
        "labels": list(evidence.labels),
        "counts": dict(evidence.counts),
        "judge_votes": asdict(evidence.votes) if evidence.votes.verdicts else {},
        "beside": dict(evidence.beside),
        "places": {} if evidence.places == Places() else evidence.places._asdict(),
    }
    return {
        "id": outcome.example.id,
        "score": outcome.value,
        "unscored": outcome.unscored,
        **({} if outcome.undefined is None else {"undefined": outcome.undefined}),
        **({"case": outcome.case, "lost_by": outcome.lost_by} if triaged else {}),
        **({"lost_by": outcome.lost_by} if outcome.lost_by is not None else {}),
        **{name: value for name, value in optional.items() if value},
    }


def _words(threshold: Threshold | None) -> dict[str, Any]:
    """The keywords that make another score of a spec, where they are not the default."""
    keywords = {keyword: getattr(threshold, keyword, None) for keyword in SCORE_KEYWORDS}
    return {keyword: value for keyword, value in keywords.items() if value not in {None, "rank", "gold"}}


def _ignored(threshold: Threshold | None) -> dict[str, Any]:
    return {"ignored": dict(threshold.ignored)} if threshold is not None and threshold.ignored else {}


def _plain(tags: Mapping[str, Any]) -> dict[str, Any]:
    """Tags as JSON has them: a choice of values becomes a list."""
    return {
        name: sorted(value, key=str) if isinstance(value, list | tuple | set | frozenset) else value
        for name, value in tags.items()
    }


def _bounds(threshold: Threshold) -> dict[str, Any]:
    """The bounds; keywords that came after the first version only where they are set."""
    tested = threshold.max_drop is not None or threshold.max_total_drop is not None
    later = {
        "max_total_drop": threshold.max_total_drop,
        "max_lost": threshold.max_lost,
        "max_ratio": threshold.max_ratio,
        "tolerance": threshold.tolerance or None,
        "burden": "beyond" if threshold.burden == "beyond" else None,
        "strict": threshold.strict or None,
        "inconclusive": "fail" if threshold.inconclusive == "fail" and tested else None,
        "cluster": threshold.cluster,
    }
    return {
        "min": threshold.min,
        "max": threshold.max,
        "max_drop": threshold.max_drop,
        "alpha": threshold.alpha if tested else None,
        **{name: value for name, value in later.items() if value is not None},
    }


def evalset_entry(evalset: EvalSet) -> dict[str, Any]:
    """An eval set, with a warning for each key that looks like a misspelt one."""
    warnings = [
        f'the key "{miss.key}" is not read (in {len(miss.ids)} of {counted(len(evalset), "example")}). '
        f'Was "{miss.meant}" meant? Rename it, or say fields={{"{miss.meant}": "{miss.key}"}}.'
        for miss in (near_misses(evalset) if any(each.extra for each in evalset) else ())
    ]
    part = evalset.part
    given = {} if part is None else {"sample": part.sample if part.sample < 1 else None, "shard": part.shard}
    return {
        "name": evalset.name,
        "size": len(evalset),
        **({} if part is None else {"of": part.total}),
        **{name: value for name, value in given.items() if value},
        "digest": evalset.digest,
        **warnings_entry(warnings),
    }


def evalset_text(entry: Mapping[str, Any]) -> str:
    """An eval set with its size: "support.jsonl, 240", or "support.jsonl, 24 of 240, sample 0.1"."""
    shares = (("sample", "sample {:g}"), ("shard", "shard {}"))
    parts = "".join(f", {text.format(entry[name])}" for name, text in shares if name in entry)
    of = f" of {entry['of']}" if "of" in entry else ""
    return f"{entry['name']}, {entry['size']}{of}{parts}"


def entry_name(entry: Mapping[str, Any]) -> str:
    """An entry's score, with the keywords that set it apart from others of its spec."""
    return score_name(entry["spec"], entry)


def compared_names(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    """The scores, of the entries of a test, that are compared with the baseline."""
    return {
        entry_name(entry)
        for entry in entries
        if any((entry["threshold"] or {}).get(keyword) is not None for keyword in COMPARED)
    }


def sliced_name(entry: Mapping[str, Any]) -> str:
    """The same, with the entry's slice."""
    where = "".join(f" [{name}={value}]" for name, value in entry["where"].items())
    return f"{entry_name(entry)}{where}"


def models_text(document: Mapping[str, Any]) -> str:
    """The default models, and how many tests use others.

    Such as "generator m1, judge m2, compared by judge; own generator in 2 of 3 tests".
    """
    settings, tests = document["settings"], document["tests"]
    own = Counter(part for test in tests for part in test.get("own", ()))
    drawn = sampling_text(settings) if settings["generator"] else ""
    defaults = f"generator {settings['generator'] or 'none named'}{drawn}, judge {settings['judge']}"
    others = [f"own {part} in {count} of {counted(len(tests), 'test')}" for part, count in own.items()]
    return "; ".join([f"{defaults}, compared by {settings['comparator']}", *others])


def usage_entry(usage: Usage) -> dict[str, Any]:
    """The model usage, that of each server that was asked, and of batches; a cost is null where a price is unknown."""
    numbers = {**usage.to_dict(), "cost_usd": _cost(usage)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    entry = {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}
    servers = {
        name: {
            "live": each.live,
            "tokens_in": each.tokens_in,
            "tokens_out": each.tokens_out,
            "cost_usd": _cost(each),
        }
        for name, each in sorted(usage.servers.items())
    }
    came = usage.batches
    batches = {
        **{name: came[name] for name in ("batches", "replies", "tokens_in", "tokens_out")},
        "cost_usd": None if came["unpriced"] else round(came["cost_usd"], 6),
    }
    return (
        entry | ({"servers": servers} if servers else {}) | ({"batches": batches} if came["batches"] else {})
    )


def _cost(usage: Usage) -> float | None:
    return None if usage.unpriced else round(usage.cost_usd, 6)


def usage_lines(entry: Mapping[str, Any]) -> list[str]:
    """The model usage in a line, that of each server where there are several, then the remarks on it.

    `entry` is the entry `llm` of the JSON report.
    """
    parts = [f"{counted(entry['requests'], 'reply')}: {entry['cached']} cached, {entry['live']} live"]
    if entry["failed"]:
        parts.append(f"{entry['failed']} failed")
    if entry["live"]:
        parts += _paid(entry)
    lines = [", ".join(parts)] if entry["requests"] else []
    if came := entry.get("batches"):
        number = counted(came["batches"], "batch")
        lines.append(", ".join([f"{counted(came['replies'], 'reply')} came in {number}", *_paid(came)]))
    servers = entry.get("servers", {})
    if len(servers) > 1:
        lines += [", ".join([f"{name}: {each['live']} live", *_paid(each)]) for name, each in servers.items()]
    if entry["cut"]:
        lines.append(
            f"{entry['cut']} {'reply was' if entry['cut'] == 1 else 'replies were'} cut by the token limit"
        )
    return lines + [f"{count} × {remark}" for remark, count in entry["remarks"].items()]


def _paid(entry: Mapping[str, Any]) -> list[str]:
    cost = entry["cost_usd"]
    price = "price not known" if cost is None else f"{cost:.4f} USD"
    return [f"{entry['tokens_in']} tokens in, {entry['tokens_out']} out", price]
