"""`TestRun`: computes the scores of one test, compares them with its thresholds, and builds its entry for the report.

Extensions take part by the hooks of `pytest_rageval.hookspecs`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from pytest_rageval.core.data import EvalSet, Ranking
from pytest_rageval.core.errors import (
    InputError,
    Planned,
    RagevalError,
    ReplyPending,
    StaleBaselineError,
    has_placeholder,
)
from pytest_rageval.core.outcome import Score, compute_intervals
from pytest_rageval.core.policy import policies_of
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.baseline import baseline_entry
from pytest_rageval.gate.judge import (
    BaselineLookup,
    ThresholdInput,
    ThresholdResult,
    evaluate_thresholds,
    violated_bounds,
)
from pytest_rageval.gate.threshold import BOUNDS, Threshold, level_shares
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.reports.anomalies import all_zero_hint
from pytest_rageval.reports.build import error_entry, evalset_entry, score_entry, threshold_result_entry
from pytest_rageval.reports.terminal import accept_entry, accept_lines
from pytest_rageval.run.inputs import Components, MarkedTest
from pytest_rageval.run.report_entry import Evidence, ReportEntryBuilder
from pytest_rageval.run.session import Session
from pytest_rageval.scores.definition import GOLD, ScoreDef
from pytest_rageval.scores.pipeline import Query
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, UNIT

if TYPE_CHECKING:
    from pytest_rageval.gate.baseline import BaselineEntry
    from pytest_rageval.gate.judge import EarlyStopResult
    from pytest_rageval.reports.failures import Room
    from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest

T = TypeVar("T")

EVALSET: Final = "rageval_evalset"

# Few tests use these, and few fail.
any_room: Final = Lazy("reports.failures", "Room")
failure_lines: Final = Lazy("reports.failures", "failure_lines")
suite_contribution: Final = Lazy("gate.suite", "contribution")  # many projects have one gated test
planned_agreement: Final = Lazy("run.stubs", "planned_agreement")
planned_ranking: Final = Lazy("run.stubs", "planned_ranking")
planned_score: Final = Lazy("run.stubs", "planned_score")
planned_text: Final = Lazy("run.stubs", "PlannedText")


class OutOfBoundsError(RagevalError):
    """A score of a `rageval.score` call is out of its bounds.

    Attributes:
        summary: the message in one line.
    """

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(text)
        self.summary = summary


EarlyScore = tuple[Score, "EarlyStopResult"] | RagevalError
"""A score of the examples that are known, and how far its evaluation went; or the error that prevented it."""


class PartialScores(Protocol):
    """Scores that may be judged before all questions are evaluated.

    Attributes:
        requests: the scores.
    """

    requests: Collection[ScoreRequest]

    def evaluate(self, *, tests: int, groups: int) -> tuple[Mapping[ScoreRequest, EarlyScore], int]:
        """Evaluate them; return each score, and the number of shares of the test's level that they need.

        Args:
            tests: number of the run's tests that share the level.
            groups: number of shares of the test's level that its other thresholds need.
        """


class TestRun:
    """The run of one test: its eval set, its scores, and the results of its thresholds.

    Args:
        session: the session that the test runs in.
        components: the user's retriever, generator and judge.
        marked: the test and its markers.
        sharing_alpha: node ids of the selected tests that share one error rate: their markers test a drop.
        room: how much a failure shows; a function, since it depends on the failures so far.

    Attributes:
        state: what extensions remember of this test, by the name of the extension.
        has_stubs: True if the test received a stub in place of a result, as in a plan.
        is_recorded: True if the outcomes are recorded and judged later, by `rageval merge`.
    """

    __test__ = False  # for pytest, which collects classes by their names

    def __init__(
        self,
        session: Session,
        components: Components,
        marked: MarkedTest,
        *,
        sharing_alpha: Collection[str] = (),
        room: "Callable[[], Room]" = any_room,
    ) -> None:
        self.session: Session = session
        self.components: Components = components
        self.marked: MarkedTest = marked
        self.sharing_alpha: Collection[str] = sharing_alpha
        self.room: Callable[[], Room] = room
        self.state: dict[str, Any] = {}
        self.has_stubs: bool = False
        self.is_recorded: bool = False
        self.report: ReportEntryBuilder = ReportEntryBuilder(session, components, marked)
        self._threshold_results: list[ThresholdResult] = []
        self._suite: Mapping[str, Any] | None = None
        self._agreements: list[Mapping[str, Any]] = []
        # By the name of a score: the score, and the fingerprint under which the baseline stores it.
        self._baseline_scores: dict[str, tuple[Score, Mapping[str, Any]]] = {}
        self._averaged_scores: set[str] = set()
        # Whether a score of an update is no baseline. Then the test keeps its old entry.
        self._has_no_baseline = False
        self._violations: list[str] = []

    @property
    def evalset(self) -> EvalSet:
        """The examples of the test's eval set that this run scores; InputError if the test has no eval set."""
        return self.session.part_of(self.whole_evalset)

    @property
    def whole_evalset(self) -> EvalSet:
        """The eval set of the closest marker."""
        form = 'pytest.mark.rageval_evalset("evals/support.jsonl")'
        marker = next(iter(self.marked.markers(EVALSET)), None)
        if marker is None:
            raise InputError(
                f"This test has no eval set to score. Mark it, its class or its module with {form}."
            )
        if len(marker.args) != 1:
            arguments = [*map(repr, marker.args), *(f"{k}={v!r}" for k, v in marker.kwargs.items())]
            raise InputError(f"{EVALSET} takes one path, found ({', '.join(arguments)}). Write {form}.")
        return self.session.sources.evalset(marker.args[0], bases=self.marked.bases, keywords=marker.kwargs)

    def evaluate_markers(self) -> list[str]:
        """Evaluate the markers of the test; return the errors that prevented scores or verdicts."""
        try:
            return self._evaluate_markers()
        except RagevalError as error:
            return [str(error)]

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
        self.session.hook.pytest_rageval_before_call(test=self, call="rageval.score()")
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
        self.session.hook.pytest_rageval_before_call(test=self, call="rageval.agreement()")
        if self.session.counts_only:
            # Errors are ignored: in a run, the table lists these scores as missing.
            self.session.count_requests(self.components, self.evalset, request.score_requests)
            return self._agreement_stub(request)
        try:
            scores = self.session.score(self.components, self.evalset, request.score_requests)
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
        ranking = self.session.retrieve(self.components, query, k)
        if not self.session.counts_only:
            return ranking
        planned: Ranking = planned_ranking(ranking)
        return planned

    def answer(self, query: Query, k: int) -> str:
        """Return the generator's answer from the first k retrieved documents."""
        try:
            text: str = self.session.answer(self.components, query, k)
        except Planned as planned:
            self.has_stubs = True
            return cast("str", planned_text(planned))
        if not self.session.counts_only:
            return text
        self.has_stubs = True
        return cast("str", planned_text(text)) if has_placeholder(text) else text

    def results(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        """Return the test's entry for the report, without its outcome; in an update, with its new baseline.

        The key `suite` is the test's contribution to the test of the whole suite, and no part of the report.

        Args:
            describe: add the key `retrieval`: time, tokens, calls and cost of the retrievals.
            explain: add the key `questions`, and the evidence of each score for every question.
        """
        results: dict[str, Any] = {"evalset": self._evalset_entry()}
        served = self.report.served(self._threshold_results)
        warnings = list(self.report.warnings(self._threshold_results, served))
        for entry in self.session.hook.pytest_rageval_test_entry(test=self):
            warnings += entry.get("warnings", ())
            results |= entry
        optional = {"own": self.components.user_defined, "served": served, "warnings": warnings}
        results |= {name: value for name, value in optional.items() if value}
        results |= self.report.build(lambda: self.evalset, describe=describe, explain=explain)
        results |= self._accept_entry(self._failed_results)
        results |= {"agreement": self._agreements} if self._agreements else {}
        if self._suite is not None:
            results["suite"] = self._suite
        if self._baseline_scores and not self._has_no_baseline:
            results["baseline"] = self._baseline_entry(served)
            results["out_of_bounds"] = sorted({result.threshold.name for result in self._failed_results})
        return results

    def _baseline_entry(self, served: Mapping[str, list[str]]) -> "BaselineEntry":
        context = {*self.session.received(self.components), "history"}
        entry = baseline_entry(
            self.evalset.examples,
            self._baseline_scores,
            context=context,
            averaged=self._averaged_scores,
            spool=self.session.spool,
        )
        if self.marked.nodeid not in self.sharing_alpha:
            entry["shares_alpha"] = False
        if (own_k := self.session.own_k(self.components)) is not None:
            entry["own_k"] = own_k
        if renamed := {model: names for model, names in served.items() if names != [model]}:
            entry["served"] = renamed
        return entry

    def _evaluate_markers(self) -> list[str]:
        thresholds, mistakes = [], []
        # `markers` returns the closest marker first. Reversed, the thresholds are in the order of the file.
        for marker in reversed(self.marked.markers("rageval_threshold")):
            try:
                thresholds += self._thresholds(marker.args, marker.kwargs)
            except InputError as error:
                mistakes.append(str(error))
        mistakes += _repeated_bounds(thresholds)
        if mistakes:
            # No request is sent: the test ends as an error, whatever its other scores are.
            return mistakes
        problems: Sequence[str] | None = self.session.hook.pytest_rageval_evaluate(
            test=self, thresholds=thresholds
        )
        return self._judge(thresholds) if problems is None else list(problems)

    def _judge(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Evaluate the scores of thresholds and compare them with their bounds; return the errors."""
        problems = self.before()
        if not thresholds:
            return problems
        inputs, tests, extra_alpha_shares = self._threshold_inputs(thresholds)
        results = evaluate_thresholds(inputs, family_size=tests, extra_alpha_shares=extra_alpha_shares)
        self._contribute(results, gated=tests)
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
                self.report.add_entry(
                    error_entry(threshold.spec, threshold, str(result), self.definition(threshold).notes)
                )
        return [
            *problems,
            *self.after([item.threshold for item in inputs if isinstance(item, ThresholdInput)]),
        ]

    def _contribute(self, results: Iterable[object], *, gated: int) -> None:
        """Note what the test contributes to the test of the whole suite, if there are several gated tests."""
        if gated > 1:
            judged = [result for result in results if isinstance(result, ThresholdResult)]
            self._suite = suite_contribution(judged, gated=gated)

    def before(self) -> list[str]:
        """Do what extensions do before the scores of a test; return the errors."""
        return joined(self.session.hook.pytest_rageval_before_test(test=self))

    def after(self, thresholds: Sequence[Threshold]) -> list[str]:
        """Do what extensions do after the scores of these thresholds; return the errors."""
        return joined(self.session.hook.pytest_rageval_after_test(test=self, thresholds=thresholds))

    def _threshold_inputs(
        self, thresholds: Sequence[Threshold]
    ) -> tuple[list[ThresholdInput | RagevalError], int, int]:
        """Compute the scores of the thresholds.

        Returns:
            For each threshold its score with the baseline, or the error; the number of tests that share the level; and
            the number of shares of the test's level that partial scores need.
        """
        partial_scores: PartialScores | None = self.session.hook.pytest_rageval_partial_scores(
            test=self, thresholds=thresholds
        )
        requests = self.requests(thresholds)
        apart = set() if partial_scores is None else set(partial_scores.requests)
        whole = [item for item in thresholds if item.request not in apart]
        scores = self.scores(whole, requests)
        compares = any(threshold.uses_baseline for threshold in thresholds)
        tests = self.session.tests_sharing_alpha if compares else 1
        early: Mapping[ScoreRequest, EarlyScore] = {}
        extra_alpha_shares = 0
        if partial_scores is not None:
            tested = [item for item in whole if item.max_drop is not None and not item.policy.strict]
            groups = len({item.policy.fixed_cluster for item in tested})
            early, extra_alpha_shares = partial_scores.evaluate(tests=level_shares(tests), groups=groups)
        inputs = []
        for threshold in thresholds:
            score = early.get(threshold.request) or scores[score_key(threshold)]
            score, stop = score if isinstance(score, tuple) else (score, None)
            inputs.append(self._threshold_input(score, threshold, stop))
        return inputs, tests, extra_alpha_shares

    @staticmethod
    def requests(thresholds: Iterable[Threshold]) -> list[ScoreRequest]:
        """Return the scores of these thresholds, each once."""
        return list(dict.fromkeys(item.request for item in thresholds))

    def scores(
        self, thresholds: Sequence[Threshold], all_requests: Sequence[ScoreRequest]
    ) -> "dict[tuple[ScoreRequest, bool], Score | RagevalError]":
        """Return the scores of these thresholds, by `score_key`; `all_requests` as in `Session.outcomes`."""
        return self.evaluate_scores(thresholds, partial(self.session.score, all_requests=all_requests))

    def evaluate_scores(
        self,
        thresholds: Sequence[Threshold],
        evaluate: Callable[[Components, EvalSet, Sequence[ScoreRequest]], Mapping[ScoreRequest, T]],
    ) -> dict[tuple[ScoreRequest, bool], T]:
        """Call `evaluate` for the scores of these thresholds; return its results by `score_key`.

        For thresholds with `max_ratio` the components include the reference retriever.
        """
        results: dict[tuple[ScoreRequest, bool], T] = {}
        keys = dict.fromkeys(map(score_key, thresholds))
        for with_reference in (True, False):
            requests = [request for request, needs_reference in keys if needs_reference == with_reference]
            if not requests:
                continue
            components = self.components
            if with_reference:
                components = replace(components, reference=self.marked.reference())
            evaluated = evaluate(components, self.evalset, requests)
            results |= {(request, with_reference): result for request, result in evaluated.items()}
        return results

    def _score(self, spec: str, keywords: Mapping[str, Any]) -> Score:
        threshold = self._one_threshold(spec, keywords)
        request = threshold.request
        given: Score | None = self.session.hook.pytest_rageval_evaluate_call(
            test=self, threshold=threshold, keywords=keywords
        )
        if given is not None:
            return given
        try:
            whole_score = self.scores([threshold], [request])[score_key(threshold)]
            for problem in self.after([threshold]):
                raise RagevalError(problem)
        except ReplyPending:
            # With a stub the test continues to its next request.
            return self.score_stub(threshold)
        if not threshold.has_bound:
            score = _score_of_slice(whole_score, threshold)
            self.report.add_score(score, threshold)
            notes = self.definition(threshold).notes
            self.report.add_entry(
                {
                    **score_entry(score, threshold, None, notes, spool=self.session.spool),
                    **self._added_to_entry(threshold, score, None),
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
            raise OutOfBoundsError(self._failure_text([result], self.room()), _summary(result))
        return _score_of_slice(whole_score, threshold)

    def score_stub(self, threshold: Threshold) -> Score:
        """Return a stub in place of a score that is not computed."""
        self.has_stubs = True
        scale = self.definition(threshold).scale or UNIT
        repeats = self.session.runs_per_question(threshold.request) - 1
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
        policies = policies_of(self.session.settings.policy)
        parsed = Threshold.parse(args, keywords, optional=optional, policies=policies)
        thresholds = []
        for spec in self.session.specs(parsed.spec):
            threshold = replace(parsed, spec=spec)
            definition = self.definition(threshold)
            threshold = threshold.with_ignored(definition.ignores & threshold.request.keywords.keys())
            threshold.check_scale(definition.scale, is_cost=definition.is_cost, is_time=definition.is_time)
            thresholds.append(threshold)
        return thresholds

    def _threshold_input(
        self, score: Score | RagevalError, threshold: Threshold, early: "EarlyStopResult | None" = None
    ) -> ThresholdInput | RagevalError:
        """Return a threshold with its score and baseline; or the error."""
        if isinstance(score, RagevalError):
            return score
        try:
            given = ThresholdInput(score, threshold, self.look_up_baseline(threshold), early)
            if text := self._why_no_baseline(given):
                return given._replace(baseline=replace(given.baseline, missing=text))
            changed: ThresholdInput | None = self.session.hook.pytest_rageval_before_judge(
                test=self, threshold_input=given
            )
        except RagevalError as error:
            return error
        return changed or given

    def _why_no_baseline(self, threshold_input: ThresholdInput) -> str:
        """Return why a score that is not compared yet cannot be compared with later; empty if it can.

        This is a score of rankings without any gold passage: a baseline of it would let every change pass.
        """
        score, threshold, baseline, _ = threshold_input
        definition = self.definition(threshold)
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

    def _add_result(self, threshold_input: ThresholdInput, result: ThresholdResult) -> None:
        """Add the result of a threshold to the report and the failures, with warnings about the bounds."""
        score, threshold = threshold_input.score, threshold_input.threshold
        request, definition = threshold.request, self.definition(threshold)
        verdict = result.verdict
        verdict = replace(verdict, warnings=(*verdict.warnings, *threshold.warnings(definition.scale)))
        result = replace(result, verdict=verdict)
        self.report.add_score(score, threshold)
        self.report.add_entry(
            {
                **threshold_result_entry(result, definition.notes, spool=self.session.spool),
                **self._added_to_entry(threshold, result.score, result),
            },
            None if result.score is None else Evidence(result.score, result.comparison, request),
        )
        self._threshold_results.append(result)
        if threshold.uses_baseline and self.session.settings.update_baseline:
            if threshold_input.baseline.missing:
                self._has_no_baseline = True
            fingerprint = self.session.fingerprint(self.components, request)
            self._baseline_scores[threshold.name] = score, fingerprint
            if definition.asks:
                self._averaged_scores.add(threshold.name)

    def _added_to_entry(
        self, threshold: Threshold, score: Score | None, result: ThresholdResult | None
    ) -> dict[str, Any]:
        added: dict[str, Any] = {}
        for entry in self.session.hook.pytest_rageval_score_entry(
            test=self, threshold=threshold, score=score, result=result
        ):
            added |= entry
        return added

    def look_up_baseline(self, threshold: Threshold) -> BaselineLookup:
        """Return the baseline and the anchor of a threshold's score."""
        return self.session.look_up(self.components, self.marked, threshold, threshold.request)

    def definition(self, threshold: Threshold) -> ScoreDef:
        """Return the definition of a threshold's score; raise InputError if the score is unknown."""
        return self.session.definition(threshold.request)

    @property
    def _failed_results(self) -> list[ThresholdResult]:
        return [*filter(None, map(_failed_part, self._threshold_results))]

    def _next_steps(self, failed: Sequence[ThresholdResult]) -> list[str]:
        """Return the instructions to accept a drop below the baseline; empty if there is no drop."""
        accept = self._accept_entry(failed).get("accept")
        return accept_lines(accept, self.marked.argument or self.marked.nodeid, self.marked.merge)

    def _accept_entry(self, failed: Iterable[ThresholdResult]) -> dict[str, str]:
        if self.session.settings.baseline_ref is not None:
            # An update changes the file of this checkout, which is not compared with.
            return {}
        return accept_entry([(result.threshold.name, violated_bounds(result)) for result in failed])

    def _failure_text(self, failed: Sequence[ThresholdResult], room: "Room") -> str:
        steps = [line for text in self._next_steps(failed) for line in text.splitlines()]
        files = [path for path in self.session.settings.report if isinstance(path, Path)]
        report = os.path.relpath(files[0]) if files else ""
        return "\n".join(failure_lines(failed, room, report=report, after=steps))

    def _evalset_entry(self) -> Mapping[str, Any] | None:
        """Return the eval set's entry for the report; None if nothing was scored."""
        if not (self.report or self._agreements):
            return None
        try:
            entry = evalset_entry(self.evalset)
        except InputError:
            return None
        if warning := self.evalset_warning():
            entry = {**entry, "warnings": [*entry.get("warnings", ()), warning]}
        return entry

    def evalset_warning(self) -> str:
        """Return a warning if the eval set's path exists both in the root directory and beside the test; else empty."""
        marker = next(iter(self.marked.markers(EVALSET)), None)
        source = next(iter(marker.args), None) if marker else None
        if not isinstance(source, str | Path):
            return ""
        paths = list(
            dict.fromkeys(path.resolve() for base in self.marked.bases if (path := base / source).exists())
        )
        if len(paths) < 2:  # noqa: PLR2004 - the file that is read, and another one
            return ""
        root = self.marked.root.resolve()
        read, other = (path.relative_to(root) if path.is_relative_to(root) else path for path in paths)
        return (
            f"{read.as_posix()} is read, from the root directory, and {other.as_posix()}, beside the test, is not. "
            f'To read that one, write rageval_evalset("{other.as_posix()}")'
        )


def _repeated_bounds(thresholds: Iterable[Threshold]) -> Iterator[str]:
    """Yield an error for each bound that two thresholds of one score give, as only one of them can be meant."""
    seen: dict[tuple[Any, ...], Any] = {}
    for threshold in thresholds:
        key = threshold.name, str(threshold.where), threshold.by, threshold.policy.name
        for bound in BOUNDS:
            if (value := getattr(threshold, bound)) is None:
                continue
            first = seen.setdefault((bound, *key), threshold)
            if first is not threshold:
                yield (
                    f"Two marks rageval_threshold bound {threshold.name}: {bound}={getattr(first, bound):g} and "
                    f"{bound}={value:g}. Keep one of them."
                )


def joined(results: Iterable[Iterable[T]]) -> list[T]:
    """Return the items that the implementations of a hook returned, in one list."""
    return list(chain.from_iterable(results))


def score_key(threshold: Threshold) -> tuple[ScoreRequest, bool]:
    """Return the score of a threshold, and whether the reference retriever is timed too, for `max_ratio`."""
    return threshold.request, threshold.max_ratio is not None


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
