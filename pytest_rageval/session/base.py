"""The part of a run that verdicts need, and a merge of shards has too: settings, baseline, level."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evaluations.pipeline import DEFAULT_DRAWS, DrawSettings, ScoreRequest
from pytest_rageval.evaluations.registry import Registry, resolve
from pytest_rageval.evaluations.scoring import ScoreDef
from pytest_rageval.gate.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.gate.comparison import BaselineExample, BaselineScore
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.threshold_results import BaselineLookup
from pytest_rageval.lazy import Lazy
from pytest_rageval.scores import Outcome, Score, Spec
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.spool import Spool
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, UNIT

__all__ = ["BaseSession", "request_of"]

# Few runs have a sample.
in_sample: Final = Lazy("evalsets.subsets", "in_sample")

EMBEDDING_ROUNDING: Final = 1e-6  # how far a score from embeddings may differ from one machine to another


class BaseSession(ABC):
    """Settings and registry of a run, and what verdicts on its scores derive from them."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self.settings = settings
        self.registry = registry
        self.spool = Spool()

    @abstractmethod
    def fingerprint(self, components: Components, request: ScoreRequest) -> dict[str, Any]:
        """Return all that a score depends on besides the retriever, by name; raise InputError as `score` does."""

    @abstractmethod
    def received(self, components: Components) -> AbstractSet[str]:
        """The parts of an example's context that the retriever receives."""

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline to compare with; InputError where the file is none, or was named and is missing.

        In an update it is the one that is replaced, and empty where it cannot be read, which the writer reports.
        """
        return self._read_baseline()

    def _read_baseline(self) -> Baseline:
        if self.settings.update_baseline:
            try:
                return Baseline.read(self.settings.baseline)
            except InputError:
                return Baseline()
        return Baseline.read_for_comparison(self.settings.baseline, required=self.settings.baseline_named)

    def look_up(
        self, components: Components, test: MarkedTest, threshold: Threshold, request: ScoreRequest
    ) -> BaselineLookup:
        """A score's baseline and anchor; only bounds that compare with them read the file."""
        settings = self.settings
        if not threshold.uses_baseline:
            return BaselineLookup({}, None)
        baseline, scale = self.baseline, self.definition(request).scale
        updating = bool(settings.update_baseline)
        if baseline.path is None and not updating:
            self._check_root(test)
        before = None if updating else baseline.score(test.nodeid, threshold.name, scale)
        anchored = updating or threshold.max_total_drop is not None
        now = self.fingerprint(components, request)
        absent = before is None and not updating
        seen = {*self.received(components), *(("history",) if self.definition(request).dependencies else ())}

        def in_context(found: BaselineScore | None) -> BaselineScore | None:
            return found and replace(found, context=seen, examples=self._in_sample(found))

        return BaselineLookup(
            now,
            in_context(before),
            updating=updating,
            required=settings.require_baseline,
            missing=baseline.missing_reason(test.nodeid, threshold.name, test.collected()) if absent else "",
            # Embeddings differ a little from one processor to another.
            tolerance=EMBEDDING_ROUNDING if "encoder" in now else SCORE_TOLERANCE,
            anchor=in_context(baseline.anchor_score(test.nodeid, threshold.name, scale))
            if anchored
            else None,
            pinning=settings.pin_baseline,
        )

    def _in_sample(self, found: BaselineScore) -> Mapping[str, BaselineExample]:
        """The examples of the baseline that are in the sample; the others are left out on purpose."""
        if self.settings.sample >= 1:
            return found.examples
        kept = found.examples.items()
        return {name: example for name, example in kept if in_sample(name, self.settings.sample)}

    def _check_root(self, test: MarkedTest) -> None:
        """Refuse a missing baseline where a folder above the test has one: the root directory is wrong."""
        expected = self.settings.baseline
        for folder in test.path.parents:
            if folder != expected.parent and (folder / expected.name).is_file():
                raise InputError(
                    f"There is no baseline in {expected.parent}, the root directory, and there is one in {folder}.\n"
                    "Run pytest with that root directory (--rootdir), or name the baseline with --rageval-baseline; "
                    f"or write one here: {UPDATE_COMMAND}"
                )

    def tests_sharing_alpha(self, selected: Collection[str]) -> int:
        """Number of tests that share the error rate: also where only some are selected, those of the baseline."""
        try:
            recorded = self.baseline.alpha_sharing_tests
        except RagevalError:
            # It is raised again where a score is compared.
            return 1
        return max(1, self.settings.family or len(recorded), len(recorded.intersection(selected)))

    def definition(self, request: ScoreRequest) -> ScoreDef:
        """The definition of a score; InputError where it is unknown."""
        return resolve(request, self.registry.scores)[1]

    def specs(self, spec: str) -> list[str]:
        """A score's name at each of the run's cut-offs, if it has none itself; InputError for an invalid name."""
        parsed, cutoffs = Spec.parse(spec), self.settings.cutoffs
        definition = self.registry.scores.get(parsed.measure)
        if parsed.k is not None or not cutoffs or definition is None or not definition.needs_k:
            return [spec]
        return [f"{spec}@{k}" for k in cutoffs]

    def drawing(self, request: ScoreRequest) -> DrawSettings:
        """Return how the answers of a score are drawn; raise InputError if the score is unknown."""
        settings, definition = self.settings, self.definition(request)
        if not definition.generates:
            return DEFAULT_DRAWS
        if definition.semi_gold:
            warm = settings.llm_reteval_temperature if request.temperature is None else request.temperature
            return DrawSettings(warm, gold=request.draws or settings.llm_reteval_draws)
        warm = settings.temperature if request.temperature is None else request.temperature
        return DrawSettings(warm, request.draws or settings.draws)

    def runs(self, request: ScoreRequest) -> int:
        """Return how often a question is scored; its score is the mean."""
        return self.settings.repeat * self.drawing(request).answers

    def score_of(
        self, request: ScoreRequest, outcomes: Sequence[Outcome], repeats: Sequence[Sequence[Outcome]] = ()
    ) -> Score:
        """The score of these outcomes.

        Raises:
            TooManyUnscoredError: too many have no value.
        """
        return Score(
            request.spec,
            outcomes,
            max_unscored=self.settings.max_unscored,
            seed=self.settings.seed,
            repeats=repeats,
            scale=self.definition(request).scale or UNIT,
            statistic=self.definition(request).statistic,
            keywords=request.keywords,
        )

    def score_or_error(
        self, request: ScoreRequest, runs: Sequence[Sequence[Outcome]] | RagevalError
    ) -> Score | RagevalError:
        """The score of the outcomes of the run and of its repeats; or the error that there is in its place."""
        if isinstance(runs, RagevalError):
            return runs
        outcomes, *repeats = runs
        try:
            return self.score_of(request, outcomes, repeats)
        except RagevalError as error:
            return error


def request_of(threshold: Threshold) -> ScoreRequest:
    """The score that a threshold is on."""
    keywords = {
        keyword: text
        for keyword in ScoreRequest._fields[1:]
        if (text := getattr(threshold, keyword)) is not None
    }
    return ScoreRequest(threshold.spec, **keywords)
