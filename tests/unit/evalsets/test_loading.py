"""Detecting the format and options of a path, records in Python, and resolving relative paths."""

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.evalsets import FORMATS, Format, LoadOptions, load, load_records
from pytest_rageval.evalsets.loading import find_file
from tests.evalset_files import jsonl


def _error(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, LoadOptions.parse(options))
    return str(caught.value)


def _file(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def test_an_unknown_format_lists_the_known(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.jsonl", "{}")
    assert _error(path, format="bier") == (
        f"There is no eval set format 'bier'. There are: {', '.join(FORMATS)}."
    )


def test_a_shape_that_is_none_lists_the_known(tmp_path: Path) -> None:
    for path in (_file(tmp_path, "a.md", "# Questions"), _file(tmp_path, "b.txt", ""), tmp_path):
        assert _error(path).startswith(f"{path.name} looks like no format of eval sets.\n")


def test_an_ambiguous_shape_says_which_were_considered(tmp_path: Path) -> None:
    content = '{"qid": "a-1", "question": "Q?", "answer": "A", "gold_doc_ids": [1], "prediction": "P"}'
    path = _file(tmp_path, "a.jsonl", content)
    assert _error(path) == 'a.jsonl may be lfrqa or openqa.\nSay which: format="lfrqa".'
    assert load(path, LoadOptions.parse({"format": "lfrqa"})).examples[0].reference == "A"


def test_an_unknown_option_lists_those_of_the_format(tmp_path: Path) -> None:
    message = _error(_file(tmp_path, "a.csv", "id,question\n"), split="test")
    assert message == (
        "a.csv is read as 'table', which has no option 'split'.\n"
        "That format knows: fields, separator, delimiter, quote, format, sample, seed, stratify, corpus, "
        "exclude_own_id."
    )


def test_words_of_the_marker_and_paths_as_text(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.csv", "nr,question\n1,Who?\n2,Where?\n")
    evalset = load(str(path), fields={"id": "nr"}, sample=1)
    assert [example.question for example in evalset] in (["Who?"], ["Where?"])


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ('{"question": "who?", "answer": ["Ann"]}', {"id": "#", "answers": "answer"}),
        ('{"question": "who?", "answer": ["Ann"], "nr": "1"}', {"id": "nr", "answers": "answer"}),
        ('{"question": "who?", "answer": "Ann", "prediction": "Ann"}', {"id": "#", "answers": "answer"}),
    ],
)
def test_a_field_map_is_for_the_formats_that_take_one(tmp_path, record, fields):
    (example,) = load(_file(tmp_path, "a.jsonl", record), fields=fields)
    assert (example.id, example.answers) == ("1", ("Ann",))


def test_a_native_record_is_native_whatever_else_it_has(tmp_path: Path) -> None:
    content = '{"id": "a", "question": "Q?", "answers": ["x"], "ctxs": [], "prediction": "P"}'
    (example,) = load(_file(tmp_path, "a.jsonl", content)).examples
    assert (example.id, example.extra) == ("a", {"ctxs": [], "prediction": "P"})


def test_a_format_may_be_added(tmp_path: Path) -> None:
    def read(path: Path, *, prefix: str = "") -> Any:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.name} line {number}", {"id": f"{prefix}{number}", "question": line}

    faq = Format("faq", lambda shape: shape.suffix == ".faq" or shape.line.startswith("["), read)
    formats = {**FORMATS, "faq": faq}
    path = _file(tmp_path, "a.faq", "[Who?\nWhere?")
    assert [example.question for example in load(path, formats=formats)] == ["[Who?", "Where?"]
    assert load(path, LoadOptions.parse({"prefix": "q"}), formats=formats).examples[1].id == "q2"
    with pytest.raises(InputError, match="There is no eval set format 'faq'"):
        load(path, LoadOptions("faq"))


ROWS: list[dict[str, Any]] = [
    {"id": 1, "question": "Where?", "answers": ["Tulsa", "there"], "price": 2.5},
    {"id": 2, "question": "Who?", "answers": ["Ann"], "price": None},
]
EXPECTED = (
    Example("1", "Where?", answers=("Tulsa", "there"), extra={"price": 2.5}),
    Example("2", "Who?", answers=("Ann",)),
)


class HuggingFace:
    column_names = ("id", "question", "answers", "price")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


@pytest.mark.parametrize("make", [list, tuple, pd.DataFrame, pl.DataFrame, lambda _: HuggingFace()])
def test_records_are_known_by_what_they_can_do(make: Callable[[Any], Any]) -> None:
    """Records are detected by their methods; each kind gives the same examples, also when loaded again."""
    source = make(ROWS)
    for _ in range(2):
        assert load_records(source).examples == EXPECTED


@pytest.mark.slow
def test_a_data_set_of_hugging_face_is_read_the_same() -> None:
    datasets = pytest.importorskip("datasets")
    assert load_records(datasets.Dataset.from_list(ROWS)).examples == EXPECTED


@pytest.mark.parametrize(
    "source",
    ["a.jsonl", {"id": 1}, iter(ROWS), 3, None, pd.DataFrame],
    ids=["text", "object", "iterator", "number", "nothing", "class"],
)
def test_other_things_are_no_records(source: object) -> None:
    """load_records returns None for other objects, and for an iterator, which the next test would find empty."""
    assert load_records(source) is None


def test_fields_and_samples_work_as_with_files() -> None:
    rows = [{"query": f"Q{i}?", "doc": i} for i in range(9)]
    how = LoadOptions.parse({"fields": {"id": "#", "question": "query", "gold": "doc"}, "sample": 4})
    evalset = load_records(rows, how)
    assert evalset is not None
    assert len(evalset) == 4
    assert all(example.gold == (Gold(str(int(example.id) - 1)),) for example in evalset)


