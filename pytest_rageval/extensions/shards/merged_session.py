"""`MergedTest`: a test with its outcomes from all shards; `MergedSession`: evaluates it in place of a `Session`.

`rageval merge` has neither the user's components nor models. `TestRun` receives a `MergedSession` and
`MergedComponents`, which answer from the reports of the shards.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_rageval.core.data import EvalSet, Example, Ranking
from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.calibration.calibration import Calibration, LabelJudge
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import Registry
from pytest_rageval.scores.definition import check_failures

if TYPE_CHECKING:
    from pytest_rageval.extensions.calibration.human_labels import HumanLabels


class Marker(NamedTuple):
    """The arguments of a marker."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass
class MergedTest:
    """A test, joined from the reports of all shards that ran it.

    Attributes:
        nodeid: node id of the test.
        entry: the test's entry in the report of the first shard that has its outcomes.
        outcome: the worst outcome among the shards, with its message.
        evalset: the examples of all shards; None if no shard has outcomes, or one is missing.
        common: the properties of the test that are equal in all shards.
        calls: the calls of `rageval.score`, each with `spec` and `keywords`.
        markers: the markers by name, the closest first.
        runs: the outcomes by score, in the order of the eval set: of the run, then of each repeat; or the error. The
            second part of the key is True if the reference retriever was timed beside.
        fingerprints: the fingerprint of each score.
        comparisons: the effective comparison by the comparator's name; the name None is the default comparator.
        calibrations: the judge's calibration by the source of the labels and the comparator; or the error.
        labels: the human labels by their source.
        served: the names that servers reported, by model.
        verdicts: the judge's verdicts, each with its question.
        prompts: the prompt templates of each score.
        rankings: the ranking by example id, of examples whose ranking no outcome has.
        expected: `reason` and `strict` of a test that is expected to fail; empty for other tests.
    """

    nodeid: str
    entry: Mapping[str, Any]
    outcome: Mapping[str, str]
    evalset: EvalSet | None = None
    common: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[Mapping[str, Any]] = ()
    markers: Mapping[str, Sequence[Marker]] = field(default_factory=dict)
    runs: dict[tuple[ScoreRequest, bool], list[list[Outcome]] | RagevalError] = field(default_factory=dict)
    fingerprints: dict[ScoreRequest, dict[str, Any]] = field(default_factory=dict)
    comparisons: dict[str | None, str] = field(default_factory=dict)
    calibrations: dict[tuple[str, str | None], Calibration | RagevalError] = field(default_factory=dict)
    labels: dict[str, "HumanLabels"] = field(default_factory=dict)
    served: dict[str, set[str]] = field(default_factory=dict)
    verdicts: list[tuple[str, float]] = field(default_factory=list)
    prompts: dict[ScoreRequest, dict[str, str]] = field(default_factory=dict)
    rankings: dict[str, Ranking] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedComponents(Components):
    """The stand-in for the user's components, which a merge does not have.

    Attributes:
        reported_user_defined: the value of `user_defined` in the run of the shards.
    """

    reported_user_defined: tuple[str, ...] = ()

    @property
    def user_defined(self) -> list[str]:
        """The names of the components that the run reported as the user's own: "generator", "judge"."""
        return list(self.reported_user_defined)


