"""`MergedRun`: joins the reports of all shards of a run, and judges each test by its records from all shards."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, islice
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

from pytest_rageval.baseline import SCALE_TOLERANCE
from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.policy import Policy, policies_of
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.shards.plain import Plain, restore
from pytest_rageval.extensions.shards.record import PluginDefinition, Shard, ShardTest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted, join_first, printable
from pytest_rageval.reports.build import REPORTED_KEYS
from pytest_rageval.reports.failures import Room
from pytest_rageval.run import MarkedTest
from pytest_rageval.run.base import BaseSession, Runs, TestRecord
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.scores import known_dependencies
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.scores.pipeline import Dependencies
from pytest_rageval.stats.intervals import UNIT

COMMON: Final = ("file", "evalset", "definitions", "shares_alpha")
"""The properties of a test that must be equal in all shards."""

COMMON_IN_RECORD: Final = ("thresholds", "calls", "own_k", "received")  # those of its record
T = TypeVar("T")

NAMED: Final = 3  # number of tests and shards that an error names

WORST_FIRST: Final = ("error", "failed", "xfailed", "skipped", "passed")  # outcomes of tests, the worst first


TestPart = tuple[Shard, ShardTest]  # a shard, and one test in it


@dataclass
class MergedTest:
    nodeid: str  # node id of the test
    entry: Mapping[str, object]  # the test's entry in the report of the first shard that has its record
    outcome: Mapping[str, str]  # the worst outcome among the shards, with its message
    # The test in the first shard; None if no shard has its record, or one is missing.
    test: ShardTest | None = None
    record: TestRecord | None = None  # the joined record; None as for `test`
    # `reason` and `strict` of a test that is expected to fail; empty for other tests.
    expected: Mapping[str, object] = field(default_factory=dict)


class MergedRun:
    """The reports of all shards of a run, in any order.

    With `partial`, tests that were collected may be missing from all reports. `command` merges the reports, for
    messages. InputError if a report is missing or occurs twice, or the reports are not from one run.
    """

    def __init__(
        self, shards: Sequence[Shard], *, partial: bool = False, command: str = "rageval merge"
    ) -> None:
        self.shards: list[Shard] = sorted(shards, key=lambda shard: (shard.count, shard.index, shard.path))
        self.first: Shard = self.shards[0]
        self.command = command
        self._partial = partial
        self._failures = 0
        self.registry: Registry = Registry()
        self._check_same_run()
        self._check_no_duplicates()
        self._check_no_shard_missing()
        self.not_run: list[str] = sorted(self.collected - self._union("ran"))
        if self.not_run and not partial:
            names = ", ".join(
                shard.path
                for shard in self.shards
                if not {*self.not_run}.isdisjoint(shard.entry["collected"])
            )
            raise InputError(
                f"{counted(len(self.not_run), 'test')} ran in no shard: {join_first(self.not_run, NAMED)}; collected "
                f"in {names}.\nA report is missing; or they were left out on purpose: then add --partial."
            )

    @property
    def tests(self) -> Iterator[MergedTest]:
        """The joined tests, in the order of their node ids; each is joined when it is requested, to save memory."""
        return map(self._join, sorted(set().union(*(shard.tests for shard in self.shards))))

    @cached_property
    def sharing_alpha(self) -> frozenset[str]:
        entries = chain.from_iterable(shard.tests.items() for shard in self.shards)
        parts = ((nodeid, test["shard"]["value"]) for nodeid, test in entries if "shard" in test)
        return frozenset(nodeid for nodeid, part in parts if part.get("shares_alpha"))

    @property
    def stopped(self) -> bool:
        return any(shard.document.get("stopped") for shard in self.shards)

    @property
    def left_out(self) -> list[str]:
        """The reasons why tests may be missing from all shards together."""
        # A test that one job deselects runs in another job, or is in `not_run`.
        reasons = chain.from_iterable(shard.entry["left_out"] for shard in self.shards)
        other_reasons = dict.fromkeys(reason for reason in reasons if not reason.endswith(" deselected"))
        deselected = [f"{counted(len(self.not_run), 'test')} deselected"] if self.not_run else []
        return [*deselected, *other_reasons]

    @property
    def collected(self) -> set[str]:
        return self._union("collected")

    @property
    def claims(self) -> set[str]:
        """The node ids of the tests, modules and folders that any shard was to run in full; none if `partial`."""
        return set() if self._partial else self._union("claims")

    def _union(self, key: str) -> set[str]:
        return set(chain.from_iterable(shard.entry[key] for shard in self.shards))

    def _check_same_run(self) -> None:
        properties: dict[str, Callable[[Shard], Any]] = {
            "version of pytest-rageval": lambda shard: shard.entry["package"],
            "settings": lambda shard: {**shard.document["settings"], **shard.entry["settings"]},
            "baseline": lambda shard: shard.entry["baseline"],
            "commit": lambda shard: shard.document.get("run", {}).get("commit"),
        }
        for shard in self.shards[1:]:
            for name, read in properties.items():
                if read(shard) != read(self.first):
                    _refuse_difference(f"the {name}", self.first, read(self.first), shard, read(shard))

    def _check_no_duplicates(self) -> None:
        """Raise InputError for a report given twice. It comes first: it explains why another is missing."""
        shard_of_test: dict[tuple[int, int], dict[str, Shard]] = defaultdict(dict)
        for shard in self.shards:
            # Jobs that run different tests may have reports of the same shard.
            tests = {nodeid: shard for nodeid, test in shard.tests.items() if "shard" in test}
            before = shard_of_test[shard.index, shard.count]
            if again := sorted(tests.keys() & before.keys()):
                raise InputError(
                    f"Shard {shard.index}/{shard.count} is given twice, as {before[again[0]].path} and {shard.path}: "
                    f"the questions of {join_first(again, NAMED)} would count twice.\nGive each shard's report once."
                )
            before |= tests

    def _check_no_shard_missing(self) -> None:
        present = defaultdict(set)
        for shard in self.shards:
            present[shard.count].add(shard.index)
        all_shards = ((index, count) for count in present for index in range(1, count + 1))
        # The generator is not consumed as a whole: a damaged file may claim any number of shards.
        absent = (f"{index}/{count}" for index, count in all_shards if index not in present[count])
        missing = list(islice(absent, NAMED))
        if missing:
            raise InputError(
                f"The report of shard {', '.join(missing)} is missing: the scores of its questions are not known.\n"
                "Run that job again, and merge the reports of all shards."
            )

    def _join(self, nodeid: str) -> MergedTest:
        entries = [(shard, shard.tests[nodeid]) for shard in self.shards if nodeid in shard.tests]
        worst_shard, entry = min(entries, key=lambda item: WORST_FIRST.index(item[1]["outcome"]))
        outcome = {name: entry[name] for name in ("outcome", "message") if name in entry}
        if "message" in outcome and len({test.get("message") for _, test in entries}) > 1:
            outcome["message"] = _prefix_message(worst_shard, outcome["message"])
        parts = [(shard, part) for shard, test in entries if (part := test.get("shard"))]
        joined = MergedTest(nodeid, entries[0][1], outcome)
        if not parts:
            return joined
        joined.entry = next(test for _, test in entries if "shard" in test)
        if problem := self._missing_shards(nodeid, [shard for shard, _ in parts]):
            if outcome["outcome"] not in {"error", "failed"}:
                joined.outcome = {"outcome": "error", "message": problem}
            return joined
        try:
            return self._read(joined, parts)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            names = ", ".join(shard.path for shard, _ in parts)
            raise InputError(
                f"{names}: what the reports say of {nodeid} cannot be read ({type(error).__name__}: {error}).\n"
                "Write them again with the version of the package that merges them."
            ) from None

    def _missing_shards(self, nodeid: str, shards: Sequence[Shard]) -> str:
        counts = {shard.count for shard in shards}
        if len(counts) > 1:
            names = ", ".join(shard.name for shard in shards)
            raise InputError(
                f"{nodeid} is in {names}: its questions would count twice.\nGive the reports of jobs that split the "
                "questions alike."
            )
        present, count = {shard.index for shard in shards}, counts.pop()
        missing = [f"{index}/{count}" for index in range(1, count + 1) if index not in present]
        return f"shard {', '.join(missing)} has no scores of this test" if missing else ""

    def _read(self, joined: MergedTest, parts: Sequence[tuple[Shard, JsonObject]]) -> MergedTest:
        _check_equal(joined.nodeid, parts)
        # If the test failed in a shard, that shard does not know whether its xfail mark is strict.
        expected = [part["xfail"] for _, part in parts if "xfail" in part]
        joined.expected = max(expected, key=lambda xfail: bool(xfail["strict"]), default={})
        tests: list[TestPart] = [(shard, restore(cast("Plain", part), ShardTest)) for shard, part in parts]
        joined.test, scores = tests[0][1], self.registry.scores
        for definition in joined.test.definitions:
            _define_plugin_score(scores, definition)
        joined.record = _join_records(joined.nodeid, tests)
        known = {example.id for example in joined.record.examples}
        for (request, _), runs in joined.record.runs.items():
            if not isinstance(runs, RagevalError):
                scale = resolve(request, scores)[1].scale
                _check_values(known, request, scale, chain.from_iterable(runs))
        policies = policies_of(self.first.entry["settings"].get("policy"))
        for threshold in (*joined.record.thresholds, *joined.record.calls):
            _check_threshold(scores, threshold, policies)
        return joined

    def judge(
        self, joined: MergedTest, session: BaseSession, root: Path, *, explain: bool = False
    ) -> "MergedTestResult":
        reported = joined.entry
        base = {
            name: reported[name]
            for name in ("function", "system", "parameters", "own", "agreement")
            if name in reported
        }
        if joined.test is None or joined.record is None:
            results = {"evalset": None, "scores": [], **base}
            entry = {"nodeid": joined.nodeid, **joined.outcome, **_select_reported(results)}
            return MergedTestResult(entry, {})
        marked = MarkedTest(
            nodeid=joined.nodeid,
            path=root / joined.test.file,
            root=root,
            collected=lambda: self._union("ran"),
            merge=self.command,
        )
        test = JudgedTest(
            session,
            marked,
            joined.record,
            sharing_alpha=self.sharing_alpha,
            room=lambda: Room.of(0, self._failures),
        )
        try:
            problems = [*test.before(), *test.judge(joined.record.thresholds)]
        except RagevalError as error:
            problems = [str(error)]
        failures = test.failures()
        if not problems and not failures:
            for call in joined.record.calls:
                # If the call failed the test, the outcome in the shard says so already.
                with suppress(RagevalError):
                    test.judge_call(call)
        outcome = joined.outcome
        if problems:
            outcome = {"outcome": "error", "message": "\n\n".join([*dict.fromkeys(problems), *failures])}
        elif failures:
            outcome = {"outcome": "failed", "message": "\n\n".join(failures)}
        outcome = _apply_xfail(outcome, joined.expected)
        self._failures += outcome["outcome"] in {"failed", "error"}
        if "message" in outcome:
            outcome = {**outcome, "message": printable(outcome["message"]).strip()}
        evalset = joined.test.evalset if test.report else None
        results = {**base, "evalset": evalset, **test.results(describe=True, explain=explain)}
        return MergedTestResult({"nodeid": joined.nodeid, **outcome, **_select_reported(results)}, results)


class MergedTestResult(NamedTuple):
    entry: dict[str, Any]  # the test's entry for the report
    # All results of `TestRun.results`, with the new baseline in an update; empty if the test was not evaluated.
    results: JsonObject


def _apply_xfail(outcome: Mapping[str, str], expected: JsonObject) -> Mapping[str, str]:
    if expected and outcome["outcome"] in {"failed", "error"}:
        return {"outcome": "xfailed", "message": expected["reason"]}
    if expected and outcome["outcome"] == "passed" and expected["strict"]:
        return {"outcome": "failed", "message": f"[XPASS(strict)] {expected['reason']}"}
    return outcome


def _define_plugin_score(scores: MutableMapping[str, ScoreDef], definition: PluginDefinition) -> None:
    if definition.name in scores:
        return
    keywords: dict[str, Any] = (
        {"notes": Lazy("scores.rel_recall", "pooled_notes")} if definition.pooled else {}
    )
    low, high = map(float, definition.scale or UNIT)
    scores[definition.name] = ScoreDef(
        definition.name,
        _refuse_evaluation,
        known_dependencies() if definition.asks is None else frozenset(definition.asks),
        None if definition.scale is None else (low, high),
        asks_all=definition.asks is None,
        corrected_by=definition.corrected_by,
        **keywords,
    )


def _check_threshold(
    scores: Mapping[str, ScoreDef], threshold: Threshold, policies: Mapping[str, Policy]
) -> None:
    """Raise InputError for a threshold that no marker can have."""
    defaults = {field.name: field.default for field in fields(Threshold)}
    keywords = {
        name: value
        for name in Threshold.keywords()
        if name != "policy" and (value := getattr(threshold, name)) != defaults[name]
    }
    keywords["policy"] = threshold.policy.name
    parsed = Threshold.parse((threshold.spec,), keywords, optional=True, policies=policies)
    if parsed.policy != threshold.policy:
        raise ValueError(f"the policy {threshold.policy.name} is not that of the settings")
    definition = resolve(threshold.request, scores)[1]
    threshold.check_scale(definition.scale, is_cost=definition.is_cost, is_time=definition.is_time)


def _check_equal(nodeid: str, parts: Sequence[tuple[Shard, JsonObject]]) -> None:
    (first, first_part), *others = ((shard, part["value"]) for shard, part in parts)
    for shard, part in others:
        for key in COMMON:
            if part.get(key) != first_part.get(key):
                _refuse_difference(f"{key} of {nodeid}", first, first_part.get(key), shard, part.get(key))
        record, other = first_part["record"], part["record"]
        for key in COMMON_IN_RECORD:
            # A shard whose scores are errors may lack what it has in others.
            if (key in record and key in other) or key in {"thresholds", "calls"}:
                value, other_value = record.get(key), other.get(key)
                if value != other_value:
                    _refuse_difference(f"{key} of {nodeid}", first, value, shard, other_value)


def _join_records(nodeid: str, parts: Sequence[TestPart]) -> TestRecord:
    first_shard, first = parts[0]
    places = list(chain.from_iterable(part.places for _, part in parts))
    name, size = first.evalset["name"], first.evalset["size"]
    if sorted(places) != list(range(size)):
        raise InputError(
            f"{nodeid}: the shards have {len(set(places))} of the {size} questions of {name}, and "
            f"{len(places) - len(set(places))} twice."
        )
    examples = chain.from_iterable(part.record.examples for _, part in parts)
    joined = replace(first.record, examples=tuple(_sort_by_place(places, examples)))
    served: dict[str, set[str]] = {}
    verdicts: dict[str, tuple[str, float]] = {}
    for shard, part in parts:
        record = part.record
        if record.runs.keys() != joined.runs.keys():
            raise ValueError(f"the scores of {nodeid} differ between {first_shard.name} and {shard.name}")
        for request, depends in record.dependencies.items():
            known = joined.dependencies.setdefault(request, depends)
            for key in Dependencies.__slots__:
                if getattr(known, key) != getattr(depends, key):
                    what = f"{key} of {request.spec} of {nodeid}"
                    _refuse_difference(what, first_shard, getattr(known, key), shard, getattr(depends, key))
        joined.rankings |= record.rankings
        joined.added = record.added | joined.added
        for model, names in record.served.items():
            served.setdefault(model, set()).update(names)
        for verdict in part.verdicts:
            question = record.examples[verdict.place].full_question
            verdicts[verdict.texts] = question, verdict.value
    joined.served = {model: sorted(names) for model, names in served.items()}
    joined.verdicts = list(verdicts.values())
    joined.runs = {
        key: _join_runs(places, [(shard, part.record.runs[key]) for shard, part in parts])
        for key in joined.runs
    }
    return joined


def _join_runs(places: Sequence[int], parts: Sequence[tuple[Shard, Runs]]) -> Runs:
    errors = [_prefix_message(shard, str(runs)) for shard, runs in parts if isinstance(runs, RagevalError)]
    if errors:
        # An error that is the same in all shards is shown once, as in a run without shards.
        texts = {str(runs) if isinstance(runs, RagevalError) else "" for _, runs in parts}
        return RagevalError(texts.pop() if len(texts) == 1 else "\n".join(errors))
    runs_of_shards = [runs for _, runs in parts if not isinstance(runs, RagevalError)]
    return [
        list(_sort_by_place(places, chain.from_iterable(run_parts)))
        for run_parts in zip(*runs_of_shards, strict=True)
    ]


def _check_values(
    known: Collection[str],
    request: ScoreRequest,
    scale: tuple[float, float] | None,
    outcomes: Iterator[Outcome],
) -> None:
    low, high = scale or (-inf, inf)
    for outcome in outcomes:
        name, value = outcome.example.id, outcome.value
        if name not in known:
            raise ValueError(f"{request.spec} has an outcome of {name}, which is no question of the eval set")
        if value is not None and not low - SCALE_TOLERANCE <= value <= high + SCALE_TOLERANCE:
            raise ValueError(
                f"question {name} has the score {value:g} in {request.spec}, which goes from {low:g} to {high:g}"
            )


def _sort_by_place(places: Sequence[int], values: Iterable[T]) -> Iterator[T]:
    return (value for _, value in sorted(zip(places, values, strict=True), key=lambda item: item[0]))


def _prefix_message(shard: Shard, text: str) -> str:
    return text if shard.count == 1 else f"shard {shard.index}/{shard.count}: {text}"


def _select_reported(results: Mapping[str, object]) -> dict[str, object]:
    return {name: results[name] for name in REPORTED_KEYS if name in results}


def _refuse_difference(name: str, one: Shard, value: Any, other: Shard, other_value: Any) -> NoReturn:
    if isinstance(value, Mapping) and isinstance(other_value, Mapping):
        changed = [key for key in {**value, **other_value} if value.get(key) != other_value.get(key)]
        difference = "; ".join(f"{key}: {value.get(key)} and {other_value.get(key)}" for key in changed)
    else:
        difference = f"{value} and {other_value}"
    raise InputError(
        f"{one.name} and {other.name} are not of one run, they differ in {name}: {difference:.500}.\n"
        "Merge the reports of one run, whose jobs have the same commit, packages and options."
    )


async def _refuse_evaluation(*_: Any) -> list[Outcome]:
    raise InputError("A merge sends no requests.")
