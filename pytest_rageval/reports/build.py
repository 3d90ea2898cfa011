"""Builds the document of a run as plain data (schema 1). Every report is written from this document.

The entries of tests are also sent from xdist's workers to its controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Outcome, Places, Score
from pytest_rageval.core.policy import DEFAULT
from pytest_rageval.core.spec import SCORE_KEYWORDS, ScoreRequest, Spec, score_name
from pytest_rageval.gate.verdict import ThresholdResult, Verdict
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import Spool, spooled_map
from pytest_rageval.lib.text import counted, printable
from pytest_rageval.reports.anomalies import anomalies_entry
from pytest_rageval.reports.notes import (
    common_entry,
    companion_entry,
    comparisons_entry,
    mean_entry,
    repeats_entry,
    slices_entry,
    votes_entry,
    warnings_entry,
)
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.core.evalset import EvalSet, Example
    from pytest_rageval.core.ranking import Ranking
    from pytest_rageval.gate.comparison import Comparison
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.reports.document import EvalSetEntry, ScoreEntry
    from pytest_rageval.reports.evidence import ExplainedScore, Retrievals
    from pytest_rageval.scores.definition import ScoreDef
    from pytest_rageval.scores.pipeline import Dependencies

excluded_failures_warnings: Final = Lazy(
    "gate.sentences", "excluded_failures_warnings"
)  # only without a verdict
explain_verdict: Final = Lazy("reports.questions", "explain")  # only where a score dropped, or failed
near_misses: Final = Lazy("evalsets.field_map", "near_misses")  # few eval sets have unknown keys
# Only for reports that show every question.
common_items: Final = Lazy("reports.evidence", "common_items")
explained_questions: Final = Lazy("reports.evidence", "explained_questions")
explained_score: Final = Lazy("reports.evidence", "ExplainedScore")
longest_retrievals: Final = Lazy("reports.evidence", "Retrievals")

SCHEMA: Final = 1

REPORTED_KEYS: Final = (
    "nodeid", "evalset", "function", "system", "parameters", "own", "uses", "served", "warnings", "notes", "shard",
    "scores", "cause", "accept", "retrieval", "agreement", "battles", "calibration", "fingerprint", "prompts",
    "questions",
)  # fmt: skip
"""The keys of a test's results that are written to reports."""

SCORE_KEYS: Final = (
    "spec", "comparator", "label", "order", "temperature", "draws", "relevant", "ignored", "where", "mean",
    "statistic", "ci95", "scale", "n", "unscored", "undefined", "spread", "runs", "partly_scored", "oddities",
    "counts", "judge_votes", "beside", "pooled", "common", "arena", "domains", "threshold", "baseline", "new",
    "anchor", "reference", "early_stop", "verdict", "reason", "ceiling", "cases", "spearman", "warnings",
    "examples", "by", "questions", "corrected", "strata", "canary", "fingerprint", "prompts",
)  # fmt: skip
"""The keys of `document.ScoreEntry`, in its order. Runs import no types of entries."""

BASELINE_BOUNDS: Final = ("max_drop", "max_total_drop", "max_lost")
"""The bounds that compare a score with the baseline."""

Notes = Callable[[Score | None], Mapping[str, object]]
"""Returns the keys that the definition of a score adds to its entry; the argument is None if there is no score."""


def report_document(  # noqa: PLR0913 - what a report is made of
    tests: Sequence[Mapping[str, object]],
    *,
    matrix: Sequence[Mapping[str, object]] = (),
    ratings: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object],
    llm: Mapping[str, object],
    package: str,
    started: str,
    duration_s: float,
    stopped: bool = False,
    run: Mapping[str, object] | None = None,
    gate: Mapping[str, object] | None = None,
    suite: Mapping[str, object] | None = None,
    merge: str = "",
) -> dict[str, Any]:
    optional = {"run": run, "gate": gate, "suite": suite}
    return {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "stopped": stopped,
        **{name: dict(entry) for name, entry in optional.items() if entry},
        **({"merge": merge} if merge else {}),
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(table) for table in matrix],
        "ratings": [dict(table) for table in ratings],
    }


def has_table(test: Mapping[str, object]) -> bool:
    """Return True if the table on the terminal lists a test: it has scores, a calibration or an agreement."""
    return bool(test["scores"] or {"agreement", "calibration"} & test.keys())


