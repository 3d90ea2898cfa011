"""The text of the baseline file: one line per question, so that git merges it and shows what changed.

The line of a question has its digest, its score by each score of the test, and the ranking, answer and so on that they
are based on. What is the same for all scores is written once; what differs, by score. A ranking that is the beginning
of the longest one is written as its length. In memory each score has examples of its own, whose rankings and answers
are in a spool.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import inf, isnan, nan
from sys import intern
from types import NoneType
from typing import Any, Final, Self, cast

from pytest_rageval.baseline.entries import AnchorEntry, BaselineEntry, BaselineExample
from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.text import unique_keys

SCHEMA: Final = 2

MAX_SPREAD_DEPTH: Final = 3
"""Objects down to this depth have a line per key. Deeper ones, of a question or a score, take a single line each."""

MAX_INTEGER_DIGITS: Final = 300  # an integer with more digits is read as infinite
NUMBER_TYPES: Final = frozenset({int, float})
MAX_SCORE: Final = 1e100  # sums and squares of larger scores overflow
NO_POSITION: Final = -(2**63)  # the position in the spool of an example without a ranking or an answer


class SpooledExample(Mapping[str, object]):
    """A `BaselineExample`; its ranking and answer are in a spool, at `position`, until they are read."""

    __slots__ = ("_known", "_position", "_spool")

    def __init__(self, spool: Spool, score: float | None, under: str | None, position: int) -> None:
        self._spool, self._position = spool, position
        self._known: dict[str, object] = (
            {"score": score} if under is None else {"score": score, "under": under}
        )

    def __getitem__(self, key: str) -> Any:
        return self._known[key] if key in self._known else self._all[key]

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`; faster than the inherited method, since it is called for each of 100,000 examples."""
        return self._known[key] if key in self._known else self._all.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        """The text of the dict, which an error message may quote."""
        return repr(self._all)

    @property
    def _all(self) -> dict[str, object]:
        if self._position != NO_POSITION:
            self._known |= cast("dict[str, object]", self._spool.get(self._position))
            self._position = NO_POSITION
        return self._known


