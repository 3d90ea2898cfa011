"""`TestRecord`: what the evaluation of a test found, as plain data.

Verdicts, the entry in the report and the baseline follow from it and from the settings. A shard stores the records of
its tests (`core.plain`), and `rageval merge` joins and judges them.
"""

from dataclasses import dataclass, field
from typing import Any

from pytest_rageval.core.data import NOT_WRITTEN, Example, Ranking
from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.threshold import Threshold

ScoreKey = tuple[ScoreRequest, bool]
"""A score, and whether the reference retriever was timed too, for `max_ratio`."""

Runs = list[list[Outcome]] | RagevalError
"""The outcomes of a score, of the run and of each repeat; or the error that prevented them."""


def score_key(threshold: Threshold) -> ScoreKey:
    """Return the score of a threshold."""
    return threshold.request, threshold.max_ratio is not None


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a score depends on besides the retriever.

    Attributes:
        fingerprint: its values by name; the baseline stores them.
        prompts: the templates of the prompts by method; those of the user's own code are not known.
        comparison: how answers are compared, as text.
    """

    fingerprint: dict[str, Any]
    prompts: dict[str, str]
    comparison: str


@dataclass
class TestRecord:
    """What the evaluation of a test found.

    Attributes:
        examples: the examples that were scored.
        thresholds: the thresholds of the markers, in the order of the file.
        calls: the calls of `rageval.score`.
        runs: the outcomes of each score.
        dependencies: those of the scores that a verdict or the report needs.
        own: those of "generator" and "judge" that are the user's own.
        lacks_fingerprint: whether one of them has no fingerprint, so that its changes cannot be detected.
        received: the parts of an example's context that the retriever receives, such as "history".
        own_k: the number of documents that the retriever is configured to return; None if there is none.
        retriever: the class of the retriever, and by what it was recognised; empty for a function.
        served: the names that servers reported, by model.
        verdicts: the judge's verdicts on answers and passages, with their questions.
        rankings: the rankings of examples of which no outcome has one, by the id of the example.
        added: what extensions recorded, as plain data, by their names.
    """

    __test__ = False  # for pytest, which collects classes by their names

    examples: tuple[Example, ...] = ()
    thresholds: list[Threshold] = field(default_factory=list)
    calls: list[Threshold] = field(default_factory=list)
    runs: dict[ScoreKey, Runs] = field(default_factory=dict)
    dependencies: dict[ScoreRequest, Dependencies] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    lacks_fingerprint: bool = False
    received: list[str] = field(default_factory=list)
    own_k: int | None = None
    retriever: str = ""
    served: dict[str, list[str]] = field(default_factory=dict)
    verdicts: list[tuple[str, float]] = field(default_factory=list, metadata={NOT_WRITTEN: True})
    rankings: dict[str, Ranking] = field(default_factory=dict)
    added: dict[str, Any] = field(default_factory=dict)

    def dependencies_of(self, request: ScoreRequest) -> Dependencies:
        """Return what a score depends on; raise InputError if that is not recorded."""
        if request not in self.dependencies:
            raise InputError(f"{request.spec}: no shard says what it depends on.")
        return self.dependencies[request]

    def ranking_of(self, example: Example, k: int) -> Ranking | None:  # noqa: ARG002 - a run has one for each k
        """Return the ranking of an example of which no outcome has one; None if it was not retrieved."""
        return self.rankings.get(example.id)
