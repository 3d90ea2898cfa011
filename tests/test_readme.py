"""The README is short, and its commands are the commands that CI runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_read_in_five_minutes():
    """It is short, because details are in the documentation."""
    assert len(README.splitlines()) <= 150
    assert len(README.split()) <= 1200


def test_its_two_commands_are_those_that_ci_runs():
    """One command tries the example and one runs the tests; `.ci/run` runs both in a new virtual environment."""
    commands = re.findall(r"(?m)^\$ (python3 -m venv .*)$", README)
    assert len(commands) == 2
    example, tests = (command.rpartition("&& ")[2] for command in commands)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert example.removeprefix("../.venv/bin/") == "pytest)"
    assert "(cd example_project && pytest)" in script
    assert f"\n{tests.removeprefix('.venv/bin/')} || again" in script


def test_every_family_of_scores_is_in_its_table():
    """The table has each score by its name, or by a pattern such as `family.*`."""
    from pytest_rageval.scores import SCORES

    table = README.partition("## What it scores")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([\w.…*]+)`", table))
    for name in SCORES:
        family, _, part = name.partition(".")
        shown = {name, f"{family}.*", f".{part}", f".{part[:5]}…" if part.startswith("rouge") else name}
        shown |= {".bertscore"} if part.startswith("bertscore") else set()
        shown |= {"answer.correct"} if name == "answer.abstained" else set()
        assert shown & named, name


def test_the_example_record_can_be_used():
    """The example record, which readers copy, is a valid record of the native format."""
    import json

    from pytest_rageval.evalsets.records import example_from

    line = next(line for line in map(str.strip, README.splitlines()) if line.startswith('{"id": "q17"'))
    example = example_from(json.loads(line), place="README")
    assert example.relevant[0].id == "doc-4"
    assert not example.extra
