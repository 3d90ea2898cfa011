"""`JudgedTest`: the verdicts on the record of a test, and its entry for the report, in a run and in a merge of shards.

Extensions take part by the hooks of `pytest_rageval.hookspecs`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from pytest_rageval.core.errors import MissingReplyError, RagevalError, StaleBaselineError
from pytest_rageval.core.outcome import Score, compute_intervals
from pytest_rageval.core.settings import MODEL_USES
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.gate.judge import evaluate_thresholds, violated_bounds
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, PartialEvaluation, ThresholdInput, ThresholdResult
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import printable
from pytest_rageval.reports.anomalies import all_zero_hint
from pytest_rageval.reports.build import (
    entry_name,
    error_entry,
    order_keys,
    score_entry,
    sliced_name,
    threshold_result_entry,
)
from pytest_rageval.reports.terminal import accept_entry, accept_lines
from pytest_rageval.run.base import BaseSession, TestRecord
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.scores.definition import GOLD, ScoreDef
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import BaselineEntry, Comparison
    from pytest_rageval.reports.evidence import ExplainedScore, Retrievals
    from pytest_rageval.reports.failures import Room

T = TypeVar("T")

# Few tests use these, and few fail.
any_room: Final = Lazy("reports.failures", "Room")
failure_lines: Final = Lazy("reports.failures", "failure_lines")
changed_prompts_text: Final = Lazy("reports.causes", "changed_prompts_text")
likely_cause: Final = Lazy("reports.causes", "likely_cause")
baseline_entry: Final = Lazy("gate.baseline", "baseline_entry")
suite_contribution: Final = Lazy("gate.suite", "contribution")
stratify_answers: Final = Lazy("scores.sufficiency", "stratify_answers")
common_entry: Final = Lazy("reports.notes", "common_entry")
common_items: Final = Lazy("reports.evidence", "common_items")
explained_questions: Final = Lazy("reports.evidence", "explained_questions")
explained_score: Final = Lazy("reports.evidence", "ExplainedScore")
longest_retrievals: Final = Lazy("reports.evidence", "Retrievals")


class OutOfBoundsError(RagevalError):
    """A score of a `rageval.score` call is out of its bounds. `summary` is the message in one line."""

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(text)
        self.summary = summary


PartialScore = tuple[Score, PartialEvaluation] | RagevalError
"""A score of the examples that are known, and how far its evaluation went; or the error that prevented it."""


class Evidence(NamedTuple):
    """The evidence behind a score's entry in the report: the score is that of the slice of the entry."""

    score: Score
    comparison: "Comparison | None"
    request: ScoreRequest


