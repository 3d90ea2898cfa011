"""Converting records to examples and back, and the errors for records that cannot be used."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold, Nugget, SubsetInfo
from pytest_rageval.evalsets import load, load_records, write_jsonl
from pytest_rageval.evalsets.records import check_evalset, example_from, from_records

PLACE = "support.jsonl line 3"


def _record(**fields: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Q?"} | fields


def _error(record: Any) -> str:
    with pytest.raises(InputError) as caught:
        example_from(record, place=PLACE)
    return str(caught.value)


def test_id_and_question_are_enough() -> None:
    least = example_from(_record(), place=PLACE)
    nulls = dict.fromkeys(("answers", "answer_set", "gold", "reference", "tags"))
    empty: dict[str, Any] = {"answers": [], "answer_set": [], "gold": [], "tags": {}}
    assert example_from(_record(**nulls), place=PLACE) == least
    assert example_from(_record(**empty), place=PLACE) == least
    assert (least.answers, least.gold, least.reference) == ((), (), None)


@pytest.mark.parametrize(
    ("given", "expected"), [(17, "17"), (0, "0"), ("q 17", "q 17"), (17.0, "17"), ("1.0", "1.0")]
)
def test_ids_may_be_whole_numbers(given: object, expected: str) -> None:
    example = example_from({"id": given, "question": "Q?", "gold": [{"id": given}]}, place=PLACE)
    assert (example.id, example.gold) == (expected, (Gold(id=expected),))


@pytest.mark.parametrize("grade", [0, 1, 3, 2.0, None])
def test_grades_are_whole_numbers(grade: float | None) -> None:
    """A grade may be written 2.0; null is the default, 1."""
    gold = example_from(_record(gold=[{"id": "d", "grade": grade}]), place=PLACE).gold[0]
    assert gold.grade == (1 if grade is None else int(grade))
    assert isinstance(gold.grade, int)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({}, '"id" is missing. Found: nothing'),
        ({"id": "q1"}, '"question" is missing. Found: id'),
        ({"qid": 1, "query": "x"}, '"id" is missing. Found: qid, query'),
        (_record(id=None), '"id" is null, expected text'),
        (_record(id=True), '"id" is True, expected text'),
        (_record(id=1.5), '"id" is 1.5, expected text'),
        (_record(id=1e300), '"id" is 1e+300, expected text'),
        (_record(id=float("nan")), '"id" is not a number, expected text'),
        (_record(id=" "), '"id" is an empty text, expected text'),
        (_record(question=""), '"question" is an empty text, expected text'),
        (_record(question=5), '"question" is 5, expected text'),
        (_record(question=["Q?"]), '"question" is a list, expected text'),
        (_record(answers="Tulsa"), "\"answers\" is the text 'Tulsa', expected a list"),
        (_record(answers=["Tulsa", None]), '"answers"[1] is null, expected text'),
        (_record(answers=[{"text": "Tulsa"}]), '"answers"[0] is an object, expected text'),
        (_record(answer_set=["Tulsa"]), "\"answer_set\"[0] is the text 'Tulsa', expected a list"),
        (_record(answer_set=[["a"], []]), '"answer_set"[1] is an empty list'),
        (_record(answer_set=[["a", 1]]), '"answer_set"[0][1] is 1, expected text'),
        (_record(reference=["a"]), '"reference" is a list, expected text'),
        (_record(tags=["billing"]), '"tags" is a list, expected an object'),
        (_record(tags=float("nan")), '"tags" is not a number, expected an object'),
        (_record(gold={"id": "d"}), '"gold" is an object, expected a list'),
        (_record(gold=["doc-4"]), "\"gold\"[0] is the text 'doc-4', expected an object"),
        (_record(gold=[{"id": "d"}, {}]), '"gold"[1] does not say which passage it is'),
        (_record(gold=[None]), '"gold"[0] does not say which passage it is'),
        (_record(gold=[{"grade": 1}]), '"gold"[0] does not say which passage it is'),
        (_record(gold=[{"docid": "d", "rel": 1}]), '"gold"[0] has unknown keys: docid, rel'),
        (_record(gold=[{"id": ""}]), '"gold"[0] does not say which passage it is: its id is an empty text'),
        (
            _record(gold=[{"id": "nan"}]),
            "\"gold\"[0] does not say which passage it is: its id is the text 'nan'",
        ),
        (_record(gold=[{"id": True}]), '"gold"[0] "id" is True, expected text or an integer'),
        (_record(gold=[{"id": ["d"]}]), '"gold"[0] "id" is a list, expected text or an integer'),
        (_record(gold=[{"id": 7}, {"id": "7.0"}]), '"gold"[1] is the same passage as one before it'),
        (
            _record(gold=[{"id": "7", "text": "t"}, {"id": 7.0}]),
            '"gold"[1] is the same passage as one before it',
        ),
        (_record(id="None"), "\"id\" is the text 'None', expected text or an integer"),
        (_record(gold=[{"text": 3}]), '"gold"[0] "text" is 3, expected text'),
        (_record(gold=[{"id": "d", "grade": -1}]), '"gold"[0] "grade" is -1, expected an integer'),
        (_record(gold=[{"id": "d", "grade": 0.5}]), '"gold"[0] "grade" is 0.5, expected an integer'),
        (_record(gold=[{"id": "d", "grade": True}]), '"gold"[0] "grade" is True, expected an integer'),
        (_record(gold=[{"id": "d", "grade": "high"}]), '"gold"[0] "grade" is the text \'high\''),
        (_record(gold=[{"source": "a.md"}]), '"gold"[0] has an incomplete or empty span'),
        (_record(gold=[{"source": "a.md", "start": 3}]), '"gold"[0] has an incomplete or empty span'),
        (
            _record(gold=[{"source": "a.md", "start": 3, "end": 3}]),
            '"gold"[0] has an incomplete or empty span',
        ),
        (_record(gold=[{"id": "d", "start": 3, "end": 9}]), '"gold"[0] has an incomplete or empty span'),
        (_record(gold=[{"source": "a.md", "start": -1, "end": 3}]), '"gold"[0] "start" is -1'),
        (
            _record(gold=[{"id": "d"}, {"id": "d", "grade": 2}]),
            '"gold"[1] is the same passage as one before it',
        ),
        (_record(gold=[{"text": "t"}, {"text": "t"}]), '"gold"[1] is the same passage as one before it'),
        (
            _record(gold=[{"source": "a", "start": 0, "end": 2}] * 2),
            '"gold"[1] is the same passage as one before it',
        ),
        (_record(nuggets="a"), "\"nuggets\" is the text 'a', expected a list"),
        (_record(nuggets=[" "]), '"nuggets"[0] is an empty text'),
        (_record(nuggets=[3]), '"nuggets"[0] is 3, expected an object'),
        (_record(nuggets=["a", {"vital": True}]), '"nuggets"[1] has no "text"'),
        (_record(nuggets=["a", {"text": None}]), '"nuggets"[1] "text" is null, expected text'),
        (_record(nuggets=[{"text": "a", "weight": 1}]), '"nuggets"[0] has unknown keys: weight'),
        (_record(nuggets=[{"text": "a", "vital": "no"}]), '"nuggets"[0] "vital" is the text \'no\''),
        (
            _record(nuggets=[{"text": "a", "importance": "ok"}]),
            '"nuggets"[0] "importance" is the text \'ok\'',
        ),
        (
            _record(nuggets=[{"text": "a", "importance": "okay", "vital": True}]),
            '"nuggets"[0] is okay, and "vital" is True',
        ),
        (_record(nuggets=["a", {"text": "a"}]), '"nuggets"[1] is the same nugget as one before it'),
    ],
)
def test_what_does_not_fit_is_named_with_place_and_remedy(record: dict[str, Any], problem: str) -> None:
    first, remedy = _error(record).split("\n", 1)
    assert first.startswith(f"{PLACE}: {problem}")
    assert first.endswith(".")
    assert remedy.endswith((".", "}", "]", '"'))


def test_nuggets_are_vital_unless_they_say_otherwise() -> None:
    """Nuggets are texts, or objects with `vital`, or with `importance` as AutoNuggetizer writes it."""
    nuggets = [
        "a",
        {"text": "b"},
        {"text": "c", "vital": False},
        {"text": "d", "importance": "okay"},
        {"text": "e", "importance": "vital", "vital": None},
    ]
    example = example_from(_record(nuggets=nuggets), place=PLACE)
    vital = {"a": True, "b": True, "c": False, "d": False, "e": True}
    assert example.nuggets == tuple(Nugget(*item) for item in vital.items())
    assert not example.extra


def test_the_remedy_says_what_to_write() -> None:
    assert 'fields={"id": "#"}' in _error({"question": "Q?"})
    assert "#" not in _error({"id": 1})
    assert 'Write {"id": "d1"} for the passage with the id d1' in _error(_record(gold=["d1"]))
    assert "\nGive a string that is not empty." in _error(_record(question=""))
    assert '\nA span is {"source": "handbook.md", "start": 120' in _error(_record(gold=[{"source": "a"}]))


def test_records_come_with_their_places() -> None:
    good = [("record 1", _record(id="a")), ("record 2", _record(id="1"))]
    assert [example.id for example in from_records(good, name="records")] == ["a", "1"]
    for again, place in (("a", 1), (1, 2)):
        with pytest.raises(
            InputError, match=rf'^record 3: the id "{again}" is already that of record {place}\.'
        ):
            from_records([*good, ("record 3", _record(id=again))], name="records")
    with pytest.raises(InputError, match=r"^records contains no examples\."):
        from_records([], name="records")


def test_a_line_has_what_there_is_and_no_more(tmp_path: Path) -> None:
    example = Example("ü", "Wo?", gold=(Gold("d"), Gold(text="t", grade=0)), extra={"n": 1})
    write_jsonl(EvalSet("s", (example,)), tmp_path / "s.jsonl")
    assert (tmp_path / "s.jsonl").read_text(encoding="utf-8") == (
        '{"id": "ü", "question": "Wo?", "gold": [{"id": "d"}, {"text": "t", "grade": 0}], "n": 1}\n'
    )


def test_nuggets_are_written_and_read_back(tmp_path: Path) -> None:
    evalset = EvalSet("s", (Example("a", "Q?", nuggets=(Nugget("one"), Nugget("two", vital=False))),))
    write_jsonl(evalset, tmp_path / "s.jsonl")
    loaded = load(tmp_path / "s.jsonl")
    assert (loaded.digest, loaded.examples) == (evalset.digest, evalset.examples)


def test_nuggets_in_the_cells_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    cell = '"[{""text"": ""d"", ""vital"": false}]"'
    path.write_text(f"id,question,nuggets\n1,Q?,a\n2,R?,b | c\n3,S?,{cell}\n4,T?,\n", encoding="utf-8")
    nuggets = [example.nuggets for example in load(path, separator=" | ")]
    assert nuggets == [(Nugget("a"),), (Nugget("b"), Nugget("c")), (Nugget("d", vital=False),), ()]


def test_half_a_surrogate_pair_is_written_escaped(tmp_path: Path) -> None:
    evalset = EvalSet("s", (Example("a", "\ud83d?"),))
    write_jsonl(evalset, tmp_path / "s.jsonl")
    assert load(tmp_path / "s.jsonl").digest == evalset.digest


def test_a_key_of_the_form_under_extra_is_refused(tmp_path: Path) -> None:
    """A native field under `extra` is an error, as it would be read as that field."""
    path = tmp_path / "s.jsonl"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(InputError, match="The example 'a' has gold under extra"):
        write_jsonl(EvalSet("s", (Example("a", "Q?", extra={"gold": []}),)), path)
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The eval set .*s\.jsonl cannot be written: No such file"):
        write_jsonl(EvalSet("s", (Example("a", "Q?"),)), tmp_path / "none" / "s.jsonl")


WHOLE = Example(
    "q1",
    "Q?",
    answers=("a",),
    answer_set=(("a", "b"),),
    gold=(Gold("d"), Gold(text="t", source="a.md", start=1, end=5, grade=2, group="g")),
    reference="r",
    tags={"topic": "x"},
    extra={"answers": 1, "metadata": 2},
    history=({"role": "user", "content": "Hi"},),
    filters={"tenant": "acme"},
    metadata={"lang": "en"},
    nuggets=(Nugget("n"), Nugget("m", vital=False)),
)


@dataclass(frozen=True)
class _ExampleWithSource(Example):
    origin: str = ""


def test_an_eval_set_without_mistakes_is_the_same_object() -> None:
    evalset = EvalSet("mine", (WHOLE, _ExampleWithSource("q2", "R?", origin="x")), SubsetInfo(9, 0.5))
    assert check_evalset(evalset) is evalset


@pytest.mark.parametrize("sample", [{}, {"sample": 2}])
def test_an_eval_set_that_was_read_is_not_checked_again(tmp_path, monkeypatch, sample):
    """An eval set that was loaded from a file, which may have 100,000 examples, is not checked again."""
    lines = [f'{{"id": "q{number}", "question": "Q?"}}\n' for number in range(3)]
    (tmp_path / "s.jsonl").write_text("".join(lines), encoding="utf-8")
    evalset = load(tmp_path / "s.jsonl", **sample)
    monkeypatch.setattr("pytest_rageval.evalsets.records.from_records", None)
    assert check_evalset(evalset) is evalset


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (replace(WHOLE, id=1), replace(WHOLE, id="1")),
        (replace(WHOLE, id=np.int64(1)), replace(WHOLE, id="1")),
        (replace(WHOLE, gold=(Gold(1),)), replace(WHOLE, gold=(Gold("1"),))),
        (replace(WHOLE, gold=[Gold("d")]), replace(WHOLE, gold=(Gold("d"),))),
        (replace(WHOLE, gold=({"id": "d"},)), replace(WHOLE, gold=(Gold("d"),))),
        (replace(WHOLE, answers=["a"]), WHOLE),
        (replace(WHOLE, nuggets=["n", {"text": "m", "vital": False}]), WHOLE),
        (replace(WHOLE, history=[*WHOLE.history]), WHOLE),
        (replace(WHOLE, tags=MappingProxyType(dict(WHOLE.tags))), WHOLE),
        (replace(WHOLE, tags=None, filters=None), replace(WHOLE, tags={}, filters={})),
        ({"id": 1, "question": "Q?", "gold": [{"id": 2}]}, Example("1", "Q?", gold=(Gold("2"),))),
        (_ExampleWithSource(1, "Q?", origin="x"), _ExampleWithSource("1", "Q?", origin="x")),
    ],
)
def test_examples_in_python_are_read_as_records_are(given: Any, expected: Example) -> None:
    evalset = check_evalset(EvalSet("mine", [given], SubsetInfo(9)))
    assert (evalset.name, evalset.examples, evalset.part) == ("mine", (expected,), SubsetInfo(9))
    assert type(evalset.examples[0]) is type(expected)
    assert isinstance(evalset.examples[0].tags, dict)
    records = load_records([given])
    assert records.examples == (expected,)


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (replace(WHOLE, id=None), '"id" is null, expected text'),
        (replace(WHOLE, question=None), '"question" is null, expected text'),
        (replace(WHOLE, answers="a"), "\"answers\" is the text 'a', expected a list"),
        (replace(WHOLE, gold=("d",)), "\"gold\"[0] is the text 'd', expected an object"),
        (replace(WHOLE, gold=Gold("d")), '"gold" is a Gold, expected a list'),
        (replace(WHOLE, gold=(Gold(),)), '"gold"[0] does not say which passage it is'),
        (replace(WHOLE, gold=(Gold("d", grade=0.5),)), '"gold"[0] "grade" is 0.5, expected an integer'),
        (replace(WHOLE, tags=["a"]), '"tags" is a list, expected an object'),
        (replace(WHOLE, extra={"x": {1}}), '"extra" holds what JSON cannot*'),
        (replace(WHOLE, filters=["a"]), '"filters" is a list, expected an object'),
        (replace(WHOLE, history=("Hi",)), "\"history\"[0] is the text 'Hi', expected a message"),
        ("q1", "an example is an object, found the text 'q1'"),
    ],
)
def test_an_example_in_python_that_cannot_be_used_is_named(example: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        check_evalset(
            EvalSet("mine", (WHOLE if example == "q1" else {"id": "q0", "question": "Q?"}, example))
        )
    first, remedy = str(caught.value).split("\n", 1)
    place, _, problem = first.partition(": ")
    assert place == "EvalSet 'mine', example 2"
    assert problem.startswith(expected.rstrip("*"))
    assert remedy


@pytest.mark.parametrize(
    ("evalset", "message"),
    [
        (
            EvalSet("mine", (WHOLE, WHOLE)),
            "EvalSet 'mine', example 2: the id \"q1\" is already that of EvalSet 'mine', *",
        ),
        (EvalSet("mine", ()), "mine contains no examples.*"),
        (EvalSet("mine", WHOLE), "EvalSet 'mine': \"examples\" is a Example, expected a list.*"),
        (EvalSet(None, (WHOLE,)), 'EvalSet None: "name" is null, expected text.*'),
    ],
)
def test_an_eval_set_in_python_that_cannot_be_used_is_an_error(evalset: EvalSet, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_evalset(evalset)
    pytest.LineMatcher([" ".join(str(caught.value).splitlines())]).fnmatch_lines(
        [message.replace("[", "[[]")]
    )
