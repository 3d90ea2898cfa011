"""`Shard`: the report of a shard, for `rageval merge`; `ShardTest`: the record of a test in it.

Two parts of a record are not written: the metadata and scores of documents, which may be any objects, and the extra
keys of examples. Verdicts need neither.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, Required, TypedDict, cast

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.evalset import EVALSET, EvalSet, conversation_text, history_of
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import Spec
from pytest_rageval.evalsets.sampling import select_subset
from pytest_rageval.extensions.calibration import CALIBRATION
from pytest_rageval.extensions.shards.plain import Plain, to_plain
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.shape import check_shape
from pytest_rageval.models.usage import Usage
from pytest_rageval.reports.build import error_entry, evalset_entry, score_entry
from pytest_rageval.reports.document import (
    Between,
    Count,
    EvalSetEntry,
    RevisionEntry,
    SettingsEntry,
    Share,
    TestEntry,
)
from pytest_rageval.run import FinishedRun
from pytest_rageval.run.base import TestRecord
from pytest_rageval.run.test import TestRun, evalset_warning
from pytest_rageval.scores import SCORES
from pytest_rageval.scores.plugin_objects import PluginScore
from pytest_rageval.stats.intervals import UNIT

FORMAT: Final = 2  # the version of those parts of a shard's report that only a merge reads
AtLeastOne = Annotated[int, Between(1)]


class UsageFields(TypedDict, total=False):
    """The fields of `Usage`, from which a merge adds up the usage of all shards."""

    requests: Count
    cached: Count
    live: Count
    failed: Count
    tokens_in: Count
    tokens_out: Count
    cost_usd: float
    unpriced: Count
    dependent: Count
    unbounded: Count
    cost_at: Required[dict[str, float]]
    unpriced_at: Required[dict[str, float]]
    batches: Required[dict[str, float]]
    cut: Count
    remarks: Required[dict[str, Count]]
    servers: Required["dict[str, UsageFields]"]


class ShardSettings(TypedDict, total=False):
    """The settings that verdicts depend on; a setting that is missing has its default."""

    comparator: str
    match_share: Share
    judge_votes: Count
    both_orders: bool
    max_unscored: Share
    require_baseline: bool
    allow_missing: list[str]
    baseline_ref: str | None
    max_removed: Share
    policy: dict[str, dict[str, object]] | None
    repeat: AtLeastOne
    sample: Share
    seed: int
    cutoffs: list[AtLeastOne]
    draws: AtLeastOne
    llm_reteval_draws: AtLeastOne


class ShardEntry(TypedDict):
    """The key `shard` of a shard's report."""

    index: AtLeastOne
    of: AtLeastOne
    package: str
    baseline: str
    collected: list[str]
    claims: list[str]
    ran: list[str]
    left_out: list[str]
    settings: ShardSettings
    usage: UsageFields
    recorded: dict[str, str]
    calibration: str | None


class ExpectedFailure(TypedDict):
    reason: str
    strict: bool | None


class StoredTest(TypedDict):
    """The key `shard` of a test's entry: a `ShardTest` as `extensions.shards.plain` writes it."""

    value: dict[str, object]
    tables: dict[str, list[Any]]
    xfail: NotRequired[ExpectedFailure]


class ShardTestEntry(TestEntry):
    """A test of a shard; without the key `shard` if it has no outcomes."""

    shard: NotRequired[StoredTest]


class ShardDocument(TypedDict):
    package: str
    started: str
    duration_s: float
    stopped: NotRequired[bool]
    run: NotRequired[RevisionEntry]
    settings: SettingsEntry
    tests: list[ShardTestEntry]
    shard: ShardEntry