class ReportEntryBuilder:
    """Collects the scores of a test, and builds its entry in the report. It is true if it has a score's entry."""

    def __init__(self, session: BaseSession, record: TestRecord, test: MarkedTest) -> None:
        self._session = session
        self._record = record
        self._test = test
        self.scores: list[Score] = []
        self._entries: dict[str, Mapping[str, Any]] = {}
        self._evidence: dict[str, Evidence] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add_score(self, score: Score, threshold: Threshold) -> None:
        """Add a score, whose rankings the entry describes.

        Scores whose rankings are in random order come last: for each question, the first ranking with the largest
        cut-off is described.
        """
        self.scores.insert(len(self.scores) if threshold.order == "random" else 0, score)

    def add_entry(self, entry: Mapping[str, Any], evidence: Evidence | None = None) -> None:
        """Add the entry of a score; it replaces an earlier entry of the same score and threshold."""
        name = f"{entry_name(entry)}{''.join(f' {tag}={value}' for tag, value in entry['where'].items())}"
        # With `by`, the entry is that of the worst slice. A threshold on that slice has a different key.
        key = f"{name} {entry['threshold']} {entry.get('by', {}).get('tag')}"
        if key not in self._entries and entry["mean"] is not None:
            # xdist cannot send a lone surrogate, and XML cannot contain control characters.
            self._test.record_property(printable(f"rageval {name}"), entry["mean"])
        self._entries[key] = entry
        if evidence is not None:
            self._evidence[key] = evidence

    def build(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        self._add_strata()
        scores = [self._add_common(entry) for entry in self._entries.values()]
        results: dict[str, Any] = {"scores": scores}
        if not describe and not explain:
            return results
        retrievals: Retrievals = longest_retrievals(self.scores)
        if explain:
            results |= self._explained(scores, retrievals)
        if describe and (entry := retrievals.entry(self._record.retriever)) is not None:
            results["retrieval"] = entry
        return results

    def _add_strata(self) -> None:
        """Add to each entry of `sufficient` the key `strata`: verdicts on answers by the verdict on their context."""
        for key, context in self._evidence.items():
            spec = Spec.parse(context.score.spec)
            if spec.name != "sufficient" or "early_stop" in self._entries[key]:
                continue
            strata_entries = []
            for other_key, answers in self._evidence.items():
                entry, k = self._entries[other_key], Spec.parse(answers.score.spec).k
                same_context = k == spec.k and context.score.slice in ({}, answers.score.slice)
                if not same_context or "early_stop" in entry:
                    continue
                if self._session.definition(answers.request).has_answer_verdicts:
                    counts = stratify_answers(context.score.outcomes, answers.score.outcomes)
                    strata_entries.append({"score": sliced_name(entry), **counts})
            if strata_entries:
                self._entries[key] = {**self._entries[key], "strata": strata_entries}

    def _explained(self, scores: Sequence[Mapping[str, Any]], retrievals: "Retrievals") -> dict[str, Any]:
        spool = self._session.spool
        explained: dict[str, ExplainedScore] = {
            key: explained_score(
                self._entries[key]["examples"], behind.score, behind.comparison, retrievals, spool
            )
            for key, behind in self._evidence.items()
        }
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
            list(explained.values()),
            retrievals,
            match_share=self._session.settings.match_share,
            spool=spool,
        )
        entries: list[Mapping[str, Any]] = []
        prompts: dict[str, str] = {}
        for key, entry in zip(self._entries, scores, strict=True):
            if key not in explained:
                entries.append(entry)
                continue
            depends: dict[str, Any] = {}
            # A plugin's score may name a model that is not configured, and send no request to it.
            with suppress(RagevalError):
                known = self._record.dependencies_of(self._evidence[key].request)
                prompts |= known.prompts
                depends = {"fingerprint": known.fingerprint, "prompts": list(known.prompts)}
            depends = {name: value for name, value in depends.items() if value}
            entries.append({**entry, "examples": explained[key].examples, **depends})
        fingerprint = common_items(entry["fingerprint"] for entry in entries if "fingerprint" in entry)
        optional = {"questions": questions, "prompts": prompts, "fingerprint": fingerprint}
        return {"scores": entries, **{name: value for name, value in optional.items() if value}}

    def _add_common(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an entry with both means over the common questions, if the test has the score's `ScoreDef.pair`."""
        if entry["mean"] is None or "early_stop" in entry:
            return entry
        spec = Spec.parse(entry["spec"])
        pair = self._session.definition(ScoreRequest(entry["spec"])).paired_score
        name = sliced_name({**entry, "spec": f"{pair}@{spec.k}"})
        other = next((item for item in self._entries.values() if sliced_name(item) == name), None)
        if not pair or other is None or other["mean"] is None or "early_stop" in other:
            return entry
        return order_keys({**entry, **common_entry(entry, name, other)})

    def served(self, results: Iterable[ThresholdResult]) -> dict[str, list[str]]:
        """Return the names that servers reported, by model, of the models that this test's thresholds depend on."""
        served = self._record.served
        if not served:
            return {}
        requests = {result.threshold.request for result in results}
        fingerprints = [self._record.dependencies_of(request).fingerprint for request in requests]
        values = {str(value) for fingerprint in fingerprints for value in fingerprint.values()}
        # A fingerprint contains "model at address", or "model, model at address". A key of `served` is the model, or
        # "model at address" if two servers have a model of the same name.
        models = values | {name for value in values for name in value.rpartition(" at ")[0].split(", ")}
        return {model: names for model, names in served.items() if model in models}


class JudgedTest:
    """A recorded test: its verdicts and its entry for the report.

    `sharing_alpha` has the node ids of the selected tests that share one error rate, as their markers test a drop.
    `room` depends on the failures so far. `state` is what extensions remember of this test, by their names,
    `uses` what it asks, out of `MODEL_USES`.
    """

    def __init__(
        self,
        session: BaseSession,
        marked: MarkedTest,
        record: TestRecord,
        *,
        sharing_alpha: Collection[str] = (),
        room: "Callable[[], Room]" = any_room,
    ) -> None:
        self.session = session
        self.marked: MarkedTest = marked
        self.record: TestRecord = record
        self.sharing_alpha: Collection[str] = sharing_alpha
        self.room: Callable[[], Room] = room
        self.state: dict[str, Any] = {}
        self.report: ReportEntryBuilder = ReportEntryBuilder(session, record, marked)
        self.judged: list[ThresholdResult] = []
        self.uses: set[str] = set()
        self._suite: Mapping[str, object] | None = None
        # By the name of a score: the score, and the fingerprint under which the baseline stores it.
        self._baseline_scores: dict[str, tuple[Score, Mapping[str, object]]] = {}
        self._averaged_scores: set[str] = set()
        # Whether a score of an update is no baseline. Then the test keeps its old entry.
        self._has_no_baseline = False

    def before(self) -> list[str]:
        return joined(self.session.hook.pytest_rageval_before_test(test=self))

    def tests_sharing_alpha(self, thresholds: Iterable[Threshold]) -> int:
        """Return the number of tests that share the level of these thresholds; 1 if none has a baseline."""
        return self.session.tests_sharing_alpha if any(item.uses_baseline for item in thresholds) else 1

    def judge(
        self,
        thresholds: Sequence[Threshold],
        early: "Mapping[ScoreRequest, PartialScore] | None" = None,
        *,
        extra_alpha_shares: int = 0,
    ) -> list[str]:
        """Compare the recorded scores of thresholds with their bounds; return the errors.

        `early` has the scores that are known in part, and not recorded; they need some shares of the test's level.
        """
        tests = self.tests_sharing_alpha(thresholds)
        scores = {
            (key, sliced): self.session.score_or_error(key[0], self.record.runs[key], sliced=sliced)
            for key, sliced in dict.fromkeys((item.score_key, bool(item.where)) for item in thresholds)
            if key in self.record.runs
        }
        if missing := {key: error for key, error in scores.items() if isinstance(error, MissingReplyError)}:
            text = self._changed_prompts(
                thresholds, {id_ for each in missing.values() for id_ in each.examples}
            )
            scores |= {key: MissingReplyError(f"{error}{text}") for key, error in missing.items()}
        inputs = []
        for threshold in thresholds:
            score = (early or {}).get(threshold.request) or scores[threshold.score_key, bool(threshold.where)]
            score, stop = score if isinstance(score, tuple) else (score, None)
            inputs.append(self._threshold_input(score, threshold, stop))
        results = evaluate_thresholds(inputs, family_size=tests, extra_alpha_shares=extra_alpha_shares)
        judged = [result for result in results if isinstance(result, ThresholdResult)]
        if tests > 1:
            self._suite = suite_contribution(judged, gated=tests)
        parts = chain.from_iterable((result, *result.slices) for result in judged)
        compute_intervals(part.score for part in parts if part.score is not None)
        problems = []
        for threshold, threshold_input, result in zip(thresholds, inputs, results, strict=True):
            if isinstance(threshold_input, ThresholdInput) and isinstance(result, ThresholdResult):
                self._add_result(threshold_input, result)
                problems += [result.verdict.reason] if result.verdict.status == "error" else []
            else:
                problems.append(str(result))
                notes = self.definition(threshold).notes
                self.report.add_entry(error_entry(threshold.spec, threshold, str(result), notes))
        return problems

    def _changed_prompts(self, thresholds: Sequence[Threshold], missed: Collection[str]) -> str:
        """Return, as a line of its own, what made the prompts of `missed` examples new; empty if that is not known.

        The rankings of the others are those of the baseline in most cases, and say nothing about these.
        """
        found: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        # An error of the file is that of the scores that compare with it.
        with suppress(RagevalError, KeyError):
            known = self.session.baseline.tests[self.marked.nodeid]["scores"]
            for threshold in (item for item in thresholds if item.name in known):
                before, k = known[threshold.name]["examples"], Spec.parse(threshold.spec).k or 0
                for example in (each for each in self.record.examples if each.id in missed):
                    then = before[example.id].get("ranking") if example.id in before else None
                    now = self.record.ranking_of(example, k)
                    if then is not None and now is not None:
                        found[example.id] = then, now.labels
        return f"\n{changed_prompts_text([*found.values()])}" if found else ""

    def judge_call(self, threshold: Threshold) -> Score:
        """Return the recorded score of a call of `rageval.score`; OutOfBoundsError if it is out of a bound."""
        runs = self.record.runs[threshold.score_key]
        whole = self.session.score_or_error(threshold.request, runs, sliced=bool(threshold.where))
        if not threshold.has_bound:
            score = score_of_slice(whole, threshold)
            self.report.add_score(score, threshold)
            self._add_entry(
                score_entry(score, threshold, None, self.definition(threshold).notes), threshold, score
            )
            return score
        threshold_input = self._threshold_input(whole, threshold)
        [result] = evaluate_thresholds([threshold_input])
        if isinstance(threshold_input, RagevalError):
            raise threshold_input
        if isinstance(result, RagevalError):
            raise result
        self._add_result(threshold_input, result)
        if result.verdict.status == "error":
            raise StaleBaselineError(result.verdict.reason)
        if result.verdict.status == "fail":
            raise OutOfBoundsError(self._failure_text([result], self.room()), _summary(result))
        return score_of_slice(whole, threshold)

    def failures(self) -> list[str]:
        """Return the failed thresholds of markers and of `score` calls as text, with how to accept a drop."""
        failed = self._failed_results
        if not failed and not self._other_failures(0):
            return []
        room = self.room()
        others = self._other_failures(None if room.lines is None else room.lines // 3)
        return [*others, *([self._failure_text(failed, room)] if failed else [])]

    @property
    def summary(self) -> str:
        """The failures in one line, such as "recall@3 0.593 < 0.85; drop 0.346 > 0.02"."""
        first_lines = (text.partition("\n")[0] for text in self._other_failures(0))
        return "; ".join([*first_lines, *map(_summary, self._failed_results)])

    def _other_failures(self, limit: int | None) -> list[str]:
        return joined(self.session.hook.pytest_rageval_failures(test=self, limit=limit))

    def results(self, *, describe: bool = False, explain: bool = False) -> dict[str, object]:
        """Return the test's entry for the report, without its outcome; in an update, with its new baseline.

        `describe` adds the key `retrieval`, `explain` the key `questions` and the evidence of each score for every
        question. The key `suite` is the test's contribution to the test of the whole suite, and no part of the report.
        """
        served = self.report.served(self.judged)
        changes = dict.fromkeys(str(result.changes) for result in self.judged if result.changes)
        warnings = [f"questions since the baseline: {text}; they are not compared" for text in changes]
        results: dict[str, object] = {}
        notes: list[str] = []
        for entry in self.session.hook.pytest_rageval_test_entry(test=self):
            warnings += entry.get("warnings", ())
            notes += entry.get("notes", ())
            results |= entry
        unsure = [result for result in self.judged if result.verdict.status == "inconclusive"]
        if unsure and not self._failed_results and (cause := likely_cause(unsure, sure=True)):
            warnings.append(f"likely cause: {cause}")
        # The scores of an evaluation that stopped early have no complete runs.
        requests = [result.threshold.request for result in self.judged]
        for request in dict.fromkeys([*requests, *(request for request, _ in self.record.runs)]):
            self.add_uses(request)
        uses = [use for use in MODEL_USES if use in self.uses]
        own = self.record.own
        optional = {"own": own, "uses": uses, "served": served, "warnings": warnings, "notes": notes}
        results |= {name: value for name, value in optional.items() if value}
        results |= self.report.build(describe=describe, explain=explain)
        if failed := self._failed_results:
            cause = likely_cause(failed)
            results |= {**({"cause": cause} if cause else {}), **self._accept_entry(failed)}
        if self._suite is not None:
            results["suite"] = self._suite
        if self._baseline_scores and not self._has_no_baseline:
            results["baseline"] = self._baseline_entry(served)
            results["out_of_bounds"] = sorted({result.threshold.name for result in self._failed_results})
        return results

    def add_uses(self, request: ScoreRequest) -> None:
        """Note which models a score uses, as its fingerprint has their names."""
        if not self.session.definition(request).asks:
            return
        with suppress(RagevalError):  # an error was that of the score
            fingerprint = self.record.dependencies_of(request).fingerprint
            self.uses |= {use for use in MODEL_USES if use in fingerprint}

    def _baseline_entry(self, served: Mapping[str, list[str]]) -> "BaselineEntry":
        record, context = self.record, {*self.record.received, "history"}
        entry: BaselineEntry = baseline_entry(
            record.examples,
            self._baseline_scores,
            context=context,
            averaged=self._averaged_scores,
            spool=self.session.spool,
        )
        if self.marked.nodeid not in self.sharing_alpha:
            entry["shares_alpha"] = False
        for added in self.session.hook.pytest_rageval_baseline_entry(test=self):
            entry |= cast("BaselineEntry", added)
        if renamed := {model: names for model, names in served.items() if names != [model]}:
            entry["served"] = renamed
        return entry

    def _threshold_input(
        self, score: Score | RagevalError, threshold: Threshold, early: PartialEvaluation | None = None
    ) -> ThresholdInput | RagevalError:
        if isinstance(score, RagevalError):
            return score
        try:
            given = ThresholdInput(score, threshold, self.look_up_baseline(threshold), early)
            changed: ThresholdInput | None = self.session.hook.pytest_rageval_before_judge(
                test=self, threshold_input=given
            )
        except RagevalError as error:
            return error
        given = changed or given
        text = _why_no_baseline(given, self.definition(threshold))
        return given._replace(baseline=replace(given.baseline, missing=text)) if text else given

    def _add_result(self, threshold_input: ThresholdInput, result: ThresholdResult) -> None:
        score, threshold = threshold_input.score, threshold_input.threshold
        definition = self.definition(threshold)
        warnings = (*result.verdict.warnings, *threshold.warnings(definition.scale))
        result = replace(result, verdict=replace(result.verdict, warnings=warnings))
        self.report.add_score(score, threshold)
        entry = threshold_result_entry(result, definition.notes, spool=self.session.spool)
        self._add_entry(entry, threshold, result.score, result)
        self.judged.append(result)
        if threshold.uses_baseline and self.session.settings.update_baseline:
            self._has_no_baseline |= bool(threshold_input.baseline.missing)
            fingerprint = self.record.dependencies_of(threshold.request).fingerprint
            self._baseline_scores[threshold.name] = score, fingerprint
            if definition.asks:
                self._averaged_scores.add(threshold.name)

    def _add_entry(
        self,
        entry: Mapping[str, Any],
        threshold: Threshold,
        score: Score | None,
        result: ThresholdResult | None = None,
    ) -> None:
        added = self.session.hook.pytest_rageval_score_entry(
            test=self, threshold=threshold, score=score, result=result
        )
        comparison = None if result is None else result.comparison
        self.report.add_entry(
            {key: value for each in (entry, *added) for key, value in each.items()},
            None if score is None else Evidence(score, comparison, threshold.request),
        )

    def look_up_baseline(self, threshold: Threshold) -> BaselineLookup:
        return self.session.look_up(self.marked, self.record, threshold)

    def definition(self, threshold: Threshold) -> ScoreDef:
        return self.session.definition(threshold.request)

    @property
    def _failed_results(self) -> list[ThresholdResult]:
        return [*filter(None, map(_failed_part, self.judged))]

    def _accept_entry(self, failed: Iterable[ThresholdResult]) -> dict[str, str]:
        if self.session.settings.baseline_ref is not None:
            # An update changes the file of this checkout, which is not compared with.
            return {}
        return accept_entry([(result.threshold.name, violated_bounds(result)) for result in failed])

    def _failure_text(self, failed: Sequence[ThresholdResult], room: "Room") -> str:
        accept = self._accept_entry(failed).get("accept")
        texts = accept_lines(accept, self.marked.argument or self.marked.nodeid, self.marked.merge)
        steps = [line for text in texts for line in text.splitlines()]
        files = [path for path in self.session.settings.report if isinstance(path, Path)]
        report = os.path.relpath(files[0]) if files else ""
        return "\n".join(failure_lines(failed, room, report=report, after=steps))


def _why_no_baseline(threshold_input: ThresholdInput, definition: ScoreDef) -> str:
    """Return why a score that is not compared yet cannot be compared with later; empty if it can.

    This is a score of rankings without any gold passage: a baseline of it would let every change pass.
    """
    score, threshold, baseline, _ = threshold_input
    if baseline.before is not None or baseline.missing or not threshold.uses_baseline:
        return ""
    if definition.scale is None or GOLD not in definition.needs:
        return ""
    values = [outcome.value for outcome in score.outcomes if outcome.value is not None]
    low = definition.scale[0]
    if not values or max(values) > low + SCORE_TOLERANCE:
        return ""
    hint = all_zero_hint(score)
    return (
        f"every question scores {low:g}, so that nothing could be a drop, and this is no baseline."
        f"{f'{chr(10)}{hint[0].upper()}{hint[1:]}.' if hint else ''}"
    )


def joined(results: Iterable[Iterable[T]]) -> list[T]:
    return list(chain.from_iterable(results))


def score_of_slice(score: Score | RagevalError, threshold: Threshold) -> Score:
    if isinstance(score, RagevalError):
        raise score
    return score.where(**threshold.where) if threshold.where else score


def _summary(result: ThresholdResult) -> str:
    name = result.threshold.name if result.score is None else result.score.name
    return f"{name} {result.verdict.brief or result.verdict.reason}"


def _failed_part(result: ThresholdResult) -> ThresholdResult | None:
    """Return the first failed result among this one and its slices, which can fail while it is itself an error."""
    return next((part for part in (result, *result.slices) if part.verdict.status == "fail"), None)
