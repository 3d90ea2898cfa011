"""`BaseSession`: what verdicts depend on besides the records of tests, in a run and in a merge of shards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.evalsets.sampling import in_sample
from pytest_rageval.gate.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.gate.comparison import BaselineExample, BaselineScore
from pytest_rageval.gate.judge import BaselineLookup
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.spool import Spool
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.run.record import Runs, TestRecord
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.scores.definition import ScoreDef, check_failures
from pytest_rageval.scores.pipeline import DEFAULT_DRAWS, DrawSettings
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, UNIT

T = TypeVar("T")

EMBEDDING_TOLERANCE: Final = 1e-6
"""Maximal difference of a score from embeddings between two machines, whose floating-point results differ."""


def read_baseline(settings: Settings) -> Baseline:
    """Return the baseline to compare with: the file, or with `--rageval baseline_ref=REF` the file of that commit.

    Raises:
        InputError: the file is not a baseline; or it is missing, and an option names it.
    """
    if settings.baseline_ref is None:
        return Baseline.read_for_comparison(settings.baseline, required="baseline" in settings.sources)
    from pytest_rageval.run.baseline_change import read_baseline_at  # noqa: PLC0415 - few runs name a commit

    return read_baseline_at(settings.baseline, settings.baseline_ref)


class BaseSession:
    """The baseline, the definitions of scores, and the significance level, all derived from the settings of a run.

    `Session` adds what evaluates tests.

    Args:
        settings: the resolved options.
        registry: the scores of this package and of plugins.
    """

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self.settings = settings
        self.registry = registry
        self.hook: Any = registry.hook
        self._resources: dict[Callable[[Any], Any], Any] = {}
        self._definitions: dict[ScoreRequest, ScoreDef] = {}
        self.spool: Spool = Spool()

    @property
    def counts_only(self) -> bool:
        """True if the run counts requests and has no results, as in a plan."""
        return self.settings.plan

    @property
    def may_lack_replies(self) -> bool:
        """True if replies, and so results, may be missing: in a plan, and while a batch is collected."""
        return self.counts_only or self.settings.collects

    def resource(self, make: "Callable[[Any], T]") -> T:
        """Return what `make` returns for this session, such as a class of an extension: one object in each session.

        If it has a method `close`, that is called when the session is closed.
        """
        if make not in self._resources:
            self._resources[make] = make(self)
        return cast("T", self._resources[make])

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline to compare with.

        In an update it is the old baseline. It is then empty if the file cannot be read: the writer reports this error.

        Raises:
            InputError: the file is not a baseline; or it is missing, and an option names it.
        """
        if self.settings.update_baseline:
            try:
                return Baseline.read(self.settings.baseline)
            except InputError:
                return Baseline()
        return read_baseline(self.settings)

    def look_up(self, test: MarkedTest, record: TestRecord, threshold: Threshold) -> BaselineLookup:
        """Return the baseline and the anchor of a threshold's score.

        The baseline file is read only for a threshold with a bound that compares with it.
        """
        request = threshold.request
        settings = self.settings
        if not threshold.uses_baseline:
            return BaselineLookup({}, None, deterministic=self._is_deterministic(request))
        baseline, scale = self.baseline, self.definition(request).scale
        updating = bool(settings.update_baseline)
        if baseline.path is None and not updating:
            self._check_root(test)
        before = None if updating else baseline.score(test.nodeid, threshold.name, scale)
        needs_anchor = updating or threshold.max_total_drop is not None
        fingerprint = record.dependencies_of(request).fingerprint
        is_missing = before is None and not updating
        context = set(record.received)
        if self.definition(request).asks:
            # Generator and judge read the history of a question.
            context.add("history")

        def restrict(score: BaselineScore | None) -> BaselineScore | None:
            return score and replace(score, context=context, examples=self._sampled_examples(score))

        missing, is_new = "", False
        if is_missing:
            missing, is_new = baseline.missing_reason(
                test.nodeid, threshold.name, test.collected(), repeated=test.repeated
            )
        return BaselineLookup(
            fingerprint,
            restrict(before),
            updating=updating,
            required=settings.require_baseline,
            missing="" if is_new else missing,
            new=missing if is_new else "",
            tolerance=EMBEDDING_TOLERANCE if "encoder" in fingerprint else SCORE_TOLERANCE,
            anchor=restrict(baseline.anchor_score(test.nodeid, threshold.name, scale))
            if needs_anchor
            else None,
            pinning=settings.pin_baseline,
            max_removed=settings.max_removed,
            deterministic=self._is_deterministic(request),
        )

    def _is_deterministic(self, request: ScoreRequest) -> bool:
        """Return True if no model is in a score, so that it is the same in each run of the same retriever."""
        definition = self.definition(request)
        return not (definition.asks or definition.is_time)

    def _sampled_examples(self, score: BaselineScore) -> Mapping[str, BaselineExample]:
        """Return the examples of a baseline score that are in the sample of this run."""
        if self.settings.sample >= 1:
            return score.examples
        examples = score.examples.items()
        return {name: example for name, example in examples if in_sample(name, self.settings.sample)}

    def _check_root(self, test: MarkedTest) -> None:
        """Raise InputError if a folder above the test has a baseline: the root directory is probably wrong."""
        expected = self.settings.baseline
        for folder in test.path.parents:
            if folder != expected.parent and (folder / expected.name).is_file():
                raise InputError(
                    f"There is no baseline in {expected.parent}, the root directory, and there is one in {folder}.\n"
                    "Run pytest with that root directory (--rootdir), or name the baseline with --rageval-baseline; "
                    f"or write one here: {UPDATE_COMMAND}"
                )

    @property
    def tests_sharing_alpha(self) -> int:
        """The number of tests in the baseline that share the error rate of the gate, at least 1.

        It does not depend on which tests run, so that a test has the same verdict alone, in a shard and in the whole
        suite.
        """
        try:
            return max(1, len(self.baseline.alpha_sharing_tests))
        except RagevalError:
            # The error is raised again when a score is compared with the baseline.
            return 1

    def definition(self, request: ScoreRequest) -> ScoreDef:
        """Return the definition of a score; raise InputError if the score is unknown."""
        if request not in self._definitions:
            self._definitions[request] = resolve(request, self.registry.scores)[1]
        return self._definitions[request]

    def specs(self, spec: str) -> list[str]:
        """Return the names of a score at each cut-off of the run; only `spec` if the score needs no cut-off or has one.

        Raises:
            InputError: the name is invalid.
        """
        parsed, cutoffs = Spec.parse(spec), self.settings.cutoffs
        definition = self.registry.scores.get(parsed.measure)
        if parsed.k is not None or not cutoffs or definition is None or not definition.needs_k:
            return [spec]
        return [f"{spec}@{k}" for k in cutoffs]

    def draw_settings(self, request: ScoreRequest) -> DrawSettings:
        """Return the temperature and the number of drawn answers for a score; raise InputError if it is unknown."""
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
        return self.settings.repeat * self.draw_settings(request).answers

    def score_of(
        self, request: ScoreRequest, outcomes: Sequence[Outcome], repeats: Sequence[Sequence[Outcome]] = ()
    ) -> Score:
        """Return the score of a run's outcomes, and of the outcomes of its repeats.

        Raises:
            TooManyUnscoredError: too many outcomes have no value.
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

    def score_or_error(self, request: ScoreRequest, runs: Runs) -> Score | RagevalError:
        """Return the score of the outcomes of the run and of its repeats; or the error that prevented it."""
        if isinstance(runs, RagevalError):
            return runs
        outcomes, *repeats = runs
        try:
            for run in runs:
                check_failures(run, self.settings.max_unscored)
            return self.score_of(request, outcomes, repeats)
        except RagevalError as error:
            return error