class MergedSession(BaseSession):
    """The stand-in for `Session` that returns the results of one test from the reports of the shards.

    Args:
        registry: the registry with the scores of the shards' plugins.
        settings: the settings that verdicts depend on.
        test: the joined test.
        baselines: a cache of the baseline that the sessions of all tests share.
    """

    def __init__(
        self, registry: Registry, settings: Settings, test: MergedTest, baselines: dict[str, Baseline]
    ) -> None:
        super().__init__(settings, registry)
        self._test = test
        self._baselines = baselines
        # This object has the methods of `Sources` and `Pipelines` that `TestRun` calls.
        self.sources = self.pipelines = self
        self._resources[LabelJudge] = self

    def _read_baseline(self) -> Baseline:
        if "" not in self._baselines:
            self._baselines[""] = super()._read_baseline()
        return self._baselines[""]

    @property
    def served(self) -> Mapping[str, AbstractSet[str]]:
        """The same as `Session.served`."""
        return self._test.served

    @property
    def verdicts(self) -> Iterator[tuple[str, float]]:
        """The same as `Pipeline.verdicts`."""
        return iter(self._test.verdicts)

    retriever_description: str = ""
    """The same as `Pipeline.retriever_description`; shards do not record it."""

    @property
    def match_share(self) -> float:
        """The same as `Pipeline.match_share`."""
        return self.settings.match_share

    def get(self, _components: Components) -> "MergedSession":
        """Return this object, which has the methods of `Pipeline` that reports call; as `Pipelines.get`."""
        return self

    def comparison(self, comparator: str | None) -> "Comparison":
        """Return the comparison of a comparator, as `Pipeline.comparison`.

        If no score of the test uses the comparator, the comparison is its name, which differs from all others.
        """
        return Comparison(self._test.comparisons.get(comparator, comparator))

    def evalset(self, source: object, **_kwargs: Any) -> object:
        """Return the source, which is the joined eval set."""
        return source

    def part_of(self, evalset: EvalSet) -> EvalSet:
        """Return the joined eval set, which contains only the examples that the run scored."""
        return evalset

    def labels(self, source: str | Path, **_kwargs: Any) -> object:
        """Return the labels of a source; the source itself if the judge failed."""
        return self._test.labels.get(str(source), source)

    def calibrate(
        self, _components: Components, labels: object, comparator: str | None = None
    ) -> Calibration:
        """Return the calibration that shard 1 measured; raise its error, or InputError if there is none."""
        for (source, calibrated_comparator), calibration in self._test.calibrations.items():
            same_labels = labels in (self._test.labels.get(source), source, Path(source))
            if calibrated_comparator == comparator and same_labels:
                if isinstance(calibration, RagevalError):
                    raise calibration
                return calibration
        raise InputError(f"shard 1 has no verdicts on the labels {labels}")

    def fingerprint(self, _components: Components, request: ScoreRequest) -> dict[str, Any]:
        """Return the fingerprint that the shards report; raise InputError if no shard reports one."""
        if request not in self._test.fingerprints:
            raise InputError(f"{request.spec}: no shard says what it depends on.")
        return self._test.fingerprints[request]

    def prompts(self, _components: Components, request: ScoreRequest) -> dict[str, str]:
        """Return the prompt templates of a score that the shards report; empty if no shard reports them."""
        return self._test.prompts.get(request, {})

    def known_ranking(self, example: Example, _k: int) -> Ranking | None:
        """Return the ranking of an example that a shard reports; None if no shard reports it."""
        return self._test.rankings.get(example.id)

    def own_k(self, _components: Components) -> int | None:
        """Return the same as `Session.own_k`."""
        own_k: int | None = self._test.common.get("own_k")
        return own_k

    def received(self, _components: Components) -> AbstractSet[str]:
        """Return the same as `Session.received`."""
        return frozenset(self._test.common.get("received", ()))

    def score(
        self, components: Components, _evalset: EvalSet, requests: Sequence[ScoreRequest], **_kwargs: Any
    ) -> dict[ScoreRequest, Score | RagevalError]:
        """Return the joined score of each request, or its error."""
        compared = components.reference is not None
        return {request: self._score(request, self._test.runs[request, compared]) for request in requests}

    def _score(self, request: ScoreRequest, runs: list[list[Outcome]] | RagevalError) -> Score | RagevalError:
        if isinstance(runs, RagevalError):
            return runs
        try:
            for run in runs:
                check_failures(run, self.settings.max_unscored)
        except RagevalError as error:
            return error
        return self.score_or_error(request, runs)


class Comparison(NamedTuple):
    """The way in which answers are compared, as text."""

    text: str | None