def threshold_result_entry(
    result: ThresholdResult, notes: Notes | None = None, *, spool: Spool
) -> dict[str, Any]:
    threshold, verdict = result.threshold, result.verdict
    if result.score is None:
        entry = error_entry(threshold.spec, threshold, verdict.reason, notes)
    else:
        entry = score_entry(result.score, threshold, verdict, notes)
    entry = entry if result.early is None else result.early.complete_entry(entry)
    # Questions can explain the verdict that differ from the baseline, or lie beyond a bound.
    is_explained = result.comparison is not None or result.anchor is not None or verdict.status == "fail"
    explanation = explain_verdict(result) if is_explained else None
    return {
        **entry,
        **comparisons_entry(result),
        **({"new": True} if result.is_new else {}),
        **warnings_entry(verdict.warnings),
        **slices_entry(result),
        **({} if explanation is None else {"questions": explanation.entry(spool)}),
    }


def score_entry(
    score: Score,
    threshold: "Threshold | None",
    verdict: Verdict | None,
    notes: Notes | None = None,
) -> dict[str, object]:
    added = {} if notes is None else notes(score)
    triaged = "cases" in added
    entry = {
        "spec": score.spec,
        **_keyword_keys(threshold),
        "where": _tags_to_json(score.slice),
        **mean_entry(score),
        **({"scale": list(score.scale)} if score.scale != UNIT and all(map(isfinite, score.scale)) else {}),
        **repeats_entry(score),
        "oddities": anomalies_entry(score.outcomes, of_slice=bool(score.slice)),
        **({"counts": dict(score.counts)} if score.counts else {}),
        **votes_entry(score),
        **companion_entry(score),
        **added,
        "threshold": None if threshold is None or not threshold.has_bound else _bounds_entry(threshold),
        "baseline": None,
        "verdict": None if verdict is None else verdict.status,
        "reason": None if verdict is None else verdict.reason,
        # If there is a verdict, its warnings include these warnings, and the caller adds them.
        **warnings_entry(list(excluded_failures_warnings(score)) if verdict is None else ()),
        "examples": spooled_map(partial(_example_entry, triaged=triaged), score.outcomes),
    }
    return order_keys(entry)


def error_entry(
    spec: str, threshold: "Threshold | None", reason: str, notes: Notes | None = None
) -> dict[str, object]:
    entry = {
        "spec": spec,
        **_keyword_keys(threshold),
        "where": {} if threshold is None else _tags_to_json(threshold.where),
        **mean_entry(None),
        "oddities": {},
        "threshold": None if threshold is None else _bounds_entry(threshold),
        "baseline": None,
        "verdict": "error",
        "reason": reason,
        **({} if notes is None else notes(None)),
        "examples": [],
    }
    return order_keys(entry)


def order_keys(entry: Mapping[str, object]) -> dict[str, object]:
    return {name: entry[name] for name in (*SCORE_KEYS, *entry) if name in entry}


def _example_entry(outcome: Outcome, *, triaged: bool) -> dict[str, object]:
    """Return the entry of an example; with `triaged` it has its case and its cause even if they are None."""
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


def _keyword_keys(threshold: "Threshold | None") -> dict[str, object]:
    if threshold is None:
        return {}
    keywords = {keyword: getattr(threshold, keyword) for keyword in SCORE_KEYWORDS}
    kept = {keyword: value for keyword, value in keywords.items() if value not in {None, "rank", "gold"}}
    return {**kept, **({"ignored": dict(threshold.ignored)} if threshold.ignored else {})}


def _tags_to_json(tags: Mapping[str, object]) -> dict[str, object]:
    return {
        name: sorted(value, key=str) if isinstance(value, list | tuple | set | frozenset) else value
        for name, value in tags.items()
    }


def _bounds_entry(threshold: "Threshold") -> dict[str, object]:
    """Return the bounds of a threshold and its policy; keywords that later versions added are missing if not set."""
    policy, tested = threshold.policy, threshold.max_drop is not None
    later = {
        "max_total_drop": threshold.max_total_drop,
        "max_lost": threshold.max_lost,
        "max_ratio": threshold.max_ratio,
        "policy": None if policy.name == DEFAULT else policy.name,
        "tolerance": policy.tolerance or None,
        "burden": "beyond" if policy.burden == "beyond" and tested else None,
        "strict": (policy.strict and tested) or None,
        "inconclusive": "fail" if policy.inconclusive == "fail" and tested else None,
        "cluster": policy.fixed_cluster if tested else None,
    }
    return {
        "min": threshold.min,
        "max": threshold.max,
        "max_drop": threshold.max_drop,
        "alpha": policy.alpha if tested else None,
        **{name: value for name, value in later.items() if value is not None},
    }


