"""Formats and options of a path, records in Python, and where a relative path is looked for."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.datatypes import Example, Gold
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import FORMATS, Format, LoadOptions, load, load_records
from pytest_rageval.evalsets.loading import find_file


def _error(path: Path, **words: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, LoadOptions.parse(words))
    return str(caught.value)


def _file(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def test_an_unknown_format_lists_the_known(tmp_path: Path) -> None:
    """All of them."""
    path = _file(tmp_path, "a.jsonl", "{}")
    assert _error(path, format="bier") == (
        f"There is no eval set format 'bier'. There are: {', '.join(FORMATS)}."
    )


def test_a_shape_that_is_none_lists_the_known(tmp_path: Path) -> None:
    """A file of words, an empty one, a folder without anything known."""
    for path in (_file(tmp_path, "a.md", "# Questions"), _file(tmp_path, "b.txt", ""), tmp_path):
        assert _error(path).startswith(f"{path.name} looks like no format of eval sets.\n")


def test_an_ambiguous_shape_says_which_were_considered(tmp_path: Path) -> None:
    """And that a name decides."""
    content = '{"qid": "a-1", "question": "Q?", "answer": "A", "gold_doc_ids": [1], "prediction": "P"}'
    path = _file(tmp_path, "a.jsonl", content)
    assert _error(path) == 'a.jsonl may be lfrqa or openqa.\nSay which: format="lfrqa".'
    assert load(path, LoadOptions.parse({"format": "lfrqa"})).examples[0].reference == "A"


def test_an_unknown_option_lists_those_of_the_format(tmp_path: Path) -> None:
    """Beside those that every format has."""
    said = _error(_file(tmp_path, "a.csv", "id,question\n"), split="test")
    assert said == (
        "a.csv is read as 'table', which has no option 'split'.\n"
        "That format knows: fields, separator, delimiter, quote, format, sample, seed, stratify."
    )


def test_words_of_the_marker_and_paths_as_text(tmp_path: Path) -> None:
    """As a conftest writes them: no class of this package's is needed."""
    path = _file(tmp_path, "a.csv", "nr,question\n1,Who?\n2,Where?\n")
    evalset = load(str(path), fields={"id": "nr"}, sample=1)
    assert [example.question for example in evalset] in (["Who?"], ["Where?"])


def test_googles_nq_open_is_known_by_its_shape(tmp_path: Path) -> None:
    """Questions with a list of answers each, and nothing else."""
    path = _file(tmp_path, "NQ-open.dev.jsonl", '{"question": "who?", "answer": ["Ann", "Anna", "Ann"]}\n')
    (example,) = load(path)
    assert (example.id, example.question, example.answers) == ("1", "who?", ("Ann", "Anna"))


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ('{"question": "who?", "answer": ["Ann"]}', {"id": "#", "answers": "answer"}),
        ('{"question": "who?", "answer": ["Ann"], "nr": "1"}', {"id": "nr", "answers": "answer"}),
        ('{"question": "who?", "answer": "Ann", "prediction": "Ann"}', {"id": "#", "answers": "answer"}),
    ],
)
def test_a_field_map_is_for_the_formats_that_take_one(
    tmp_path: Path, record: str, fields: dict[str, str]
) -> None:
    """Whatever other format the records look like."""
    (example,) = load(_file(tmp_path, "a.jsonl", record), fields=fields)
    assert (example.id, example.answers) == ("1", ("Ann",))


def test_a_native_record_is_native_whatever_else_it_has(tmp_path: Path) -> None:
    """Keys of others are kept, not followed."""
    content = '{"id": "a", "question": "Q?", "answers": ["x"], "ctxs": [], "prediction": "P"}'
    (example,) = load(_file(tmp_path, "a.jsonl", content)).examples
    assert (example.id, example.extra) == ("a", {"ctxs": [], "prediction": "P"})


def test_a_format_may_be_added(tmp_path: Path) -> None:
    """It is chosen by its shape before the general ones, and has options of its own."""

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


class Polars:
    """What a Polars data frame can do."""

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        """Its rows."""
        assert named
        return iter(ROWS)


class Pandas:
    """What a pandas data frame can do: missing numbers are NaN."""

    columns = ("id", "question", "answers", "price")

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        """Its rows."""
        assert (index, name) == (False, None)
        return iter(
            [(1, "Where?", Array(["Tulsa", "there"]), 2.5), (Array(2), "Who?", ["Ann"], float("nan"))]
        )


class HuggingFace:
    """What a Hugging Face `Dataset` can do."""

    column_names = ("id", "question", "answers", "price")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


