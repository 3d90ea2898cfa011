"""Field maps, tables, and keys that resemble a field."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.evalsets import LoadOptions, load
from pytest_rageval.evalsets.field_map import NearMiss, map_fields, near_misses


def _one(record: dict[str, Any], **fields: str) -> dict[str, Any]:
    ((_, mapped),) = map_fields(
        [("record 1", record)], {key.replace("__", "."): name for key, name in fields.items()}
    )
    return mapped


def _table(folder: Path, content: str, **options: Any) -> tuple[Example, ...]:
    (folder / "t.csv").write_text(content, encoding="utf-8")
    return load(folder / "t.csv", LoadOptions.parse(options)).examples


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"question": "query"}, {"question": "Where?", "doc": 7, "meta": {"kind": "made", "a.b": 1}}),
        ({"id": "#", "answers": "query"}, {"id": 1, "answers": ["Where?"]}),
        ({"gold": "doc"}, {"gold": [{"id": 7}]}),
        ({"gold": "score"}, {"gold": [{"id": 8.0}]}),
        ({"gold__id": "doc", "gold__text": "query"}, {"gold": [{"id": 7, "text": "Where?"}]}),
        ({"tags__kind": "meta.kind"}, {"tags": {"kind": "made"}, "meta": {"kind": "made", "a.b": 1}}),
        ({"question": "query", "reference": "query"}, {"question": "Where?", "reference": "Where?"}),
    ],
)
def test_fields_of_the_file_are_mapped_to_native_fields(fields, expected):
    """A mapped single value becomes a list of one answer or passage; fields that are not mapped stay."""
    record = {"query": "Where?", "doc": 7, "score": 8.0, "meta": {"kind": "made", "a.b": 1}}
    assert _one(record, **fields).items() >= expected.items()
    assert _one({"query": "Where?", "n": 1}, question="query", id="n") == {"question": "Where?", "id": 1}


def test_parts_of_several_passages_are_lists_of_one_length() -> None:
    record = {"ids": ["a", "b"], "texts": ["A", "B"], "n": 1}
    mapped = _one(record, gold__id="ids", gold__text="texts")
    assert mapped["gold"] == [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]
    with pytest.raises(InputError, match=r"^record 1: .*2 of gold\.id, 1 of gold\.text"):
        _one(record, gold__id="ids", gold__text="n")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["question"], r"fields=\['question'\] is not a map of names"),
        ({"question": 3}, r"fields=\{'question': 3\} is not a map of names"),
        ({"query": "question"}, "fields names 'query', which is not a field of an example"),
        ({"gold.docid": "x"}, "fields names 'gold.docid'"),
        ({"tags.": "x"}, "fields names 'tags.'"),
        ({"gold": "query", "gold.id": "query"}, r"gold and gold\.id both say which the gold passages are"),
        ({"answers": "short"}, "record 1, the last of all records, and those before it have no field short"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(map_fields([("record 1", {"query": "Where?"})], fields))


def test_gold_passages_that_are_there_are_not_overwritten() -> None:
    """If a record has gold passages, mapping `gold.id` is an error, unless the field `gold` itself is mapped."""
    assert _one({"gold": "d1", "n": 2}, gold__id="gold", gold__grade="n")["gold"] == [
        {"id": "d1", "grade": 2}
    ]
    with pytest.raises(InputError, match=r"^record 1: it has gold passages already, as well as gold\.id"):
        _one({"gold": [{"id": "d1"}], "doc": "d2"}, gold__id="doc")


def test_tags_are_joined_whatever_the_order_of_the_map() -> None:
    """`tags` is mapped before `tags.NAME`, in any order of the map, so both are kept."""
    record = {"labels": {"a": 1}, "kind": "made"}
    expected = {"tags": {"a": 1, "kind": "made"}}
    assert (
        _one(record, tags__kind="kind", tags="labels")
        == _one(record, tags="labels", tags__kind="kind")
        == expected
    )


def test_a_field_may_be_missing_from_some_records() -> None:
    records = [("record 1", {"q": "a", "short": "x"}), ("record 2", {"q": "b"})]
    assert [mapped for _, mapped in map_fields(records, {"question": "q", "answers": "short"})] == [
        {"question": "a", "answers": ["x"]},
        {"question": "b"},
    ]


def test_cells_of_a_table(tmp_path: Path) -> None:
    """Cells hold lists as JSON or Python literals, or several values with a separator; empty cells have no value."""
    content = (
        "id,question,answers,gold.id,gold.grade,tags.topic,reference,note\n"
        '1,"a, b?","[""x"", ""y""]",d1 | d2,2 | 0,t,,n\n'
        "2,c?,\"['it''s', \"\"'q'\"\"]\",,,,,\n"
        "3,d?,x | y,d3,1.0,t,long,\n"
    ).replace("'it''s'", "'it\\'s'")
    first, second, third = _table(tmp_path, content, separator=" | ")
    assert first == Example(
        "1",
        "a, b?",
        answers=("x", "y"),
        gold=(Gold("d1", grade=2), Gold("d2", grade=0)),
        tags={"topic": "t"},
        extra={"note": "n"},
    )
    assert second == Example("2", "c?", answers=("it's", "'q'"), tags={"topic": None})
    assert (third.answers, third.gold, third.reference) == (("x", "y"), (Gold("d3"),), "long")


def test_rows_may_be_numbered(tmp_path: Path) -> None:
    examples = _table(tmp_path, "id,question\n1,a\n1,b\n", fields={"id": "#"})
    assert [example.id for example in examples] == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("id,question\n1,a,b\n", {}, "t.csv line 2 has 3 cells, the header 2: id, question."),
        ('id,question\n1,"a\nb"\n2\n', {}, "t.csv line 4 has 1 cells"),
        ("id,id\n", {}, "t.csv line 1: the header has id more than once."),
        ("id,\n", {}, "t.csv line 1: the header has a column without a name."),
        ("", {}, "t.csv: the header has no columns."),
        ("id,question\n", {}, "t.csv contains no examples."),
        ('id,question\n1,"a\n', {}, "t.csv line 2 and the lines after it are not a table: unexpected end of data."),
        ('id,question,answers\n1,a,"[\'x\' \'y\']"\n', {}, "t.csv line 2: the cell \"['x' 'y']\" is not JSON"),
        ("id,question\n1,\n", {}, 't.csv line 2: "question" is null, expected text'),
        ("id,question,gold.id,gold.grade\n1,a,d,high\n", {}, 't.csv line 2: "gold"[0] "grade" is the text \'high\''),
        ("n,q\n1,a\n", {"fields": {"id": "n", "question": "query"}}, "t.csv has no column query. Found: n, q."),
        ("id;question;a,b\n", {}, "t.csv has no column id. Found: id;question;a, b.\nIts cells seem to be separated"),
        ("id\tquestion\n", {}, "t.csv has no column id. Found: id\tquestion.\nIts cells seem to be separated by '\\t'"),
        ("id,question,gold,gold.id\n1,a,d1,d2\n", {}, "t.csv line 1: gold and gold.id both say which the gold"),
        ("q,a\n,\n", {}, "t.csv has no column id. Found: q, a.\nSay which it is. For native, CSV and Python "),
        ("n,q\n1,a\n", {"fields": {"id": "#"}}, "t.csv has no column question. Found: n, q."),
        ("n,q\n", {"delimiter": ";;"}, "delimiter=';;' is not one character."),
        ("n,q\n", {"quote": "''"}, "quote=\"''\" is not one character, nor \"\"."),
        ("n,q\n", {"separator": ""}, "separator='' is not a text."),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_named_with_its_line(content, options, message, tmp_path):
    with pytest.raises(InputError) as caught:
        _table(tmp_path, content, **options)
    assert str(caught.value).startswith(message)


def test_a_cell_that_begins_as_a_list_says_how_one_is_written(tmp_path: Path) -> None:
    message = r"(?s)^t\.csv line 2: the cell '\[sic\]' is not JSON.*a list of one"
    with pytest.raises(InputError, match=message) as caught:
        _table(tmp_path, "id,question,answers\n1,a,[sic]\n")
    assert "Each line" not in str(caught.value)
    assert _table(tmp_path, 'id,question,answers\n1,a,"[""[sic]""]"\n')[0].answers == ("[sic]",)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("answer", "answers"),
        ("Answers", "answers"),
        ("anwsers", "answers"),
        ("answer-set", "answer_set"),
        ("questions", "question"),
        ("golds", "gold"),
        ("gold_id", "gold.id"),
        ("goldText", "gold.text"),
        ("tag", "tags"),
        ("topic", "tags.topic"),
        ("refrence", "reference"),
        ("category", None),
        ("qid", None),
        ("question_id", None),
        ("answer_starts", None),
        ("source", None),
        ("title", None),
        ("", None),
    ],
)
def test_only_near_misses_are_reported(key: str, meant: str | None) -> None:
    evalset = EvalSet(
        "s", (Example("1", "Q?", extra={key: 1}), Example("2", "Q?"), Example("3", "Q?", extra={key: 0}))
    )
    assert near_misses(evalset) == ([] if meant is None else [NearMiss(key, meant, ("1", "3"))])
