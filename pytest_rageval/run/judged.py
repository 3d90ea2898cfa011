"""`JudgedTest`: the verdicts on the record of a test, and its entry for the report, in a run and in a merge of shards.

Extensions take part by the hooks of `pytest_rageval.hookspecs`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.core.errors import MissingReplyError, RagevalError, StaleBaselineError
from pytest_rageval.core.outcome import Score, compute_intervals
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.judge import evaluate_thresholds, violated_bounds
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, PartialEvaluation, ThresholdInput, ThresholdResult
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options.settings import MODEL_USES, Settings
from pytest_rageval.reports.build import TestEntryBuilder, error_entry, score_entry, threshold_result_entry
from pytest_rageval.reports.terminal import accept_entry, accept_lines
from pytest_rageval.run import MarkedTest
from pytest_rageval.run.base import BaseSession, TestRecord
from pytest_rageval.scores.definition import ScoreDef

if TYPE_CHECKING:
    from pytest_rageval.baseline.entries import BaselineEntry, ScoreEntry
    from pytest_rageval.reports.failures import Room

T = TypeVar("T")

# Few tests use these, and few fail.
any_room: Final = Lazy("reports.failures", "Room")
failure_lines: Final = Lazy("reports.failures", "failure_lines")
changed_prompts_text: Final = Lazy("reports.causes", "changed_prompts_text")
likely_cause: Final = Lazy("reports.causes", "likely_cause")
baseline_entry: Final = Lazy("baseline", "baseline_entry")
suite_contribution: Final = Lazy("reports.suite", "contribution")
look_up_baseline: Final = Lazy("run.baseline_lookup", "look_up_baseline")
why_no_baseline: Final = Lazy("run.baseline_lookup", "why_no_baseline")


class OutOfBoundsError(RagevalError):
    """A score of a `rageval.score` call is out of its bounds. `summary` is the message in one line."""

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(text)
        self.summary = summary


PartialScore = tuple[Score, PartialEvaluation] | RagevalError
"""A score of the examples that are known, and how far its evaluation went; or the error that prevented it."""


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
        self.report: TestEntryBuilder = TestEntryBuilder(
            record,
            session.definition,
            record_property=marked.record_property,
            match_share=session.settings.match_share,
            spool=session.spool,
        )
        self.judged: list[ThresholdResult] = []
        self.uses: set[str] = set()
        self._suite: Mapping[str, object] | None = None
        # Of an update, by the name of a score: one of its thresholds, and the score of the whole set.
        self._baseline_scores: dict[str, tuple[Threshold, Score]] = {}
        # The tags by which these thresholds select slices.
        self._slice_tags: set[str] = set()
        # Whether a score of an update is no baseline. Then the test keeps its old entry.
        self._has_no_baseline = False

    def before(self) -> list[str]:
        return joined(self.session.hook.pytest_rageval_before_test(test=self))

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
        tests = self.session.tests_sharing_alpha(thresholds)
        scores = {
            (key, sliced): self.session.score_or_error(key[0], self.record.runs[key], sliced=sliced)
            for key, sliced in dict.fromkeys((item.score_key, bool(item.where)) for item in thresholds)
            if key in self.record.runs
        }
        if missing := {key: error for key, error in scores.items() if isinstance(error, MissingReplyError)}:
            # An error of the baseline is that of the scores that compare with it.
            with suppress(RagevalError, KeyError):
                before = self.session.baseline.tests[self.marked.nodeid]["scores"]
                added = _changed_prompts(missing.values(), before, thresholds, self.record)
                scores |= {key: MissingReplyError(f"{error}{added}") for key, error in missing.items()}
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
                entry = error_entry(threshold.spec, threshold, str(result), notes)
                self.report.add_entry(entry, threshold.request)
        return problems

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
            raise OutOfBoundsError(
                _failure_text([result], self.room(), self.marked, self.session.settings), _summary(result)
            )
        return score_of_slice(whole, threshold)

    def failures(self) -> list[str]:
        """Return the failed thresholds of markers and of `score` calls as text, with how to accept a drop."""
        failed = self._failed_results
        if not failed and not self._other_failures(0):
            return []
        room = self.room()
        others = self._other_failures(None if room.lines is None else room.lines // 3)
        return [
            *others,
            *([_failure_text(failed, room, self.marked, self.session.settings)] if failed else []),
        ]

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
        served = self.served
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
            results |= {**({"cause": cause} if cause else {}), **_accept(failed, self.session.settings)}
        if self._suite is not None:
            results["suite"] = self._suite
        if self._baseline_scores and not self._has_no_baseline:
            results["baseline"] = _baseline_entry(self, self._baseline_scores, self._slice_tags, served)
            results["out_of_bounds"] = sorted({result.threshold.name for result in self._failed_results})
        return results

    @property
    def served(self) -> dict[str, list[str]]:
        """The names that servers reported, by model, of the models that this test's thresholds depend on."""
        return self.record.served_to(result.threshold.request for result in self.judged)

    def add_uses(self, request: ScoreRequest) -> None:
        """Note which models a score uses, as its fingerprint has their names."""
        if not self.session.definition(request).asks:
            return
        with suppress(RagevalError):  # an error was that of the score
            fingerprint = self.record.dependencies_of(request).fingerprint
            self.uses |= {use for use in MODEL_USES if use in fingerprint}

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
        text = why_no_baseline(given, self.definition(threshold)) if threshold.uses_baseline else ""
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
        if threshold.uses_baseline and threshold_input.baseline.updating:
            self._has_no_baseline |= bool(threshold_input.baseline.missing)
            self._baseline_scores[threshold.name] = threshold, score
            self._slice_tags |= {*threshold.where, *filter(None, [threshold.by])}

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
        merged = {key: value for each in (entry, *added) for key, value in each.items()}
        comparison = None if result is None else result.comparison
        self.report.add_entry(merged, threshold.request, score, comparison)

    def look_up_baseline(self, threshold: Threshold) -> BaselineLookup:
        """Return the baseline and the anchor of a score. The file is read only for a bound that compares with it."""
        definition = self.definition(threshold)
        if not threshold.uses_baseline:
            return BaselineLookup({}, None, deterministic=definition.deterministic)
        found: BaselineLookup = look_up_baseline(
            self.session.settings,
            self.session.baseline,
            self.marked,
            sample=self.session.sample,
            threshold=threshold,
            definition=definition,
            fingerprint=self.record.dependencies_of(threshold.request).fingerprint,
            received=self.record.received,
        )
        return found

    def definition(self, threshold: Threshold) -> ScoreDef:
        return self.session.definition(threshold.request)

    @property
    def _failed_results(self) -> list[ThresholdResult]:
        return [*filter(None, map(_failed_part, self.judged))]


