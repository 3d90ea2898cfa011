"""`MergedRun`: joins the reports of all shards of a run, and evaluates each test on its outcomes from all shards."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from pytest_rageval.core.data import EvalSet, Example, Ranking
from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.shape import Count, check_fields, check_shape
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.calibration.calibration import Calibration
from pytest_rageval.extensions.calibration.human_labels import HumanLabels
from pytest_rageval.extensions.shards.document import ShardDocument
from pytest_rageval.extensions.shards.merged_session import (
    Marker,
    MergedComponents,
    MergedSession,
    MergedTest,
)
from pytest_rageval.extensions.shards.record import FORMAT, Deserializer
from pytest_rageval.gate.baseline import SCALE_TOLERANCE, Baseline
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted, join_first, printable
from pytest_rageval.reports.build import REPORTED_KEYS
from pytest_rageval.reports.failures import Room
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores import known_dependencies
from pytest_rageval.scores.definition import ScoreDef

if TYPE_CHECKING:
    from pytest_rageval.run.session import Session

MESSAGE_LINES: Final = 22
"""Number of lines of the message of a failed test, as in a run without -v."""

COMMON: Final = ("file", "evalset", "markers", "shares_alpha", "own_k", "received", "calls")
"""The properties of a test that must be equal in all shards."""

NAMED: Final = 3  # number of tests and shards that an error names

WORST_FIRST: Final = ("error", "failed", "xfailed", "skipped", "passed")
"""Outcomes of tests, the worst first."""


@dataclass(frozen=True)
class Shard:
    """The report of a shard.

    Attributes:
        path: path of the report's file, for messages.
        document: the JSON report (`ShardDocument`).
    """

    path: str
    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Check the whole report.

        Raises:
            InputError: the file is not the report of a shard, is incomplete, or has another format.
        """
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
    def entry(self) -> Mapping[str, Any]:
        """The key `shard` of the report, which describes the shard."""
        return cast("Mapping[str, Any]", self.document["shard"])

    @property
    def index(self) -> int:
        """The number of the shard, from 1 to `count`."""
        return cast("int", self.entry["index"])

    @property
    def count(self) -> int:
        """The number of shards that the questions were split into."""
        return cast("int", self.entry["of"])

    @property
    def name(self) -> str:
        """The name of the shard in messages, such as "shard 2/8 (b.json)"."""
        return f"shard {self.index}/{self.count} ({self.path})"

    @cached_property
    def tests(self) -> dict[str, Mapping[str, Any]]:
        """The entries of the shard's tests by node id."""
        return {test["nodeid"]: test for test in self.document["tests"]}


TestPart = tuple[Shard, Mapping[str, Any]]
"""A shard, and the outcomes of one test in it: the key `shard` of the test's entry."""


