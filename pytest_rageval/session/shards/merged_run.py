"""Joins the shards of a run: rules on each test from the outcomes in the shards' reports."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from pytest_rageval.calibration import Calibration
from pytest_rageval.config import Settings
from pytest_rageval.datatypes import EvalSet, Example, Ranking
from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.evaluations.registry import Registry
from pytest_rageval.evaluations.scoring import ScoreDef, check_failures
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.lazy import Lazy
from pytest_rageval.plural import counted
from pytest_rageval.printable import printable
from pytest_rageval.reports.results import REPORTED_KEYS
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.session.base import BaseSession
from pytest_rageval.session.evaluated_test import EvaluatedTest
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.session.shards.plain_data import Reader
from pytest_rageval.session.shards.record import FORMAT

if TYPE_CHECKING:
    from pytest_rageval.evalsets.human_labels import HumanLabels
    from pytest_rageval.session.session import Session

__all__ = ["MergedRun", "MergedTest", "Shard"]

LOST: Final = 10
"""Number of lost questions that a failure shows, as in a run without -v."""

SAME: Final = ("file", "evalset", "markers", "shares_alpha", "received", "calls")
"""What all shards have alike of a test."""

FORM: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("index", "of"), int),
    **dict.fromkeys(("package", "baseline"), str),
    **dict.fromkeys(("collected", "ran", "left_out"), list),
    **dict.fromkeys(("settings", "usage", "recorded"), Mapping),
    "calibration": str | None,
}
"""What a report says about its shard."""

DOCUMENT: Final = {
    "settings": Mapping,
    "tests": list,
    "package": str,
    "started": str,
    "duration_s": float | int,
}
"""What else a merge reads of the report."""

NAMED: Final = 3  # number of tests and shards that an error names

ORDER: Final = ("error", "failed", "xfailed", "skipped", "passed")
"""Outcomes of tests, the worst first."""


@dataclass(frozen=True)
class Shard:
    """The report of a shard.

    Attributes:
        path: of the file, for messages.
        document: the JSON report, with the key `shard`.
    """

    path: str
    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Refuse a file that is not the report of a shard; InputError."""
        found = self.document.get("shard")
        if not isinstance(found, Mapping):
            raise InputError(
                f"{self.path} is not the report of a shard.\nWrite one with: pytest --rageval-shard I/N "
                "--rageval-report FILE.json; for a job with all questions of its tests, --rageval-shard 1/1."
            )
        format_ = found.get("format")
        if format_ != FORMAT:
            raise InputError(
                f"{self.path} has the format {format_!r} of shards, and this version reads {FORMAT}. Merge "
                "with the version of the package that wrote it."
            )
        missing = [name for name, kind in FORM.items() if not isinstance(found.get(name), kind)]
        missing += [name for name, kind in DOCUMENT.items() if not isinstance(self.document.get(name), kind)]
        if missing or not 1 <= found["index"] <= found["of"]:
            raise InputError(
                f"{self.path} is not a complete report of a shard: {', '.join(missing) or 'index'} cannot be read.\n"
                "Write it again, and change nothing in it."
            )

    @property
    def about(self) -> Mapping[str, Any]:
        """The entry of the report that describes its shard."""
        return cast("Mapping[str, Any]", self.document["shard"])

    @property
    def place(self) -> tuple[int, int]:
        """The index of the shard, and the number of shards."""
        return self.about["index"], self.about["of"]

    @property
    def name(self) -> str:
        """Such as "shard 2/8 (b.json)"."""
        return f"shard {self.place[0]}/{self.place[1]} ({self.path})"

    @cached_property
    def tests(self) -> dict[str, Mapping[str, Any]]:
        """The entries of its tests by node id."""
        return {test["nodeid"]: test for test in self.document["tests"]}


