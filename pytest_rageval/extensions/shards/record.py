"""`ShardRecord`: the outcomes of one test in one shard, and what they depend on, for `rageval merge`.

Serializes examples, outcomes and the objects in them to plain data for a JSON file, and deserializes them.

Two parts are not written: the metadata of documents, which may contain any object, and the extra keys of examples.
Verdicts need neither. A value that occurs several times, such as an example, a ranking or a document, is written once,
to a table.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import MISSING, fields
from importlib.metadata import version
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, cast

from pytest_rageval.core.conversation import Message, QuestionWithHistory, conversation_text, history_of
from pytest_rageval.core.data import Document, EvalSet, Example, Gold, Nugget, Ranking, Span
from pytest_rageval.core.errors import Cause, QueryError, RagevalError
from pytest_rageval.core.outcome import Evidence, Outcome, Places, Score
from pytest_rageval.core.shape import check_fields, check_shape
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.evalsets.sampling import select_subset
from pytest_rageval.extensions.calibration import CALIBRATION
from pytest_rageval.extensions.calibration.calibration import Bounds, Calibration, LabelJudge
from pytest_rageval.extensions.calibration.gate import corrected_by
from pytest_rageval.extensions.calibration.human_labels import (
    HumanLabels,
    LabelledAnswer,
    LabelledPair,
    LabelledPassage,
)
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.digests import digest
from pytest_rageval.models.usage import Usage
from pytest_rageval.reports.build import Notes, error_entry, evalset_entry, score_entry
from pytest_rageval.run import FinishedRun
from pytest_rageval.run.registry import PluginScore
from pytest_rageval.run.test import TestRun, score_key
from pytest_rageval.scores import SCORES
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.intervals import UNIT

DATACLASSES: Final = {
    kind.__name__: kind
    for kind in (
        Document, Evidence, Example, Gold, HumanLabels, LabelledAnswer, LabelledPair, LabelledPassage,
        Outcome, Ranking, Tally,
    )
}  # fmt: skip
"""The dataclasses that are serialized, by name. No other class can be instantiated from a file."""

TUPLES: Final[Mapping[str, type]] = {"Nugget": Nugget, "Places": Places, "Span": Span}
"""The named tuples that are serialized, by name."""

SHARED: Final = (Document, Example, Ranking)
"""The classes whose objects are written to the table, each object once."""

OMITTED_FIELDS: Final[Mapping[type, AbstractSet[str]]] = {Document: {"metadata"}, Example: {"extra"}}

OWN_NUMBER: Final = "score"  # of a `Document`, any number that the user's retriever returns

TYPE_KEY: Final = "~"
"""The key that contains the type of a serialized object."""


class Serializer:
    """Converts objects to plain data.

    Attributes:
        table: the serialized objects of `SHARED`, to which the plain data refers by index.
    """

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[str, int] = {}
        self._known: dict[int, tuple[object, int]] = {}

    def serialize(self, value: Any) -> Any:
        """Return a value in the types of JSON; if JSON cannot represent the value, its text."""
        for kind, write in SERIALIZERS:
            if isinstance(value, kind):
                return write(self, value)
        return str(value)

    def serialize_all(self, values: Iterable[Any]) -> list[Any]:
        """Return a list of the serialized values."""
        return [self.serialize(value) for value in values]

    def serialize_shared(self, value: Any) -> dict[str, Any]:
        """Write a value to the table unless it is there; return a reference to it."""
        known = self._known.get(id(value))
        if known is None:
            serialized = self.serialize_dataclass(value)
            text = json.dumps(serialized)
            if text not in self._places:
                self._places[text] = len(self.table)
                self.table.append(serialized)
            # A reference to the value prevents that another object gets its id.
            known = self._known[id(value)] = value, self._places[text]
        return {TYPE_KEY: "at", "place": known[1]}

    def serialize_dataclass(self, value: Any) -> dict[str, Any]:
        """Return the fields of a dataclass that differ from their defaults."""
        omitted = OMITTED_FIELDS.get(type(value), ())
        values = {
            field.name: self.serialize(current)
            for field in fields(value)
            if field.name not in omitted and not _is_default(field, current := getattr(value, field.name))
        }
        return {TYPE_KEY: type(value).__name__, **values}

    def serialize_mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Return a JSON object; if a key is not a string or is `TYPE_KEY`, a list of pairs in an object."""
        if all(isinstance(key, str) for key in value) and TYPE_KEY not in value:
            return {key: self.serialize(item) for key, item in value.items()}
        return {TYPE_KEY: "dict", "of": [self.serialize_all(pair) for pair in value.items()]}