@dataclass(frozen=True)
class Shard:
    path: str  # path of the report's file, for messages
    document: JsonObject  # the JSON report (`ShardDocument`)

    def __post_init__(self) -> None:
        entry = self.document.get("shard")
        if not isinstance(entry, Mapping):
            raise InputError(
                f"{self.path} is not the report of a shard.\nWrite one with: pytest --rageval-shard I/N "
                "--rageval-report FILE.json; for a job with all questions of its tests, --rageval-shard 1/1."
            )
        format_ = entry.get("format")
        if format_ != FORMAT:
            raise InputError(
                f"{self.path} has the format {format_!r} of shards, and this version reads {FORMAT}. Merge "
                "with the version of the package that wrote it."
            )
        try:
            check_shape(self.document, ShardDocument)
        except ValueError as error:
            raise InputError(
                f"{self.path} is not a complete report of a shard: {error}.\nWrite it again, and change nothing in it."
            ) from None
        if self.index > self.count:
            raise InputError(
                f"{self.path} is not a complete report of a shard: its index is {self.index}, of {self.count} shards."
            )

    @property
    def entry(self) -> JsonObject:
        return cast("Mapping[str, object]", self.document["shard"])

    @property
    def index(self) -> int:
        return cast("int", self.entry["index"])

    @property
    def count(self) -> int:
        return cast("int", self.entry["of"])

    @property
    def name(self) -> str:
        return f"shard {self.index}/{self.count} ({self.path})"

    @cached_property
    def tests(self) -> dict[str, JsonObject]:
        return {test["nodeid"]: test for test in self.document["tests"]}


@dataclass
class PluginDefinition:
    """The definition of a plugin's score, because a merge loads no plugins."""

    name: str  # the name of the score without its cut-off
    asks: list[str] | None = None  # see `ScoreDef.asks`
    # The lowest and the highest value, which may be infinite; None if they are not declared.
    scale: list[Any] | None = None
    corrected_by: Literal["answers", "passages"] | None = None  # see `ScoreDef.corrected_by`
    pooled: bool = False  # whether the report pools the sizes in the outcomes' evidence


class JudgeVerdict(NamedTuple):
    """A verdict of the judge on a question of the shard."""

    texts: str  # a digest of the judged texts. A verdict on the same texts in two shards counts once
    place: Count  # the example's index in the shard
    value: float  # 1 is yes, 0 is no


@dataclass
class ShardTest:
    file: str  # path of the test's file, from the root directory
    evalset: EvalSetEntry  # the entry of the eval set that all shards together have
    places: list[Count]  # the index in that set of each of the record's examples
    record: TestRecord  # the record
    definitions: list[PluginDefinition]  # the scores of plugins in the record
    verdicts: list[JudgeVerdict]  # the verdicts of the record
    shares_alpha: bool = False  # whether the test shares the error rate of the gate


def shard_entry(run: FinishedRun) -> dict[str, object]:
    settings, root = run.settings, run.root
    baseline, (index, count) = settings.baseline, settings.value_of("shard") or (1, 1)
    return {
        "format": FORMAT,
        "index": index,
        "of": count,
        "package": version("pytest-rageval"),
        "settings": {name: getattr(settings, name) for name in ShardSettings.__annotations__},
        "collected": sorted(run.collected),
        "ran": sorted(run.usage_of),
        "calibration": None if settings[CALIBRATION] is None else str(settings[CALIBRATION]),
        "claims": run.claims,
        "left_out": run.left_out,
        "baseline": baseline.relative_to(root).as_posix() if baseline.is_relative_to(root) else str(baseline),
        "usage": (run.usage or Usage()).to_dict(),
        "recorded": run.recorded,
    }


def record_thresholds(test: TestRun, thresholds: Sequence[Threshold]) -> list[str]:
    problems, record = test.before(), test.record
    record.thresholds = [*thresholds]
    if thresholds:
        record.evaluate(test.evalset, thresholds, test.requests(thresholds))
    for (request, compared), runs in record.runs.items():
        try:
            record.dependencies_of(request)
        except RagevalError as error:
            if not isinstance(runs, RagevalError):
                record.runs[request, compared] = error
    for threshold in thresholds:
        test.report.add_entry(_unjudged_entry(test, threshold), threshold.request)
    problems += [str(runs) for runs in record.runs.values() if isinstance(runs, RagevalError)]
    scored = [item for item in thresholds if not isinstance(record.runs[item.score_key], RagevalError)]
    problems += test.after(scored)
    test.is_recorded = True
    return problems