class Array:
    """What a NumPy array or scalar can do."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def tolist(self) -> Any:
        """The values in Python's own types."""
        return self.values


NAType = type("NAType", (), {})


@pytest.mark.parametrize(
    "source", [ROWS, tuple(ROWS), Polars(), Pandas(), HuggingFace()], ids=lambda s: type(s).__name__
)
def test_records_are_known_by_what_they_can_do(source: object) -> None:
    """Each kind gives the same examples, twice."""
    for _ in range(2):
        evalset = load_records(source)
        assert evalset is not None
        assert evalset.examples == EXPECTED


@pytest.mark.parametrize(
    "source",
    ["a.jsonl", {"id": 1}, iter(ROWS), 3, None, Polars],
    ids=["text", "object", "iterator", "number", "nothing", "class"],
)
def test_other_things_are_no_records(source: object) -> None:
    """An iterator too: it would be empty for the next test."""
    assert load_records(source) is None


def test_fields_and_samples_work_as_with_files() -> None:
    """A field map, and a sample of what it gives."""
    rows = [{"query": f"Q{i}?", "doc": i} for i in range(9)]
    how = LoadOptions.parse({"fields": {"id": "#", "question": "query", "gold": "doc"}, "sample": 4})
    evalset = load_records(rows, how)
    assert evalset is not None
    assert len(evalset) == 4
    assert all(example.gold == (Gold(str(int(example.id) - 1)),) for example in evalset)


def test_what_is_missing_or_timed_in_a_cell() -> None:
    """NA and NaN are left out, at any depth they are null; times are ISO texts."""
    row = {
        **ROWS[0],
        "price": NAType(),
        "day": dt.date(2024, 5, 1),
        "meta": {"x": float("nan"), "y": [Array(1)]},
    }
    evalset = load_records([row])
    assert evalset is not None
    assert evalset.examples[0].extra == {"day": "2024-05-01", "meta": {"x": None, "y": [1]}}


def test_a_record_that_does_not_fit_is_named_by_its_number() -> None:
    """From 1."""
    with pytest.raises(InputError, match=r'^record 2: "question" is missing\.'):
        load_records([ROWS[0], {"id": 7}])


def test_other_options_are_refused() -> None:
    """They are of files."""
    with pytest.raises(InputError, match=r"Records in Python do not have the option split, format\."):
        load_records(ROWS, LoadOptions.parse({"split": "test", "format": "beir"}))


@pytest.mark.slow
@pytest.mark.parametrize("package", ["pandas", "polars", "datasets"])
def test_the_real_ones_are_read_the_same(package: str) -> None:
    """Where the package is at hand."""
    module = pytest.importorskip(package)
    made = module.Dataset.from_list(ROWS) if package == "datasets" else module.DataFrame(ROWS)
    evalset = load_records(made)
    assert evalset is not None
    assert evalset.examples == EXPECTED


def test_the_first_base_that_has_it_counts(tmp_path: Path) -> None:
    """The path comes back whole."""
    bases = tmp_path / "none", tmp_path / "first", tmp_path / "second"
    for base in bases[1:]:
        base.mkdir()
        (base / "labels.jsonl").touch()
    assert find_file("labels file", "labels.jsonl", bases=bases) == tmp_path / "first" / "labels.jsonl"


def test_one_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    """Each place once."""
    with pytest.raises(InputError) as raised:
        find_file("eval set", "x.jsonl", bases=(tmp_path, tmp_path / "tests", tmp_path))
    assert str(raised.value) == (
        f"There is no eval set 'x.jsonl'. Looked for:\n  {tmp_path / 'x.jsonl'}\n  {tmp_path / 'tests' / 'x.jsonl'}"
    )


def test_a_folder_is_passed_over_where_a_file_is_looked_for(tmp_path: Path) -> None:
    """An eval set may be a folder; labels are a file."""
    (tmp_path / "one" / "labels").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "labels").touch()
    bases = tmp_path / "one", tmp_path / "two"
    assert find_file("eval set", "labels", bases=bases) == tmp_path / "one" / "labels"
    assert (
        find_file("labels file", "labels", bases=bases, accepts=Path.is_file) == tmp_path / "two" / "labels"
    )


def test_a_file_that_did_not_change_is_read_once(tmp_path: Path) -> None:
    """A fixture reads the set of the test; what it reads depends on the content and on the words."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "question": "a?"}\n{"id": "2", "question": "b?"}')
    whole = load(path)
    assert load(path) is whole
    assert len(load(path, sample=1)) == 1
    path.write_text('{"id": "1", "question": "a?"}\n{"id": "2", "question": "c?"}')
    assert [each.question for each in load(path)] == ["a?", "c?"]
