"""The definition of a score: all that the package knows about it."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.answers.comparators import ASKED_OF_JUDGE, EMBEDDED
from pytest_rageval.evaluations.context import Evaluation, Pipeline, Terms
from pytest_rageval.prompts.templates import CRITERIA
from pytest_rageval.scores import SCORING, Score
from pytest_rageval.stats.intervals import UNIT

__all__ = ["ASKABLE", "ScoreDef", "encoder_used"]

GENERATOR_METHODS: Final = frozenset({"generate", "cite", "explain"})
JUDGE_METHODS: Final = frozenset({"relevant", "prefer", *(f"rate {criterion}" for criterion in CRITERIA)})

ASKABLE: Final = GENERATOR_METHODS | JUDGE_METHODS | {"compare", "label"}
"""What a score can depend on: methods of generator and judge, `run.comparison`, and `terms.label`."""

WORDS: Final = {"comparator": "compare", "label": "label", "order": "cite"}
"""The keywords of a threshold that change a score, each with the dependency that it changes."""


def _comparisons(terms: Terms) -> dict[str, str | None]:
    label = {} if terms.label is None else {"label": terms.label}
    return {"comparator": terms.comparator, **label}


@dataclass(frozen=True, slots=True)
class ScoreDef:
    """One score, built in or added by a plugin.

    Attributes:
        name: as users type it, without the cut-off.
        evaluate: scores the examples.
        asks: what it depends on, of `ASKABLE`; None: on anything.
        scale: the lowest and the highest value of an example; None: unknown.
        comparisons: how it compares answers, by the keyword that the fingerprint shows it under.
        settings: further settings of the run that change it, by name, for the fingerprint.
        separable: whether an example scores the same whichever others are scored with it.
        verdicts: whether its values are the comparator's verdicts on answers, so that human labels can correct
            the mean.
        notes: the keys that only this score has in its report entry; for None, of a score that could
            not be computed.
    """

    name: str
    evaluate: Evaluation
    asks: AbstractSet[str] | None = None
    scale: tuple[float, float] | None = UNIT
    comparisons: Callable[[Terms], Mapping[str, str | None]] = _comparisons
    settings: Callable[[Pipeline, Terms], Mapping[str, Any]] = lambda _run, _terms: {}
    separable: bool = True
    verdicts: bool = False
    notes: Callable[[Score | None], Mapping[str, Any]] = lambda _score: {}

    @property
    def dependencies(self) -> frozenset[str]:
        """What it may ask of generator, comparator and judge; empty: asking again changes nothing."""
        return ASKABLE if self.asks is None else frozenset(self.asks)

    @property
    def words(self) -> frozenset[str]:
        """The keywords of a threshold that change it."""
        return frozenset(word for word, asked in WORDS.items() if asked in self.dependencies)

    def fingerprint(self, run: Pipeline, terms: Terms, *, package: str) -> dict[str, Any]:
        """Return by name everything but the retriever that the score depends on.

        Args:
            run: whose generator and judge are used.
            terms: of the score.
            package: the version of this package. It is noted but not compared: `scoring` says whether
                two versions score alike.
        """
        asked = self.dependencies
        found: dict[str, Any] = {"package": package, "scoring": SCORING, "match_share": run.match_share}
        for method in sorted(asked & GENERATOR_METHODS):
            found |= _prefixed("generator", run.generator.identity(method))
        measures: frozenset[str] = frozenset()
        for word, text in self.comparisons(terms).items() if "compare" in asked else ():
            comparison = run.comparison(text)
            found[word] = comparison.text
            measures |= comparison.names
        of_comparisons = {ASKED_OF_JUDGE[name] for name in measures & ASKED_OF_JUDGE.keys()}
        for method in sorted((asked & JUDGE_METHODS) | of_comparisons):
            found |= _prefixed("judge", run.judge.identity(method))
        found |= encoder_used(measures)
        if "cite" in asked and terms.order == "random":
            found["seed"] = run.seed
        return found | dict(self.settings(run, terms))


def encoder_used(measures: AbstractSet[str]) -> dict[str, str]:
    """The encoder's part of a fingerprint; empty where none of these answer measures uses embeddings."""
    if measures.isdisjoint(EMBEDDED):
        return {}
    from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415 - brings numpy

    return {"encoder": shared_encoder().fingerprint}


def _prefixed(part: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity under names such as "judge votes"; what has no name of its own is the part itself."""
    return {f"{part} {name}".strip(): value for name, value in identity.items()}
