"""Which format is read, and with which options."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import FORMATS, Format, How, load


def _error(path: Path, **words: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, How.parse(words))
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
    assert load(path, How.parse({"format": "lfrqa"})).examples[0].reference == "A"


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
    assert load(path, How.parse({"prefix": "q"}), formats=formats).examples[1].id == "q2"
    with pytest.raises(InputError, match="There is no eval set format 'faq'"):
        load(path, How("faq"))