def _unjudged_entry(test: TestRun, threshold: Threshold) -> dict[str, object]:
    """Return the entry of a score for the report of this shard: over its questions, without a verdict."""
    settings, definition = test.session.settings, test.definition(threshold)
    runs, notes = test.record.runs[threshold.score_key], definition.notes
    index, count = settings.value_of("shard") or (1, 1)
    reason = f"shard {index}/{count}: judged after the merge"
    if isinstance(runs, RagevalError):
        return error_entry(threshold.spec, threshold, str(runs), notes)
    outcomes, *repeats = runs
    try:
        score = Score(
            threshold.spec,
            outcomes,
            seed=settings.seed,
            repeats=repeats,
            scale=definition.scale or UNIT,
            statistic=definition.statistic,
        )
        score = score.where(**threshold.where) if threshold.where else score
    except RagevalError:
        # The shard has no question, or no question of the slice.
        return {**error_entry(threshold.spec, threshold, reason, notes), "verdict": None}
    return {**score_entry(score, threshold, None, notes), "reason": reason}


def stored_test(test: TestRun) -> Plain:
    # A test with only the marker `rageval_calibration` needs no eval set.
    whole = test.whole_evalset if test.marked.markers(EVALSET) else EvalSet("", ())
    sampled = select_subset(whole, sample=test.session.settings.sample)
    places = {example.id: place for place, example in enumerate(sampled.examples)}
    evalset: Any = evalset_entry(sampled)
    if warning := evalset_warning(test.marked):
        evalset = {**evalset, "warnings": [*evalset.get("warnings", ()), warning]}
    record, path, root = test.record, test.marked.path, test.marked.root
    record.examples = test.session.part_of(whole).examples
    # The error of a retriever that cannot be used is already the error of each score.
    with suppress(RagevalError):
        _record_rankings(test)
    return to_plain(
        ShardTest(
            file=path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name,
            evalset=evalset,
            places=[places[example.id] for example in record.examples],
            record=record,
            definitions=_definitions(test),
            verdicts=_verdicts(test),
            shares_alpha=test.marked.nodeid in test.sharing_alpha,
        ),
        ShardTest,
    )


def _record_rankings(test: TestRun) -> None:
    first_runs = [runs[0] for runs in test.record.runs.values() if not isinstance(runs, RagevalError)]
    rankings = {
        outcome.example.id: outcome.evidence.ranking
        for outcomes in first_runs
        for outcome in outcomes
        if outcome.evidence.ranking is not None
    }
    largest_k = max((ranking.k for ranking in rankings.values()), default=0)
    for example in test.record.examples:
        if example.id not in rankings and (ranking := test.record.ranking_of(example, largest_k)) is not None:
            test.record.rankings[example.id] = ranking


def _verdicts(test: TestRun) -> list[JudgeVerdict]:
    with suppress(RagevalError):
        places = {example.full_question: place for place, example in enumerate(test.record.examples)}
        judged = test.session.pipelines.get(test.components).recorded_verdicts
        # Sorted: the judge is asked about several answers at once, and replies in any order.
        return sorted(
            JudgeVerdict(
                digest([*map(str, texts), conversation_text(history_of(texts[0]))])[:16],
                places[texts[0]],
                float(verdict),
            )
            for texts, verdict in judged.items()
            if texts[0] in places
        )
    return []


def _definitions(test: TestRun) -> list[PluginDefinition]:
    definitions = {}
    for request, _ in test.record.runs:
        name = Spec.parse(request.spec).measure
        if name in SCORES:
            continue
        score = test.session.definition(request)
        definitions[name] = PluginDefinition(
            name,
            asks=None
            if score.asks_all
            else sorted(ask if isinstance(ask, str) else ask.name for ask in score.asks),
            scale=None if score.scale is None else [*score.scale],
            corrected_by=score.corrected_by,
            pooled=isinstance(score.evaluate, PluginScore),
        )
    return [*definitions.values()]