def _changed_prompts(
    missing: Iterable[MissingReplyError],
    before: "Mapping[str, ScoreEntry]",
    thresholds: Sequence[Threshold],
    record: TestRecord,
) -> str:
    """Return how the prompts of the questions without a reply have changed since the baseline; empty if unknown."""
    missed = {name for error in missing for name in error.examples}
    examples = [each for each in record.examples if each.id in missed]
    text = changed_prompts_text(before, thresholds, examples, record.ranking_of)
    return f"\n{text}" if text else ""


def _baseline_entry(
    test: JudgedTest,
    new: Mapping[str, tuple[Threshold, Score]],
    tags: AbstractSet[str],
    served: Mapping[str, list[str]],
) -> "BaselineEntry":
    record = test.record
    entry: BaselineEntry = baseline_entry(
        record.examples,
        {
            name: (score, record.dependencies_of(each.request).fingerprint)
            for name, (each, score) in new.items()
        },
        context={*record.received, "history"},
        averaged=[name for name, (each, _) in new.items() if test.definition(each).asks],
        spool=test.session.spool,
    )
    tagged = {
        each.id: {tag: each.tags[tag] for tag in sorted(tags & each.tags.keys())} for each in record.examples
    }
    if tagged := {name: own for name, own in tagged.items() if own}:
        entry["tags"] = tagged
    if test.marked.nodeid not in test.sharing_alpha:
        entry["shares_alpha"] = False
    for added in test.session.hook.pytest_rageval_baseline_entry(test=test):
        entry |= cast("BaselineEntry", added)
    if served:
        entry["served"] = dict(served)
    return entry


def _accept(failed: Iterable[ThresholdResult], settings: Settings) -> dict[str, str]:
    if settings.baseline_ref is not None:
        # An update changes the file of this checkout, which is not compared with.
        return {}
    if any(result.score is not None and not any(result.score.values) for result in failed):
        # What finds nothing is to be mended. For rankings, an update refuses such a score.
        return {}
    return accept_entry(map(violated_bounds, failed))


def _failure_text(
    failed: Sequence[ThresholdResult], room: "Room", marked: MarkedTest, settings: Settings
) -> str:
    argument = marked.argument or marked.nodeid
    steps = joined(accept_lines(how, argument, marked.merge) for how in _accept(failed, settings).values())
    files = [path for path in settings.report if isinstance(path, Path)]
    report = os.path.relpath(files[0]) if files else ""
    return "\n".join(failure_lines(failed, room, report=report, after=steps))


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
