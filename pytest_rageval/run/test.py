"""`EvaluatedTest`: computes the scores of one test, evaluates its thresholds, and builds its entry for the report.

In a plan the same code counts the requests, and returns stubs instead of results.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.core.concurrency.garbage_collection import fewer_collections
from pytest_rageval.core.data import EvalSet, Ranking
from pytest_rageval.core.errors import InputError, Planned, RagevalError, ReplyPending, StaleBaselineError
from pytest_rageval.core.outcome import Score, compute_intervals
from pytest_rageval.gate.baseline import baseline_entry
from pytest_rageval.gate.comparison import fingerprint_changes
from pytest_rageval.gate.judge import (
    BaselineLookup,
    ThresholdInput,
    ThresholdResult,
    evaluate_thresholds,
    violated_bounds,
)
from pytest_rageval.gate.threshold import BOUNDS, Threshold
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.reports.build import error_entry, evalset_entry, score_entry, threshold_result_entry
from pytest_rageval.reports.next_steps import accept_entry, accept_lines
from pytest_rageval.reports.questions import failure_lines
from pytest_rageval.run.base import score_request_of
from pytest_rageval.run.inputs import Components, MarkedTest
from pytest_rageval.run.report_entry import Evidence, ReportEntryBuilder
from pytest_rageval.run.session import Session
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.scores.pipeline import Query, ScoreRequest
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.extensions.calibration.gate import CalibrationGate
    from pytest_rageval.extensions.canary import Canary
    from pytest_rageval.extensions.early_stop import EarlyScore, MonitoredThreshold
    from pytest_rageval.gate.baseline import BaselineEntry
    from pytest_rageval.gate.judge import EarlyStopResult
    from pytest_rageval.run.record import ShardRecord
    from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest
    from pytest_rageval.scores.pipeline import Pipeline

__all__ = ["EvaluatedTest", "OutOfBoundsError"]

T = TypeVar("T")

EVALSET: Final = "rageval_evalset"
CALIBRATION: Final = "rageval_calibration"

# Few tests use these modules.
calibration_gate: Final = Lazy("extensions.calibration.gate", "CalibrationGate")
planned_agreement: Final = Lazy("extensions.plan", "planned_agreement")
planned_ranking: Final = Lazy("extensions.plan", "planned_ranking")
planned_score: Final = Lazy("extensions.plan", "planned_score")
score_until_clear: Final = Lazy("extensions.early_stop", "score_until_clear")
arena_cutoffs: Final = Lazy("extensions.arena_battles", "arena_cutoffs")
arena_systems: Final = Lazy("extensions.arena_battles", "arena_systems")
monitored_threshold: Final = Lazy("extensions.early_stop", "MonitoredThreshold")
plan_canary: Final = Lazy("extensions.canary", "plan_canary")
run_canary: Final = Lazy("extensions.canary", "run_canary")
shard_record: Final = Lazy("run.record", "ShardRecord")


class OutOfBoundsError(RagevalError):
    """A score of a `rageval.score` call is out of its bounds.

    Attributes:
        summary: the message in one line.
    """

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(text)
        self.summary = summary


class EvaluatedTest:
    """The evaluation of one test: its eval set, its scores, and the results of its thresholds.

    Args:
        session: the session that the test runs in.
        components: the user's retriever, generator and judge.
        test: the test and its markers.
        sharing_alpha: node ids of the selected tests that share one error rate: their markers test a drop.
        limit: number of lost questions that a failure shows; None for all.

    Attributes:
        has_stubs: True if the test received a stub in place of a result, as in a plan.
    """

    def __init__(
        self,
        session: Session,
        components: Components,
        test: MarkedTest,
        *,
        sharing_alpha: Collection[str] = (),
        limit: int | None = None,
    ) -> None:
        self._session = session
        self._components = components
        self._test = test
        self._sharing_alpha = sharing_alpha
        self._limit = limit
        self._calibration: CalibrationGate | None = None
        # Labelled items are not split into shards: the first shard judges all of them.
        if session.settings.shard_index == 1 and (session.settings.calibration or test.markers(CALIBRATION)):
            self._calibration = calibration_gate(session, components, test)
        self._report = ReportEntryBuilder(session, components, test)
        self._threshold_results: list[ThresholdResult] = []
        self._agreements: list[Mapping[str, Any]] = []
        # By the name of a score: the score, and the fingerprint under which the baseline stores it.
        self._baseline_scores: dict[str, tuple[Score, Mapping[str, Any]]] = {}
        self._canaries: dict[ScoreRequest, Canary | None] = {}
        self._violations: list[str] = []
        # The arena battles by the pair of systems; None if no battles were requested.
        self._battles: dict[tuple[str, str], Mapping[str, Any]] | None = None
        self._systems: set[str] = set()
        self._shard: ShardRecord | None = None
        self.has_stubs: bool = False

    @property
    def evalset(self) -> EvalSet:
        """The examples of the test's eval set that this run scores; InputError if the test has no eval set."""
        return self._session.part_of(self._whole_evalset)

    @property
    def _whole_evalset(self) -> EvalSet:
        """The eval set of the closest marker."""
        form = 'pytest.mark.rageval_evalset("evals/support.jsonl")'
        marker = next(iter(self._test.markers(EVALSET)), None)
        if marker is None:
            raise InputError(
                f"This test has no eval set to score. Mark it, its class or its module with {form}."
            )
        if len(marker.args) != 1:
            arguments = [*map(repr, marker.args), *(f"{k}={v!r}" for k, v in marker.kwargs.items())]
            raise InputError(f"{EVALSET} takes one path, found ({', '.join(arguments)}). Write {form}.")
        return self._session.sources.evalset(marker.args[0], bases=self._test.bases, keywords=marker.kwargs)

    @fewer_collections()
    def evaluate_markers(self) -> list[str]:
        """Evaluate the calibrations and thresholds of the test's markers.

        Returns:
            The errors that prevented scores or verdicts.
        """
        try:
            return self._evaluate_markers()
        except RagevalError as error:
            return [str(error)]

    def failures(self) -> list[str]:
        """Return the failed thresholds of markers and of `score` calls as text, then how to accept a drop."""
        calibrations = self._calibration.failures(limit=self._limit) if self._calibration else ()
        failed = self._failed_results
        return [*calibrations, *map(self._failure_text, failed), *self._next_steps(failed)]

    @property
    def summary(self) -> str:
        """The failures in one line, such as "recall@3 0.593 < 0.85; drop 0.346 > 0.02"."""
        calibrations = self._calibration.failures(limit=0) if self._calibration else ()
        first_lines = (text.partition("\n")[0] for text in calibrations)
        return "; ".join([*first_lines, *map(_summary, self._failed_results)])

    def violations(self) -> list[str]:
        """Return the messages of `score` calls with a bound that failed or ended as an error."""
        return list(dict.fromkeys(self._violations))

    def score(self, spec: str, keywords: Mapping[str, Any]) -> Score:
        """Return a score of the eval set; with `where`, of that slice.

        `max_drop` is tested at its own `alpha`, because the number of `score` calls is not known in advance.

        Args:
            spec: the name of the score, such as "recall@5".
            keywords: the keywords of the marker `rageval_threshold`.

        Raises:
            OutOfBoundsError: the score is out of a bound.
            RagevalError: the score cannot be computed, or the threshold has no verdict.
        """
        self._refuse_in_shard("rageval.score()")
        try:
            return self._score(spec, keywords)
        except RagevalError as error:
            if any(keywords.get(bound) is not None for bound in BOUNDS):
                self._violations.append(str(error))
            raise

    def agreement(self, request: "AgreementRequest") -> "Agreement":
        """Return how well labels of passages agree with the answers.

        Raises:
            RagevalError: the answers cannot be scored.
        """
        self._refuse_in_shard("rageval.agreement()")
        if self._session.settings.plan:
            # Errors are ignored: in a run, the table lists these scores as missing.
            self._session.plan(self._components, self.evalset, request.score_requests)
            return self._agreement_stub(request)
        try:
            scores = self._session.score(self._components, self.evalset, request.score_requests)
        except ReplyPending:
            return self._agreement_stub(request)
        agreement = request.agreement(scores)
        self._agreements.append(agreement.entry())
        return agreement

    def _agreement_stub(self, request: "AgreementRequest") -> "Agreement":
        self.has_stubs = True
        stub: Agreement = planned_agreement(request, len(self.evalset))
        return stub

    def retrieve(self, query: Query, k: int) -> Ranking:
        """Return the ranking of the retriever under test for a query, with k documents."""
        ranking = self._session.retrieve(self._components, query, k)
        return planned_ranking(ranking) if self._session.settings.plan else ranking

    def answer(self, query: Query, k: int) -> str:
        """Return the generator's answer from the first k retrieved documents."""
        if not self._session.settings.plan:
            return self._session.answer(self._components, query, k)
        from pytest_rageval.extensions.plan import PlannedText, planned_text  # noqa: PLC0415 - rare

        self.has_stubs = True
        try:
            return planned_text(self._session.answer(self._components, query, k))
        except Planned as planned:
            return PlannedText(planned)

    def results(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        """Return the test's entry for the report, without its outcome; in an update, with its new baseline.

        Args:
            describe: add the key `retrieval`: time, tokens, calls and cost of the retrievals.
            explain: add the key `questions`, and the evidence of each score for every question.
        """
        results: dict[str, Any] = {"evalset": self._evalset_entry(), **self._shard_entry()}
        served = self._report.served(self._threshold_results)
        warnings = [*self._report.warnings(self._threshold_results, served), *self._battle_warnings()]
        optional = {"own": self._components.user_defined, "served": served, "warnings": warnings}
        results |= {name: value for name, value in optional.items() if value}
        results |= self._report.build(lambda: self.evalset, describe=describe, explain=explain)
        results |= self._accept_entry(self._failed_results)
        results |= self._calibration.results() if self._calibration else {}
        results |= {"agreement": self._agreements} if self._agreements else {}
        results |= {} if self._battles is None else {"battles": list(self._battles.values())}
        if self._baseline_scores:
            results["baseline"] = self._baseline_entry(served)
            results["out_of_bounds"] = sorted({result.threshold.name for result in self._failed_results})
        return results

    def _baseline_entry(self, served: Mapping[str, list[str]]) -> "BaselineEntry":
        context = {*self._session.received(self._components), "history"}
        entry = baseline_entry(
            self.evalset.examples, self._baseline_scores, context=context, spool=self._session.spool
        )
        if self._test.nodeid not in self._sharing_alpha:
            entry["shares_alpha"] = False
        if renamed := {model: names for model, names in served.items() if names != [model]}:
            entry["served"] = renamed
        return entry

    def _evaluate_markers(self) -> list[str]:
        thresholds, mistakes = [], []
        # `markers` returns the closest marker first. Reversed, the thresholds are in the order of the file.
        for marker in reversed(self._test.markers("rageval_threshold")):
            try:
                thresholds += self._thresholds(marker.args, marker.kwargs)
            except InputError as error:
                mistakes.append(str(error))
        if mistakes:
            # No request is sent: the test ends as an error, whatever its other scores are.
            return mistakes
        if self._session.settings.collects:
            return self._collect_requests(thresholds)
        if self._session.settings.shard and not self._session.settings.plan:
            return self._record_shard(thresholds)
        problems = self._calibration.evaluate() if self._calibration else []
        if not thresholds:
            return problems
        if self._session.settings.plan:
            return [*problems, *map(str, self._plan(thresholds))]
        inputs, tests, extra_alpha_shares = self._threshold_inputs(thresholds)
        results = evaluate_thresholds(inputs, family_size=tests, extra_alpha_shares=extra_alpha_shares)
        compute_intervals(
            part.score
            for result in results
            if isinstance(result, ThresholdResult)
            for part in (result, *result.slices)
            if part.score is not None
        )
        for threshold, threshold_input, result in zip(thresholds, inputs, results, strict=True):
            if isinstance(threshold_input, ThresholdInput) and isinstance(result, ThresholdResult):
                self._add_result(threshold_input, result)
                problems += [result.verdict.reason] if result.verdict.status == "error" else []
            else:
                problems.append(str(result))
                self._report.add_entry(
                    error_entry(threshold.spec, threshold, str(result), self._definition(threshold).notes)
                )
        scored = [item.threshold for item in inputs if isinstance(item, ThresholdInput)]
        return [*problems, *self._battle_on_thresholds(scored)]

    def _battle_on_thresholds(self, thresholds: Iterable[Threshold]) -> list[str]:
        """Run the arena battles of the systems of these thresholds; return the errors."""
        try:
            self._battle(map(score_request_of, thresholds))
        except RagevalError as error:
            return [f"The battles between systems: {error}"]
        return []

    def _battle_warnings(self) -> Iterator[str]:
        """Yield a warning if battles between systems were requested and the test has only one system."""
        if len(self._systems) == 1:
            yield (
                "--rageval-arena-pairs does nothing: this test has one system in the arena. Parametrize "
                "rageval_retriever or rageval_generator, or score it at several cut-offs"
            )

    def _collect_requests(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Create all requests that the markers need, for a batch; return the errors.

        A missing reply does not prevent the requests of other scores.

        Raises:
            ReplyPending: replies are missing.
        """
        requests = list(dict.fromkeys(map(score_request_of, thresholds)))
        problems: list[str] = []
        steps: list[Callable[[], object]] = [
            lambda: self._scores(thresholds, requests),
            lambda: self._battle(requests),
        ]
        if calibration := self._calibration:
            steps.append(lambda: problems.extend(calibration.evaluate()))
            steps += [partial(calibration.by_option, threshold) for threshold in thresholds]
        pending: ReplyPending | None = None
        for step in steps:
            try:
                step()
            except ReplyPending as error:
                pending = error
        if pending is not None:
            raise pending
        return problems

    def _record_shard(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Record the outcomes that a merge needs to evaluate the thresholds; return the errors of scores."""
        if not thresholds and not self._test.markers(CALIBRATION):
            return []
        requests = list(dict.fromkeys(map(score_request_of, thresholds)))
        record = self._shard_record()
        record.add_calibrations(thresholds)
        outcomes = partial(self._session.outcomes, all_requests=requests)
        runs_of_score = self._evaluate_scores(thresholds, outcomes)
        for (request, compared), runs in runs_of_score.items():
            record.add_score(request, runs, compared=compared)
        for threshold in thresholds:
            runs, notes = runs_of_score[_score_key(threshold)], self._definition(threshold).notes
            self._report.add_entry(record.unjudged_entry(threshold, runs, notes))
        record.is_complete = True
        return record.problems

    @property
    def awaits_merge(self) -> bool:
        """True if the test is recorded in a shard, so that `rageval merge` compares its scores with the bounds."""
        return self._shard is not None and self._shard.is_complete

    def _shard_entry(self) -> dict[str, Any]:
        if self._shard is None or not self.awaits_merge:
            return {}
        return {"shard": self._shard.serialize(shares_alpha=self._test.nodeid in self._sharing_alpha)}

    def _shard_record(self) -> "ShardRecord":
        if self._shard is None:
            # A test with only the marker `rageval_calibration` needs no eval set.
            whole = self._whole_evalset if self._test.markers(EVALSET) else EvalSet("", ())
            warning = self._evalset_warning()
            self._shard = shard_record(self._session, self._components, self._test, whole, warning)
        return cast("ShardRecord", self._shard)

    def _refuse_in_shard(self, call: str) -> None:
        """Raise InputError about a call whose result needs all questions, if this run has only a part of them."""
        settings = self._session.settings
        if settings.shard_count > 1:
            raise InputError(
                f"{call} needs the results of all questions, and --rageval-shard {settings.shard_index}/"
                f"{settings.shard_count} evaluates only some of them.\nWrite the bound as a marker rageval_threshold, "
                "which rageval merge judges; or run the test with all questions, in a job with --rageval-shard 1/1."
            )

    def _threshold_inputs(
        self, thresholds: Sequence[Threshold]
    ) -> tuple[list[ThresholdInput | RagevalError], int, int]:
        """Compute the scores of the thresholds.

        Returns:
            For each threshold its score with the baseline, or the error; the number of tests that share the level; and
            the number of shares of the test's level that thresholds with an early stop need.
        """
        monitored = self._monitored(thresholds)
        requests = list(dict.fromkeys(map(score_request_of, thresholds)))
        unmonitored = [item for item in thresholds if score_request_of(item) not in monitored]
        scores = self._scores(unmonitored, requests)
        compares = any(threshold.uses_baseline for threshold in thresholds)
        tests = self._session.tests_sharing_alpha(self._sharing_alpha) if compares else 1
        groups = len({item.cluster for item in unmonitored if item.max_drop is not None and not item.strict})
        early_scores: dict[ScoreRequest, EarlyScore] = {}
        extra_alpha_shares = 0
        if monitored:
            early_scores, extra_alpha_shares = score_until_clear(
                self._session, self._components, self.evalset, monitored, tests=tests, groups=groups
            )
        inputs = []
        for threshold in thresholds:
            score = early_scores.get(score_request_of(threshold)) or scores[_score_key(threshold)]
            score, early = score if isinstance(score, tuple) else (score, None)
            inputs.append(self._threshold_input(score, threshold, early))
        return inputs, tests, extra_alpha_shares

    def _scores(
        self, thresholds: Sequence[Threshold], all_requests: Sequence[ScoreRequest]
    ) -> "dict[tuple[ScoreRequest, bool], Score | RagevalError]":
        """Return the scores of these thresholds, by `_score_key`; `all_requests` as in `Session.outcomes`."""
        return self._evaluate_scores(thresholds, partial(self._session.score, all_requests=all_requests))

    def _evaluate_scores(
        self,
        thresholds: Sequence[Threshold],
        evaluate: Callable[[Components, EvalSet, Sequence[ScoreRequest]], Mapping[ScoreRequest, T]],
    ) -> dict[tuple[ScoreRequest, bool], T]:
        """Call `evaluate` for the scores of these thresholds; return its results by `_score_key`.

        For thresholds with `max_ratio` the components include the reference retriever.
        """
        results: dict[tuple[ScoreRequest, bool], T] = {}
        keys = dict.fromkeys(map(_score_key, thresholds))
        for with_reference in (True, False):
            requests = [request for request, needs_reference in keys if needs_reference == with_reference]
            if not requests:
                continue
            components = self._components
            if with_reference:
                components = replace(components, reference=self._test.reference())
            evaluated = evaluate(components, self.evalset, requests)
            results |= {(request, with_reference): result for request, result in evaluated.items()}
        return results

    def _monitored(self, thresholds: Sequence[Threshold]) -> "dict[ScoreRequest, MonitoredThreshold]":
        """Return the thresholds whose evaluation may stop early."""
        if not self._session.settings.stops_early:
            return {}
        counts = Counter(map(score_request_of, thresholds))
        monitored = {}
        for threshold in thresholds:
            request, definition = score_request_of(threshold), self._definition(threshold)
            separable = definition.separable and definition.scale is not None and definition.dependencies
            once = counts[request] == 1 and self._session.runs_per_question(request) == 1
            if not (threshold.may_stop_early and separable and once):
                continue
            try:
                baseline = self._look_up_baseline(threshold)
            except RagevalError:
                # The error is raised again when the score is compared with the baseline.
                continue
            before = baseline.before
            if before is not None and not fingerprint_changes(before, baseline.fingerprint):
                monitored[request] = monitored_threshold(threshold, before, baseline.tolerance)
        return monitored

    def _score(self, spec: str, keywords: Mapping[str, Any]) -> Score:
        threshold = self._one_threshold(spec, keywords)
        request = score_request_of(threshold)
        if self._session.settings.plan:
            for error in self._plan([threshold]):
                raise error
            return self._score_stub(threshold)
        if self._session.settings.shard and not self._session.settings.collects:
            # The only shard has all questions: see `_refuse_in_shard`.
            record = self._shard_record()
            [((_, compared), runs)] = self._evaluate_scores([threshold], self._session.outcomes).items()
            record.add_score(request, runs, compared=compared)
            record.add_call(spec, keywords)
        try:
            whole_score = self._scores([threshold], [request])[_score_key(threshold)]
            self._battle([request])
        except ReplyPending:
            # With a stub the test continues to its next request.
            return self._score_stub(threshold)
        if not threshold.has_bound:
            score = _score_of_slice(whole_score, threshold)
            self._report.add_score(score, threshold)
            notes = self._definition(threshold).notes
            self._report.add_entry(
                {
                    **score_entry(score, threshold, None, notes, spool=self._session.spool),
                    **self._corrected_mean(score, threshold),
                },
                Evidence(score, None, request),
            )
            return score
        threshold_input = self._threshold_input(whole_score, threshold)
        [result] = evaluate_thresholds([threshold_input])
        if isinstance(threshold_input, RagevalError):
            raise threshold_input
        if isinstance(result, RagevalError):
            raise result
        self._add_result(threshold_input, result)
        if result.verdict.status == "error":
            raise StaleBaselineError(result.verdict.reason)
        if result.verdict.status == "fail":
            texts = [self._failure_text(result), *self._next_steps([result])]
            raise OutOfBoundsError("\n\n".join(texts), _summary(result))
        return _score_of_slice(whole_score, threshold)

    def _score_stub(self, threshold: Threshold) -> Score:
        self.has_stubs = True
        scale = self._definition(threshold).scale or UNIT
        repeats = self._session.runs_per_question(score_request_of(threshold)) - 1
        return _score_of_slice(
            planned_score(self.evalset.examples, threshold.spec, repeats, scale), threshold
        )

    def _one_threshold(self, spec: str, keywords: Mapping[str, Any]) -> Threshold:
        """Return the threshold of a `score` call; InputError if the run has several cut-offs for it."""
        threshold, *others = self._thresholds((spec,), keywords, optional=True)
        if others:
            specs = ", ".join(item.spec for item in (threshold, *others))
            raise InputError(
                f"rageval.score({spec!r}) is one score, and the run has several cut-offs.\nWrite one of {specs}."
            )
        return threshold

    def _thresholds(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], *, optional: bool = False
    ) -> list[Threshold]:
        """Return the thresholds of a marker: one, or one per cut-off of the run if the score's name has no cut-off."""
        parsed = Threshold.parse(args, keywords, optional=optional)
        inconclusive = parsed.inconclusive or self._session.settings.inconclusive
        thresholds = []
        for spec in self._session.specs(parsed.spec):
            threshold = replace(parsed, spec=spec, inconclusive=inconclusive)
            definition = self._definition(threshold)
            threshold = threshold.with_ignored(
                definition.ignores & score_request_of(threshold).keywords.keys()
            )
            threshold.check_scale(definition.scale, is_cost=definition.is_cost, is_time=definition.is_time)
            thresholds.append(threshold)
        return thresholds

    def _plan(self, thresholds: Sequence[Threshold]) -> list[RagevalError]:
        """Count the requests that these thresholds need; return the errors that prevented it."""
        if self._calibration:
            for threshold in thresholds:
                self._calibration.by_option(threshold)
        requests = list(dict.fromkeys(map(score_request_of, thresholds)))
        problems = self._session.plan(self._components, self.evalset, requests)
        if not problems:
            self._battle(requests)
            self._plan_canaries(thresholds, requests)
        return problems

    def _plan_canaries(self, thresholds: Sequence[Threshold], requests: Sequence[ScoreRequest]) -> None:
        """Count the requests of the canaries of these thresholds, which run once per score."""
        compared = {score_request_of(item): item for item in thresholds if self._has_canary(item)}
        if not compared:
            return
        # The session has these outcomes already: they are not counted again.
        outcomes = self._session.outcomes(self._components, self.evalset, [*compared], all_requests=requests)
        for request, threshold in compared.items():
            runs = outcomes[request]
            if not isinstance(runs, RagevalError):
                baseline = self._look_up_baseline(threshold)
                plan_canary(self._session, self._components, request, runs[0], baseline)

    def _has_canary(self, threshold: Threshold) -> bool:
        return bool(self._session.settings.canary) and threshold.uses_baseline

    def _battle(self, requests: Iterable[ScoreRequest]) -> None:
        """Let the systems of this test battle those of its siblings, if the run has `--rageval-arena-pairs`."""
        if not self._session.settings.arena_pairs:
            return
        # Scores with the same settings for draws have the same pipeline.
        cutoffs_of: dict[Pipeline, list[int]] = {}
        for request in requests:
            if cutoffs := arena_cutoffs([request.spec]):
                pipeline = self._session.pipeline(self._components, request)
                cutoffs_of.setdefault(pipeline, []).extend(cutoffs)
        for pipeline, cutoffs in cutoffs_of.items():
            evalset = self.evalset.digest, self.evalset.examples
            siblings = self._test.siblings()
            self._systems.update(arena_systems(siblings, cutoffs))
            entries = self._session.battles.run_for_test(
                self._test.nodeid, pipeline, evalset, cutoffs, siblings
            )
            self._session.check_answered()
            pairs = {(entry["system"], entry["opponent"]): entry for entry in entries}
            self._battles = {**(self._battles or {}), **pairs}

    def _threshold_input(
        self, score: Score | RagevalError, threshold: Threshold, early: "EarlyStopResult | None" = None
    ) -> ThresholdInput | RagevalError:
        """Return a threshold with its score and baseline; or the error.

        If the canary shows that the models changed, the baseline counts as missing.
        """
        if isinstance(score, RagevalError):
            return score
        try:
            threshold_input = ThresholdInput(score, threshold, self._look_up_baseline(threshold), early)
            canary = self._canary(threshold_input)
        except RagevalError as error:
            return error
        if canary is None or not canary.shifted:
            return threshold_input
        return threshold_input._replace(baseline=replace(threshold_input.baseline, missing=canary.reason()))

    def _canary(self, threshold_input: ThresholdInput) -> "Canary | None":
        """Return the canary of a score, which runs once per score; None if the run has none."""
        if not self._has_canary(threshold_input.threshold):
            return None
        request = score_request_of(threshold_input.threshold)
        if request not in self._canaries:
            self._canaries[request] = run_canary(self._session, self._components, request, threshold_input)
        return self._canaries[request]

    def _add_result(self, threshold_input: ThresholdInput, result: ThresholdResult) -> None:
        """Add the result of a threshold to the report and the failures, with warnings about the bounds."""
        score, threshold = threshold_input.score, threshold_input.threshold
        request, definition = score_request_of(threshold), self._definition(threshold)
        verdict = result.verdict
        verdict = replace(verdict, warnings=(*verdict.warnings, *threshold.warnings(definition.scale)))
        result = replace(result, verdict=verdict)
        self._report.add_score(score, threshold)
        canary = self._canaries.get(request)
        self._report.add_entry(
            {
                **threshold_result_entry(result, definition.notes, spool=self._session.spool),
                **({} if result.stopped_early else self._corrected_mean(result.score, threshold)),
                **({} if canary is None else {"canary": asdict(canary)}),
            },
            None if result.score is None else Evidence(result.score, result.comparison, request),
        )
        self._threshold_results.append(result)
        if threshold.uses_baseline and self._session.settings.update_baseline:
            fingerprint = self._session.fingerprint(self._components, request)
            self._baseline_scores[threshold.name] = score, fingerprint

    def _corrected_mean(self, score: Score | None, threshold: Threshold) -> Mapping[str, Any]:
        return self._calibration.corrected_mean(score, threshold) if self._calibration else {}

    def _look_up_baseline(self, threshold: Threshold) -> BaselineLookup:
        return self._session.look_up(self._components, self._test, threshold, score_request_of(threshold))

    def _definition(self, threshold: Threshold) -> ScoreDef:
        return self._session.definition(score_request_of(threshold))

    @property
    def _failed_results(self) -> list[ThresholdResult]:
        return [*filter(None, map(_failed_part, self._threshold_results))]

    def _next_steps(self, failed: Sequence[ThresholdResult]) -> list[str]:
        """Return the instructions to accept a drop below the baseline; empty if there is no drop."""
        accept = self._accept_entry(failed).get("accept")
        return accept_lines(accept, self._test.argument or self._test.nodeid, self._test.merge)

    def _accept_entry(self, failed: Iterable[ThresholdResult]) -> dict[str, str]:
        if self._session.settings.baseline_ref is not None:
            # An update changes the file of this checkout, which is not compared with.
            return {}
        return accept_entry([(result.threshold.name, violated_bounds(result)) for result in failed])

    def _failure_text(self, result: ThresholdResult) -> str:
        return "\n".join(failure_lines(result, limit=self._limit))

    def _evalset_entry(self) -> Mapping[str, Any] | None:
        """Return the eval set's entry for the report; None if nothing was scored."""
        if not (self._report or self._agreements):
            return None
        try:
            entry = evalset_entry(self.evalset)
        except InputError:
            return None
        if warning := self._evalset_warning():
            entry = {**entry, "warnings": [*entry.get("warnings", ()), warning]}
        return entry

    def _evalset_warning(self) -> str:
        """Return a warning if the eval set's path exists both in the root directory and beside the test; else empty."""
        marker = next(iter(self._test.markers(EVALSET)), None)
        source = next(iter(marker.args), None) if marker else None
        if not isinstance(source, str | Path):
            return ""
        paths = list(
            dict.fromkeys(path.resolve() for base in self._test.bases if (path := base / source).exists())
        )
        if len(paths) < 2:  # noqa: PLR2004 - the file that is read, and another one
            return ""
        root = self._test.root.resolve()
        read, other = (path.relative_to(root) if path.is_relative_to(root) else path for path in paths)
        return (
            f"{read.as_posix()} is read, from the root directory, and {other.as_posix()}, beside the test, is not. "
            f'To read that one, write rageval_evalset("{other.as_posix()}")'
        )


def _score_key(threshold: Threshold) -> tuple[ScoreRequest, bool]:
    """Return the score of a threshold, and whether the reference retriever is timed too, for `max_ratio`."""
    return score_request_of(threshold), threshold.max_ratio is not None


def _score_of_slice(score: Score | RagevalError, threshold: Threshold) -> Score:
    """Return the score of the threshold's slice; if `score` is an error, raise it."""
    if isinstance(score, RagevalError):
        raise score
    return score.where(**threshold.where) if threshold.where else score


def _summary(result: ThresholdResult) -> str:
    name = result.threshold.name if result.score is None else result.score.name
    return f"{name} {result.verdict.brief or result.verdict.reason}"


def _failed_part(result: ThresholdResult) -> ThresholdResult | None:
    """Return the first failed result among this one and its slices; None if none failed.

    A slice can fail while the result itself is an error.
    """
    return next((part for part in (result, *result.slices) if part.verdict.status == "fail"), None)
