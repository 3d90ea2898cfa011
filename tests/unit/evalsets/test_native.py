"""Eval sets in the native form, JSON lines."""

import json
from pathlib import Path

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.evalsets import load

ONE, TWO = '{"id": "a", "question": "Q1"}', '{"id": "b", "question": "Q2"}'


def _load(folder: Path, content: str | bytes) -> EvalSet:
    path = folder / "support.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load(path, format="native")


def _error(folder: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        _load(folder, content)
    return str(caught.value)


def test_all_fields_of_the_native_form(tmp_path: Path) -> None:
    record = {
        "id": "q17",
        "question": "Where is it made?",
        "answers": ["Tulsa, Oklahoma", "Tulsa"],
        "answer_set": [["Tulsa"], ["Reno", "Reno, Nevada"]],
        "gold": [
            {"id": "doc-4", "text": "Made in Tulsa.", "grade": 2},
            {"text": "Also in Reno."},
            {"source": "handbook.md", "start": 120, "end": 310, "grade": 0},
        ],
        "reference": "It is made in Tulsa.",
        "tags": {"topic": "billing", "hops": 2, "kinds": ["a", "b"]},
        "author": "Ann",
        "difficulty": {"level": 3},
    }
    evalset = _load(tmp_path, json.dumps(record))
    assert evalset.name == "support.jsonl"
    assert evalset.examples == (
        Example(
            id="q17",
            question="Where is it made?",
            answers=("Tulsa, Oklahoma", "Tulsa"),
            answer_set=(("Tulsa",), ("Reno", "Reno, Nevada")),
            gold=(
                Gold(id="doc-4", text="Made in Tulsa.", grade=2),
                Gold(text="Also in Reno."),
                Gold(source="handbook.md", start=120, end=310, grade=0),
            ),
            reference="It is made in Tulsa.",
            tags={"topic": "billing", "hops": 2, "kinds": ["a", "b"]},
            extra={"author": "Ann", "difficulty": {"level": 3}},
        ),
    )


@pytest.mark.parametrize(
    "content",
    [
        f"{ONE}\n{TWO}\n",
        f"{ONE}\n{TWO}",
        f"\n\n{ONE}\n  \t\n{TWO}\n\n",
        f"  {ONE}  \n\t{TWO}",
    ],
    ids=["plain", "no newline at the end", "blank lines", "spaces around"],
)
def test_how_lines_end_does_not_matter(tmp_path: Path, content: str) -> None:
    assert [example.id for example in _load(tmp_path, content)] == ["a", "b"]


def test_every_script_is_read(tmp_path: Path) -> None:
    question = "東京はどこ？ 🗼 a\u2028b\x85c"
    line = json.dumps({"id": "a", "question": question}, ensure_ascii=False)
    assert _load(tmp_path, line).examples[0].question == question


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{'id': 'b', 'question': 'Q'}", "is not JSON"),
        ('{"id": "b", "question": ', "is not JSON"),
        ('{"id": "b", "question": "Q"} {"id": "c"}', "is not JSON"),
        ('{"id": "b", "question": "Q", "tags": {"x": NaN}}', "NaN is not a finite number"),
        ('{"id": "b", "question": "Q", "tags": {"x": -Infinity}}', "-Infinity is not a finite number"),
        # It is parsed as infinity, which no digest or report can hold.
        ('{"id": "b", "question": "Q", "tags": {"x": 1e999}}', "1e999 is not a finite number"),
        ("[" * 100_000, "is not JSON"),
        ('"just text"', "an example is an object"),
        ("[1, 2]", "an example is an object"),
        ("null", "an example is an object"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    message = _error(tmp_path, f"{ONE}\n\n{line}\n")
    first, remedy = message.split("\n", 1)
    assert first.startswith("support.jsonl line 3")
    assert problem in first
    assert remedy


@pytest.mark.parametrize(
    ("content", "line", "byte"),
    [
        (f"{ONE}\n".encode() + b'{"id": "b", "question": "caf\xe9"}', 2, "0xe9"),
        (ONE.encode("utf-16"), 1, "it is UTF-16"),
    ],
)
def test_another_encoding_is_named_with_its_line(
    tmp_path: Path, content: bytes, line: int, byte: str
) -> None:
    message = _error(tmp_path, content)
    assert message.startswith(f"support.jsonl line {line} is not UTF-8")
    assert byte in message
    assert "Save the file in UTF-8." in message


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_shows_what_to_write(tmp_path: Path, content: str) -> None:
    message = _error(tmp_path, content)
    assert message.startswith("support.jsonl contains no examples.\n")
    assert '{"id": "q1", "question"' in message


def test_an_id_that_comes_twice_names_both_lines(tmp_path: Path) -> None:
    message = _error(tmp_path, f"{ONE}\n{TWO}\n\n{ONE}\n")
    assert message.startswith('support.jsonl line 4: the id "a" is already that of support.jsonl line 1.\n')


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"^(The eval set )?\S+ cannot be read: "):
        load(tmp_path / name, format="native")


@pytest.mark.parametrize("content", [f"[{ONE}, {TWO}]", f"[\n{ONE},\n{TWO}\n]", f"[{ONE},\n{TWO}]"])
def test_an_array_in_a_file_of_lines_says_how_to_name_it(tmp_path: Path, content: str) -> None:
    message = _error(tmp_path, content)
    assert message.startswith("support.jsonl line 1")
    assert message.endswith("A file that is one JSON array is named .json.")
    (tmp_path / "support.json").write_text(content, encoding="utf-8")
    assert [example.id for example in load(tmp_path / "support.json")] == ["a", "b"]
