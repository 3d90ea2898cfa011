"""Early stop: evaluates the questions of a threshold in random order until its verdict on a drop is clear."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_rageval.answers.comparators import MEASURES
from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import RagevalError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, too_many_unscored
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.early_stop.result import EarlyStopResult, ExampleState
from pytest_rageval.gate.comparison import (
    changed_questions,
    fingerprint_changes,
    is_comparable,
    question_changes,
)
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.digests import digest
from pytest_rageval.run.judged import PartialScore
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.definition import GOLD_TEXTS, ScoreDef, check_failures
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore, retrieved_gold_texts
from pytest_rageval.stats.intervals import UNIT
from pytest_rageval.stats.sequential import CurtailedDropTest

CUT_LABEL_END: Final = '…"'  # the end of a document's label that contains only the beginning of its text


class MonitoredThreshold(NamedTuple):
    """A threshold whose questions are evaluated until its verdict is clear."""

    threshold: Threshold  # the threshold, whose only bound is `max_drop` on the whole eval set
    before: BaselineScore  # the score in the baseline
    tolerance: float  # differences of an example's scores up to this are rounding


def may_stop_early(threshold: Threshold) -> bool:
    """Whether `max_drop` of the whole set is the only bound."""
    others = (threshold.min, threshold.max, threshold.max_total_drop, threshold.max_lost, threshold.by)
    # A drop that is larger than allowed and not significant is not told from a smaller one.
    may_pass = threshold.shares_alpha and threshold.policy.inconclusive == "warn"
    is_whole = not threshold.where and threshold.policy.fixed_cluster is None
    return may_pass and is_whole and all(other is None for other in others)


class EarlyScores:
    """The scores of a test whose evaluation may stop early (`PartialScores`)."""

    def __init__(self, test: TestRun, monitored: Mapping[ScoreRequest, MonitoredThreshold]) -> None:
        self.requests: Collection[ScoreRequest] = monitored.keys()
        self._test = test
        self._monitored = monitored

    @classmethod
    def of(cls, test: TestRun, thresholds: Sequence[Threshold]) -> "EarlyScores | None":
        """Return the scores of those thresholds whose evaluation may stop early; None if there are none."""
        session = test.session
        counts = Counter(item.request for item in thresholds)
        # The text of a gold passage may then be in the ranking of another question.
        dependent = GOLD_TEXTS if any(map(retrieved_gold_texts, test.evalset)) else None
        monitored = {}
        for threshold in thresholds:
            request, definition = threshold.request, test.definition(threshold)
            separable = definition.separable and definition.scale is not None and definition.asks
            once = counts[request] == 1 and session.runs_per_question(request) == 1
            if dependent in definition.needs or not (may_stop_early(threshold) and separable and once):
                continue
            try:
                baseline = test.look_up_baseline(threshold)
            except RagevalError:
                # The error is raised again when the score is compared with the baseline.
                continue
            before = baseline.before
            if before is not None and not fingerprint_changes(before, baseline.fingerprint):
                monitored[request] = MonitoredThreshold(threshold, before, baseline.tolerance)
        return cls(test, monitored) if monitored else None

    def evaluate(self, *, tests: int, groups: int) -> tuple[dict[ScoreRequest, PartialScore], int]:
        """Evaluate each score until the verdict on its threshold is clear (see `PartialScores`)."""
        session = self._test.session

        async def evaluate_all() -> tuple[list[PartialScore], int]:
            monitors = await gather_all(map(self._retrieve, self._monitored))
            own_shares = sum(not monitor.is_clear for monitor in monitors)
            shares = tests * (groups + max(1, own_shares))
            evaluations = (
                self._evaluate(request, monitor, shares)
                for request, monitor in zip(self._monitored, monitors, strict=True)
            )
            return await gather_all(evaluations), own_shares

        scores, own_shares = session.loop.run(evaluate_all())
        return dict(zip(self._monitored, scores, strict=True)), own_shares

    async def _retrieve(self, request: ScoreRequest) -> "DropMonitor":
        session, components = self._test.session, self._test.components
        pipeline = session.pipeline(components, request)
        resolved, score = session.resolve(request)
        # If labels decide which passages are relevant, passages beyond those in the prompt count too.
        trusted = not (
            components.lacks_fingerprint
            or _uses_plugin_code(session.registry, pipeline, resolved, score)
            or resolved.relevant != "gold"
        )
        if score.uses_judge(pipeline, resolved):
            session.pipelines.note_judged(pipeline)
        monitor = DropMonitor(pipeline, resolved, score, self._monitored[request])
        await monitor.retrieve(self._test.evalset.examples, trust_rankings=trusted)
        return monitor

    async def _evaluate(self, request: ScoreRequest, monitor: "DropMonitor", shares: int) -> PartialScore:
        session, settings = self._test.session, self._test.session.settings
        try:
            outcomes, early = await monitor.evaluate(
                shares=shares, batch_size=settings.concurrency, max_unscored=settings.max_unscored
            )
            session.check_answered()
            check_failures(outcomes, settings.max_unscored)
            return session.score_of(request, outcomes), early
        except RagevalError as error:
            return error


def _uses_plugin_code(
    registry: Registry, pipeline: Pipeline, resolved: ResolvedScore, score: ScoreDef
) -> bool:
    """Return True if a score uses a plugin's comparator or measure, whose code may change under the same name."""
    texts = score.comparisons(pipeline, resolved).values() if "comparator" in score.keywords else ()
    names = {resolved.part}.union(*(pipeline.comparison(text).names for text in texts))
    return not names.isdisjoint({*registry.comparators, *registry.measures} - MEASURES.keys())