@dataclass
class MergedTest:
    """A test in all of its shards.

    Attributes:
        nodeid: of the test.
        entry: in the reports, as in one of the shards.
        outcome: of the worst shard, with its message.
        evalset: with the examples of all shards.
        about: the properties that are equal in all shards.
        runs: the outcomes of each score, in the order of the set, for the run and for each repeat; or its error.
        fingerprints: by score.
        comparisons: by comparator, the effective one.
        calibrations: by the source of the labels and the comparator.
        served: by model, the names that servers gave it.
        verdicts: of the judge, with their questions.
        prompts: by score, the templates of what it asks of models.
        rankings: by example, what was retrieved where no score says it.
        expected: `reason` and `strict` of a test that is expected to fail; empty for others.
    """

    nodeid: str
    entry: Mapping[str, Any]
    outcome: Mapping[str, str]
    evalset: EvalSet | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[Mapping[str, Any]] = ()
    markers: Mapping[str, Sequence["Marker"]] = field(default_factory=dict)
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


class Marker(NamedTuple):
    """The arguments of a marker."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class MergedRun:
    """The reports of all shards of a run.

    Args:
        shards: their reports, in any order.
        partial: whether tests that were collected may be in no report.
        command: the command that merges them, for messages.

    Raises:
        InputError: a report is missing, or there twice; or they are not of one run.
    """

    def __init__(
        self, shards: Sequence[Shard], *, partial: bool = False, command: str = "rageval merge"
    ) -> None:
        self.shards = sorted(shards, key=lambda shard: (shard.place[::-1], shard.path))
        self.first = self.shards[0]
        self.command = command
        self.registry = Registry()
        self._check_one_run()
        self._check_none_twice()
        self._check_no_shard_missing()
        self.not_run = sorted(self._union("collected") - self._union("ran"))
        if self.not_run and not partial:
            raise InputError(
                f"{counted(len(self.not_run), 'test')} ran in no shard: {_named(self.not_run)}.\n"
                "A report is missing; or they were left out on purpose: then add --partial."
            )

    @property
    def tests(self) -> Iterator[MergedTest]:
        """The tests by node id; their questions are read one test at a time."""
        return map(self._joined, sorted(set().union(*(shard.tests for shard in self.shards))))

    @cached_property
    def sharing(self) -> frozenset[str]:
        """The tests that share one error rate."""
        entries = chain.from_iterable(shard.tests.items() for shard in self.shards)
        return frozenset(nodeid for nodeid, test in entries if test.get("shard", {}).get("shares_alpha"))

    @property
    def stopped(self) -> bool:
        """True if a shard was stopped before its end."""
        return any(shard.document.get("stopped") for shard in self.shards)

    @property
    def left_out(self) -> list[str]:
        """Why tests may be missing in all shards together."""
        # A test that one job leaves out runs in another, or is among those that did not run.
        reasons = chain.from_iterable(shard.about["left_out"] for shard in self.shards)
        found = dict.fromkeys(reason for reason in reasons if not reason.endswith(" deselected"))
        return [*([f"{counted(len(self.not_run), 'test')} deselected"] if self.not_run else []), *found]

    def _union(self, key: str) -> set[str]:
        return set(chain.from_iterable(shard.about[key] for shard in self.shards))

    def _check_one_run(self) -> None:
        """Refuse reports that are not of one run."""
        alike: dict[str, Callable[[Shard], Any]] = {
            "version of pytest-rageval": lambda shard: shard.about["package"],
            "settings": lambda shard: {**shard.document["settings"], **shard.about["settings"]},
            "baseline": lambda shard: shard.about["baseline"],
            "commit": lambda shard: shard.document.get("run", {}).get("commit"),
        }
        for shard in self.shards[1:]:
            for what, of in alike.items():
                if of(shard) != of(self.first):
                    _refuse(f"the {what}", self.first, of(self.first), shard, of(shard))

    def _check_none_twice(self) -> None:
        """Refuse two reports of one shard, before another is said to be missing."""
        found: dict[tuple[int, int], dict[str, Shard]] = defaultdict(dict)
        for shard in self.shards:
            # Jobs that run different tests may each have the same shard of them.
            tests = {nodeid: shard for nodeid, test in shard.tests.items() if "shard" in test}
            before = found[shard.place]
            if again := sorted(tests.keys() & before.keys()):
                index, number = shard.place
                raise InputError(
                    f"Shard {index}/{number} is given twice, as {before[again[0]].path} and {shard.path}: the "
                    f"questions of {_named(again)} would count twice.\nGive each shard's report once."
                )
            before |= tests

    def _check_no_shard_missing(self) -> None:
        there = defaultdict(set)
        for shard in self.shards:
            index, number = shard.place
            there[number].add(index)
        each = ((index, number) for number in there for index in range(1, number + 1))
        # A file may say that there is any number of shards.
        absent = (f"{index}/{number}" for index, number in each if index not in there[number])
        missing = list(islice(absent, NAMED))
        if missing:
            raise InputError(
                f"The report of shard {', '.join(missing)} is missing: the scores of its questions are not known.\n"
                "Run that job again, and merge the reports of all shards."
            )

    def _joined(self, nodeid: str) -> MergedTest:
        """A test from the entries of its shards."""
        entries = [(shard, shard.tests[nodeid]) for shard in self.shards if nodeid in shard.tests]
        worst, entry = min(entries, key=lambda each: ORDER.index(each[1]["outcome"]))
        outcome = {name: entry[name] for name in ("outcome", "message") if name in entry}
        if "message" in outcome and len({test.get("message") for _, test in entries}) > 1:
            outcome["message"] = _prefixed(worst, outcome["message"])
        parts = [(shard, part) for shard, test in entries if (part := test.get("shard"))]
        joined = MergedTest(nodeid, entries[0][1], outcome)
        if not parts:
            return joined
        joined.entry = next(test for _, test in entries if "shard" in test)
        if problem := self._incomplete(nodeid, [shard for shard, _ in parts]):
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

    def _incomplete(self, nodeid: str, shards: Sequence[Shard]) -> str:
        """Say which shards have no scores of a test; raise InputError if they are of different numbers."""
        numbers = {shard.place[1] for shard in shards}
        if len(numbers) > 1:
            names = ", ".join(shard.name for shard in shards)
            raise InputError(
                f"{nodeid} is in {names}: its questions would count twice.\nGive the reports of jobs that split the "
                "questions alike."
            )
        there, number = {shard.place[0] for shard in shards}, numbers.pop()
        missing = [f"{index}/{number}" for index in range(1, number + 1) if index not in there]
        return f"shard {', '.join(missing)} has no scores of this test" if missing else ""

    def _read(self, joined: MergedTest, parts: Sequence[tuple[Shard, Mapping[str, Any]]]) -> MergedTest:
        (first, about), *others = parts
        readers = [Reader(part["table"]) for _, part in parts]
        self._check_alike(joined.nodeid, first, about, others)
        joined.about = about
        # A shard in which the test failed does not know whether passing would be a failure.
        expected = [part["xfail"] for _, part in parts if "xfail" in part]
        joined.expected = max(expected, key=lambda each: bool(each["strict"]), default={})
        joined.calls = [{**call, "keywords": readers[0].value(call["keywords"])} for call in about["calls"]]
        joined.markers = {
            name: [
                Marker(tuple(readers[0].value(each["args"])), readers[0].value(each["kwargs"]))
                for each in found
            ]
            for name, found in about["markers"].items()
        }
        places = list(chain.from_iterable(part["places"] for _, part in parts))
        if sorted(places) != list(range(about["evalset"]["size"])):
            raise InputError(
                f"{joined.nodeid}: the shards have {len(set(places))} of the {about['evalset']['size']} questions of "
                f"{about['evalset']['name']}, and {len(places) - len(set(places))} twice."
            )
        examples = chain.from_iterable(
            reader.value(part["examples"]) for reader, (_, part) in zip(readers, parts, strict=True)
        )
        joined.evalset = EvalSet(about["evalset"]["name"], tuple(_ordered(places, examples)))
        self._read_scores(joined, parts, readers, places)
        for reader, (shard, part) in zip(readers, parts, strict=True):
            self._read_calibrations(joined, shard, part, reader)
            for model, names in part["served"].items():
                joined.served.setdefault(model, set()).update(names)
        verdicts: dict[str, tuple[str, float]] = {}
        for reader, (_, part) in zip(readers, parts, strict=True):
            of_part = reader.value(part["examples"])
            verdicts |= {
                key: (of_part[place].full_question, verdict)
                for key, place, verdict in part.get("verdicts", ())
            }
            joined.rankings |= {
                of_part[place].id: reader.value(ranking) for place, ranking in part.get("rankings", ())
            }
        joined.verdicts = list(verdicts.values())
        return joined

    @staticmethod
    def _check_alike(
        nodeid: str, first: Shard, about: Mapping[str, Any], others: Sequence[tuple[Shard, Mapping[str, Any]]]
    ) -> None:
        for shard, part in others:
            for what in SAME:
                if what in part and what in about and part[what] != about[what]:
                    _refuse(f"{what} of {nodeid}", first, about[what], shard, part[what])
            for one, other in zip(about["scores"], part["scores"], strict=True):
                for what in ("request", "compared", "definition", "comparison", "fingerprint", "prompts"):
                    # Where a score is an error, the rest may not be known.
                    known = what in one and what in other
                    if known and one[what] != other[what]:
                        name = f"{what} of {one['request'][0]} of {nodeid}"
                        _refuse(name, first, one[what], shard, other[what])

    def _read_scores(
        self,
        joined: MergedTest,
        parts: Sequence[tuple[Shard, Mapping[str, Any]]],
        readers: Sequence[Reader],
        places: Sequence[int],
    ) -> None:
        for each in zip(*(part["scores"] for _, part in parts), strict=True):
            request, compared = ScoreRequest(*each[0]["request"]), each[0]["compared"]
            for one in each:
                self._define(one.get("definition"))
                if "fingerprint" in one:
                    joined.fingerprints[request] = readers[0].value(one["fingerprint"])
                    joined.comparisons[request.comparator] = one["comparison"]
                    joined.prompts[request] = one["prompts"]
            errors = [one.get("error") for one in each]
            if any(errors):
                said = [
                    _prefixed(shard, error) for (shard, _), error in zip(parts, errors, strict=True) if error
                ]
                # What all say is said once, as in one run.
                text = errors[0] if len(set(errors)) == 1 else "\n".join(said)
                joined.runs[request, compared] = RagevalError(text)
                continue
            runs = [
                [reader.value(run) for run in one["runs"]] for reader, one in zip(readers, each, strict=True)
            ]
            joined.runs[request, compared] = [
                list(_ordered(places, chain.from_iterable(of_shards)))
                for of_shards in zip(*runs, strict=True)
            ]

    @staticmethod
    def _read_calibrations(joined: MergedTest, shard: Shard, part: Mapping[str, Any], reader: Reader) -> None:
        for each in part["calibrations"]:
            source, comparator = each["source"], each["comparator"]
            joined.comparisons[comparator] = each["comparison"]
            if "error" in each:
                joined.calibrations[source, comparator] = RagevalError(_prefixed(shard, each["error"]))
                continue
            labels = joined.labels.setdefault(source, reader.value(each["labels"]))
            joined.calibrations[source, comparator] = Calibration(
                labels, reader.value(each["outcomes"]), comparator
            )

    def _define(self, plugin: Mapping[str, Any] | None) -> None:
        """Define a plugin's score from the properties in the shards' reports."""
        if plugin is None or plugin["name"] in self.registry.scores:
            return
        keywords: dict[str, Any] = (
            {} if not plugin["pooled"] else {"notes": Lazy("evaluations.rel_prime", "pooled_notes")}
        )
        self.registry.scores[plugin["name"]] = ScoreDef(
            plugin["name"],
            _not_evaluated,
            None if plugin["asks"] is None else frozenset(plugin["asks"]),
            cast("tuple[float, float] | None", Reader(()).value(plugin["scale"])),
            corrected_by=plugin["corrected_by"],
            **keywords,
        )

    def ruled(
        self,
        joined: MergedTest,
        settings: Settings,
        root: Path,
        baselines: dict[str, Baseline],
        *,
        explain: bool = False,
    ) -> "MergedTestResult":
        """Rule on a test as in one run; see `MergedSession` for `baselines`, `EvaluatedTest.results` for `explain`."""
        reported = joined.entry
        base = {
            name: reported[name]
            for name in ("function", "system", "parameters", "own", "agreement")
            if name in reported
        }
        if joined.evalset is None:
            found = {"evalset": None, "scores": [], **base}
            return MergedTestResult({"nodeid": joined.nodeid, **joined.outcome, **_in_order(found)}, {})
        session = MergedSession(self.registry, settings, joined, baselines)
        test = EvaluatedTest(
            cast("Session", session),
            MergedComponents(None, None, None, named=tuple(reported.get("own", ()))),
            self._marked(joined, root),
            sharing=self.sharing,
            limit=LOST,
        )
        problems = test.evaluate_markers()
        failures = test.failures()
        if not problems and not failures:
            for call in joined.calls:
                # What failed by it is the outcome of the test in its shard.
                _try(lambda call=call: test.score(call["spec"], call["keywords"]))  # type: ignore[misc]
        outcome = joined.outcome
        if problems:
            outcome = {"outcome": "error", "message": "\n\n".join([*dict.fromkeys(problems), *failures])}
        elif failures:
            outcome = {"outcome": "failed", "message": "\n\n".join(failures)}
        outcome = _as_expected(outcome, joined.expected)
        if "message" in outcome:
            outcome = {**outcome, "message": printable(outcome["message"]).strip()}
        results = {**base, **test.results(describe=True, explain=explain)}
        if results["evalset"] is not None:
            results["evalset"] = joined.about["evalset"]
        return MergedTestResult({"nodeid": joined.nodeid, **outcome, **_in_order(results)}, results)

    def _marked(self, joined: MergedTest, root: Path) -> MarkedTest:
        markers = {**joined.markers, "rageval_evalset": [Marker((joined.evalset,), {})]}
        return MarkedTest(
            nodeid=joined.nodeid,
            path=root / joined.about["file"],
            root=root,
            markers=lambda name: list(markers.get(name, ())),
            collected=lambda: self._union("ran"),
            record_property=lambda _name, _value: None,
            merge=self.command,
            reference=object,
        )


class MergedTestResult(NamedTuple):
    """A test's entry for the report; and its results, with its baseline in an update."""

    entry: dict[str, Any]
    results: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergedComponents(Components):
    """Replaces the user's components, which a merge does not have: `named` are those that are the user's own."""

    named: tuple[str, ...] = ()

    @property
    def own(self) -> list[str]:
        """The names that the run reported as the user's own: generator, judge."""
        return list(self.named)


