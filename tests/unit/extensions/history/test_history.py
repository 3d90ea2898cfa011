"""The lines of a history, as written by a run and as read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.history.history import (
    ScoreKey,
    append_run,
    filter_runs,
    history_entry,
    read_history,
    series,
)
from tests.unit.extensions.history.runs import NODEID, line, run, score


def entry(spec: str, mean: float | None, **more: Any) -> dict[str, Any]:
    return {
        "spec": spec,
        "where": {},
        "mean": mean,
        "ci95": None if mean is None else [mean - 0.05, mean + 0.05],
        "n": 91,
        "unscored": 4,
        "verdict": None,
        "baseline": None,
        **more,
    }


def document(*scores: dict[str, Any], **more: Any) -> dict[str, Any]:
    test = {"nodeid": NODEID, "outcome": "passed", "evalset": {"digest": "e" * 64}, "scores": scores}
    return {
        "started": "2026-11-01T09:00:00+00:00",
        "package": "0.1.0",
        "duration_s": 2.5,
        "stopped": False,
        "llm": {"live": 3, "tokens_in": 10, "tokens_out": 5, "cost_usd": 0.25, "requests": 9},
        "tests": [test],
        **more,
    }


def test_a_line_has_the_run_and_its_scores_in_one_order() -> None:
    run_entry = {"commit": "c" * 40, "branch": "main", "dirty": True, "title": "Fix", "url": "https://ci/1"}
    compared = entry("recall@3", 0.12345678, baseline={"mean": 0.9}, anchor={"mean": 0.95}, verdict="pass")
    history_line = history_entry(document(entry("zoo", 1.0), compared, run=run_entry))
    assert json.dumps(history_line) == json.dumps(
        {
            "schema": 1,
            "time": "2026-11-01T09:00:00+00:00",
            "commit": "c" * 40,
            "branch": "main",
            "title": "Fix",
            "url": "https://ci/1",
            "dirty": True,
            "package": "0.1.0",
            "duration_s": 2.5,
            "llm": {"live": 3, "tokens_in": 10, "tokens_out": 5, "cost_usd": 0.25},
            "tests": {
                NODEID: {
                    "outcome": "passed",
                    "evalset": "e" * 12,
                    "scores": {
                        "recall@3": {
                            "mean": 0.123457,
                            "ci95": [0.0734568, 0.173457],
                            "n": 91,
                            "unscored": 4,
                            "verdict": "pass",
                            "baseline": 0.9,
                            "anchor": 0.95,
                        },
                        "zoo": {"mean": 1.0, "ci95": [0.95, 1.05], "n": 91, "unscored": 4, "verdict": None},
                    },
                }
            },
        }
    )


def test_a_line_says_whether_the_suite_got_worse() -> None:
    assert history_entry(document(entry("mrr", 0.5), suite={"verdict": "fail"}))["suite"] == "fail"
    assert "suite" not in history_entry(document(entry("mrr", 0.5), suite={"verdict": "pass"}))


def test_of_several_thresholds_on_a_score_the_worst_verdict_counts() -> None:
    history_line = history_entry(
        document(
            entry("recall@3", 0.9, verdict="pass"),
            entry("recall@3", 0.9, verdict="fail", baseline={"mean": 0.95}),
            entry("recall@3", 0.9, verdict="inconclusive"),
        )
    )
    [recall] = history_line["tests"][NODEID]["scores"].values()
    assert (recall["verdict"], recall["baseline"]) == ("fail", 0.95)


def test_each_slice_of_a_threshold_by_tag_is_a_score_of_its_own() -> None:
    """The entry itself is left out, because its slice varies between runs."""
    slices = [
        entry("recall@3", mean, value=topic, verdict=verdict)
        for topic, mean, verdict in (("a", 0.2, "fail"), ("b", 0.8, "pass"))
    ]
    whole = entry("recall@3", 0.2, where={"topic": "a"}, by={"tag": "topic", "slices": slices})
    scores = history_entry(document(whole))["tests"][NODEID]["scores"]
    assert {name: score_line["mean"] for name, score_line in scores.items()} == {
        "recall@3 [topic=a]": 0.2,
        "recall@3 [topic=b]": 0.8,
    }


@pytest.mark.parametrize("scores", [[], [entry("recall@3", None, verdict="error")]])
def test_a_run_without_a_score_has_no_line(scores: list[dict[str, Any]]) -> None:
    assert history_entry(document(*scores)) == {}


def test_runs_are_read_by_time_whatever_the_order_of_lines(tmp_path: Path) -> None:
    """Runs are sorted by time across time zones, because `merge=union` does not sort the lines of two branches."""
    path = tmp_path / "history.jsonl"
    later = line(1) | {"time": "2026-11-01T08:30:00-03:00"}
    for history_run in (line(3), later, line(0), line(2)):
        append_run(path, history_run)
    assert [history_run.title for history_run in read_history(path)] == [
        "change 0",
        "change 2",
        "change 1",
        "change 3",
    ]
    assert [history_run.title for history_run in read_history(path, last=2)] == ["change 1", "change 3"]


def test_every_text_survives_on_one_line(tmp_path: Path) -> None:
    """A text with Unicode line separators or unpaired surrogates is stored on one line and read back unchanged."""
    path = tmp_path / "history.jsonl"
    title = 'a\n\u2028b\r "c" \ud800 ü'
    append_run(path, line(0, title=title))
    assert path.read_bytes().count(b"\n") == 1
    assert read_history(path)[0].title == title


def test_line_ends_of_windows_and_blank_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    texts = [json.dumps(line(0)), "", json.dumps(line(1)), ""]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(texts).encode())
    assert len(read_history(path)) == 2


GOOD = json.dumps(line(0))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (GOOD[:70], "is not JSON"),
        ("[]", "it is [], and must be an object"),
        ("{}", "no schema number"),
        ("\udcff", "is not UTF-8"),
        ("[" * 100_000, "is nested too deeply"),
        ("<<<<<<< HEAD", "merge=union"),
        (GOOD.replace('"schema": 1', '"schema": 2'), "has schema 2, and this version reads up to 1"),
        (GOOD.replace('"schema": 1', '"schema": true'), "no schema number"),
        (GOOD.replace("2026-11-01T", "yesterday "), "time is 'yesterday"),
        (GOOD.replace('"mean": 0.9', '"mean": "0.9"'), "mean is '0.9', and must be a finite number, or null"),
        (GOOD.replace('"mean": 0.9', '"mean": NaN'), "NaN is not a number"),
        (GOOD.replace('"mean": 0.9', f'"mean": 1{"0" * 400}'), "is too large a number"),
        (GOOD.replace('"ci95": [', '"ci95": [1, '), ".ci95 is [1, "),
        (GOOD.replace('"n": 91', '"n": []'), "n is []"),
        (GOOD.replace('"change 0"', "7"), "title is 7, and must be a text"),
        (json.dumps(line(0) | {"tests": []}), "tests is [], and must be an object"),
        (json.dumps(line(0) | {"tests": {"t": 3}}), "tests['t'] is 3, and must be an object"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, damaged: str, message: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(f"{GOOD}\n\n{damaged}\n{GOOD}\n".encode(errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_history(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert message in str(caught.value)
    before = path.read_bytes()
    append_run(path, line(1))
    assert path.read_bytes() == before + json.dumps(line(1), separators=(",", ":")).encode() + b"\n"


def test_a_file_that_is_missing_or_a_folder_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(InputError, match=r"cannot be read.*\n.*--rageval history="):
            read_history(path)


def test_an_expected_failure_does_not_count() -> None:
    expected = {"t": {"outcome": "xfailed", "scores": {"recall@3": score(0.5, "fail"), "mrr": score(1.0)}}}
    verdicts = [point.verdict for point in run(0, tests=expected).points.values()]
    assert verdicts == ["expected", "pass"]


def test_names_are_whole_or_parts_and_a_whole_one_comes_first() -> None:
    names = ("recall@3", "recall@3 [topic=a]", "mrr")
    runs = [run(0, {name: score(0.5) for name in names}), run(1, {"mrr": score(0.5)})]

    def found(**words: str) -> list[list[str]]:
        return [[key.score for key in filtered_run.points] for filtered_run in filter_runs(runs, **words)]

    assert found(score="recall@3") == [["recall@3"]]
    assert found(score="recall") == [["recall@3", "recall@3 [topic=a]"]]
    assert found(test="found", score="mrr") == [["mrr"], ["mrr"]]
    assert found() == [list(names), ["mrr"]]
    assert filter_runs(runs, score="recall@3")[0].line["tests"] == {
        NODEID: {"outcome": "passed", "evalset": "e1", "scores": {"recall@3": score(0.5)}}
    }
    with pytest.raises(InputError, match=r"no score 'recal@3'. Did you mean recall@3\? There is:\n  mrr"):
        filter_runs(runs, score="recal@3")
    with pytest.raises(InputError, match="no test 'x'"):
        filter_runs(runs, test="x")


def test_a_series_has_the_runs_that_have_the_score() -> None:
    runs = [run(0), run(1, {"mrr": score(0.1)}), run(2, {"recall@3": score(0.7)})]
    all_series = series(runs)
    assert list(all_series) == [ScoreKey(NODEID, "mrr"), ScoreKey(NODEID, "recall@3")]
    assert [
        (history_run.title, point.mean) for history_run, point in all_series[ScoreKey(NODEID, "recall@3")]
    ] == [("change 0", 0.9), ("change 2", 0.7)]