class DropMonitor:
    """Evaluates the questions of one threshold in random order until the verdict is clear.

    The order depends on the seed and on all rankings, so that another version of the retriever begins with other
    questions: the questions on which the last version failed are not a random sample for the next version. The score
    has a scale, and its examples can be scored in batches.
    """

    def __init__(
        self, pipeline: Pipeline, resolved: ResolvedScore, score: ScoreDef, monitored: MonitoredThreshold
    ) -> None:
        self._pipeline = pipeline
        self._resolved = resolved
        self._score = score
        self._threshold, self._before, self._tolerance = monitored
        self._low, self._high = score.scale or UNIT
        self._examples: Sequence[Example] = ()
        # The examples that can be compared with the baseline, in random order.
        self._order: list[Example] = []
        # The outcomes of examples with the ranking of the baseline.
        self._unchanged: dict[str, Outcome] = {}

    async def retrieve(self, examples: Sequence[Example], *, trust_rankings: bool) -> None:
        """Retrieve for all examples. An example with the ranking of the baseline gets the score of the baseline.

        Not with `trust_rankings` False: then the score of an example may change while its ranking does not.
        """
        retrieved = await gather_all(map(self._compared_ranking, examples))
        rankings = dict(zip((example.id for example in examples), retrieved, strict=True))
        self._examples = examples
        comparable = [
            example
            for example in examples
            if is_comparable(example, self._before)
            and self._before.examples[example.id].get("score") is not None
        ]
        if trust_rankings:
            for example in comparable:
                before, ranking = self._before.examples[example.id], rankings[example.id]
                if ranking is not None and _is_unchanged(before.get("ranking"), ranking):
                    evidence = Evidence(ranking)
                    self._unchanged[example.id] = Outcome(example, before["score"], evidence=evidence)
        labels = [None if ranking is None else ranking.labels for ranking in rankings.values()]
        order_seed = digest([self._pipeline.seed, labels])
        self._order = sorted(comparable, key=lambda example: digest([order_seed, example.id]))

    @property
    def is_clear(self) -> bool:
        """True if so few rankings changed that the verdict is clear before any example is evaluated."""
        return self._early_stop().verdict is not None

    async def evaluate(
        self, *, shares: int, batch_size: int, max_unscored: float
    ) -> tuple[list[Outcome], EarlyStopResult]:
        """Evaluate examples until the verdict is clear, at most all of them.

        The threshold has one of so many `shares` of its level. The evaluation continues while more than `max_unscored`
        of the evaluated examples have no score. Return the outcomes of all examples whose outcome is known, in the
        order of the eval set, and how far the evaluation went.
        """
        stop = self._early_stop(shares)
        evaluated: dict[str, Outcome] = {}
        changed = [example for example in self._order if example.id not in self._unchanged]
        for start in range(0, len(changed), batch_size):
            batch = changed[start : start + batch_size]
            unscored = sum(outcome.unscored is not None for outcome in evaluated.values())
            defined = sum(outcome.undefined is None for outcome in evaluated.values())
            if stop.verdict is not None and not too_many_unscored(unscored, defined, max_unscored):
                break
            evaluated |= await self._outcomes(batch)
            for example in batch:
                self._add_to(stop, example, evaluated[example.id])
        is_early = len(evaluated) < len(changed)
        states: dict[str, ExampleState] = {}
        for example in self._examples:
            if example.id in self._unchanged:
                states[example.id] = "unchanged"
            elif example.id in evaluated:
                states[example.id] = "asked"
            elif is_early:
                states[example.id] = "not asked"
        if not is_early:
            evaluated |= await self._outcomes(
                [example for example in self._examples if example.id not in states]
            )
        outcomes = self._unchanged | evaluated
        early = EarlyStopResult(
            self._threshold.policy.alpha / shares,
            question_changes(self._examples, self._before, changed_questions(self._examples, self._before)),
            states,
            len(changed),
            stop.verdict if is_early else None,
            stop.estimated_drop if stop.evaluated or not changed else None,
            stop.is_certain,
        )
        return [outcomes[example.id] for example in self._examples if example.id in outcomes], early

    def _early_stop(self, shares: int = 1) -> CurtailedDropTest:
        max_drop = self._threshold.max_drop or 0.0
        return CurtailedDropTest(
            questions=len(self._order),
            changed=len(self._order) - len(self._unchanged),
            max_drop=max_drop,
            alpha=self._threshold.policy.alpha / shares,
            beyond=max_drop if self._threshold.policy.burden == "beyond" else 0.0,
            largest=self._high - self._low,
        )

    async def _compared_ranking(self, example: Example) -> Ranking | None:
        """Return the ranking that is compared with the baseline's; None after an error, so that it is evaluated."""
        try:
            return await self._pipeline.prompt_ranking(example, self._resolved.k, self._resolved.order)
        except (RagevalError, Unscored):
            return None

    async def _outcomes(self, examples: Sequence[Example]) -> dict[str, Outcome]:
        if not examples:
            return {}
        outcomes = await self._score.evaluate(self._pipeline, examples, self._resolved)
        return {outcome.example.id: outcome for outcome in outcomes}

    def _add_to(self, stop: CurtailedDropTest, example: Example, outcome: Outcome) -> None:
        value = outcome.value
        if outcome.unscored is not None and outcome.cause == "retriever":
            # A retriever that failed counts as the lowest score, as in a comparison of all examples.
            value = self._low
        if value is None:
            stop.skip()
            return
        drop = (self._before.examples[example.id]["score"] or 0.0) - value
        width = self._high - self._low
        # Rounding errors may put a score slightly outside its scale.
        stop.add(0.0 if abs(drop) <= self._tolerance else max(-width, min(width, drop)))


def _is_unchanged(before: Sequence[str] | None, ranking: Ranking) -> bool:
    """Return True if a ranking certainly equals that of the baseline.

    The baseline stores labels of documents. If a label contains only the beginning of a text, the rest may differ.
    """
    labels = ranking.labels
    exact = all(
        document.id is not None or not label.endswith(CUT_LABEL_END)
        for document, label in zip(ranking, labels, strict=True)
    )
    return before is not None and exact and list(before) == labels
