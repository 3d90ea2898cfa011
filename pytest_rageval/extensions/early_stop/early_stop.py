"""Early stop: evaluates the questions of a threshold in random order until its verdict on a drop is clear."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import RagevalError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score, too_many_unscored
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.comparison import (
    Comparison,
    changed_questions,
    fingerprint_changes,
    is_comparable,
    question_changes,
)
from pytest_rageval.gate.comparison_verdicts import unseen_drop_warnings
from pytest_rageval.gate.sentences import lost_text
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import PartialEvaluation, Verdict, format_against, inconclusive
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.reports.build import order_keys
from pytest_rageval.reports.document import EarlyStopEntry
from pytest_rageval.run.judged import PartialScore
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.definition import GOLD_TEXTS, ScoreDef, check_failures
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore, retrieved_gold_texts
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, UNIT
from pytest_rageval.stats.sequential import CurtailedDropTest

ExampleState = Literal["asked", "unchanged", "not asked"]
"""How early stop treated an example: evaluated, taken from the baseline, or not evaluated."""

SUMMARY_KEYS: Final = frozenset({"counts", "beside", "pooled", "common", "ceiling", "cases", "spearman"})


@dataclass(frozen=True, slots=True)
class EarlyStopResult(PartialEvaluation):
    """The result of evaluating the questions of a threshold in random order until its verdict is clear.

    The names of `asked`, `changed`, `unchanged`, `not_asked`, `drop` and `verdict` are also keys of the report.

    Attributes:
        states: by id; examples that cannot be compared with the baseline have a state only if they were not evaluated.
        changed: number of examples that can be compared and are not known to be unchanged.
        verdict: None if all examples were evaluated, so that the usual test decides.
        drop: the estimated drop of the whole set; None if no example was evaluated.
        certain: whether a "pass" would remain even if all other examples got the lowest score.
    """

    states: Mapping[str, ExampleState]
    changed: int
    verdict: Literal["pass", "fail"] | None
    drop: float | None
    certain: bool

    @property
    def stopped(self) -> bool:
        return self.verdict is not None

    @property
    def asked(self) -> int:
        return Counter(self.states.values())["asked"]

    @property
    def unchanged(self) -> int:
        return Counter(self.states.values())["unchanged"]

    @property
    def not_asked(self) -> int:
        return Counter(self.states.values())["not asked"]

    def verdict_on(self, score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
        reason, max_drop = self._reason(threshold), threshold.max_drop or 0.0
        if self.verdict == "fail":
            return Verdict("fail", reason)
        # The examples that were not evaluated have a score in the baseline, or cannot be compared.
        not_evaluated = self.changed - self.asked
        comparison = replace(comparison, unmatched=self.not_asked - not_evaluated)
        if self.drop is not None and self.drop > max_drop + SCORE_TOLERANCE and not self.certain:
            brief = f"drop about {format_against(self.drop, max_drop)} > {max_drop:g}"
            return inconclusive(threshold, f"{brief}, {reason}", brief)
        lowest, highest = score.reach
        lost_drop = (
            len(comparison.lost) * (highest - lowest) / (comparison.n + not_evaluated + len(comparison.lost))
        )
        if lost_drop > max_drop + SCORE_TOLERANCE:
            text = f"{reason}; {lost_text(comparison)} the drop could be larger by {lost_drop:.3f}"
            return inconclusive(threshold, text, "drop unknown with those that have no score")
        warnings = unseen_drop_warnings(score, threshold, comparison, not_evaluated=not_evaluated)
        return Verdict("pass", reason, tuple(warnings))

    def _reason(self, threshold: Threshold) -> str:
        max_drop = threshold.max_drop or 0.0
        if self.verdict == "fail" and self.drop is not None:
            larger = f"a drop of more than {max_drop:g}" if threshold.policy.burden == "beyond" else "a drop"
            how = (
                f"drop about {self.drop:.3f}, allowed {max_drop:g}: with at least 99% probability {larger} is "
                f"significant with all questions (level {self.level:.2g})"
            )
        elif self.certain:
            how = f"the remaining questions cannot raise the drop above the allowed {max_drop:g}"
        else:
            how = (
                f"with at least 99% probability the drop of all questions is at most the allowed {max_drop:g}, or not "
                f"significant (level {self.level:.2g})"
            )
        return (
            f"stopped early: {self.asked:,} of {self.changed:,} changed questions evaluated "
            f"({self.unchanged:,} unchanged): {how}"
        )

    def complete_entry(self, entry: JsonObject) -> dict[str, object]:
        """Return the entry without what summarizes the evaluated examples alone; it lists all of `states`."""
        kept = {name: value for name, value in entry.items() if name not in SUMMARY_KEYS}
        if self.stopped:
            kept |= {"mean": None, "ci95": None}
        evaluated = {example["id"]: example for example in entry["examples"]}
        examples = []
        for name in self.states if self.stopped else evaluated:
            example = evaluated.get(name, {"id": name, "score": None, "unscored": None})
            state = self.states.get(name, "asked")
            examples.append(example if state == "asked" else {**example, "early_stop": state})
        counts = {name: getattr(self, name) for name in EarlyStopEntry.__annotations__}
        return order_keys({**kept, "early_stop": counts, "examples": examples})


CUT_LABEL_END: Final = '…"'  # the end of a document's label that contains only the beginning of its text


class MonitoredThreshold(NamedTuple):
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
            session.pipelines.judged.add(pipeline)
        monitor = DropMonitor(pipeline, resolved, score, self._monitored[request])
        await monitor.retrieve(self._test.evalset.examples, trust_rankings=trusted)
        return monitor

    async def _evaluate(self, request: ScoreRequest, monitor: "DropMonitor", shares: int) -> PartialScore:
        session, settings = self._test.session, self._test.session.settings
        try:
            outcomes, early = await monitor.evaluate(
                shares=shares, batch_size=settings.concurrency, max_unscored=settings.max_unscored
            )
            session.evaluator.check_answered()
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
    return not names.isdisjoint({*registry.comparators, *registry.measures})


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
    """Whether a ranking certainly equals that of the baseline, whose labels may be cut texts."""
    labels = ranking.labels
    exact = all(
        document.id is not None or not label.endswith(CUT_LABEL_END)
        for document, label in zip(ranking, labels, strict=True)
    )
    return before is not None and exact and list(before) == labels