class SpooledExamples(Mapping[str, SpooledExample]):
    """The examples of a score by id, stored as columns: an object per example would take 0.3 kB.

    `index` has the row of each example by its id; scores of the same questions share it.
    """

    __slots__ = ("_positions", "_scores", "_spool", "_under", "index")

    index: dict[str, int]

    def __init__(self, spool: Spool) -> None:
        self._spool, self._positions, self.index = spool, array("q"), {}
        self._scores: list[float | None] | array[float] = []
        self._under: list[str | None] = []

    def append(self, score: float | None, under: str | None, position: int | None) -> None:
        """Add a row; `close` gives the rows their ids."""
        self._scores.append(score)  # type: ignore[arg-type]  # a list until `close`
        self._under.append(under and intern(under))
        self._positions.append(NO_POSITION if position is None else position)

    def close(self, index: dict[str, int]) -> Self:
        """Store the rows, which are complete, in less memory."""
        # With an integer among them the scores stay in a list, so that it is written as it was read, not as a float.
        if {float, NoneType}.issuperset(map(type, self._scores)):
            self._scores = array("d", [nan if score is None else score for score in self._scores])
        if len(set(self._under)) == 1:
            del self._under[1:]
        self.index = index
        return self

    def __getitem__(self, key: str) -> SpooledExample:
        row = self.index[key]
        under = self._under[row if len(self._under) > 1 else 0]
        return SpooledExample(self._spool, self.score_of(key), under, self._positions[row])

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`; unlike the inherited method it raises no KeyError internally."""
        return self[key] if key in self.index else default

    def __contains__(self, key: object) -> bool:
        return key in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return repr(dict(self))

    def score_of(self, key: str) -> float | None:
        score = self._scores[self.index[key]]
        return None if score is None or isnan(score) else score

    def ids_under(self, digest: str) -> AbstractSet[str]:
        if len(self._under) == 1:
            return self.index.keys() if self._under[0] in {None, digest} else frozenset()
        return {name for name, row in self.index.items() if self._under[row] in {None, digest}}


def spooled_examples(
    examples: Iterable[tuple[str, BaselineExample]], spool: Spool
) -> Mapping[str, BaselineExample]:
    """Return these examples, by id, with their rankings and answers in the spool."""
    stored, index = SpooledExamples(spool), dict[str, int]()
    for name, example in examples:
        evidence = {key: value for key, value in example.items() if key not in {"score", "under"}}
        position = spool.put(evidence, plain=True) if evidence else None
        stored.append(example["score"], example.get("under"), position)
        index[name] = len(index)
    return cast("Mapping[str, BaselineExample]", stored.close(index) if index else {})


def ids_under(examples: Mapping[str, BaselineExample], digest: str) -> AbstractSet[str]:
    """Return the ids of the examples that were scored under the fingerprint with this digest."""
    if isinstance(examples, SpooledExamples):
        return examples.ids_under(digest)
    return {name for name, example in examples.items() if example.get("under", digest) == digest}


def score_getter(examples: Mapping[str, BaselineExample]) -> Callable[[str], float | None]:
    """Return a function of an id that returns the score of the example, and creates no example."""
    return (
        examples.score_of if isinstance(examples, SpooledExamples) else lambda name: examples[name]["score"]
    )


class _Digest(str):
    """The digest of a question whose examples are stored."""

    __slots__ = ()


class _Questions(dict[str, str]):
    """The questions of a test, with the examples of each score."""

    columns: Mapping[str, SpooledExamples]


class _Decoder:
    """Decodes the objects of a file, and stores the examples of each question in a spool as soon as it is read."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._rows = 0
        self._columns: defaultdict[str, tuple[SpooledExamples, array[int]]] = defaultdict(
            lambda: (SpooledExamples(self._spool), array("l"))
        )

    def decode(self, pairs: list[tuple[str, Any]]) -> Mapping[str, object]:
        """Return an object of the file. It is the `object_pairs_hook` of the decoder."""
        decoded = unique_keys(pairs)
        # "digest" and "scores" may be the ids of two questions, too.
        if "digest" in decoded and "scores" in decoded and type(decoded["digest"]) is not _Digest:
            try:
                examples = _examples(decoded)
            except ValueError:
                return decoded  # reported with its place
            last, position = None, None
            for name, score, under, evidence in examples:
                if evidence != last:
                    last, position = evidence, self._spool.put(evidence, plain=True) if evidence else None
                column, rows = self._columns[name]
                column.append(score, under, position)
                rows.append(self._rows)
            self._rows += 1
            return cast("Mapping[str, object]", _Digest(decoded["digest"]))
        if self._rows == len(pairs) and pairs and type(pairs[0][1]) is _Digest:
            return self._questions(decoded)
        return decoded

    def _questions(self, digests: Mapping[str, _Digest]) -> _Questions:
        questions = _Questions((name, str(digest)) for name, digest in digests.items())
        shared, names = {name: row for row, name in enumerate(questions)}, [*questions]
        questions.columns = {
            score: column.close(
                shared if len(rows) == len(names) else {names[row]: i for i, row in enumerate(rows)}
            )
            for score, (column, rows) in self._columns.items()
        }
        self._rows = 0
        self._columns.clear()
        return questions


def decode(text: str) -> Any:
    """Return the JSON document of a file; raise ValueError or RecursionError if it is none."""
    return json.loads(text, object_pairs_hook=_Decoder().decode, parse_int=_parse_integer)


def take_entries(document: dict[str, object]) -> None:
    """Replace the tests and anchors of a document by entries; raise ValueError, with the place, for what is wrong."""
    tests = _object(document.get("tests"), "it has no object of tests")
    anchors = _object(document.setdefault("anchors", {}), "its anchors are not an object")
    by_place = {f"the anchor of {nodeid}": anchor for nodeid, anchor in anchors.items()}
    for where, test in (*tests.items(), *by_place.items()):
        (_take_of_first_schema if document["schema"] == 1 else _take_examples)(test, where)
        for name, tags in _object(test.get("tags", {}), f"{where} has tags that are not an object").items():
            _object(tags, f"question {name} of {where} has tags that are not an object")
    for where, anchor in by_place.items():
        _check_count(anchor, "updates", where, 0)
        texts = (anchor.get("date"), anchor.get("commit", ""))
        if "updates" not in anchor or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where} does not say when it was pinned, by date, commit and updates")


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else inf


def _take_examples(test: dict[str, object], where: str) -> None:
    """Give each score of a test the examples that were read with its questions."""
    questions, scores = (_object_at(test, key, where) for key in ("questions", "scores"))
    columns: Mapping[str, SpooledExamples] = getattr(questions, "columns", {})
    if type(questions) is not _Questions:
        for name, question in questions.items():
            try:
                if type(question) is not _Digest:  # whose examples were read
                    _examples(question, where)
            except ValueError as error:
                raise ValueError(f"question {name} {error}") from None
        if questions:
            raise ValueError(f"{where} has an object with a digest and scores that is none of its questions")
    for name in (*scores, *columns):
        score = _checked_score(_object(scores.get(name), f"{where} has no object of {name}"), where, name)
        score["examples"] = columns.get(name, {})
    test["questions"] = dict(questions)


def _take_of_first_schema(test: dict[str, object], where: str) -> None:
    """Check a test of a file that has the examples, with their rankings, by score; store them in a spool."""
    questions, scores = (_object_at(test, key, where) for key in ("questions", "scores"))
    if not all(isinstance(question_digest, str) for question_digest in questions.values()):
        raise ValueError(f"{where} has a question without a digest")
    for name in scores:
        score = _checked_score(_object(scores[name], f"{where} has no object of {name}"), where, name)
        examples = _object_at(score, "examples", f"{name} of {where}")
        for example_id, example in examples.items():
            problem = f"is {example!r:.40}, which is not an object"
            if isinstance(example, dict):
                has_score = "score" in example
                problem = (
                    _score_problem(example["score"]) or _problem(example) if has_score else "has no score"
                )
            if problem:
                raise ValueError(f"question {example_id} in {name} of {where} {problem}")
        score["examples"] = spooled_examples(examples.items(), Spool())


def _checked_score(score: dict[str, object], where: str, name: str) -> dict[str, object]:
    where = f"{name} of {where}"
    for key, value in _object_at(score, "fingerprint", where).items():
        if isinstance(value, dict | list):
            raise ValueError(  # noqa: TRY004 - the file is at fault
                f"{where} has in its fingerprint {key} = {value!r:.40}, which is neither text nor number"
            )
    for key, least in (("repeats", 1), ("raised", 0), ("lowered", 0)):
        _check_count(score, key, where, least)
    return score


def _check_count(value: Mapping[str, object], key: str, where: str, least: int) -> None:
    number = value.get(key, least)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(
            f"{where} has {key} = {number!r:.40}, which is not a whole number of at least {least}"
        )


def _object_at(value: Any, key: str, where: str) -> dict[str, Any]:
    """Return the object at a key of an object; raise ValueError if either is no object."""
    problem = f"{where} has no object of {key}"
    return _object(_object(value, problem).get(key), problem)


def _object(value: Any, problem: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(problem)  # noqa: TRY004 - the file is at fault
    return value


def _examples(
    question: Any, where: str = ""
) -> list[tuple[str, float | None, str | None, dict[str, object]]]:
    """Return by score what the object of a question has: the score, the digest of the fingerprint, and the evidence.

    Raises:
        ValueError: what is wrong with the object.
    """
    if not isinstance(question, dict) or not isinstance(question.get("digest"), str):
        raise ValueError(f"in {where} has no digest")  # noqa: TRY004 - the file is at fault
    scores = _object(question.get("scores"), f"in {where} has no object of scores")
    common, by_score = {}, {}
    for key, value in question.items():
        if isinstance(value, dict):
            by_score[key] = value
        elif key != "digest":
            common[key] = value
    del by_score["scores"]
    problem = _unknown_score(by_score, scores) or _problem(common)
    under = common.pop("under", None)
    examples = []
    for name, score in scores.items():
        problem = problem or _score_problem(score)
        if by_score:
            own = {**common, "under": under} if under is not None else {**common}
            for key, values in by_score.items():
                if name in values:
                    own[key] = _ranking(values, name) if key == "ranking" else values[name]
            problem = problem or _problem(own)
            examples.append((name, score, own.pop("under", None), own))
        else:
            examples.append((name, score, under, common))
        if problem:
            raise ValueError(f"in {name} of {where} {problem}")
    return examples


def _unknown_score(by_score: Mapping[str, dict[str, object]], scores: Mapping[str, object]) -> str:
    """Return what is given by the name of a score that the question lacks; empty if there is none."""
    for key in by_score.keys() & BaselineExample.__annotations__.keys():
        for name in by_score[key].keys() - scores.keys():
            return f"has as {key} that of {name}, which is none of its scores"
    return ""


def _ranking(by_score: dict[str, object], name: str) -> Any:
    """Return the ranking of a score, which may be written as the length of the beginning of the longest one."""
    own = by_score[name]
    if type(own) is not int:
        return own
    longest: list[str] = max(
        (each for each in by_score.values() if isinstance(each, list)), key=len, default=[]
    )
    return longest[:own] if 0 <= own <= len(longest) else own


def _score_problem(score: Any) -> str:
    # The exact type is compared, since a boolean is an instance of `int`.
    if score is None or (type(score) in NUMBER_TYPES and -MAX_SCORE <= score <= MAX_SCORE):
        return ""
    return f"has the score {score!r:.40}; that is a number, or null where there is none"


def _problem(evidence: Mapping[str, object]) -> str:
    """Return what is wrong with what a score is based on; empty if it is valid."""
    ranking, runs = evidence.get("ranking", []), evidence.get("runs", 1)
    if not isinstance(ranking, list) or not {str}.issuperset(map(type, ranking)):
        return f"has the ranking {ranking!r:.40}, which is not a list of texts"
    for key in ("answer", "under"):
        if key in evidence and not isinstance(evidence[key], str):
            return f"has as {key} {evidence[key]!r:.40}, which is not a text"
    is_count = type(runs) is int and runs >= 1
    return "" if is_count else f"has runs = {runs!r:.40}, which is not a whole number of at least 1"


def document_lines(tests: Mapping[str, BaselineEntry], anchors: Mapping[str, AnchorEntry]) -> Iterator[str]:
    """Yield the lines of a file."""
    document: dict[str, object] = {"schema": SCHEMA}
    for part, entries in (("tests", tests), ("anchors", anchors)):
        if entries or part == "tests":
            document[part] = {nodeid: _written_entry(entry) for nodeid, entry in entries.items()}
    return _json_lines(document, 0)


def _written_entry(entry: BaselineEntry) -> dict[str, object]:
    scores = {
        name: {key: value for key, value in score.items() if key != "examples"}
        for name, score in entry["scores"].items()
    }
    return {**entry, "questions": _WrittenQuestions(entry), "scores": scores}


class _WrittenQuestions(Mapping[str, object]):
    """The questions of a test as the file has them. Each is created when it is written."""

    def __init__(self, entry: BaselineEntry) -> None:
        self._digests = entry["questions"]
        self._examples = {name: entry["scores"][name]["examples"] for name in sorted(entry["scores"])}

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, name: str) -> dict[str, object]:
        own = {score: examples[name] for score, examples in self._examples.items() if name in examples}
        question: dict[str, object] = {
            "digest": self._digests[name],
            "scores": {score: example["score"] for score, example in own.items()},
        }
        for key in dict.fromkeys(key for example in own.values() for key in example if key != "score"):
            values = {score: example[key] for score, example in own.items() if key in example}  # type: ignore[literal-required]
            question[key] = _once(values, len(own))
        return question


def _once(by_score: dict[str, Any], scores: int) -> Any:
    """Return what the scores of a question have in common; or by score, where they differ or not all have it."""
    first = next(iter(by_score.values()))
    is_list = isinstance(first, list)
    if (
        len(by_score) == scores
        and not isinstance(first, dict)
        and all(own == first for own in by_score.values())
    ):
        return first
    if not is_list:
        return by_score
    longest = max(by_score.values(), key=len)
    owner = next(score for score, own in by_score.items() if own == longest)
    return {
        score: own if score == owner or own != longest[: len(own)] else len(own)
        for score, own in by_score.items()
    }


def _json_lines(value: Any, depth: int, *, name: str = "", end: str = "") -> Iterator[str]:
    """Yield the lines of a JSON document. `name` is the key of the value, and `end` the comma after it, or nothing."""
    head = " " * depth + (f"{json.dumps(name, ensure_ascii=False)}: " if name else "")
    if not (isinstance(value, Mapping) and value) or depth > MAX_SPREAD_DEPTH:
        yield head + _ENCODER.encode(value) + end
        return
    yield head + "{"
    keys = sorted(value)
    for key in keys:
        yield from _json_lines(value[key], depth + 1, name=key, end="" if key == keys[-1] else ",")
    yield " " * depth + "}" + end


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False, default=dict)
