"""`TestRecord`: what the evaluation of a test found. `BaseSession`: what verdicts depend on besides the record.

Verdicts, the entry in the report and the baseline follow from the two, in a run and in a merge of shards: a shard
stores the records of its tests, and `rageval merge` joins and judges them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import NOT_WRITTEN, Ranking
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import Spool
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.scores.definition import ScoreDef, check_failures
from pytest_rageval.scores.pipeline import DEFAULT_DRAWS, Dependencies, DrawSettings, ResolvedScore
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.baseline import Baseline

Runs = list[list[Outcome]] | RagevalError
"""The outcomes of a score, of the run and of each repeat; or the error that prevented them."""


@dataclass
class TestRecord:
    """What the evaluation of a test found.

    `runs` has the outcomes of each score, `received` the parts of an example's context that the retriever receives,
    `verdicts` the judge's verdicts with their questions, `rankings` those that no outcome has, by the id of the
    example, and `added` what extensions recorded, as plain data.
    """

    __test__ = False  # for pytest, which collects classes by their names

    examples: tuple[Example, ...] = ()
    thresholds: list[Threshold] = field(default_factory=list)
    calls: list[Threshold] = field(default_factory=list)
    runs: dict[tuple[ScoreRequest, bool], Runs] = field(default_factory=dict)
    dependencies: dict[ScoreRequest, Dependencies] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    lacks_fingerprint: bool = False
    received: list[str] = field(default_factory=list)
    own_k: int | None = None
    retriever: str = ""
    served: dict[str, list[str]] = field(default_factory=dict)
    verdicts: list[tuple[str, float]] = field(default_factory=list, metadata={NOT_WRITTEN: True})
    rankings: dict[str, Ranking] = field(default_factory=dict)
    added: dict[str, object] = field(default_factory=dict)

    def dependencies_of(self, request: ScoreRequest) -> Dependencies:
        """Return what a score depends on; raise InputError if that is not recorded."""
        if request not in self.dependencies:
            raise InputError(f"{request.spec}: no shard says what it depends on.")
        return self.dependencies[request]

    def served_to(self, requests: Iterable[ScoreRequest]) -> dict[str, list[str]]:
        """Return the names that servers reported, by model, of the models that these scores depend on."""
        if not self.served:
            return {}
        fingerprints = [self.dependencies_of(request).fingerprint for request in set(requests)]
        values = {str(value) for fingerprint in fingerprints for value in fingerprint.values()}
        # A fingerprint contains "model at address", or "model, model at address". A key of `served` is the model, or
        # "model at address" if two servers have a model of the same name.
        models = values | {name for value in values for name in value.rpartition(" at ")[0].split(", ")}
        return {model: names for model, names in self.served.items() if model in models}

    def ranking_of(self, example: Example, k: int) -> Ranking | None:  # noqa: ARG002 - a run has one for each k
        """Return the ranking of an example of which no outcome has one; None if it was not retrieved."""
        return self.rankings.get(example.id)


T = TypeVar("T")

select_subset: Lazy = Lazy("evalsets.sampling", "select_subset")  # few runs take a part of an eval set
# Many thresholds do not compare with a baseline.
baseline_of: Final = Lazy("run.baseline_lookup", "baseline_of")


class BaseSession:
    """The baseline, the definitions of scores, and the significance level. `Session` adds what evaluates tests."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self.settings = settings
        self.registry = registry
        self.hook: Any = registry.hook
        self._resources: dict[Callable[[Any], Any], Any] = {}
        self._resolved: dict[ScoreRequest, tuple[ResolvedScore, ScoreDef]] = {}
        self.spool: Spool = Spool()
        self._parts: dict[int, tuple[EvalSet, EvalSet]] = {}

    def resource(self, make: "Callable[[Any], T]") -> T:
        """Return what `make` returns for this session, such as a class of an extension: one object in each session.

        If it has a method `close`, that is called when the session is closed.
        """
        if make not in self._resources:
            self._resources[make] = make(self)
        return cast("T", self._resources[make])

    @property
    def runs(self) -> int:
        """How many times generator and judge are asked for each drawn answer: once, and once for each repeat."""
        return self.settings.repeat

    @property
    def sample(self) -> float:
        """The share of the questions that are scored."""
        return self.settings.sample

    def part_of(self, evalset: EvalSet) -> EvalSet:
        """Return the examples that this run scores, such as those in its sample; InputError if there are none."""
        if id(evalset) not in self._parts:
            part = self.hook.pytest_rageval_part(settings=self.settings, evalset=evalset)
            if part is None:
                part = evalset if self.sample >= 1 else select_subset(evalset, sample=self.sample)
            # A reference to the eval set prevents that another object gets its id.
            self._parts[id(evalset)] = evalset, part
        return self._parts[id(evalset)][1]

    @cached_property
    def baseline(self) -> "Baseline":
        """The baseline to compare with; InputError if it cannot be read, or is missing and an option names it."""
        baseline: Baseline = baseline_of(self.settings)
        return baseline

    def tests_sharing_alpha(self, thresholds: Iterable[Threshold]) -> int:
        """Return the number of tests that share the level of these thresholds; 1 if none has a baseline.

        They are the tests of the baseline that share the error rate of the gate, whichever tests run, so that a test
        has the same verdict alone, in a shard and in the whole suite.
        """
        if not any(item.uses_baseline for item in thresholds):
            return 1
        try:
            return max(1, len(self.baseline.alpha_sharing_tests))
        except RagevalError:
            # The error is raised again when a score is compared with the baseline.
            return 1

    def definition(self, request: ScoreRequest) -> ScoreDef:
        """Return the definition of a score; InputError if the score is unknown."""
        return self.resolve(request)[1]

    def resolve(self, request: ScoreRequest) -> tuple[ResolvedScore, ScoreDef]:
        """Return the resolved score and its definition; InputError if the score is unknown."""
        if request not in self._resolved:
            self._resolved[request] = resolve(request, self.registry.scores)
        return self._resolved[request]

    def specs(self, spec: str) -> list[str]:
        """Return the names of a score at each cut-off of the run; only `spec` if it needs no cut-off or has one."""
        parsed, cutoffs = Spec.parse(spec), self.settings.cutoffs
        definition = self.registry.scores.get(parsed.measure)
        if parsed.k is not None or not cutoffs or definition is None or not definition.needs_k:
            return [spec]
        return [f"{spec}@{k}" for k in cutoffs]

    def draw_settings(self, request: ScoreRequest) -> DrawSettings:
        settings, definition = self.settings, self.definition(request)
        if not definition.generates:
            return DEFAULT_DRAWS
        default = settings.llm_reteval_temperature if definition.semi_gold else settings.temperature
        temperature = default if request.temperature is None else request.temperature
        if definition.semi_gold:
            return DrawSettings(temperature, gold=request.draws or settings.llm_reteval_draws)
        return DrawSettings(temperature, request.draws or settings.draws)

    def runs_per_question(self, request: ScoreRequest) -> int:
        """Return how many times each question is scored: once per repeat and drawn answer."""
        return self.runs * self.draw_settings(request).answers

    def score_of(
        self,
        request: ScoreRequest,
        outcomes: Sequence[Outcome],
        repeats: Sequence[Sequence[Outcome]] = (),
        *,
        sliced: bool = False,
    ) -> Score:
        score = Score(
            request.spec,
            outcomes,
            max_unscored=1.0 if sliced else self.settings.max_unscored,
            seed=self.settings.seed,
            repeats=repeats,
            scale=self.definition(request).scale or UNIT,
            statistic=self.definition(request).statistic,
            keywords=request.keywords,
        )
        score.max_unscored = self.settings.max_unscored  # of the slices
        return score

    def score_or_error(
        self, request: ScoreRequest, runs: Runs, *, sliced: bool = False
    ) -> Score | RagevalError:
        """Return the score of the whole set; `sliced` if a bound is on a part of it, whose unscored share counts."""
        if isinstance(runs, RagevalError):
            return runs
        outcomes, *repeats = runs
        try:
            for run in runs:
                check_failures(run, self.settings.max_unscored)
            return self.score_of(request, outcomes, repeats, sliced=sliced)
        except RagevalError as error:
            return error