def evalset_entry(evalset: "EvalSet") -> "EvalSetEntry":
    warnings = [
        f'the key "{miss.key}" is not read (in {len(miss.ids)} of {counted(len(evalset), "example")}). '
        f'Was "{miss.meant}" meant? Rename the key, or name it in the marker: '
        f'rageval_evalset("…", fields={{"{miss.meant}": "{miss.key}"}}).'
        for miss in (near_misses(evalset) if any(example.extra for example in evalset) else ())
    ]
    entry: EvalSetEntry = {"name": evalset.name, "size": len(evalset)}
    if (part := evalset.part) is not None:
        entry["of"] = part.total
        if part.sample < 1:
            entry["sample"] = part.sample
        if part.shard:
            entry["shard"] = part.shard
    entry["digest"] = evalset.digest
    if warnings:
        entry["warnings"] = warnings
    return entry


def evalset_text(entry: "EvalSetEntry") -> str:
    """Return an eval set with its size: "support.jsonl, 240", or "support.jsonl, 24 of 240, sample 0.1"."""
    parts = f", sample {entry['sample']:g}" if "sample" in entry else ""
    parts += f", shard {entry['shard']}" if "shard" in entry else ""
    of = f" of {entry['of']}" if "of" in entry else ""
    return f"{entry['name']}, {entry['size']}{of}{parts}"


def entry_name(entry: Mapping[str, Any]) -> str:
    return score_name(entry["spec"], entry)


def compared_names(entries: Iterable["ScoreEntry"]) -> set[str]:
    return {
        entry_name(entry)
        for entry in entries
        if any((entry["threshold"] or {}).get(keyword) is not None for keyword in BASELINE_BOUNDS)
    }


def sliced_name(entry: Mapping[str, Any]) -> str:
    """Return the name of an entry's score, followed by its slice: "recall@5 [topic=billing]"."""
    where = "".join(f" [{name}={value}]" for name, value in entry["where"].items())
    return f"{entry_name(entry)}{where}"


class Recorded(Protocol):
    """What the entry of a test has of its record, a `pytest_rageval.run.base.TestRecord`."""

    examples: tuple["Example", ...]
    retriever: str

    def dependencies_of(self, request: ScoreRequest) -> "Dependencies": ...
    def ranking_of(self, example: "Example", k: int) -> "Ranking | None": ...


class _EntryOfScore(NamedTuple):
    """The entry of a score, and what it is made of: the score is that of the slice of the entry."""

    entry: Mapping[str, Any]
    request: ScoreRequest
    score: Score | None
    comparison: "Comparison | None"

    @property
    def is_whole(self) -> bool:
        """Whether the score is over all questions: there is one, and its evaluation did not stop early."""
        return self.entry["mean"] is not None and "early_stop" not in self.entry


