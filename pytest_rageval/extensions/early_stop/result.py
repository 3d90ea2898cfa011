"""`EarlyStopResult`: how far the evaluation of a threshold went, its verdict and its entry in the report."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.comparison_verdicts import unseen_drop_warnings
from pytest_rageval.gate.sentences import lost_text
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import PartialEvaluation, Verdict, format_against, inconclusive
from pytest_rageval.reports.build import order_keys
from pytest_rageval.reports.document import EarlyStopEntry
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

ExampleState = Literal["asked", "unchanged", "not asked"]
"""How early stop treated an example: evaluated, taken from the baseline, or not evaluated."""

SUMMARY_KEYS: Final = frozenset({"counts", "beside", "pooled", "common", "ceiling", "cases", "spearman"})
"""The keys of a score's entry that summarize its examples."""


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

    def complete_entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry without the keys that summarize only the evaluated examples.

        If the evaluation stopped early, the mean is removed too, and all examples of `states` are listed.
        """
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
