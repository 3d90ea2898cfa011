"""`rageval extensions`."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.core import extensions
from pytest_rageval.core.extensions import declared, installed
from pytest_rageval.options import all_options


def _listed(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["extensions", "--json"]) == 0
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}


def test_each_extension_is_listed_with_what_it_adds(capsys: pytest.CaptureFixture[str], plugin: Path) -> None:
    plugin.write_text('"""Trees.\n\nMore."""\n\ndef pytest_rageval_failures(test, limit): ...\n')
    listed = _listed(capsys)
    assert listed.keys() == {*installed(), "trees"}
    assert listed["trees"] == {
        "name": "trees",
        "module": "rageval_trees",
        "summary": "Trees.",
        "commands": [],
        "options": [],
        "presets": [],
        "scores": [],
        "fields": [],
        "hooks": ["pytest_rageval_failures"],
    }
    assert all(entry["summary"] for entry in listed.values())


def test_the_scores_and_fields_of_an_extension_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = _listed(capsys)
    declared_scores = [name for entry in listed.values() for name in entry["scores"]]
    assert declared_scores == [name for names in declared("SCORES").values() for name in names]
    fields = {name for entry in listed.values() for name in entry["fields"]}
    assert fields == {*declared("FIELDS"), *(f"gold.{name}" for name in declared("GOLD_FIELDS"))}


def test_the_text_has_the_same(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "entry_points", lambda **_: [])
    listed = _listed(capsys)
    assert main(["extensions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for entry in listed.values():
        assert f"{entry['name']}: {entry['summary']}" in lines
    flags = [flag for entry in listed.values() for flag in entry["options"]]
    assert bool(flags) == bool(installed())
    assert set(flags) <= {option.typed for option in all_options()}
    assert sum(line.startswith("  hooks: ") for line in lines) == sum(
        bool(e["hooks"]) for e in listed.values()
    )