class MergedRun:
    """The reports of all shards of a run.

    Args:
        shards: the reports, in any order.
        partial: True if tests that were collected may be missing from all reports.
        command: the command that merges the reports, for messages.

    Raises:
        InputError: a report is missing or occurs twice, or the reports are not from one run.
    """

    def __init__(
        self, shards: Sequence[Shard], *, partial: bool = False, command: str = "rageval merge"
    ) -> None:
        self.shards: list[Shard] = sorted(shards, key=lambda shard: (shard.count, shard.index, shard.path))
        self.first: Shard = self.shards[0]
        self.command = command
        self._partial = partial
        self.registry: Registry = Registry()
        self._check_same_run()
        self._check_no_duplicates()
        self._check_no_shard_missing()
        self.not_run: list[str] = sorted(self.collected - self._union("ran"))
        if self.not_run and not partial:
            raise InputError(
                f"{counted(len(self.not_run), 'test')} ran in no shard: {_named(self.not_run)}.\n"
                "A report is missing; or they were left out on purpose: then add --partial."
            )

    @property
    def tests(self) -> Iterator[MergedTest]:
        """The joined tests, in the order of their node ids; each is joined when it is requested, to save memory."""
        return map(self._join, sorted(set().union(*(shard.tests for shard in self.shards))))

    @cached_property
    def sharing_alpha(self) -> frozenset[str]:
        """The node ids of the tests that share one error rate."""
        entries = chain.from_iterable(shard.tests.items() for shard in self.shards)
        return frozenset(nodeid for nodeid, test in entries if test.get("shard", {}).get("shares_alpha"))

    @property
    def stopped(self) -> bool:
        """True if a shard was stopped before its end."""
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
        """The node ids of the tests that any shard collected."""
        return self._union("collected")

    @property
    def claims(self) -> set[str]:
        """The node ids of the tests, modules and folders that any shard was to run in full; none if `partial`."""
        return set() if self._partial else self._union("claims")

    def _union(self, key: str) -> set[str]:
        return set(chain.from_iterable(shard.entry[key] for shard in self.shards))

    def _check_same_run(self) -> None:
        """Raise InputError if the reports are not from one run."""
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
        """Raise InputError if two reports have the same test in the same shard.

        This check comes first: a duplicate explains why another report is missing.
        """
        shard_of_test: dict[tuple[int, int], dict[str, Shard]] = defaultdict(dict)
        for shard in self.shards:
            # Jobs that run different tests may have reports of the same shard.
            tests = {nodeid: shard for nodeid, test in shard.tests.items() if "shard" in test}
            before = shard_of_test[shard.index, shard.count]
            if again := sorted(tests.keys() & before.keys()):
                raise InputError(
                    f"Shard {shard.index}/{shard.count} is given twice, as {before[again[0]].path} and {shard.path}: "
                    f"the questions of {_named(again)} would count twice.\nGive each shard's report once."
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
        """Return a test, joined from its entries in the reports."""
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
        """Return an error that names the shards without outcomes of a test; empty if all have them.

        Raises:
            InputError: the shards with outcomes are of runs with different numbers of shards.
        """
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

    def _read(self, joined: MergedTest, parts: Sequence[TestPart]) -> MergedTest:
        """Complete a test from its parts in all shards; return it."""
        (first, common), *others = parts
        deserializers = [Deserializer(part["table"]) for _, part in parts]
        self._check_equal(joined.nodeid, first, common, others)
        joined.common = common
        # If the test failed in a shard, that shard does not know whether its xfail mark is strict.
        expected = [part["xfail"] for _, part in parts if "xfail" in part]
        joined.expected = max(expected, key=lambda xfail: bool(xfail["strict"]), default={})
        first_deserializer = deserializers[0]
        joined.calls = [
            {**call, "keywords": first_deserializer.restore(call["keywords"], dict[str, Any])}
            for call in common["calls"]
        ]
        joined.markers = {
            name: [
                Marker(
                    tuple(first_deserializer.restore(marker["args"], list[Any])),
                    first_deserializer.restore(marker["kwargs"], dict[str, Any]),
                )
                for marker in markers
            ]
            for name, markers in common["markers"].items()
        }
        places = list(chain.from_iterable(part["places"] for _, part in parts))
        name, size = common["evalset"]["name"], common["evalset"]["size"]
        if sorted(places) != list(range(size)):
            raise InputError(
                f"{joined.nodeid}: the shards have {len(set(places))} of the {size} questions of {name}, and "
                f"{len(places) - len(set(places))} twice."
            )
        examples = chain.from_iterable(
            deserializer.restore(part["examples"], list[Example])
            for deserializer, (_, part) in zip(deserializers, parts, strict=True)
        )
        joined.evalset = EvalSet(name, tuple(_sort_by_place(places, examples)))
        self._read_scores(joined, parts, deserializers, places)
        for deserializer, (shard, part) in zip(deserializers, parts, strict=True):
            self._read_calibrations(joined, shard, part, deserializer)
            for model, names in part["served"].items():
                joined.served.setdefault(model, set()).update(names)
        verdicts: dict[str, tuple[str, float]] = {}
        for deserializer, (_, part) in zip(deserializers, parts, strict=True):
            part_examples = deserializer.restore(part["examples"], list[Example])
            for row in part.get("verdicts", ()):
                key, place, verdict = _check_row(row, tuple[str, Count, float])
                verdicts[key] = part_examples[place].full_question, verdict
            for row in part.get("rankings", ()):
                place, ranking = _check_row(row, tuple[Count, Any])
                joined.rankings[part_examples[place].id] = deserializer.restore(ranking, Ranking)
        joined.verdicts = list(verdicts.values())
        return joined

    @staticmethod
    def _check_equal(
        nodeid: str, first: Shard, first_part: Mapping[str, Any], others: Sequence[TestPart]
    ) -> None:
        """Raise InputError if the shards differ in a property of the test or of its scores."""
        for shard, part in others:
            for key in COMMON:
                if key in part and key in first_part and part[key] != first_part[key]:
                    _refuse_difference(f"{key} of {nodeid}", first, first_part[key], shard, part[key])
            for score, other in zip(first_part["scores"], part["scores"], strict=True):
                for key in ("request", "compared", "definition", "comparison", "fingerprint", "prompts"):
                    # A score that ended as an error may lack the other keys.
                    if key in score and key in other and score[key] != other[key]:
                        name = f"{key} of {score['request'][0]} of {nodeid}"
                        _refuse_difference(name, first, score[key], shard, other[key])

    def _read_scores(
        self,
        joined: MergedTest,
        parts: Sequence[TestPart],
        deserializers: Sequence[Deserializer],
        places: Sequence[int],
    ) -> None:
        """Read the outcomes of each score from all shards, and what the score depends on."""
        known = set() if joined.evalset is None else {example.id for example in joined.evalset}
        for score_parts in zip(*(part["scores"] for _, part in parts), strict=True):
            request = ScoreRequest(*score_parts[0]["request"])
            check_fields(ScoreRequest, request._asdict())
            compared = score_parts[0]["compared"]
            for score in score_parts:
                self._define_plugin_score(score.get("definition"))
                if "fingerprint" in score:
                    joined.fingerprints[request] = deserializers[0].restore(
                        score["fingerprint"], dict[str, Any]
                    )
                    joined.comparisons[request.comparator] = score["comparison"]
                    joined.prompts[request] = score["prompts"]
            errors = [score.get("error") for score in score_parts]
            if any(errors):
                messages = [
                    _prefix_message(shard, error)
                    for (shard, _), error in zip(parts, errors, strict=True)
                    if error
                ]
                # An error that is the same in all shards is shown once, as in a run without shards.
                text = errors[0] if len(set(errors)) == 1 else "\n".join(messages)
                joined.runs[request, compared] = RagevalError(text)
                continue
            runs_of_shards = [
                [deserializer.restore(run, list[Outcome]) for run in score["runs"]]
                for deserializer, score in zip(deserializers, score_parts, strict=True)
            ]
            self._check_values(known, request, chain.from_iterable(chain.from_iterable(runs_of_shards)))
            joined.runs[request, compared] = [
                list(_sort_by_place(places, chain.from_iterable(run_parts)))
                for run_parts in zip(*runs_of_shards, strict=True)
            ]

    def _check_values(
        self, known: Collection[str], request: ScoreRequest, outcomes: Iterator[Outcome]
    ) -> None:
        """Raise ValueError for a value that is not on the scale of its score, or for an unknown question."""
        low, high = resolve(request, self.registry.scores)[1].scale or (-inf, inf)
        for outcome in outcomes:
            name, value = outcome.example.id, outcome.value
            if name not in known:
                raise ValueError(
                    f"{request.spec} has an outcome of {name}, which is no question of the eval set"
                )
            if value is not None and not low - SCALE_TOLERANCE <= value <= high + SCALE_TOLERANCE:
                raise ValueError(
                    f"question {name} has the score {value:g} in {request.spec}, which goes from {low:g} to {high:g}"
                )

    @staticmethod
    def _read_calibrations(
        joined: MergedTest, shard: Shard, part: Mapping[str, Any], deserializer: Deserializer
    ) -> None:
        for entry in part["calibrations"]:
            source, comparator = entry["source"], entry["comparator"]
            joined.comparisons[comparator] = entry["comparison"]
            if "error" in entry:
                joined.calibrations[source, comparator] = RagevalError(_prefix_message(shard, entry["error"]))
                continue
            labels = joined.labels.setdefault(source, deserializer.restore(entry["labels"], HumanLabels))
            joined.calibrations[source, comparator] = Calibration(
                labels, deserializer.restore(entry["outcomes"], list[Outcome]), comparator
            )

    def _define_plugin_score(self, definition: Mapping[str, Any] | None) -> None:
        """Register a plugin's score, whose definition is in the reports; None is a built-in score."""
        if definition is None or definition["name"] in self.registry.scores:
            return
        keywords: dict[str, Any] = (
            {} if not definition["pooled"] else {"notes": Lazy("scores.rel_recall", "pooled_notes")}
        )
        self.registry.scores[definition["name"]] = ScoreDef(
            definition["name"],
            _refuse_evaluation,
            known_dependencies() if definition["asks"] is None else frozenset(definition["asks"]),
            Deserializer(()).restore(definition["scale"], tuple[float, float] | None),
            asks_all=definition["asks"] is None,
            corrected_by=definition["corrected_by"],
            **keywords,
        )

    def evaluate(
        self,
        joined: MergedTest,
        settings: Settings,
        root: Path,
        baselines: dict[str, Baseline],
        *,
        explain: bool = False,
    ) -> "MergedTestResult":
        """Evaluate the thresholds of a test, as in a run without shards.

        Args:
            joined: the test, from `tests`.
            settings: the settings that verdicts depend on.
            root: the root directory of the run.
            baselines: see `MergedSession`.
            explain: see `TestRun.results`.
        """
        reported = joined.entry
        base = {
            name: reported[name]
            for name in ("function", "system", "parameters", "own", "agreement")
            if name in reported
        }
        if joined.evalset is None:
            results = {"evalset": None, "scores": [], **base}
            entry = {"nodeid": joined.nodeid, **joined.outcome, **_select_reported(results)}
            return MergedTestResult(entry, {})
        session = MergedSession(self.registry, settings, joined, baselines)
        test = TestRun(
            cast("Session", session),
            MergedComponents(None, None, None, reported_user_defined=tuple(reported.get("own", ()))),
            self._marked_test(joined, root),
            sharing_alpha=self.sharing_alpha,
            room=partial(Room, MESSAGE_LINES),
        )
        problems = test.evaluate_markers()
        failures = test.failures()
        if not problems and not failures:
            for call in joined.calls:
                # If the call failed the test, the outcome in the shard says so already.
                with suppress(RagevalError):
                    test.score(call["spec"], call["keywords"])
        outcome = joined.outcome
        if problems:
            outcome = {"outcome": "error", "message": "\n\n".join([*dict.fromkeys(problems), *failures])}
        elif failures:
            outcome = {"outcome": "failed", "message": "\n\n".join(failures)}
        outcome = _apply_xfail(outcome, joined.expected)
        if "message" in outcome:
            outcome = {**outcome, "message": printable(outcome["message"]).strip()}
        results = {**base, **test.results(describe=True, explain=explain)}
        if results["evalset"] is not None:
            results["evalset"] = joined.common["evalset"]
        return MergedTestResult({"nodeid": joined.nodeid, **outcome, **_select_reported(results)}, results)

    def _marked_test(self, joined: MergedTest, root: Path) -> MarkedTest:
        markers = {**joined.markers, "rageval_evalset": [Marker((joined.evalset,), {})]}
        return MarkedTest(
            nodeid=joined.nodeid,
            path=root / joined.common["file"],
            root=root,
            markers=lambda name: list(markers.get(name, ())),
            collected=lambda: self._union("ran"),
            record_property=lambda _name, _value: None,
            merge=self.command,
            reference=object,
        )


class MergedTestResult(NamedTuple):
    """The results of a test in a merge.

    Attributes:
        entry: the test's entry for the report.
        results: all results of `TestRun.results`, with the new baseline in an update; empty if the test was not
            evaluated.
    """

    entry: dict[str, Any]
    results: Mapping[str, Any]


def _apply_xfail(outcome: Mapping[str, str], expected: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the outcome of a test, changed as pytest changes it if the test is expected to fail."""
    if expected and outcome["outcome"] in {"failed", "error"}:
        return {"outcome": "xfailed", "message": expected["reason"]}
    if expected and outcome["outcome"] == "passed" and expected["strict"]:
        return {"outcome": "failed", "message": f"[XPASS(strict)] {expected['reason']}"}
    return outcome


def _sort_by_place(places: Sequence[int], values: Any) -> Iterator[Any]:
    """Return the values in the order of their places in the eval set."""
    return (value for _, value in sorted(zip(places, values, strict=True), key=lambda item: item[0]))


def _check_row(row: Any, kind: Any) -> Any:
    """Return a list of the file as a tuple of this type; raise ValueError if it is none."""
    check_shape(tuple(row), kind)
    return tuple(row)


def _prefix_message(shard: Shard, text: str) -> str:
    """Return a message with the shard that it is from; unchanged if the run is not split."""
    return text if shard.count == 1 else f"shard {shard.index}/{shard.count}: {text}"


def _select_reported(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results that a test's entry in the report has, in the order of the report."""
    return {name: results[name] for name in REPORTED_KEYS if name in results}


def _named(nodeids: Sequence[str]) -> str:
    return join_first(nodeids, NAMED)


def _refuse_difference(name: str, one: Shard, value: Any, other: Shard, other_value: Any) -> NoReturn:
    """Raise InputError about a property that two shards have with different values."""
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
