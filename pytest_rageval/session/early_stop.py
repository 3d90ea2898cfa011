"""Early stop: evaluate the questions of a threshold in random order until its verdict on a drop is clear."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_rageval.answers.comparators import MEASURES
from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import EvalSet, Example, Ranking
from pytest_rageval.digests import digest
from pytest_rageval.errors import RagevalError, Unscored
from pytest_rageval.evaluations.pipeline import Pipeline, ResolvedScore, ScoreRequest
from pytest_rageval.evaluations.registry import Registry, resolve
from pytest_rageval.evaluations.scoring import ScoreDef, check_failures
from pytest_rageval.gate.comparison import BaselineScore, is_comparable
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.threshold_results import EarlyStopResult, ExampleState
from pytest_rageval.scores import Evidence, Outcome, Score, too_many_unscored
from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import Session
from pytest_rageval.stats.intervals import UNIT
from pytest_rageval.stats.sequential import SequentialDropTest

__all__ = ["DropWatch", "Watched", "score_until_clear"]

CUT: Final = '…"'
"""The end of a label that is only the beginning of a document's text."""


class Watched(NamedTuple):
    """A threshold whose questions are evaluated until its verdict is clear.

    Attributes:
        threshold: with `max_drop`, of the whole eval set.
        before: the score in the baseline.
        tolerance: smaller differences of an example's scores count as none.
    """

    threshold: Threshold
    before: BaselineScore
    tolerance: float


Found = tuple[Score, EarlyStopResult] | RagevalError


def score_until_clear(  # noqa: PLR0913 - as for a score, with what shares the level
    session: Session,
    components: Components,
    evalset: EvalSet,
    watched: Mapping[ScoreRequest, Watched],
    *,
    tests: int,
    groups: int,
) -> tuple[dict[ScoreRequest, Found], int]:
    """Score an eval set by several scores, each until the verdict on its threshold is clear.

    Args:
        session: whose models are asked.
        components: the user's retriever, generator and judge.
        evalset: to score.
        watched: by request, the threshold and its baseline.
        tests: number of the run's tests that share the level.
        groups: number of shares of the test's level that other thresholds need.

    Returns:
        By request: the score of the examples that are known, with how far they were asked, or the error that
        prevented it; and the number of shares of the test's level that these thresholds need.
    """
    settings = session.settings

    async def retrieved(request: ScoreRequest) -> DropWatch:
        pipeline = session.pipeline(components, request)
        resolved, score = resolve(request, session.registry.scores)
        # Where labels make passages relevant, those beyond the prompt count too.
        trusted = not (
            components.undescribed
            or _uses_added(session.registry, pipeline, resolved, score)
            or resolved.relevant != "gold"
        )
        if score.uses_judge(pipeline, resolved):
            session.pipelines.note_judged(pipeline)
        watch = DropWatch(pipeline, resolved, score, watched[request])
        await watch.retrieve(evalset.examples, trust_rankings=trusted)
        return watch

    async def asked(request: ScoreRequest, watch: DropWatch, shares: int) -> Found:
        try:
            outcomes, early = await watch.ask(
                shares=shares, batch=settings.concurrency, max_unscored=settings.max_unscored
            )
            session.check_answered()
            check_failures(outcomes, settings.max_unscored)
            return session.score_of(request, outcomes), early
        except RagevalError as error:
            return error

    async def every() -> tuple[list[Found], int]:
        watches = await gather_all(map(retrieved, watched))
        apart = sum(not watch.clear for watch in watches)
        shares = tests * (groups + max(1, apart))
        pairs = zip(watched, watches, strict=True)
        return await gather_all(asked(request, watch, shares) for request, watch in pairs), apart

    found, apart = session.loop.run(every())
    return dict(zip(watched, found, strict=True)), apart


def _uses_added(registry: Registry, pipeline: Pipeline, resolved: ResolvedScore, score: ScoreDef) -> bool:
    """Return True if a score uses a plugin's comparator or measure, whose code may change under the same name."""
    texts = score.comparisons(pipeline, resolved).values() if "comparator" in score.keywords else ()
    names = {resolved.part}.union(*(pipeline.comparison(text).names for text in texts))
    return not names.isdisjoint({*registry.comparators, *registry.measures} - MEASURES.keys())