def test_what_is_missing_or_timed_in_a_cell() -> None:
    row = {
        **ROWS[0],
        "price": pd.NA,
        "day": dt.date(2024, 5, 1),
        "meta": {"x": float("nan"), "y": [np.int64(1)]},
    }
    evalset = load_records([row])
    assert evalset.examples[0].extra == {"day": "2024-05-01", "meta": {"x": None, "y": [1]}}


def test_a_record_that_does_not_fit_is_named_by_its_number() -> None:
    with pytest.raises(InputError, match=r'^record 2: "question" is missing\.'):
        load_records([ROWS[0], {"id": 7}])


def test_other_options_are_refused() -> None:
    with pytest.raises(InputError, match=r"Records in Python do not have the option split, format\."):
        load_records(ROWS, LoadOptions.parse({"split": "test", "format": "beir"}))


def test_the_first_base_that_has_it_counts(tmp_path: Path) -> None:
    bases = tmp_path / "none", tmp_path / "first", tmp_path / "second"
    for base in bases[1:]:
        base.mkdir()
        (base / "labels.jsonl").touch()
    assert find_file("labels file", "labels.jsonl", bases=bases) == tmp_path / "first" / "labels.jsonl"


def test_one_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        find_file("eval set", "x.jsonl", bases=(tmp_path, tmp_path / "tests", tmp_path))
    assert str(raised.value) == (
        f"There is no eval set 'x.jsonl'. Looked for:\n  {tmp_path / 'x.jsonl'}\n  {tmp_path / 'tests' / 'x.jsonl'}"
    )


def test_a_folder_is_passed_over_where_a_file_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "one" / "labels").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "labels").touch()
    bases = tmp_path / "one", tmp_path / "two"
    assert find_file("eval set", "labels", bases=bases) == tmp_path / "one" / "labels"
    assert (
        find_file("labels file", "labels", bases=bases, accepts=Path.is_file) == tmp_path / "two" / "labels"
    )


def test_a_file_that_did_not_change_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "question": "a?"}\n{"id": "2", "question": "b?"}')
    whole = load(path)
    assert load(path) is whole
    assert len(load(path, sample=1)) == 1
    path.write_text('{"id": "1", "question": "a?"}\n{"id": "2", "question": "c?"}')
    assert [example.question for example in load(path)] == ["a?", "c?"]


def test_texts_of_gold_passages_from_a_corpus(tmp_path: Path) -> None:
    gold = [{"id": "d1"}, {"id": "2.0"}, {"id": "d3", "text": "Mine."}, {"text": "By text."}]
    (tmp_path / "e.jsonl").write_bytes(jsonl({"id": "q1", "question": "Where?", "gold": gold}))
    passages = [{"id": "d1", "text": "One."}, {"id": 2, "text": "Two."}, {"id": "d3", "text": "Three."}]
    (tmp_path / "corpus.jsonl").write_bytes(jsonl(*passages))
    for sample in ({}, {"sample": 1}):
        (example,) = load(tmp_path / "e.jsonl", corpus="corpus.jsonl", **sample)
        assert [each.text for each in example.gold] == ["One.", "Two.", "Mine.", "By text."]
    assert [each.text for each in load(tmp_path / "e.jsonl").examples[0].gold][:2] == [None, None]


def test_a_corpus_that_lacks_a_gold_passage_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_bytes(jsonl({"id": "q1", "question": "Where?", "gold": [{"id": "d9"}]}))
    (tmp_path / "corpus.jsonl").write_bytes(jsonl({"id": "d1", "text": "One."}))
    with pytest.raises(InputError, match=r"corpus.jsonl lacks 1 gold passage of e.jsonl, .*: d9"):
        load(tmp_path / "e.jsonl", corpus="corpus.jsonl")
    with pytest.raises(InputError, match=r"There is no corpus 'korpus.jsonl'. Did you mean corpus.jsonl"):
        load(tmp_path / "e.jsonl", corpus="korpus.jsonl")
    with pytest.raises(InputError, match=r"exclude_own_id='yes' is neither"):
        load(tmp_path / "e.jsonl", exclude_own_id="yes")


def test_a_missing_file_has_a_similar_one(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_bytes(jsonl({"id": "q1", "question": "Where?"}))
    with pytest.raises(InputError, match=r"there is no such file. Did you mean .*questions.jsonl\?"):
        load(tmp_path / "qestions.jsonl")


def test_exclude_own_id_is_a_keyword_of_each_format(tmp_path: Path) -> None:
    """The ids are kept under `extra`, so that the eval set that is written again has them too."""
    (tmp_path / "e.jsonl").write_bytes(
        jsonl({"id": "q1", "question": "Where?"}, {"id": "q2", "question": "Who?", "exclude_ids": ["d7"]})
    )
    excluded = [each.extra["exclude_ids"] for each in load(tmp_path / "e.jsonl", exclude_own_id=True)]
    assert excluded == [["q1"], ["d7", "q2"]]
    # The baseline does not compare a question with itself under another rule.
    before, after = (load(tmp_path / "e.jsonl", exclude_own_id=on) for on in (False, True))
    assert not {each.digest for each in before} & {each.digest for each in after}
    records = load_records([{"id": "q1", "question": "Where?"}], LoadOptions.parse({"exclude_own_id": True}))
    assert records.examples[0].extra == {"exclude_ids": ["q1"]}
