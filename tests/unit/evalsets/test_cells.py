"""The cells of tables, in files and in data frames: lists, ids and missing values as pandas writes them."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.evalsets import LoadOptions, load, load_records

TEXTS = ["It's at home.", 'They said "no".', "a\nb, [c]", "\U0001f600 \\ \x7f é"]


def _frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": ["q1"], "question": ["Where?"]} | {key: [value] for key, value in columns.items()}
    )


def _csv(frame: pd.DataFrame, folder: Path, **options: Any) -> EvalSet:
    frame.to_csv(folder / "t.csv", index=False, **options)
    return load(folder / "t.csv")


def _frame_of_texts(frame: pd.DataFrame, folder: Path, **options: Any) -> EvalSet:
    frame.to_csv(folder / "t.csv", index=False, **options)
    evalset = load_records(pd.read_csv(folder / "t.csv", dtype=str, keep_default_na=False))
    assert evalset is not None
    return evalset


def _polars(frame: pd.DataFrame, folder: Path, **options: Any) -> EvalSet:
    frame.to_csv(folder / "t.csv", index=False, **options)
    evalset = load_records(pl.read_csv(folder / "t.csv", infer_schema=False))
    assert evalset is not None
    return evalset


WAYS = [_csv, _frame_of_texts, _polars]
Way = Callable[..., EvalSet]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "write", [list, json.dumps, lambda texts: json.dumps(texts, ensure_ascii=False), tuple]
)
@pytest.mark.parametrize(
    ("column", "read"),
    [
        ("answers", lambda example: example.answers),
        ("gold.text", lambda example: tuple(gold.text for gold in example.gold)),
        ("gold.id", lambda example: tuple(gold.id for gold in example.gold)),
        ("nuggets", lambda example: tuple(nugget.text for nugget in example.nuggets)),
    ],
)
def test_a_list_in_a_cell_is_a_list_in_each_field(way, write, column, read, tmp_path):
    """A list that Python or JSON wrote is its texts, whatever quotes, commas, brackets and escapes they have."""
    (example,) = way(_frame(**{column: write(TEXTS)}), tmp_path)
    assert read(example) == tuple(TEXTS)


@pytest.mark.parametrize("way", WAYS)
def test_nested_lists_and_objects_as_python_prints_them(way: Way, tmp_path: Path) -> None:
    answer_set = [["Tulsa", "Tulsa's"], ["Reno"]]
    gold = [{"id": 101.0, "text": None, "grade": 2}, {"id": "d's", "text": 'a "b"', "group": float("nan")}]
    tags = {"topic": "x", "hard": True, "none": None}
    frame = _frame(answer_set=answer_set, gold=gold, tags=tags, **{"tags.areas": ["a", "b's"]})
    (example,) = way(frame, tmp_path)
    assert example.answer_set == (("Tulsa", "Tulsa's"), ("Reno",))
    assert example.gold == (Gold("101", grade=2), Gold("d's", 'a "b"'))
    assert example.tags == {**tags, "areas": ["a", "b's"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "cell",
    [
        *(
            "['a' 'b']",
            '["a" "b"]',
            "['a'\n 'b']",
            "[1 2]",
            "['a', 'b'",
            "['a'",
            '["a", "b',
            "[[",
            "{'a', 'b'}",
        ),
        *("[array(['a'], dtype=object)]", "[np.str_('a')]", "[b'a']", "[sic]", "{x}", "['a', b]", "['\\x4']"),
        str(np.array(["a", "b"])),
        repr(np.array(["a", "b"])[None]).removeprefix("array(").partition("], dtype")[0],
    ],
)
@pytest.mark.parametrize("column", ["answers", "gold.text", "gold.id", "answer_set", "nuggets", "gold"])
def test_what_is_nearly_a_list_is_an_error(way: Way, cell: str, column: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^(t\.csv line 2|record 1): the cell .* is not JSON") as caught:
        way(_frame(**{column: cell}), tmp_path)
    assert "NumPy prints arrays without commas" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "text",
    ["[1] See the handbook.", "[Returns](returns.md) are free.", "(a) or (b)", "(1, 2)", "a [b]", "('a')"],
)
@pytest.mark.parametrize("column", ["answers", "gold.text", "nuggets"])
def test_a_text_with_a_bracket_is_a_text(way: Way, text: str, column: str, tmp_path: Path) -> None:
    """A text that only begins with a bracket is not a list; neither are numbers in parentheses."""
    (example,) = way(_frame(**{column: text}), tmp_path)
    assert text in {
        *example.answers,
        *(gold.text for gold in example.gold),
        *(each.text for each in example.nuggets),
    }


def test_a_text_in_brackets_where_no_list_is_expected_is_a_text(tmp_path: Path) -> None:
    """Lists are read only for fields that may have several values."""
    (example,) = _csv(_frame(reference="['a']", note="['b']", **{"tags.kind": "[beta]"}), tmp_path)
    assert (example.reference, example.extra, example.tags) == (
        "['a']",
        {"note": "['b']"},
        {"kind": "[beta]"},
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("word", ["nan", "NaN", "<NA>", "NaT", ""])
def test_what_pandas_writes_for_a_missing_value_is_missing(way: Way, word: str, tmp_path: Path) -> None:
    """No field of an example has the word that `to_csv(na_rep=…)` or `astype(str)` left in an empty cell."""
    columns = ("answers", "answer_set", "reference", "nuggets", "filters", "history", "gold.id", "gold.text")
    parts = ("gold.source", "gold.start", "gold.end", "gold.grade", "gold.group")
    frame = _frame(**dict.fromkeys((*columns, *parts, "tags.topic")))
    (example,) = way(frame, tmp_path, na_rep=word)
    assert (example.tags.get("topic"), example.extra) == (None, {})
    assert Example("q1", "Where?", tags=example.tags) == example


@pytest.mark.parametrize("way", WAYS)
def test_none_is_missing_as_an_id_and_a_text_as_an_answer(way: Way, tmp_path: Path) -> None:
    """The answer to "How many?" may be "None", which is never the id of a passage."""
    (example,) = way(_frame(answers="None", **{"gold.id": "None", "gold.grade": "None"}), tmp_path)
    assert (example.answers, example.gold) == (("None",), ())
    with pytest.raises(InputError, match='"id" is null, expected text or an integer'):
        way(_frame().assign(id="None"), tmp_path)


def test_a_missing_word_in_a_list_is_a_text(tmp_path: Path) -> None:
    """The way to write such a word as an answer."""
    (example,) = _csv(_frame(answers='["NaN"]'), tmp_path)
    assert example.answers == ("NaN",)


@pytest.mark.parametrize("way", [*WAYS, lambda frame, _: load_records(frame)])
def test_ids_that_became_floats_are_the_integers(way: Way, tmp_path: Path) -> None:
    """A column of integers with a missing value is a column of floats in pandas."""
    frame = pd.DataFrame({"id": [1, 2], "question": ["a", "b"], "gold.id": [101, None]})
    assert str(frame["gold.id"][0]) == "101.0"
    first, second = way(frame, tmp_path)
    assert [first.gold, second.gold] in ([(Gold("101.0"),), ()], [(Gold("101"),), ()])


def test_the_columns_of_a_frame_are_those_of_a_file() -> None:
    """A frame needs no field map for columns with native names. A map may name a path in the objects of a column."""
    frame = _frame(answers="Tulsa", doc="['d1', 'd2']", meta={"kind": "k"}, **{"gold.id": ["d3", "d4"]})
    own = load_records(frame)
    assert own is not None
    (example,) = own
    assert (example.answers, example.gold) == (("Tulsa",), (Gold("d3"), Gold("d4")))
    mapped = load_records(
        frame.drop(columns="gold.id"),
        LoadOptions.parse({"fields": {"gold.id": "doc", "tags.kind": "meta.kind", "id": "#"}}),
    )
    assert mapped is not None
    (example,) = mapped
    assert (example.id, example.gold, example.tags) == ("1", (Gold("d1"), Gold("d2")), {"kind": "k"})
    (example,) = load_records(_frame(ref=None), LoadOptions.parse({"fields": {"reference": "ref"}})) or ()
    assert example.reference is None
    with pytest.raises(InputError, match=re.escape("The data frame: gold and gold.id both say which")):
        load_records(frame.assign(gold="d1"))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["'a', ", "(", ",)", "  ", "[", "'", "nan ", "{'a': "])
def test_a_large_cell_takes_linear_time(part: str, tmp_path: Path) -> None:
    size = 10**6
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [["id", "question", "answers"], [1, "a", f"['b', {part * (size // len(part))}]"]]
        )
    with pytest.raises(InputError, match=r"^t\.csv line 2"):
        load(tmp_path / "t.csv")