def _serialize_question(serializer: Serializer, value: QuestionWithHistory) -> Any:
    history = serializer.serialize_all(value.history)
    return {TYPE_KEY: "Question", "text": str(value), "history": history} if history else str(value)


def _serialize_query_error(_: Serializer, value: QueryError) -> dict[str, Any]:
    attributes = {"reason": value.reason, "part": value.part, "cause": value.cause}
    return {TYPE_KEY: "QueryError", "message": str(value), **attributes}


def _serialize_float(_: Serializer, value: float) -> Any:
    return float(value) if isfinite(value) else {TYPE_KEY: "float", "value": str(float(value))}


SERIALIZERS: Final[Sequence[tuple[Any, Callable[[Serializer, Any], Any]]]] = (
    (QuestionWithHistory, _serialize_question),
    ((str, int, type(None)), lambda _, value: value),
    (float, _serialize_float),
    # The integers and floats of numpy.
    (Integral, lambda _, value: int(value)),
    (Real, lambda serializer, value: _serialize_float(serializer, float(value))),
    (QueryError, _serialize_query_error),
    (
        tuple(TUPLES.values()),
        lambda serializer, value: {TYPE_KEY: type(value).__name__, "of": serializer.serialize_all(value)},
    ),
    (SHARED, Serializer.serialize_shared),
    (tuple(DATACLASSES.values()), Serializer.serialize_dataclass),
    (Mapping, Serializer.serialize_mapping),
    (
        AbstractSet,
        lambda serializer, value: {
            TYPE_KEY: "set",
            "of": serializer.serialize_all(sorted(value, key=repr)),
        },
    ),
    (list, Serializer.serialize_all),
    (Sequence, lambda serializer, value: {TYPE_KEY: "tuple", "of": serializer.serialize_all(value)}),
)
"""The serializer of each type; the first type that a value is an instance of applies."""


class Deserializer:
    """Restores objects from the plain data and the table of a `Serializer`.

    Fields of objects are checked against their types. If no `Serializer` wrote the data, the methods raise KeyError,
    TypeError or ValueError.
    """

    def __init__(self, table: Sequence[Any]) -> None:
        self._table = table
        self._restored: dict[int, Any] = {}

    def restore(self, data: Any, kind: Any) -> Any:
        """Return the value that was serialized; raise ValueError if it is not of this type (`check_shape`)."""
        value = self.deserialize(data)
        check_shape(value, kind)
        return value

    def deserialize(self, data: Any) -> Any:
        """Return the value that was serialized."""
        if isinstance(data, list):
            return [self.deserialize(item) for item in data]
        if not isinstance(data, dict):
            return data
        if TYPE_KEY not in data:
            return {key: self.deserialize(item) for key, item in data.items()}
        name = data[TYPE_KEY]
        if name in DATACLASSES:
            values = {key: self.deserialize(item) for key, item in data.items() if key != TYPE_KEY}
            own_number = values.pop(OWN_NUMBER, None) if name == Document.__name__ else None
            check_fields(DATACLASSES[name], values)
            if own_number is not None:
                # A search engine's score may be infinite, or not a number.
                if type(own_number) not in {int, float}:
                    raise ValueError(f"Document.score is {own_number!r:.40}, and must be a number, or null")
                values[OWN_NUMBER] = own_number
            return DATACLASSES[name](**values)
        if name in TUPLES:
            value = TUPLES[name](*map(self.deserialize, data["of"]))
            check_fields(TUPLES[name], value._asdict())
            return value
        return DESERIALIZERS[name](self, data)

    def deserialize_shared(self, place: int) -> Any:
        """Return the value at an index of the table, always the same object."""
        if place not in self._restored:
            self._restored[place] = self.deserialize(self._table[place])
        return self._restored[place]


