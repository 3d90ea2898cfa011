"""`rageval diff`: two reports compared, question by question."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.stats.drops import Drops, joint_drop_test


def entry(spec: str, values: Mapping[str, float | None], **more: Any) -> dict[str, Any]:
    """A score of a report."""
    scored = [value for value in values.values() if value is not None]
    return {
        "spec": spec,
        "where": {},
        "mean": sum(scored) / len(scored) if scored else None,
        "examples": [{"id": name, "score": value} for name, value in values.items()],
        **more,
    }


def report(path: Path, *scores: dict[str, Any], **more: Any) -> str:
    """A report with one test."""
    test = {
        "nodeid": "test_r.py::test_found",
        "evalset": {"digest": more.pop("digest", "d")},
        "scores": scores,
    }
    path.write_text(json.dumps({"schema": 1, "settings": {}, "tests": [test], **more}), encoding="utf-8")
    return str(path)


BEFORE = {f"q{n}": 1.0 for n in range(10)}
AFTER = BEFORE | dict.fromkeys(("q1", "q3", "q4", "q5", "q7", "q8"), 0.0)

SCORE = (
    '{"schema": 1, "tests": [{"nodeid": "t", "scores": [{"where": {}, "spec": "recall@3", "mean": %s, '
    '"examples": [%s]}]}]}'
)


def test_a_drop_has_its_interval_its_p_value_and_its_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The p-value is twice that of the one-sided test, and the interval agrees with it."""
    before = report(tmp_path / "a.json", entry("recall@3", BEFORE))
    after = report(tmp_path / "b.json", entry("recall@3", AFTER))
    assert main(["diff", before, after]) == 0
    out = capsys.readouterr().out
    assert out.startswith("test_r.py::test_found\n")
    row = re.search(r"recall@3 +1\.000 +0\.400 +-0\.600 +(\S+) to (\S+) +(\S+) +10 +0 +6\n", out)
    assert row
    expected = joint_drop_test([Drops([1, 1, 1, 1, 1, 1, 0, 0, 0, 0])], alpha=0.025).scores[0]
    assert float(row[3]) == pytest.approx(2 * expected.p_value, rel=0.1)
    assert float(row[2]) == pytest.approx(-expected.low, abs=5e-4)
    assert float(row[1]) < -0.6 < float(row[2]) < 0
    assert "lost in recall@3: q1, q3, q4, q5, q7 and 1 more (-v shows them)\n" in out
    assert main(["diff", before, after, "-v"]) == 0
    assert "lost in recall@3: q1, q3, q4, q5, q7, q8\n" in capsys.readouterr().out


def test_the_other_way_round_it_is_a_gain_with_the_same_p_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but the sign changes."""
    paths = [
        report(tmp_path / f"{n}.json", entry("ndcg@3", values)) for n, values in enumerate((BEFORE, AFTER))
    ]
    found = []
    for order in (paths, paths[::-1]):
        assert main(["diff", *order, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["scores"][0])
    drop, gain = found
    assert gain["difference"] == -drop["difference"]
    assert gain["p_value"] == pytest.approx(drop["p_value"])
    assert gain["interval"] == pytest.approx([-bound for bound in reversed(drop["interval"])])
    assert gain["gained"] == drop["lost"] == ["q1", "q3", "q4", "q5", "q7", "q8"]
    assert gain["lost"] == drop["gained"] == []


def test_only_questions_with_two_scores_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are counted; what only one report has is named; so are other models."""
    before = report(
        tmp_path / "a.json",
        entry("recall@3", {"q1": 1.0, "q2": 0.5, "q3": None, "old": 1.0}),
        entry("mrr@3", {"q1": 1.0}),
        settings={"judge": "m-1"},
    )
    after = report(
        tmp_path / "b.json",
        entry("recall@3", {"q1": 1.0, "q2": 1.0, "q3": 1.0, "new": 1.0}),
        entry("recall@3", {"q1": 1.0}, where={"topic": "x"}),
        settings={"judge": "m-2"},
        digest="other",
    )
    assert main(["diff", before, after]) == 0
    out = capsys.readouterr().out
    assert "recall@3: 3 questions left out, which one of the runs lacks or could not score" in out
    assert "gained in recall@3: q2\n" in out
    assert "note: judge differs: m-1 before, m-2 after" in out
    assert "note: eval set of test_r.py::test_found differs: d before, other after" in out
    assert f"note: only in {before}: mrr@3 of test_r.py::test_found" in out
    assert f"note: only in {after}: recall@3 where topic='x' of test_r.py::test_found" in out