class DropWatch:
    """The questions of one threshold in random order, and their outcomes so far.

    The order depends on the seed and on all rankings, so that another version of the retriever begins with other
        questions: those on which the last version failed are not a random sample for the next one.

    Args:
        pipeline: that is asked.
        resolved: of the score.
        score: whose scale is known, and whose examples can be scored in batches.
        watched: the threshold and its baseline.
    """

    def __init__(
        self, pipeline: Pipeline, resolved: ResolvedScore, score: ScoreDef, watched: Watched
    ) -> None:
        self._pipeline = pipeline
        self._resolved = resolved
        self._score = score
        self._threshold, self._before, self._tolerance = watched
        self._low, self._high = score.scale or UNIT
        self._examples: Sequence[Example] = ()
        self._order: list[Example] = []
        self._known: dict[str, Outcome] = {}

    async def retrieve(self, examples: Sequence[Example], *, trust_rankings: bool) -> None:
        """Retrieve for all examples; those with the ranking of the baseline keep its score without an evaluation.

        Args:
            examples: of the eval set.
            trust_rankings: False where something else may have changed unseen, so that all are to be asked.
        """
        rankings = dict(
            zip((each.id for each in examples), await gather_all(map(self._shown, examples)), strict=True)
        )
        self._examples = examples
        comparable = [
            each
            for each in examples
            if is_comparable(each, self._before) and self._before.examples[each.id].get("score") is not None
        ]
        if trust_rankings:
            for each in comparable:
                kept, ranking = self._before.examples[each.id], rankings[each.id]
                if ranking is not None and _is_unchanged(kept.get("ranking"), ranking):
                    self._known[each.id] = Outcome(each, kept["score"], evidence=Evidence(ranking))
        labels = [None if ranking is None else ranking.labels for ranking in rankings.values()]
        drawn = digest([self._pipeline.seed, labels])
        self._order = sorted(comparable, key=lambda each: digest([drawn, each.id]))

    @property
    def clear(self) -> bool:
        """True if so few rankings changed that no example needs to be evaluated."""
        return self._stop().verdict is not None

    async def ask(
        self, *, shares: int, batch: int, max_unscored: float
    ) -> tuple[list[Outcome], EarlyStopResult]:
        """Evaluate examples until the verdict is clear, or all of them.

        A verdict is not clear as long as more than `max_unscored` of the evaluated examples have no score.

        Args:
            shares: among so many the level of the threshold is divided.
            batch: number of examples that are asked at once.
            max_unscored: the largest share of examples without a score.

        Returns:
            The outcomes of all examples, or of those that are known, in the order of the eval set; and how far
            they were asked.
        """
        stop = self._stop(shares)
        asked: dict[str, Outcome] = {}
        for part in self._batches(batch):
            unscored = sum(each.unscored is not None for each in asked.values())
            defined = sum(each.undefined is None for each in asked.values())
            if stop.verdict is not None and not too_many_unscored(unscored, defined, max_unscored):
                break
            changed = [each for each in part if each.id not in self._known]
            asked |= await self._outcomes(changed)
            for each in part:
                self._tell(stop, each, asked.get(each.id))
        number = len(self._order) - len(self._known)
        is_early = len(asked) < number
        states: dict[str, ExampleState] = {}
        for each in self._examples:
            if each.id in self._known:
                states[each.id] = "unchanged"
            elif each.id in asked:
                states[each.id] = "asked"
            elif is_early:
                states[each.id] = "not asked"
        if not is_early:
            asked |= await self._outcomes([each for each in self._examples if each.id not in states])
        found = self._known | asked
        early = EarlyStopResult(
            states,
            number,
            stop.verdict if is_early else None,
            stop.estimated_drop if stop.evaluated or not number else None,
            stop.is_certain,
            self._threshold.alpha / shares / 2,
        )
        return [found[each.id] for each in self._examples if each.id in found], early

    def _stop(self, shares: int = 1) -> SequentialDropTest:
        max_drop = self._threshold.max_drop or 0.0
        return SequentialDropTest(
            questions=len(self._order),
            changed=len(self._order) - len(self._known),
            max_drop=max_drop,
            alpha=self._threshold.alpha,
            beyond=max_drop if self._threshold.burden == "beyond" else 0.0,
            largest=self._high - self._low,
            alpha_shares=shares,
        )

    async def _shown(self, example: Example) -> Ranking | None:
        """The ranking of a question in the baseline; None if it is not known, so that the question is evaluated."""
        try:
            return await self._pipeline.prompt_ranking(example, self._resolved.k, self._resolved.order)
        except (RagevalError, Unscored):
            return None

    def _batches(self, size: int) -> Iterator[list[Example]]:
        """The examples in random order, in parts with so many changed ones each; the last may have fewer."""
        part: list[Example] = []
        changed = 0
        for each in self._order:
            part.append(each)
            changed += each.id not in self._known
            if changed == size:
                yield part
                part, changed = [], 0
        if changed:
            yield part

    async def _outcomes(self, examples: Sequence[Example]) -> dict[str, Outcome]:
        if not examples:
            return {}
        outcomes = await self._score.evaluate(self._pipeline, examples, self._resolved)
        return {each.example.id: each for each in outcomes}

    def _tell(self, stop: SequentialDropTest, example: Example, outcome: Outcome | None) -> None:
        """Pass the outcome of an example to the sequential test; None is unchanged."""
        if outcome is None:
            stop.add_unchanged()
            return
        value = outcome.value
        if outcome.unscored is not None and outcome.cause == "retriever":
            # As in a comparison of all examples.
            value = self._low
        if value is None:
            stop.skip()
            return
        drop = (self._before.examples[example.id]["score"] or 0.0) - value
        width = self._high - self._low
        # Rounding may take a score a little beyond its scale.
        stop.add(0.0 if abs(drop) <= self._tolerance else max(-width, min(width, drop)))


def _is_unchanged(before: Sequence[str] | None, ranking: Ranking) -> bool:
    """Return True if a ranking equals that of the baseline, which stores labels; a cut label may hide a change."""
    labels = ranking.labels
    exact = all(
        document.id is not None or not label.endswith(CUT)
        for document, label in zip(ranking, labels, strict=True)
    )
    return before is not None and exact and list(before) == labels
