"""`TestRun`: evaluates the scores of one test into its record, judges them, and builds its entry for the report.

Extensions take part by the hooks of `pytest_rageval.hookspecs`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pytest_rageval.core.errors import InputError, Planned, RagevalError, ReplyPending
from pytest_rageval.core.evalset import EVALSET, RETRIEVER_CONTEXT, EvalSet, Example
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.policy import policies_of
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.threshold import BOUNDS, Threshold, level_shares
from pytest_rageval.reports.build import evalset_entry
from pytest_rageval.run import MarkedTest
from pytest_rageval.run.base import TestRecord
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.judged import JudgedTest, PartialScore, any_room, joined
from pytest_rageval.run.session import Session
from pytest_rageval.scores.pipeline import Dependencies
from pytest_rageval.scores.rankings import Query

if TYPE_CHECKING:
    from pytest_rageval.reports.failures import Room
    from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest


T = TypeVar("T")


class PartialScores(Protocol):
    """Scores that may be judged before all questions are evaluated.

    Attributes:
        requests: the scores.
    """

    requests: Collection[ScoreRequest]

    def evaluate(self, *, tests: int, groups: int) -> tuple[Mapping[ScoreRequest, PartialScore], int]:
        """Evaluate them; return each score, and the number of shares of the test's level that they need.

        Args:
            tests: number of the run's tests that share the level.
            groups: number of shares of the test's level that its other thresholds need.
        """


class RunRecord(TestRecord):
    """The record of a running test. What it depends on is recorded when it is needed."""

    def __init__(self, session: Session, components: Components, marked: MarkedTest) -> None:
        super().__init__(own=components.user_defined, lacks_fingerprint=components.lacks_fingerprint)
        self._session = session
        self._components = components
        self._marked = marked

    def evaluate(
        self, evalset: EvalSet, thresholds: Iterable[Threshold], all_requests: Sequence[ScoreRequest]
    ) -> None:
        """Record the outcomes of the scores of thresholds; with `max_ratio` also the times of the reference."""
        self._record_retriever()
        self.examples: tuple[Example, ...] = evalset.examples
        keys = dict.fromkeys(item.score_key for item in thresholds)
        for with_reference in (True, False):
            requests = [request for request, needs_reference in keys if needs_reference == with_reference]
            if not requests:
                continue
            components = self._components
            if with_reference:
                components = replace(components, reference=self._marked.reference())
            evaluated = self._session.evaluator.outcomes(
                components, evalset, requests, all_requests=all_requests
            )
            self.runs.update(((request, with_reference), runs) for request, runs in evaluated.items())

    def dependencies_of(self, request: ScoreRequest) -> Dependencies:
        if request not in self.dependencies:
            self.dependencies[request] = self._session.dependencies(self._components, request)
            self._record_retriever()
        return self.dependencies[request]

    def ranking_of(self, example: Example, k: int) -> Ranking | None:
        return self._session.pipelines.get(self._components).rankings.known(example, k)

    def complete(self) -> None:
        self.served: dict[str, list[str]] = {
            model: sorted(names) for model, names in self._session.served.items() if names
        }
        if self.runs:
            # Without a retriever that can be used there is no pipeline.
            with suppress(RagevalError):
                self.verdicts: list[tuple[str, float]] = list(
                    self._session.pipelines.get(self._components).verdicts
                )

    def _record_retriever(self) -> None:
        # If the retriever cannot be used, that is the error of each score.
        with suppress(RagevalError):
            retriever = self._session.pipelines.get(self._components).retriever
            received = retriever.context_names
            self.received: list[str] = sorted({*RETRIEVER_CONTEXT} if "example" in received else received)
            self.own_k: int | None = getattr(retriever, "own_k", None)
            self.retriever: str = getattr(retriever, "description", "")


class TestRun(JudgedTest):
    """The run of one test: its eval set and its scores, which it records, and the verdicts on them.

    `has_stubs`: the test received a stub in place of a result, as in a plan. `is_recorded`: `rageval merge` judges it.
    """

    __test__ = False  # for pytest, which collects classes by their names

    session: Session
    record: RunRecord

    def __init__(
        self,
        session: Session,
        components: Components,
        marked: MarkedTest,
        *,
        sharing_alpha: Collection[str] = (),
        room: "Callable[[], Room]" = any_room,
    ) -> None:
        record = RunRecord(session, components, marked)
        super().__init__(session, marked, record, sharing_alpha=sharing_alpha, room=room)
        self.components: Components = components
        self.has_stubs: bool = False
        self.is_recorded: bool = False
        self._agreements: list[Mapping[str, object]] = []
        self._violations: list[str] = []

    @property
    def evalset(self) -> EvalSet:
        """The examples of the test's eval set that this run scores; InputError if the test has no eval set."""
        return self.session.part_of(self.whole_evalset)

    @property
    def whole_evalset(self) -> EvalSet:
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

    def violations(self) -> list[str]:
        """Return the messages of `score` calls with a bound that failed or ended as an error."""
        return list(dict.fromkeys(self._violations))

    def score(self, spec: str, keywords: Mapping[str, object]) -> Score:
        """Return a score of the eval set; with `where`, of that slice; OutOfBoundsError if it is out of a bound.

        `max_drop` is tested at its own `alpha`, because the number of `score` calls is not known in advance.
        """
        self.session.hook.pytest_rageval_before_call(test=self, call="rageval.score()")
        try:
            return self._score(self._one_threshold(spec, keywords))
        except RagevalError as error:
            if any(keywords.get(bound) is not None for bound in BOUNDS):
                self._violations.append(str(error))
            raise

    def _score(self, threshold: Threshold) -> Score:
        given: Score | None = self.session.hook.pytest_rageval_evaluate_call(test=self, threshold=threshold)
        if given is not None:
            return given
        try:
            self.record.evaluate(self.evalset, [threshold], [threshold.request])
            self.record.calls.append(threshold)
            for problem in self.after([threshold]):
                raise RagevalError(problem)
        except ReplyPending as pending:
            # With a stub the test continues to its next request.
            return cast("Score", self._stand_in(threshold, pending))
        return self.judge_call(threshold)

    def agreement(self, request: "AgreementRequest") -> "Agreement":
        hook = self.session.hook
        hook.pytest_rageval_before_call(test=self, call="rageval.agreement()")
        given: Agreement | None = hook.pytest_rageval_evaluate_agreement(test=self, request=request)
        if given is not None:
            return given
        try:
            scores = self.session.evaluator.score(self.components, self.evalset, request.score_requests)
        except ReplyPending as pending:
            return cast("Agreement", self._stand_in(request, pending))
        for score_request in request.score_requests:
            self.add_uses(score_request)
        agreement = request.agreement(scores)
        self._agreements.append(agreement.entry())
        return agreement

    def _stand_in(
        self,
        wanted: "Threshold | AgreementRequest | Ranking | str | Planned",
        missing: BaseException | None = None,
    ) -> object:
        """Return what takes the place of a result that depends on missing replies; without that, raise `missing`."""
        stub: object | None = self.session.hook.pytest_rageval_stand_in(test=self, wanted=wanted)
        if stub is None and missing is not None:
            raise missing
        return wanted if stub is None else stub

    def _completed(self, found: T) -> T:
        """Return a result; while replies may be missing, what takes its place if it depends on one."""
        is_complete = "lacks replies" not in self.session.settings.effects
        return found if is_complete else cast("T", self._stand_in(cast("Any", found)))

    def retrieve(self, query: Query, k: int) -> Ranking:
        return self._completed(self.session.retrieve(self.components, query, k))

    def answer(self, query: Query, k: int) -> str:
        self.uses.add("generator")
        try:
            return self._completed(self.session.answer(self.components, query, k))
        except Planned as planned:
            return cast("str", self._stand_in(planned, planned))

    def results(self, *, describe: bool = False, explain: bool = False) -> dict[str, object]:
        self.record.complete()
        evalset = self._evalset_entry()
        agreements = {"agreement": self._agreements} if self._agreements else {}
        return {"evalset": evalset, **super().results(describe=describe, explain=explain), **agreements}

    def evaluate_markers(self) -> list[str]:
        """Evaluate and judge the thresholds of the test's markers; return the errors."""
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
        hook = self.session.hook
        try:
            problems: Sequence[str] | None = hook.pytest_rageval_evaluate(test=self, thresholds=thresholds)
            return self._evaluate(thresholds) if problems is None else list(problems)
        except RagevalError as error:
            return [str(error)]

    def _evaluate(self, thresholds: Sequence[Threshold]) -> list[str]:
        problems = self.before()
        if not thresholds:
            return problems
        partial_scores: PartialScores | None = self.session.hook.pytest_rageval_partial_scores(
            test=self, thresholds=thresholds
        )
        apart = set() if partial_scores is None else set(partial_scores.requests)
        whole = [item for item in thresholds if item.request not in apart]
        if any(item.uses_baseline for item in whole):
            # Read first: of a large file, reading takes much memory, in which rankings then have room.
            with suppress(RagevalError):
                _ = self.session.baseline
        self.record.evaluate(self.evalset, whole, self.requests(thresholds))
        early: Mapping[ScoreRequest, PartialScore] = {}
        extra_alpha_shares = 0
        if partial_scores is not None:
            tested = [item for item in whole if item.max_drop is not None and not item.policy.strict]
            groups = len({item.policy.fixed_cluster for item in tested})
            tests = level_shares(self.session.tests_sharing_alpha(thresholds))
            early, extra_alpha_shares = partial_scores.evaluate(tests=tests, groups=groups)
        problems += self.judge(thresholds, early, extra_alpha_shares=extra_alpha_shares)
        return [*problems, *self.after([result.threshold for result in self.judged])]

    def after(self, thresholds: Sequence[Threshold]) -> list[str]:
        return joined(self.session.hook.pytest_rageval_after_test(test=self, thresholds=thresholds))

    @staticmethod
    def requests(thresholds: Iterable[Threshold]) -> list[ScoreRequest]:
        return list(dict.fromkeys(item.request for item in thresholds))

    def _one_threshold(self, spec: str, keywords: Mapping[str, object]) -> Threshold:
        threshold, *others = self._thresholds((spec,), keywords, optional=True)
        if others:
            specs = ", ".join(item.spec for item in (threshold, *others))
            raise InputError(
                f"rageval.score({spec!r}) is one score, and the run has several cut-offs.\nWrite one of {specs}."
            )
        return threshold

    def _thresholds(
        self, args: tuple[Any, ...], keywords: Mapping[str, object], *, optional: bool = False
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

    def _evalset_entry(self) -> Mapping[str, object] | None:
        if not (self.report or self._agreements):
            return None
        try:
            entry = evalset_entry(self.evalset)
        except InputError:
            return None
        if warning := evalset_warning(self.marked):
            entry = {**entry, "warnings": [*entry.get("warnings", ()), warning]}
        return entry


def evalset_warning(marked: MarkedTest) -> str:
    """Return a warning if the eval set's path exists both in the root directory and beside the test; else empty."""
    marker = next(iter(marked.markers(EVALSET)), None)
    source = next(iter(marker.args), None) if marker else None
    if not isinstance(source, str | Path):
        return ""
    paths = list(dict.fromkeys(path.resolve() for base in marked.bases if (path := base / source).exists()))
    if len(paths) < 2:  # noqa: PLR2004 - the file that is read, and another one
        return ""
    root = marked.root.resolve()
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