def test_scores_without_a_common_question_have_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dash, not a number; and reports without a common score say so."""
    one = report(tmp_path / "a.json", entry("recall@3", {"q1": 1.0}))
    two = report(tmp_path / "b.json", entry("recall@3", {"q2": 0.0}))
    three = report(tmp_path / "c.json", entry("mrr@3", {"q2": 0.0}))
    assert main(["diff", one, two]) == 0
    assert re.search(r"recall@3 +1\.000 +0\.000 +- +- +- +0 +0 +0\n", capsys.readouterr().out)
    assert main(["diff", one, three]) == 0
    assert f"{one} and {three} have no score in common." in capsys.readouterr().out


def test_grades_and_embeddings_are_compared_on_their_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From 1 to 5; and what differs by rounding on another machine is no change."""
    grades = ({"q1": 5.0, "q2": 1.0}, {"q1": 1.0, "q2": 1.0})
    cosines = ({"q1": 0.5, "q2": 0.25}, {"q1": 0.5 + 3e-7, "q2": 0.25})
    paths = [
        report(
            tmp_path / f"{n}.json",
            entry("judged.faithfulness@3", grades[n]),
            entry("answer.cosine@3", cosines[n]),
        )
        for n in (0, 1)
    ]
    assert main(["diff", *paths, "--json"]) == 0
    graded, cosine = json.loads(capsys.readouterr().out)["scores"]
    assert graded["difference"] == -2
    assert graded["lost"] == ["q1"]
    assert cosine["gained"] == cosine["lost"] == []
    assert cosine["p_value"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("[]", "it has no list `tests`"),
        ('{"schema": 2, "tests": []}', "has schema 2; this version reads 1"),
        ('{"schema": 1, "tests": [3]}', "tests[0]: "),
        (
            '{"schema": 1, "tests": [{"nodeid": "t", "scores": [{}]}]}',
            "tests[0].scores[0]: 'where' is missing",
        ),
        (
            SCORE % ("1", '{"id": "q", "score": "1"}'),
            "tests[0].scores[0]: a score must be a number or null, found '1'",
        ),
        (
            SCORE % ("NaN", ""),
            "tests[0].scores[0]: a score must be a number or null, found nan",
        ),
    ],
)
def test_a_file_that_is_no_report_is_named_with_the_reason(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with the command that writes one; the exit status is 2."""
    good = report(tmp_path / "a.json", entry("recall@3", BEFORE))
    bad = tmp_path / "b.json"
    if text is not None:
        bad.write_text(text, encoding="utf-8")
    for arguments in ([good, str(bad)], [str(bad), good]):
        assert main(["diff", *arguments]) == 2
        err = capsys.readouterr().err
        assert str(bad) in err
        assert said in err
        assert "pytest --rageval-report b.json" in err


def test_times_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two reports may be of two machines, and a percentile is no mean."""
    paths = [
        report(
            tmp_path / f"{name}.json",
            entry("recall@3", BEFORE),
            entry("latency.p95", {"q1": seconds}, statistic="p95"),
        )
        for name, seconds in (("a", 0.1), ("b", 3.0))
    ]
    assert main(["diff", *paths]) == 0
    out = capsys.readouterr().out
    note = (
        "latency.p95 of test_r.py::test_found is left out: times are not comparable between machines and runs"
    )
    assert f"note: {note}\n" in out
    assert out.count("latency") == 1
