"""`EvaluatedTest`: takes a test from its thresholds to scores, rulings and its entry in the report.

In a plan the same path counts the requests, and ends with stubs instead of results.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.concurrency.garbage_collection import fewer_collections
from pytest_rageval.datatypes import EvalSet, Ranking
from pytest_rageval.errors import InputError, Planned, RagevalError, ReplyPending, StaleBaselineError
from pytest_rageval.evaluations.pipeline import Query, ScoreRequest
from pytest_rageval.evaluations.scoring import ScoreDef
from pytest_rageval.gate.baseline import baseline_entry
from pytest_rageval.gate.comparison import fingerprint_changes
from pytest_rageval.gate.threshold import BOUNDS, Threshold
from pytest_rageval.gate.threshold_results import (
    BaselineLookup,
    ThresholdInput,
    ThresholdResult,
    broken_parts,
    evaluate_thresholds,
)
from pytest_rageval.lazy import Lazy
from pytest_rageval.reports.next_steps import accept_entry, accept_lines
from pytest_rageval.reports.questions import failure_lines
from pytest_rageval.reports.results import (
    error_entry,
    evalset_entry,
    score_entry,
    threshold_result_entry,
)
from pytest_rageval.scores import Score, compute_intervals
from pytest_rageval.session.base import request_of
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.session.reported_test import Evidence, ReportedTest
from pytest_rageval.session.session import Session
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.evaluations.label_agreement import Agreement, AgreementRequest
    from pytest_rageval.evaluations.pipeline import Pipeline
    from pytest_rageval.gate.baseline import BaselineEntry
    from pytest_rageval.gate.threshold_results import EarlyStopped
    from pytest_rageval.session.calibration_gate import CalibrationGate
    from pytest_rageval.session.canary import Canary
    from pytest_rageval.session.early_stop import Found, Watched
    from pytest_rageval.session.shards.record import ShardRecord

__all__ = ["EvaluatedTest", "OutOfBoundsError"]

T = TypeVar("T")

EVALSET: Final = "rageval_evalset"
CALIBRATION: Final = "rageval_calibration"

# What few tests use.
ask_anew: Final = Lazy("session.canary", "ask_anew")
calibration_gate: Final = Lazy("session.calibration_gate", "CalibrationGate")
planned_agreement: Final = Lazy("session.plan_stubs", "planned_agreement")
planned_ranking: Final = Lazy("session.plan_stubs", "planned_ranking")
planned_score: Final = Lazy("session.plan_stubs", "planned_score")
score_until_clear: Final = Lazy("session.early_stop", "score_until_clear")
arena_cutoffs: Final = Lazy("session.battles", "arena_cutoffs")
arena_systems: Final = Lazy("session.battles", "arena_systems")
shard_record: Final = Lazy("session.shards.record", "ShardRecord")
watched_threshold: Final = Lazy("session.early_stop", "Watched")


class OutOfBoundsError(RagevalError):
    """A score that a test asked for is out of its bounds; `summary` says so in one line."""

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(text)
        self.summary = summary


class EvaluatedTest:
    """One test: its eval set, its scores and their rulings.

    Args:
        session: that the test runs in.
        components: the user's retriever, generator and judge.
        test: the test and its markers.
        sharing: node ids of the selected tests whose markers have a `max_drop` that shares one error rate.
        limit: number of lost questions that a failure shows; None for all.
    """

    def __init__(
        self,
        session: Session,
        components: Components,
        test: MarkedTest,
        *,
        sharing: Collection[str] = (),
        limit: int | None = None,
    ) -> None:
        self._session = session
        self._components = components
        self._test = test
        self._sharing = sharing
        self._limit = limit
        self._calibration: CalibrationGate | None = None
        # People's labels are no questions of the set: one shard asks the judge about them.
        index, _ = session.settings.shard or (1, 1)
        if index == 1 and (session.settings.calibration or test.markers(CALIBRATION)):
            self._calibration = calibration_gate(session, components, test)
        self._reported = ReportedTest(session, components, test)
        self._rulings: list[ThresholdResult] = []
        self._agreements: list[Mapping[str, Any]] = []
        self._baseline_scores: dict[str, tuple[Score, Mapping[str, Any]]] = {}
        self._canaries: dict[ScoreRequest, Canary | None] = {}
        self._violations: list[str] = []
        self._battles: dict[tuple[str, str], Mapping[str, Any]] | None = None
        self._systems: set[str] = set()
        self._shard: ShardRecord | None = None
        self.has_stubs = False
        """Whether the test received a stub in place of a result, as in a plan."""

    @property
    def evalset(self) -> EvalSet:
        """The eval set, or the part of it that this run scores; InputError where there is none."""
        return self._session.part_of(self._whole_evalset)

    @property
    def _whole_evalset(self) -> EvalSet:
        """The eval set that the closest marker names."""
        form = 'pytest.mark.rageval_evalset("evals/support.jsonl")'
        marker = next(iter(self._test.markers(EVALSET)), None)
        if marker is None:
            raise InputError(
                f"This test has no eval set to score. Mark it, its class or its module with {form}."
            )
        if len(marker.args) != 1:
            found = [*map(repr, marker.args), *(f"{k}={v!r}" for k, v in marker.kwargs.items())]
            raise InputError(f"{EVALSET} takes one path, found ({', '.join(found)}). Write {form}.")
        return self._session.sources.evalset(marker.args[0], bases=self._test.bases, keywords=marker.kwargs)

    @fewer_collections()
    def evaluate_markers(self) -> list[str]:
        """Evaluate the test's calibrations and thresholds; return why scores or their verdicts are missing."""
        try:
            return self._evaluate_markers()
        except RagevalError as error:
            return [str(error)]

    def failures(self) -> list[str]:
        """The failed thresholds of markers and of `score` calls, each as text."""
        calibrations = self._calibration.failures(limit=self._limit) if self._calibration else ()
        return [*calibrations, *map(self._failure, self._failed), *self._next_steps(self._failed)]

    @property
    def summary(self) -> str:
        """The failures in one line: "recall@3 0.593 < 0.85; drop 0.346 > 0.02"."""
        calibrations = self._calibration.failures(limit=0) if self._calibration else ()
        firsts = (text.partition("\n")[0] for text in calibrations)
        return "; ".join([*firsts, *map(_summary, self._failed)])

    def violations(self) -> list[str]:
        """The thresholds of `score` calls that failed or ended as an error, each as text."""
        return list(dict.fromkeys(self._violations))

    def score(self, spec: str, keywords: Mapping[str, Any]) -> Score:
        """A score of the eval set, or of the slice that `where` names; `keywords` are those of `rageval_threshold`.

        `max_drop` is tested at its own `alpha`: how many thresholds a test asks for is not known beforehand.

        Raises:
            OutOfBoundsError: the score is out of a bound.
            RagevalError: the score cannot be computed, or has no verdict.
        """
        self._refuse_in_shard("rageval.score()")
        try:
            return self._score(spec, keywords)
        except RagevalError as error:
            if any(keywords.get(bound) is not None for bound in BOUNDS):
                self._violations.append(str(error))
            raise

    def agreement(self, request: "AgreementRequest") -> "Agreement":
        """Return how well labels of passages agree with the answers; raise RagevalError if these cannot be scored."""
        self._refuse_in_shard("rageval.agreement()")
        if self._session.settings.plan:
            # Errors are ignored, as the table of a run lists them as missing.
            self._session.plan(self._components, self.evalset, request.wanted)
            self.has_stubs = True
            stub: Agreement = planned_agreement(request, len(self.evalset))
            return stub
        try:
            scores = self._session.score(self._components, self.evalset, request.wanted)
        except ReplyPending:
            self.has_stubs = True
            waiting: Agreement = planned_agreement(request, len(self.evalset))
            return waiting
        agreement = request.agreement(scores)
        self._agreements.append(agreement.entry())
        return agreement

    def retrieve(self, query: Query, k: int) -> Ranking:
        """The ranking of the retriever under test."""
        ranking = self._session.retrieve(self._components, query, k)
        return planned_ranking(ranking) if self._session.settings.plan else ranking

    def answer(self, query: Query, k: int) -> str:
        """The generator's answer from the first k documents."""
        if not self._session.settings.plan:
            return self._session.answer(self._components, query, k)
        from pytest_rageval.session.plan_stubs import PlannedText, planned_text  # noqa: PLC0415 - rare

        self.has_stubs = True
        try:
            return planned_text(self._session.answer(self._components, query, k))
        except Planned as planned:
            return PlannedText(planned)

    def results(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        """The test's entry for the report, without its outcome; in an update, with its baseline.

        With `describe` it says what the retrievals took; with `explain` it has all that is known of every question.
        """
        results: dict[str, Any] = {"evalset": self._evalset_entry(), **self._of_shard()}
        served = self._reported.served(self._rulings)
        warnings = [*self._reported.warnings(self._rulings, served), *self._battle_warnings()]
        noted = {"own": self._components.own, "served": served, "warnings": warnings}
        results |= {name: value for name, value in noted.items() if value}
        results |= self._reported.scores(lambda: self.evalset, describe=describe, explain=explain)
        results |= _accept_entry(self._failed)
        results |= self._calibration.results() if self._calibration else {}
        results |= {"agreement": self._agreements} if self._agreements else {}
        results |= {} if self._battles is None else {"battles": list(self._battles.values())}
        if self._baseline_scores:
            results["baseline"] = self._baseline_entry(served)
            results["out_of_bounds"] = sorted({ruling.threshold.name for ruling in self._failed})
        return results

    def _baseline_entry(self, served: Mapping[str, list[str]]) -> "BaselineEntry":
        context = {*self._session.received(self._components), "history"}
        entry = baseline_entry(
            self.evalset.examples, self._baseline_scores, context=context, spool=self._session.spool
        )
        if self._test.nodeid not in self._sharing:
            entry["shares_alpha"] = False
        if renamed := {model: names for model, names in served.items() if names != [model]}:
            entry["served"] = renamed
        return entry

    def _evaluate_markers(self) -> list[str]:
        thresholds, mistakes = [], []
        # The closest marker comes first; in the file it is the last.
        for marker in reversed(self._test.markers("rageval_threshold")):
            try:
                thresholds += self._thresholds(marker.args, marker.kwargs)
            except InputError as error:
                mistakes.append(str(error))
        if mistakes:
            # Ask nothing: the test ends as an error whatever its other scores are.
            return mistakes
        if self._session.settings.collects:
            return self._collect(thresholds)
        if self._session.settings.shard and not self._session.settings.plan:
            return self._record_shard(thresholds)
        problems = self._calibration.evaluate() if self._calibration else []
        if not thresholds:
            return problems
        if self._session.settings.plan:
            return [*problems, *map(str, self._plan(thresholds))]
        cases, tests, apart = self._cases(thresholds)
        rulings = evaluate_thresholds(cases, tests=tests, apart=apart)
        ruled = [ruling for ruling in rulings if isinstance(ruling, ThresholdResult)]
        compute_intervals(
            part.score for each in ruled for part in (each, *each.slices) if part.score is not None
        )
        for threshold, case, ruling in zip(thresholds, cases, rulings, strict=True):
            if isinstance(case, ThresholdInput) and isinstance(ruling, ThresholdResult):
                self._keep(case, ruling)
                problems += [ruling.verdict.reason] if ruling.verdict.status == "error" else []
            else:
                problems.append(str(ruling))
                self._reported.record(
                    error_entry(threshold.spec, threshold, str(ruling), self._definition(threshold).notes)
                )
        return [*problems, *self._battle_markers(zip(thresholds, cases, strict=True))]

    def _battle_markers(
        self, cases: "Iterable[tuple[Threshold, ThresholdInput | RagevalError]]"
    ) -> list[str]:
        """Let the systems of the thresholds that could be scored battle; return the errors."""
        try:
            self._battle(
                request_of(threshold) for threshold, case in cases if isinstance(case, ThresholdInput)
            )
        except RagevalError as error:
            return [f"The battles between systems: {error}"]
        return []

    def _battle_warnings(self) -> Iterator[str]:
        """Yield a warning of a run that asks for battles between systems and has one system."""
        if len(self._systems) == 1:
            yield (
                "--rageval-arena-pairs does nothing: this test has one system in the arena. Parametrize "
                "rageval_retriever or rageval_generator, or score it at several cut-offs"
            )

    def _collect(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Collect all requests that the markers need, for a batch; a missing reply does not block the others.

        Raises:
            ReplyPending: replies are missing.
        """
        requests = list(dict.fromkeys(map(request_of, thresholds)))
        asking: list[Callable[[], object]] = [
            lambda: self._scored(thresholds, requests),
            lambda: self._battle(requests),
        ]
        problems: list[str] = []
        if calibration := self._calibration:
            asking.append(lambda: problems.extend(calibration.evaluate()))
            asking += [partial(calibration.by_option, each) for each in thresholds]
        pending: ReplyPending | None = None
        for ask in asking:
            try:
                ask()
            except ReplyPending as error:
                pending = error
        if pending is not None:
            raise pending
        return problems

    def _record_shard(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Keep what a merge needs to rule on the thresholds; return the errors of scores."""
        if not thresholds and not self._test.markers(CALIBRATION):
            return []
        requests = list(dict.fromkeys(map(request_of, thresholds)))
        record = self._shard_record()
        record.calibrations(thresholds)
        runs = self._by_request(thresholds, partial(self._session.outcomes, beside=requests))
        for (request, compared), found in runs.items():
            record.score(request, found, compared=compared)
        for threshold in thresholds:
            found, notes = runs[_key(threshold)], self._definition(threshold).notes
            self._reported.record(record.entry(threshold, found, notes))
        record.is_whole = True
        return record.problems

    @property
    def is_left_to_merge(self) -> bool:
        """True if its scores are those of a shard, which a merge compares with the bounds."""
        return self._shard is not None and self._shard.is_whole

    def _of_shard(self) -> dict[str, Any]:
        if self._shard is None or not self.is_left_to_merge:
            return {}
        return {"shard": self._shard.plain(shares_alpha=self._test.nodeid in self._sharing)}

    def _shard_record(self) -> "ShardRecord":
        if self._shard is None:
            # A test of only the judge needs no eval set.
            whole = self._whole_evalset if self._test.markers(EVALSET) else EvalSet("", ())
            warning = self._evalset_warning()
            self._shard = shard_record(self._session, self._components, self._test, whole, warning)
        return cast("ShardRecord", self._shard)

    def _refuse_in_shard(self, call: str) -> None:
        """Refuse a call that needs all questions in a shard, which has only a part of them."""
        index, number = self._session.settings.shard or (1, 1)
        if number > 1:
            raise InputError(
                f"{call} in a test: its result is of all questions, and --rageval-shard {index}/{number} has a part "
                "of them.\nWrite the bound as a marker rageval_threshold, which rageval merge judges; or run the test "
                "with all questions, in a job with --rageval-shard 1/1."
            )

    def _cases(self, thresholds: Sequence[Threshold]) -> tuple[list[ThresholdInput | RagevalError], int, int]:
        """The thresholds with their scores, the number of tests that share the level, and of shares in this test."""
        watched = self._watched(thresholds)
        requests = list(dict.fromkeys(map(request_of, thresholds)))
        scores = self._scored([each for each in thresholds if request_of(each) not in watched], requests)
        compares = any(each.compares for each in thresholds)
        tests = self._session.tests_sharing_alpha(self._sharing) if compares else 1
        tested = [each for each in thresholds if each.max_drop is not None and not each.strict]
        groups = len({each.cluster for each in tested if request_of(each) not in watched})
        early: dict[ScoreRequest, Found] = {}
        apart = 0
        if watched:
            early, apart = score_until_clear(
                self._session, self._components, self.evalset, watched, tests=tests, groups=groups
            )
        cases = []
        for each in thresholds:
            found = early.get(request_of(each)) or scores[_key(each)]
            score, stopped = found if isinstance(found, tuple) else (found, None)
            cases.append(self._case(score, each, stopped))
        return cases, tests, apart

    def _scored(
        self, thresholds: Sequence[Threshold], beside: Sequence[ScoreRequest]
    ) -> "dict[tuple[ScoreRequest, bool], Score | RagevalError]":
        """The scores of these thresholds; those with `max_ratio` are timed beside the reference."""
        return self._by_request(thresholds, partial(self._session.score, beside=beside))

    def _by_request(
        self,
        thresholds: Sequence[Threshold],
        score: Callable[[Components, EvalSet, Sequence[ScoreRequest]], Mapping[ScoreRequest, T]],
    ) -> dict[tuple[ScoreRequest, bool], T]:
        found: dict[tuple[ScoreRequest, bool], T] = {}
        for compared in (True, False):
            requests = [each for each, paired in dict.fromkeys(map(_key, thresholds)) if paired == compared]
            if not requests:
                continue
            parts = self._components
            if compared:
                parts = replace(parts, reference=self._test.reference())
            results = score(parts, self.evalset, requests)
            found |= {(request, compared): result for request, result in results.items()}
        return found

    def _watched(self, thresholds: Sequence[Threshold]) -> "dict[ScoreRequest, Watched]":
        """The thresholds that may stop early."""
        if not self._session.settings.stops_early:
            return {}
        times = Counter(map(request_of, thresholds))
        watched = {}
        for threshold in thresholds:
            request, definition = request_of(threshold), self._definition(threshold)
            separable = definition.separable and definition.scale is not None and definition.dependencies
            once = times[request] == 1 and self._session.runs(request) == 1
            if not (threshold.may_stop_early and separable and once):
                continue
            try:
                baseline = self._baseline(threshold)
            except RagevalError:
                # It is raised again where the score is compared.
                continue
            before = baseline.before
            if before is not None and not fingerprint_changes(before, baseline.fingerprint):
                watched[request] = watched_threshold(threshold, before, baseline.tolerance)
        return watched

    def _score(self, spec: str, keywords: Mapping[str, Any]) -> Score:
        threshold = self._one_threshold(spec, keywords)
        request = request_of(threshold)
        if self._session.settings.plan:
            for error in self._plan([threshold]):
                raise error
            return self._stub(threshold)
        if self._session.settings.shard and not self._session.settings.collects:
            # Of all questions: see `_refuse_in_shard`.
            record = self._shard_record()
            [(key, runs)] = self._by_request([threshold], self._session.outcomes).items()
            record.score(request, runs, compared=key[1])
            record.call(spec, keywords)
        try:
            score = self._scored([threshold], [request])[_key(threshold)]
            self._battle([request])
        except ReplyPending:
            # A stub lets the test run on to what it asks next.
            return self._stub(threshold)
        if not threshold.bounds:
            asked = _slice(score, threshold)
            self._reported.add(asked, threshold)
            notes = self._definition(threshold).notes
            self._reported.record(
                {
                    **score_entry(asked, threshold, None, notes, spool=self._session.spool),
                    **self._corrected(asked, threshold),
                },
                Evidence(asked, None, request),
            )
            return asked
        case = self._case(score, threshold)
        [ruling] = evaluate_thresholds([case])
        if isinstance(case, RagevalError):
            raise case
        if isinstance(ruling, RagevalError):
            raise ruling
        self._keep(case, ruling)
        if ruling.verdict.status == "error":
            raise StaleBaselineError(ruling.verdict.reason)
        if ruling.verdict.status == "fail":
            texts = [self._failure(ruling), *self._next_steps([ruling])]
            raise OutOfBoundsError("\n\n".join(texts), _summary(ruling))
        return _slice(score, threshold)

    def _stub(self, threshold: Threshold) -> Score:
        self.has_stubs = True
        scale, repeats = (
            self._definition(threshold).scale or UNIT,
            self._session.runs(request_of(threshold)) - 1,
        )
        return _slice(planned_score(self.evalset.examples, threshold.spec, repeats, scale), threshold)

    def _one_threshold(self, spec: str, keywords: Mapping[str, Any]) -> Threshold:
        threshold, *others = self._thresholds((spec,), keywords, optional=True)
        if others:
            among = ", ".join(each.spec for each in (threshold, *others))
            raise InputError(
                f"rageval.score({spec!r}) is one score, and the run has several cut-offs.\nWrite one of {among}."
            )
        return threshold

    def _thresholds(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], *, optional: bool = False
    ) -> list[Threshold]:
        """The threshold of a marker; where its score has no cut-off, one at each of the run's."""
        threshold = Threshold.parse(args, keywords, optional=optional)
        inconclusive = threshold.inconclusive or self._session.settings.inconclusive
        found = []
        for spec in self._session.specs(threshold.spec):
            each = replace(threshold, spec=spec, inconclusive=inconclusive)
            definition = self._definition(each)
            each = each.without(definition.ignores & request_of(each).keywords.keys())
            each.check_scale(definition.scale, is_cost=definition.is_cost, is_time=definition.is_time)
            found.append(each)
        return found

    def _plan(self, thresholds: Sequence[Threshold]) -> list[RagevalError]:
        if self._calibration:
            for threshold in thresholds:
                self._calibration.by_option(threshold)
        requests = list(dict.fromkeys(map(request_of, thresholds)))
        problems = self._session.plan(self._components, self.evalset, requests)
        if not problems:
            self._battle(requests)
        return problems

    def _battle(self, requests: Iterable[ScoreRequest]) -> None:
        """Let the systems of this test battle those of its siblings, where the run asks for it."""
        if not self._session.settings.arena_pairs:
            return
        # Those that draw answers in the same way have one pipeline.
        cutoffs: dict[Pipeline, list[int]] = {}
        for request in requests:
            if found := arena_cutoffs([request.spec]):
                cutoffs.setdefault(self._session.pipeline(self._components, request), []).extend(found)
        for run, of_run in cutoffs.items():
            evalset = self.evalset.digest, self.evalset.examples
            siblings = self._test.siblings()
            self._systems.update(arena_systems(siblings, of_run))
            fought = self._session.battles.fight(self._test.nodeid, run, evalset, of_run, siblings)
            self._session.check_answered()
            pairs = {(each["system"], each["opponent"]): each for each in fought}
            self._battles = {**(self._battles or {}), **pairs}

    def _case(
        self, score: Score | RagevalError, threshold: Threshold, early: "EarlyStopped | None" = None
    ) -> ThresholdInput | RagevalError:
        if isinstance(score, RagevalError):
            return score
        try:
            case = ThresholdInput(score, threshold, self._baseline(threshold), early)
            canary = self._canary(case)
        except RagevalError as error:
            return error
        if canary is None or not canary.shifted:
            return case
        return case._replace(baseline=replace(case.baseline, missing=canary.reason()))

    def _canary(self, case: ThresholdInput) -> "Canary | None":
        """The canary of a score, asked once; None without one."""
        if not self._session.settings.canary:
            return None
        request = request_of(case.threshold)
        if request not in self._canaries:
            self._canaries[request] = ask_anew(self._session, self._components, request, case)
        return self._canaries[request]

    def _keep(self, case: ThresholdInput, ruling: ThresholdResult) -> None:
        """Keep a ruling for the report and for failures, with the doubts about its threshold."""
        score, threshold = case.score, case.threshold
        definition = self._definition(threshold)
        verdict = ruling.verdict
        verdict = replace(verdict, warnings=(*verdict.warnings, *threshold.doubts(definition.scale)))
        ruling = replace(ruling, verdict=verdict)
        self._reported.add(score, threshold)
        canary = self._canaries.get(request_of(threshold))
        self._reported.record(
            {
                **threshold_result_entry(ruling, definition.notes, spool=self._session.spool),
                **({} if ruling.stopped_early else self._corrected(ruling.score, threshold)),
                **({} if canary is None else {"canary": asdict(canary)}),
            },
            None
            if ruling.score is None
            else Evidence(ruling.score, ruling.comparison, request_of(threshold)),
        )
        self._rulings.append(ruling)
        if threshold.compares and self._session.settings.update_baseline:
            fingerprint = self._session.fingerprint(self._components, request_of(threshold))
            self._baseline_scores[threshold.name] = score, fingerprint

    def _corrected(self, score: Score | None, threshold: Threshold) -> Mapping[str, Any]:
        return self._calibration.corrected(score, threshold) if self._calibration else {}

    def _baseline(self, threshold: Threshold) -> BaselineLookup:
        return self._session.look_up(self._components, self._test, threshold, request_of(threshold))

    def _definition(self, threshold: Threshold) -> ScoreDef:
        return self._session.definition(request_of(threshold))

    @property
    def _failed(self) -> list[ThresholdResult]:
        return [*filter(None, map(_failed, self._rulings))]

    def _next_steps(self, failed: Sequence[ThresholdResult]) -> list[str]:
        """Return how to accept a drop below the baseline; empty if there is none."""
        accept = _accept_entry(failed).get("accept")
        return accept_lines(accept, self._test.argument or self._test.nodeid, self._test.merge)

    def _failure(self, ruling: ThresholdResult) -> str:
        return "\n".join(failure_lines(ruling, limit=self._limit))

    def _evalset_entry(self) -> Mapping[str, Any] | None:
        if not (self._reported or self._agreements):
            return None
        try:
            entry = evalset_entry(self.evalset)
        except InputError:
            return None
        if warning := self._evalset_warning():
            entry = {**entry, "warnings": [*entry.get("warnings", ()), warning]}
        return entry

    def _evalset_warning(self) -> str:
        """A warning where a file beside the test has the name of the eval set that is read; empty without one."""
        marker = next(iter(self._test.markers(EVALSET)), None)
        source = next(iter(marker.args), None) if marker else None
        if not isinstance(source, str | Path):
            return ""
        found = list(
            dict.fromkeys(path.resolve() for base in self._test.bases if (path := base / source).exists())
        )
        if len(found) < 2:  # noqa: PLR2004 - another one
            return ""
        root = self._test.root.resolve()
        read, other = (path.relative_to(root) if path.is_relative_to(root) else path for path in found)
        return (
            f"{read.as_posix()} is read, from the root directory, and {other.as_posix()}, beside the test, is not. "
            f'To read that one, write rageval_evalset("{other.as_posix()}")'
        )


def _key(threshold: Threshold) -> tuple[ScoreRequest, bool]:
    return request_of(threshold), threshold.max_ratio is not None


def _slice(score: Score | RagevalError, threshold: Threshold) -> Score:
    if isinstance(score, RagevalError):
        raise score
    return score.where(**threshold.where) if threshold.where else score


def _summary(ruling: ThresholdResult) -> str:
    name = ruling.threshold.name if ruling.score is None else ruling.score.name
    return f"{name} {ruling.verdict.brief or ruling.verdict.reason}"


def _accept_entry(failed: Iterable[ThresholdResult]) -> dict[str, str]:
    return accept_entry([(ruling.threshold.name, broken_parts(ruling)) for ruling in failed])


def _failed(ruling: ThresholdResult) -> ThresholdResult | None:
    """The ruling, or the worst of its slices, that failed: an error in one slice does not hide it."""
    return next((each for each in (ruling, *ruling.slices) if each.verdict.status == "fail"), None)
