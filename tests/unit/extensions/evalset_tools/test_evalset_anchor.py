"""`rageval evalset anchor`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from tests.unit.cli.folders import Done

Anchor = Callable[..., Done]

CORPUS = [
    {"id": "p1", "text": "The baths cost 45 crowns.", "source": "a.md", "start": 0},
    {"id": "p2", "text": "45 crowns. Dogs ride for two crowns.", "source": "a.md", "start": 15},
    {"id": "p3", "text": "Dogs ride for two crowns.", "source": "b.md", "start": 7},
    {"id": "p4", "text": "Our seat is Tulsa, Oklahoma."},
    {"id": "p5", "text": "no place known", "source": "c.md"},
    {"id": "p6", "text": "white space lost", "source": "c.md", "start": 0, "end": 30},
    {"id": "twice", "text": "one thing", "source": "d.md", "start": 0},
    {"id": "twice", "text": "another thing", "source": "d.md", "start": 50},
]


def lines(path: Path, records: list[Any]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def anchor(command: Callable[..., Done], tmp_path: Path) -> Anchor:
    lines(tmp_path / "c.jsonl", CORPUS)

    def run(records: list[Any], *arguments: str) -> Done:
        lines(tmp_path / "e.jsonl", records)
        files = ("e.jsonl", "--corpus", "c.jsonl", "--out", "out.jsonl", "--unanchored", "rest.jsonl")
        return command("evalset", "anchor", *files, *arguments)

    return run


def gold(**fields: Any) -> dict[str, Any]:
    return {"gold": [fields]}


def at(source: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {**fields, "source": source, "start": start, "end": end}


def asked(**fields: Any) -> dict[str, Any]:
    return {"id": "q", "question": "What?"} | fields


@pytest.mark.parametrize(
    ("fields", "anchored"),
    [
        (gold(id="p1"), at("a.md", 0, 25, id="p1", text="The baths cost 45 crowns.")),
        (gold(id="p1", text="The  baths", grade=2), at("a.md", 0, 9, id="p1", text="The  baths", grade=2)),
        (gold(id="p3", text="two\ncrowns"), at("b.md", 21, 31, id="p3", text="two\ncrowns")),
        (gold(text="45 crowns"), at("a.md", 15, 24, text="45 crowns")),
        (gold(id="old-7", text="Our seat"), at("p4", 0, 8, id="old-7", text="Our seat")),
        (gold(id="p6"), at("c.md", 0, 30, id="p6", text="white space lost")),
        (gold(**at("x", 1, 2)), at("x", 1, 2)),
        ({"answers": ["Tulsa", "Tulsa, Oklahoma"]}, at("p4", 12, 27)),
        ({"answers": ["Rome", "Tulsa"]}, at("p4", 12, 17)),
        ({"answer_set": [["Tulsa"]]}, at("p4", 12, 17)),
    ],
)
def test_what_has_one_place(anchor, tmp_path, fields, anchored):
    done = anchor([asked(**fields, tags={"topic": "x"}, source="kept")])
    assert done == Done(0, "out.jsonl: 1 example anchored\n", "")
    (record,) = read(tmp_path / "out.jsonl")
    assert record.pop("gold") == [anchored]
    given = asked(**fields, tags={"topic": "x"}, source="kept")
    given.pop("gold", None)
    assert record == given
    assert not (tmp_path / "rest.jsonl").exists()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"gold": [{"id": "p9"}]}, "no passage has this id"),
        ({"gold": [{"id": "twice"}]}, "several passages have this id"),
        ({"gold": [{"id": "p5"}]}, "its place in a file is not known"),
        ({"gold": [{"id": "p1", "text": "Dogs ride"}]}, "the passage of this id has another text"),
        ({"gold": [{"id": "p6", "text": "space lost"}]}, "it is in a passage whose place in a file is not"),
        ({"gold": [{"id": "p2", "text": "crowns"}]}, "its text occurs several times in one file"),
        ({"gold": [{"text": "Cats"}]}, "its text is nowhere in the corpus"),
        ({"gold": [{"text": "Tuls"}]}, "its text is nowhere in the corpus"),
        ({"gold": [{"text": "Dogs ride"}]}, "its text occurs in several files"),
        ({"gold": [{"text": "place"}]}, "it is in a passage whose place in a file is not known"),
        ({"gold": [{"text": "thing"}]}, "its text occurs several times in one file"),
        ({"gold": [{"id": "p1"}, {"id": "p9"}]}, "no passage has this id"),
        ({"gold": [{"text": "45 crowns"}, {"text": "45  crowns"}]}, "it is at the place of another"),
        ({"answers": ["Tulsa", "45"]}, "its text occurs in several files"),
        ({"answers": ["Rome"]}, "its text is nowhere in the corpus"),
        ({"answer_set": [["Tulsa"], ["Rome"]]}, "its text is nowhere in the corpus"),
    ],
)
def test_what_has_none_or_several(anchor: Anchor, tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    done = anchor([asked(**fields)])
    assert done.status == 1
    assert done.out.startswith("out.jsonl: 0 examples anchored, nothing written; 1 left over, in rest.jsonl:")
    assert done.out.splitlines()[-1].startswith(f"  1 × {why}")
    (record,) = read(tmp_path / "rest.jsonl")
    assert record.pop("unanchored")[0]["why"].startswith(why)
    assert record == asked(**fields)
    assert not (tmp_path / "out.jsonl").exists()


def test_the_places_between_which_nothing_is_chosen(anchor: Anchor, tmp_path: Path) -> None:
    """If a text has several places, `unanchored` lists them for a person; the next run removes it."""
    anchor([asked(gold=[{"text": "Dogs ride"}])])
    (record,) = read(tmp_path / "rest.jsonl")
    assert record["unanchored"] == [
        {
            "what": '"Dogs ride"',
            "why": "its text occurs in several files",
            "places": [at("a.md", 26, 35), at("b.md", 7, 16)],
        }
    ]
    record["gold"] = [at("b.md", 7, 16)]
    assert anchor([record], "--force").status == 0
    del record["unanchored"]
    assert read(tmp_path / "out.jsonl") == [record]
    assert not (tmp_path / "rest.jsonl").exists()


def test_what_nothing_answers_stays(anchor: Anchor, tmp_path: Path) -> None:
    done = anchor([asked(id="a"), asked(id="b", answers=["Tulsa"])])
    assert done == Done(0, "out.jsonl: 1 example anchored, and 1 without gold passages and answers\n", "")
    assert read(tmp_path / "out.jsonl")[0] == asked(id="a")


def test_a_word_with_more_places_than_are_stored_is_ambiguous(anchor: Anchor, tmp_path: Path) -> None:
    """Only eight of ten places are stored, all within another alias; the ninth, elsewhere, makes the word ambiguous."""
    text = "so " * 9
    lines(tmp_path / "c.jsonl", [{"id": "a", "text": text}, {"id": "b", "text": "so"}])
    assert anchor([asked(answers=[text.strip(), "so"])]).status == 1


def test_a_missing_folder_is_an_error_before_the_run(anchor: Anchor, tmp_path: Path) -> None:
    done = anchor([asked(answers=["Tulsa"])], "--unanchored", str(tmp_path / "none" / "rest.jsonl"))
    assert done.status == 2
    assert "rest.jsonl cannot be written: there is no folder " in done.err
    assert not (tmp_path / "out.jsonl").exists()


def test_files_are_not_replaced_unasked(anchor: Anchor, tmp_path: Path) -> None:
    for name in ("out.jsonl", "rest.jsonl"):
        (tmp_path / name).write_text("mine")
        done = anchor([asked(answers=["Tulsa"])])
        assert (done.status, done.err.splitlines()[0]) == (2, f"{name} exists already, nothing was written.")
        (tmp_path / name).unlink()
    done = anchor([asked(answers=["Tulsa"])], "--unanchored", "./out.jsonl")
    twice = "out.jsonl is to be written twice, nothing was written."
    assert (done.status, done.err.splitlines()[0]) == (2, twice)


@pytest.mark.parametrize("name", ["e.jsonl", "c.jsonl"])
@pytest.mark.parametrize("flag", ["--out", "--unanchored"])
def test_what_is_read_is_not_replaced(anchor: Anchor, tmp_path: Path, flag: str, name: str) -> None:
    records = [asked(answers=["Tulsa"]), asked(id="q2", gold=[{"id": "p1"}])]
    done = anchor(records, "--force", flag, f"./{name}")
    error = f"{name} is the input and would be overwritten. Nothing was written.\nName another file.\n"
    assert (done.status, done.err) == (2, error)
    assert (read(tmp_path / "e.jsonl"), read(tmp_path / "c.jsonl")) == (records, CORPUS)


def test_a_folder_of_files(anchor: Anchor, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = "# Baths\r\n\r\nThe season ticket\r\ncosts 45 crowns.\r\n"
    (tmp_path / "docs" / "a.md").write_text(text, newline="")
    example = asked(answers=["45 crowns"], gold=[{"text": "The season ticket costs 45 crowns."}])
    assert anchor([example], "--corpus", "docs").status == 0
    (record,) = read(tmp_path / "out.jsonl")
    assert record["gold"] == [{**example["gold"][0], "source": "a.md", "start": 9, "end": 43}]
    assert main(["evalset", "check", "out.jsonl", "--corpus", "docs"]) == 0