DESERIALIZERS: Final[Mapping[str, Callable[[Deserializer, Mapping[str, Any]], Any]]] = {
    "at": lambda deserializer, data: deserializer.deserialize_shared(data["place"]),
    "Question": lambda deserializer, data: QuestionWithHistory(
        _text(data["text"]), deserializer.restore(data["history"], list[Message])
    ),
    "QueryError": lambda _, data: QueryError(
        *map(_text, (data["message"], data["reason"])), part=_text(data["part"]), cause=_cause(data["cause"])
    ),
    "float": lambda _, data: float(_text(data["value"])),
    "dict": lambda deserializer, data: {
        deserializer.deserialize(key): deserializer.deserialize(item) for key, item in data["of"]
    },
    "set": lambda deserializer, data: set(map(deserializer.deserialize, data["of"])),
    "tuple": lambda deserializer, data: tuple(map(deserializer.deserialize, data["of"])),
}


def _text(value: Any) -> str:
    check_shape(value, str)
    return cast("str", value)


def _cause(value: Any) -> Cause:
    check_shape(value, Cause)
    return cast("Cause", value)


def _is_default(field: Any, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    # 0.0 equals 0 and False, but is serialized differently.
    return type(value) is type(default) and bool(value == default)


FORMAT: Final = 1
"""The version of those parts of a shard's report that only a merge reads."""

VERDICT_SETTINGS: Final = (
    "comparator", "match_share", "judge_votes", "both_orders", "max_unscored", "require_baseline", "allow_missing",
    "baseline_ref", "max_removed", "policy", "repeat", "sample", "seed", "cutoffs", "draws",
    "llm_reteval_draws",
)  # fmt: skip
"""The settings that verdicts depend on."""

MARKERS: Final = ("rageval_threshold", "rageval_calibration")

Runs = Sequence[Sequence[Outcome]] | RagevalError


def shard_entry(run: FinishedRun) -> dict[str, Any]:
    """Return the key `shard` of a shard's report."""
    settings, root = run.settings, run.root
    baseline = settings.baseline
    return {
        "format": FORMAT,
        "index": settings.shard_index,
        "of": settings.shard_count,
        "package": version("pytest-rageval"),
        "settings": {name: getattr(settings, name) for name in VERDICT_SETTINGS},
        "collected": sorted(run.collected),
        "ran": sorted(run.usage_of),
        "calibration": None if settings[CALIBRATION] is None else str(settings[CALIBRATION]),
        "claims": run.claims,
        "left_out": run.left_out,
        "baseline": baseline.relative_to(root).as_posix() if baseline.is_relative_to(root) else str(baseline),
        "usage": (run.usage or Usage()).to_dict(),
        "recorded": run.recorded,
    }


class ShardRecord:
    """The record of one test in one shard.

    Args:
        test: the run of the test.

    Attributes:
        problems: the errors of scores and calibrations so far.
    """

    def __init__(self, test: TestRun) -> None:
        self._session = test.session
        self._components = test.components
        self._test = test.marked
        # A test with only the marker `rageval_calibration` needs no eval set.
        whole = test.whole_evalset if test.marked.markers("rageval_evalset") else EvalSet("", ())
        self._sampled = select_subset(whole, sample=test.session.settings.sample)
        self._part = test.session.part_of(whole)
        self._warning = test.evalset_warning()
        self._serializer = Serializer()
        self._scores: dict[tuple[ScoreRequest, bool], Mapping[str, Any]] = {}
        self._calibrations: list[Mapping[str, Any]] = []
        self._calls: list[Mapping[str, Any]] = []
        # The ids of examples whose ranking is in an outcome, and the largest k of these rankings.
        self._with_ranking: set[str] = set()
        self._largest_k = 0
        self.problems: list[str] = []

    def add_scores(
        self, thresholds: Sequence[Threshold], runs_of_score: Mapping[tuple[ScoreRequest, bool], Runs]
    ) -> Iterator[tuple[Threshold, Runs]]:
        """Record scores by `score_key`; return each threshold with the outcomes of its score, or the error."""
        for (request, compared), runs in runs_of_score.items():
            self.add_score(request, runs, compared=compared)
        return ((threshold, runs_of_score[score_key(threshold)]) for threshold in thresholds)

    def add_score(self, request: ScoreRequest, runs: Runs, *, compared: bool) -> None:
        """Record the outcomes of a score, or its error.

        Args:
            request: the score.
            runs: the outcomes of the run and of each repeat; or the error.
            compared: True if the reference retriever was timed beside.
        """
        entry = {"request": list(request), "compared": compared, **self._definition(request)}
        try:
            fingerprint = self._session.fingerprint(self._components, request)
            text = self._session.pipelines.get(self._components).comparison(request.comparator).text
            prompts = self._session.prompts(self._components, request)
        except RagevalError as error:
            runs = runs if isinstance(runs, RagevalError) else error
        else:
            serialized = self._serializer.serialize(fingerprint)
            entry |= {"fingerprint": serialized, "comparison": text, "prompts": prompts}
        if isinstance(runs, RagevalError):
            self.problems.append(str(runs))
            entry["error"] = str(runs)
        else:
            entry["runs"] = [self._serializer.serialize(list(run)) for run in runs]
            for outcome in runs[0]:
                ranking = outcome.evidence.ranking
                if ranking is not None:
                    self._largest_k = max(self._largest_k, ranking.k)
                    self._with_ranking.add(outcome.example.id)
        self._scores[request, compared] = entry

    def add_call(self, spec: str, keywords: Mapping[str, Any]) -> None:
        """Record a call of `rageval.score`."""
        self._calls.append({"spec": spec, "keywords": self._serializer.serialize(keywords)})

    def add_calibrations(self, thresholds: Sequence[Threshold]) -> None:
        """Record the judge's verdicts on labelled items; only the first shard requests them.

        Labelled items are not questions of the eval set, so they are not split into shards.
        """
        option = self._session.settings[CALIBRATION]
        corrected: dict[tuple[str | Any, str | None], set[str]] = {}
        for marker in reversed(self._test.markers("rageval_calibration")):
            bounds = Bounds.parse(marker.args, marker.kwargs)
            corrected[bounds.labels, bounds.comparator] = {"answers", "pairs", "passages"}
        for threshold in thresholds if option is not None else ():
            kind = corrected_by(self._session, threshold)
            if kind is not None:
                # The judge has judged the retrieved passages for the score itself: see `CalibrationGate.by_option`.
                corrected.setdefault((option, threshold.comparator), set()).update({kind} - {"passages"})
        for (source, comparator), kinds in (
            corrected.items() if self._session.settings.shard_index == 1 else ()
        ):
            judge = self._session.resource(LabelJudge)
            labels = judge.labels(source, bases=self._test.bases)
            pipeline = self._session.pipelines.get(self._components)
            entry = {
                "source": str(source),
                "comparator": comparator,
                "comparison": pipeline.comparison(comparator).text,
            }
            try:
                calibration = (
                    judge.calibrate(self._components, labels, comparator)
                    if labels.kind in kinds
                    else Calibration(labels, ())
                )
            except RagevalError as error:
                self.problems.append(str(error))
                self._calibrations.append({**entry, "error": str(error)})
            else:
                outcomes = self._serializer.serialize(list(calibration.outcomes))
                labelled = self._serializer.serialize(calibration.labels)
                self._calibrations.append({**entry, "labels": labelled, "outcomes": outcomes})

    def unjudged_entry(self, threshold: Threshold, runs: Runs, notes: Notes) -> dict[str, Any]:
        """Return the entry of a score for the report of this shard: over its questions, without a verdict."""
        settings = self._session.settings
        reason = f"shard {settings.shard_index}/{settings.shard_count}: judged after the merge"
        if isinstance(runs, RagevalError):
            return error_entry(threshold.spec, threshold, str(runs), notes)
        outcomes, *repeats = runs
        definition = self._session.definition(threshold.request)
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
        entry = score_entry(score, threshold, None, notes, spool=self._session.spool)
        return {**entry, "reason": reason}

    def serialize(self, *, shares_alpha: bool) -> dict[str, Any]:
        """Return the key `shard` of the test's entry in the report: the record as plain data."""
        places = {example.id: place for place, example in enumerate(self._sampled.examples)}
        evalset = evalset_entry(self._sampled)
        if self._warning:
            evalset = {**evalset, "warnings": [*evalset.get("warnings", ()), self._warning]}
        serialize, path, root = self._serializer.serialize, self._test.path, self._test.root
        entry = {
            "file": path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name,
            "evalset": evalset,
            "places": [places[example.id] for example in self._part.examples],
            "examples": serialize(list(self._part.examples)),
            "markers": {
                name: [
                    {"args": serialize(list(marker.args)), "kwargs": serialize(marker.kwargs)}
                    for marker in self._test.markers(name)
                ]
                for name in MARKERS
            },
            "shares_alpha": shares_alpha,
            "scores": list(self._scores.values()),
            "calibrations": self._calibrations,
            "calls": self._calls,
            "served": {model: sorted(names) for model, names in self._session.served.items()},
        }
        # The error of an invalid retriever is already the error of each score.
        with suppress(RagevalError):
            entry["own_k"] = self._session.own_k(self._components)
            entry["received"] = sorted(self._session.received(self._components))
            entry["verdicts"] = self._verdicts()
            entry["rankings"] = self._rankings()
        return {**entry, "table": self._serializer.table}

    def _rankings(self) -> list[list[Any]]:
        """Return the rankings that no outcome contains, each with the example's index in the shard."""
        pipeline = self._session.pipelines.get(self._components)
        return [
            [place, self._serializer.serialize(ranking)]
            for place, example in enumerate(self._part.examples)
            if example.id not in self._with_ranking
            and (ranking := pipeline.known_ranking(example, self._largest_k)) is not None
        ]

    def _verdicts(self) -> list[list[Any]]:
        """Return the judge's verdicts on the shard's questions.

        Each is a list: a digest of the judged texts, the example's index in the shard, and the verdict.
        """
        places = {example.full_question: place for place, example in enumerate(self._part.examples)}
        judged = self._session.pipelines.get(self._components).recorded_verdicts
        # Sorted: the judge is asked about several answers at once, and replies in any order.
        return sorted(
            [
                digest([*map(str, texts), conversation_text(history_of(texts[0]))])[:16],
                places[texts[0]],
                verdict,
            ]
            for texts, verdict in judged.items()
            if texts[0] in places
        )

    def _definition(self, request: ScoreRequest) -> dict[str, Any]:
        """Return the definition of a plugin's score, because a merge loads no plugins; empty for a built-in score."""
        name = Spec.parse(request.spec).measure
        if name in SCORES:
            return {}
        score: ScoreDef = self._session.definition(request)
        return {
            "definition": {
                "name": name,
                "asks": None if score.asks_all else sorted(getattr(ask, "name", ask) for ask in score.asks),
                "scale": self._serializer.serialize(score.scale),
                "corrected_by": score.corrected_by,
                "pooled": isinstance(score.evaluate, PluginScore),
            }
        }