class MergedSession(BaseSession):
    """Replaces `Session` for `EvaluatedTest`, from the reports of shards.

    Args:
        registry: with the scores of the shards' plugins.
        settings: those that verdicts depend on.
        joined: the test.
        baselines: keeps the baseline for all tests.
    """

    def __init__(
        self, registry: Registry, settings: Settings, joined: MergedTest, baselines: dict[str, Baseline]
    ) -> None:
        super().__init__(settings, registry)
        self._joined = joined
        self._baselines = baselines
        # It has one pipeline, and the labels are its sources too.
        self.sources = self.pipelines = self

    def _read_baseline(self) -> Baseline:
        if "" not in self._baselines:
            self._baselines[""] = super()._read_baseline()
        return self._baselines[""]

    @property
    def served(self) -> Mapping[str, AbstractSet[str]]:
        """The same as `Session.served`."""
        return self._joined.served

    @property
    def verdicts(self) -> Iterator[tuple[str, float]]:
        """Yield the same as a pipeline's `verdicts`."""
        return iter(self._joined.verdicts)

    @property
    def match_share(self) -> float:
        """The same as a pipeline's `match_share`."""
        return self.settings.match_share

    def of(self, _components: Components) -> "MergedSession":
        """Return this object, which has the only pipeline's results."""
        return self

    def comparison(self, comparator: str | None) -> "Comparison":
        """Return the same as a pipeline's `comparison`.

        A comparator that no score of the test uses equals no other.
        """
        return Comparison(self._joined.comparisons.get(comparator, comparator))

    def evalset(self, source: object, **_words: Any) -> object:
        """Return the eval set as it is: it is loaded already."""
        return source

    def part_of(self, evalset: EvalSet) -> EvalSet:
        """Return the joined set as it is: it is the part that the run scored."""
        return evalset

    def labels(self, source: str | Path, **_words: Any) -> object:
        """Return the labels of a source; the source itself if the judge failed."""
        return self._joined.labels.get(str(source), source)

    def calibrate(
        self, _components: Components, labels: object, comparator: str | None = None
    ) -> Calibration:
        """Return the calibration that shard 1 measured; raise its error, or InputError if there is none."""
        for (source, compared), found in self._joined.calibrations.items():
            if compared == comparator and labels in (self._joined.labels.get(source), source, Path(source)):
                if isinstance(found, RagevalError):
                    raise found
                return found
        raise InputError(f"shard 1 has no verdicts on the labels {labels}")

    def fingerprint(self, _components: Components, request: ScoreRequest) -> dict[str, Any]:
        """Return the fingerprint that the shards report; raise InputError if none does."""
        if request not in self._joined.fingerprints:
            raise InputError(f"{request.spec}: no shard says what it depends on.")
        return self._joined.fingerprints[request]

    def prompts(self, _components: Components, request: ScoreRequest) -> dict[str, str]:
        """Return the prompts of a score that the shards report; empty if none does."""
        return self._joined.prompts.get(request, {})

    def known_ranking(self, example: Example, _k: int) -> Ranking | None:
        """Return the ranking of an example that the shards report; None if none does."""
        return self._joined.rankings.get(example.id)

    def received(self, _components: Components) -> AbstractSet[str]:
        """Return the same as `Session.received`."""
        return frozenset(self._joined.about.get("received", ()))

    def score(
        self, components: Components, _evalset: EvalSet, requests: Sequence[ScoreRequest], **_beside: Any
    ) -> dict[ScoreRequest, Score | RagevalError]:
        """Return the joined score of each request, or its error."""
        compared = components.reference is not None
        return {request: self._score(request, self._joined.runs[request, compared]) for request in requests}

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
    """The way in which answers are compared."""

    text: str | None


