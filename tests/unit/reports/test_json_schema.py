"""The JSON report, schema 1."""

import json

import pytest

from pytest_rageval.core.outcome import Score
from pytest_rageval.reports import json_report
from pytest_rageval.reports.build import report_document
from tests.unit.reports.entries import score_entry

LLM = {"requests": 4, "cached": 3, "live": 1, "failed": 0, "tokens_in": 90, "tokens_out": 2, "cost_usd": 0.0}

SETTINGS = {"generator": "m1", "judge": "m2", "comparator": "judge or em", "seed": 3}

RATINGS = {"test": "test_a.py::test_b", "evalset": "s.jsonl", "systems": [], "reason": "no battle"}


def _report(score: Score) -> str:
    test = {
        "nodeid": "test_a.py::test_ümlaut",
        "evalset": {"name": "s.jsonl", "size": 5, "digest": "0" * 64},
        "scores": [score_entry(score, None, None)],
    }
    started = "2026-01-01T12:00:00+01:00"
    document = report_document(
        [test],
        ratings=[RATINGS],
        settings=SETTINGS,
        llm=LLM,
        package="0.1.0",
        started=started,
        duration_s=1.23456,
    )
    return "".join(json_report(document))


def test_the_report_is_readable_text(score: Score) -> None:
    """The report keeps non-ASCII letters, has short lines for diffs, and ends with a newline."""
    text = _report(score)
    report = json.loads(text)
    assert (report["duration_s"], report["ratings"]) == (1.235, [RATINGS])
    assert "test_ümlaut" in text
    assert text.endswith("}\n")
    assert text.count("\n") > 20


def test_a_large_report_comes_in_parts_of_the_same_bytes() -> None:
    document = {"texts": [f"Ümlaut \x00\x1b\u2028\ud800 {n}" for n in range(20_000)], "empty": [{}, [], ""]}
    parts = list(json_report(document))
    assert len(parts) > 3
    assert "".join(parts) == json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    encoded = "".join(parts).encode(errors="backslashreplace")
    assert json.loads(encoded) == document


def test_a_number_that_json_does_not_have_is_an_error() -> None:
    """NaN raises ValueError, because other programs could not parse the report."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(json_report({"mean": float("nan")}))