class TestEntryBuilder:
    """Collects the scores of a test, and builds its entry in the report. It is true if it has a score's entry."""

    __test__ = False  # for pytest, which collects classes by their names

    def __init__(
        self,
        record: Recorded,
        definition: Callable[[ScoreRequest], "ScoreDef"],
        *,
        record_property: Callable[[str, float], None],
        match_share: float,
        spool: Spool,
    ) -> None:
        self._record = record
        self._definition = definition
        self._record_property = record_property
        self._match_share = match_share
        self._spool = spool
        self.scores: list[Score] = []
        self._entries: dict[str, _EntryOfScore] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add_score(self, score: Score, threshold: "Threshold") -> None:
        """Add a score, whose rankings the entry describes.

        Scores whose rankings are in random order come last: for each question, the first ranking with the largest
        cut-off is described.
        """
        self.scores.insert(len(self.scores) if threshold.order == "random" else 0, score)

    def add_entry(
        self,
        entry: Mapping[str, Any],
        request: ScoreRequest,
        score: Score | None = None,
        comparison: "Comparison | None" = None,
    ) -> None:
        """Add the entry of a score; it replaces an earlier entry of the same score and threshold."""
        name = f"{entry_name(entry)}{''.join(f' {tag}={value}' for tag, value in entry['where'].items())}"
        # With `by`, the entry is that of the worst slice. A threshold on that slice has a different key.
        key = f"{name} {entry['threshold']} {entry.get('by', {}).get('tag')}"
        if key not in self._entries and entry["mean"] is not None:
            # xdist cannot send a lone surrogate, and XML cannot contain control characters.
            self._record_property(printable(f"rageval {name}"), entry["mean"])
        self._entries[key] = _EntryOfScore(entry, request, score, comparison)

    def build(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        scores = [self._with_common(each, self._with_strata(each)) for each in self._entries.values()]
        results: dict[str, Any] = {"scores": scores}
        if not describe and not explain:
            return results
        retrievals: Retrievals = longest_retrievals(self.scores)
        if explain:
            results |= self._explained(scores, retrievals)
        if describe and (entry := retrievals.entry(self._record.retriever)) is not None:
            results["retrieval"] = entry
        return results

    def _with_strata(self, context: _EntryOfScore) -> Mapping[str, object]:
        """Return an entry; if its score judges contexts, with the verdicts on answers by that on their context."""
        if context.score is None or not context.is_whole:
            return context.entry
        stratify = self._definition(context.request).strata
        if stratify is None:
            return context.entry
        k = Spec.parse(context.request.spec).k
        strata = [
            {
                "score": sliced_name(answers.entry),
                **stratify(context.score.outcomes, answers.score.outcomes),
            }
            for answers in self._entries.values()
            if answers.score is not None
            and answers.is_whole
            and Spec.parse(answers.request.spec).k == k
            and context.score.slice in ({}, answers.score.slice)
            and self._definition(answers.request).has_answer_verdicts
        ]
        return {**context.entry, "strata": strata} if strata else context.entry

    def _with_common(self, each: _EntryOfScore, entry: Mapping[str, object]) -> Mapping[str, object]:
        """Return an entry with both means over the common questions, if the test has the score's `ScoreDef.pair`."""
        pair = self._definition(each.request).paired_score if each.is_whole else ""
        if not pair:
            return entry
        name = sliced_name({**entry, "spec": f"{pair}@{Spec.parse(each.request.spec).k}"})
        other = next((item for item in self._entries.values() if sliced_name(item.entry) == name), None)
        if other is None or not other.is_whole:
            return entry
        return order_keys({**entry, **common_entry(entry, name, other.entry)})

    def _explained(self, scores: Sequence[Mapping[str, Any]], retrievals: "Retrievals") -> dict[str, Any]:
        explained: list[ExplainedScore | None] = [
            None
            if each.score is None
            else explained_score(each.entry["examples"], each.score, each.comparison, retrievals, self._spool)
            for each in self._entries.values()
        ]
        evaluated = {outcome.example.id for score in self.scores for outcome in score.outcomes}
        examples = [item for item in self._record.examples if item.id in evaluated]
        # An unscored example, for instance without a verdict of the judge, has a ranking too.
        retrievals.unscored = {
            item.id: ranking
            for item in examples
            if item.id not in retrievals.rankings
            and (ranking := self._record.ranking_of(item, retrievals.k)) is not None
        }
        questions = explained_questions(
            examples,
            [each for each in explained if each is not None],
            retrievals,
            match_share=self._match_share,
            spool=self._spool,
        )
        entries: list[Mapping[str, Any]] = []
        prompts: dict[str, str] = {}
        for each, entry, evidence in zip(self._entries.values(), scores, explained, strict=True):
            if evidence is None:
                entries.append(entry)
                continue
            depends: dict[str, object] = {}
            # A plugin's score may name a model that is not configured, and send no request to it.
            with suppress(RagevalError):
                known = self._record.dependencies_of(each.request)
                prompts |= known.prompts
                depends = {"fingerprint": known.fingerprint, "prompts": list(known.prompts)}
            depends = {name: value for name, value in depends.items() if value}
            entries.append({**entry, "examples": evidence.examples, **depends})
        fingerprint = common_items(entry["fingerprint"] for entry in entries if "fingerprint" in entry)
        optional = {"questions": questions, "prompts": prompts, "fingerprint": fingerprint}
        return {"scores": entries, **{name: value for name, value in optional.items() if value}}