def _as_expected(outcome: Mapping[str, str], expected: Mapping[str, Any]) -> Mapping[str, str]:
    """The outcome of a test, which may be expected to fail, in the words of pytest."""
    if expected and outcome["outcome"] in {"failed", "error"}:
        return {"outcome": "xfailed", "message": expected["reason"]}
    if expected and outcome["outcome"] == "passed" and expected["strict"]:
        return {"outcome": "failed", "message": f"[XPASS(strict)] {expected['reason']}"}
    return outcome


def _ordered(places: Sequence[int], values: Any) -> Iterator[Any]:
    """The values in the order of their places."""
    return (value for _, value in sorted(zip(places, values, strict=True), key=lambda each: each[0]))


def _prefixed(shard: Shard, text: str) -> str:
    """A shard's message; where there is one shard, the text alone."""
    index, number = shard.place
    return text if number == 1 else f"shard {index}/{number}: {text}"


def _in_order(results: Mapping[str, Any]) -> dict[str, Any]:
    return {name: results[name] for name in REPORTED_KEYS if name in results}


def _named(nodeids: Sequence[str]) -> str:
    return ", ".join(nodeids[:NAMED]) + (", …" if len(nodeids) > NAMED else "")


def _refuse(what: str, one: Shard, of_one: Any, other: Shard, of_other: Any) -> NoReturn:
    if isinstance(of_one, Mapping) and isinstance(of_other, Mapping):
        changed = [name for name in {**of_one, **of_other} if of_one.get(name) != of_other.get(name)]
        found = "; ".join(f"{name}: {of_one.get(name)} and {of_other.get(name)}" for name in changed)
    else:
        found = f"{of_one} and {of_other}"
    raise InputError(
        f"{one.name} and {other.name} are not of one run, they differ in {what}: {found:.500}.\n"
        "Merge the reports of one run, whose jobs have the same commit, packages and options."
    )


def _try(work: Callable[[], object]) -> None:
    try:
        work()
    except RagevalError:
        return


async def _not_evaluated(*_: Any) -> list[Outcome]:
    raise InputError("A merge sends no requests.")
