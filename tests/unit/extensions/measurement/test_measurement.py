"""`--rageval preset=measurement`, and `rageval measurement`, which prints a page about the run."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.measurement.record import MeasurementPlugin, public_words
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.run import FinishedRun

QUESTION = {
    "id": "q1",
    "question": "?",
    "retrieved": [{"document": "d1", "text": "Some text."}],
    "context_tokens": 3,
}
SCORE = {
    "spec": "answer.correct@1",
    "where": {},
    "mean": 0.75,
    "ci95": [0.5, 1.0],
    "n": 4,
    "unscored": 1,
    "undefined": 0,
    "verdict": "pass",
    "reason": None,
    "fingerprint": {"judge": "m1"},
    "examples": [
        {
            "id": f"q{n}",
            "score": score,
            "unscored": None if score is not None else "no verdict",
            "answer": "a",
        }
        for n, score in enumerate([1.0, 1.0, 1.0, 0.0, None])
    ],
}
REPORT = {
    "schema": 1,
    "settings": {"generator": "m1", "judge": "m1", "comparator": "judge"},
    "llm": {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}},
    "tests": [
        {
            "nodeid": "test_a.py::test",
            "outcome": "passed",
            "evalset": {"name": "a|b.jsonl", "size": 5, "of": 50, "sample": 0.1, "digest": "abc"},
            "scores": [SCORE],
            "questions": [{**QUESTION, "id": f"q{n}"} for n in range(5)],
        }
    ],
}


@pytest.fixture
def page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def page(*reports: dict[str, Any], arguments: tuple[str, ...] = ()) -> str:
        names = [f"{n}.json" for n in range(len(reports))]
        for name, report in zip(names, reports, strict=True):
            Path(name).write_text(json.dumps(report), encoding="utf-8")
        status = main(["measurement", names[0], *(f"--second={name}" for name in names[1:]), *arguments])
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return page


def _changed(**changes: Any) -> dict[str, Any]:
    report = deepcopy(REPORT)
    report["tests"][0]["scores"][0] |= changes
    return report


def test_what_a_run_lacks_is_named(page):
    """Any JSON report has a page; what it does not say is listed."""
    text = page(REPORT)
    lacks = text.partition("## What it lacks\n\n")[2].splitlines()
    assert [line.partition(": ")[0] for line in lacks] == [
        "- the protocol",
        "- a revision",
        "- a part of a|b.jsonl",
        "- a paired test in test_a.py::test",
        "- labels of people for answer.correct@1",
        "- the judge's agreement with people",
        "- a second judge",
    ]
    assert (
        "| Eval set | a&#124;b.jsonl, 5 of 50, sample 0.1 questions with 0 gold passages; SHA-256 abc |"
        in text
    )
    assert "The report does not have its command." in text


def test_a_score_that_is_an_error_is_in_the_page(page):
    error = {
        "spec": "recall@5",
        "where": {},
        "mean": None,
        "verdict": "error",
        "reason": "No gold.",
        "examples": [],
    }
    text = page(
        {"schema": 1, "tests": [{"nodeid": "test_a.py::test", "outcome": "error", "scores": [error]}]}
    )
    assert "| recall@5 | - | - | 0 | 0 | - | - |" in text
    assert "- recall@5: No gold." in text
    assert "- a result of test_a.py::test: it is an error" in text


def test_unscored_questions_bound_the_mean(page):
    """Three of four are right, and a fifth is unscored: from 3/5 to 4/5."""
    text = page(REPORT)
    assert "| answer.correct@1 | 0.750 | 0.500 to 1.000 | 4 | 1 | 0.600 … 0.800 | - |" in text
    assert "- answer.correct@1: 1 unscored: 1 × no verdict" in text


@pytest.mark.parametrize(
    ("corrected", "cells", "lacks"),
    [
        (
            {
                "mean": 0.6,
                "ci95": [0.4, 0.8],
                "labels": 20,
                "rogan_gladen": {"mean": None, "refused": "chance"},
            },
            "- | 0.600 [0.400, 0.800] | 20 |",
            [
                "- Rogan–Gladen of answer.correct@1: chance",
                "- a record that the labels of answer.correct@1 are",
            ],
        ),
        (
            {
                "mean": None,
                "ci95": None,
                "labels": 20,
                "refused": "no random sample",
                "rogan_gladen": {
                    "mean": 1.0,
                    "ci95": [0.9, 1],
                    "clipped": 1.1,
                    "sensitivity": 0.9,
                    "specificity": 0.8,
                    "right": 12,
                    "wrong": 8,
                },
            },
            "1.000 [0.900, 1.000], clipped from 1.100 | - | 20; sensitivity 0.900 on 12, specificity 0.800 on 8 |",
            ["- prediction-powered inference of answer.correct@1: no random sample"],
        ),
        (
            {"mean": 0.6, "ci95": [0.4, 0.8], "labels": 20, "sampled": True},
            "- | 0.600 [0.400, 0.800] | 20 |",
            ["- Rogan–Gladen of answer.correct@1: it needs yes/no labels of answers"],
        ),
    ],
)
def test_corrected_means(page, corrected, cells, lacks):
    text = page(_changed(corrected=corrected))
    assert f"| answer.correct@1 | 0.750 [0.500, 1.000] | {cells}" in text
    named = [line for line in text.splitlines() if "of answer.correct@1" in line and line.startswith("- ")]
    assert len(named) == len(lacks)
    assert all(line.startswith(lack) for line, lack in zip(named, lacks, strict=True))


def _second(**changes: Any) -> dict[str, Any]:
    return _changed(**{"fingerprint": {"judge": "m2"}, **changes})


def test_grades_agree_by_their_correlation(page):
    examples = [
        {"id": f"q{n}", "score": score, "answer": "a"} for n, score in enumerate([5.0, 3.0, 4.0, 1.0])
    ]
    grades = {"scale": [1.0, 5.0], "examples": examples, "mean": 3.25, "ci95": [1.0, 5.0], "unscored": 0}
    assert "| 4 | - | correlation 1.000 [1.000, 1.000] | pass, pass |" in page(
        _changed(**grades), _second(**grades)
    )


def test_means_of_several_runs_agree_as_verdicts(page):
    """Of three runs 2/3 say yes is a yes."""
    examples = [
        {**each, "score": 2 / 3 if each["score"] == 1 else each["score"]} for each in SCORE["examples"]
    ]
    text = page(_changed(runs=3, spread=0.1), _second(runs=3, spread=0.1, examples=examples))
    assert "| 4 | 1.000 [0.510, 1.000] | kappa 1.000 [" in text


def test_other_answers_and_passages_are_left_out_of_the_agreement(page):
    second = _second(examples=[{**SCORE["examples"][0], "answer": "b"}, *SCORE["examples"][1:]])
    second["tests"][0]["questions"][1]["retrieved"] = [{"document": "d2", "text": "Another text."}]
    text = page(REPORT, second)
    assert "| 2 | 1.000 [0.342, 1.000] |" in text
    assert "- the same passages and answers for 2 questions of answer.correct@1: " in text


def test_a_second_report_without_the_score_is_named(page):
    second = _second(mean=None, reason="the server is down\nTry again.")
    assert "- a second judge of answer.correct@1: the server is down\n" in page(REPORT, second)


def test_reports_that_are_no_replication_are_refused(page):
    assert "Both reports have the same judge of answer.correct@1, m1.\n" in page(REPORT, REPORT)
    other = _second()
    other["tests"][0]["nodeid"] = "test_a.py::other"
    assert "The second report has no test test_a.py::test.\n" in page(REPORT, other)
    other = _second()
    other["tests"][0]["evalset"]["digest"] = "def"
    assert "The two reports have other questions of test_a.py::test.\n" in page(REPORT, other)


def test_what_is_not_as_the_preset_has_it_is_listed(page):
    """The report has what the user set otherwise, and the command without secrets."""
    options = {"preset": "measurement", "seed": "7", "model": "m1"}
    settings = resolve_options(options, {}, {"OPENAI_API_KEY": "k"}, invoked_in=Path(), root=Path())
    plugin = MeasurementPlugin(["-q", "--rageval=judge_base_url=https://u:pw@h"])
    entry = plugin.pytest_rageval_run_finished(FinishedRun(settings, Path(), dict))
    text = page({**REPORT, **entry, "llm": {**REPORT["llm"], "requests": 3, "cached": 3}})
    assert "| Protocol | preset measurement: cutoffs 5, temperature 0, draws 1, repeat 3," in text
    assert "| Cost | 3 replies: 3 cached, 0 live |" in text
    assert "    pytest -q '--rageval=judge_base_url=…'\n" in text
    for lack in (
        "the preset's seed: this run has 7",
        "recorded replies: ",
        "values of the command that may be secret",
    ):
        assert f"\n- {lack}" in text


def test_files_that_cannot_be_used_are_refused(page):
    assert page(REPORT, arguments=("--test=x",)) == (
        "0.json has no such test with scores.\nTests with scores: test_a.py::test.\n"
    )
    assert "0.json is a report that the page is made of" in page(REPORT, arguments=("-o", "0.json"))
    assert json.loads(Path("0.json").read_text(encoding="utf-8")) == REPORT
    assert page(REPORT, arguments=("-o", "page.md")) == "page.md: 1 test\n"
    assert Path("page.md").read_text(encoding="utf-8").startswith("# Measurement of ")
    assert "Write one with: pytest --rageval preset=measurement" in page({"schema": 1})


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("--rageval-base-url https://u:pw@h -k a", "--rageval-base-url … -k a"),
        ("--rageval base_url=https://u:pw@h", "--rageval base_url=…"),
        ("-o rageval_judge_base_url=https://u:pw@h", "-o rageval_judge_base_url=…"),
        ("-orageval_cache=redis://:pw@h", "-orageval_cache=…"),
        ("--override-ini=rageval_cache=redis://:pw@h", "--override-ini=rageval_cache=…"),
        ("--dd-api-key=pw --their-token pw", "--dd-api-key=… --their-token …"),
        (
            "--rageval max_tokens=5 test_tokens.py::test[key=1]",
            "--rageval max_tokens=5 test_tokens.py::test[key=1]",
        ),
        ("--rageval-cache-dir=d -k key", "--rageval-cache-dir=d -k key"),
    ],
)
def test_no_secret_is_in_the_command(words, shown):
    assert " ".join(public_words(words.split())) == shown
