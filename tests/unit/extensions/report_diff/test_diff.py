"""`rageval diff`: two reports compared, question by question."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test


def entry(spec: str, values: Mapping[str, float | None], **more: Any) -> dict[str, Any]:
    scored = [value for value in values.values() if value is not None]
    return {
        "spec": spec,
        "where": {},
        "mean": sum(scored) / len(scored) if scored else None,
        "examples": [{"id": name, "score": value} for name, value in values.items()],
        **more,
    }


def report(path: Path, *scores: dict[str, Any], **more: Any) -> str:
    test = {
        "nodeid": "test_r.py::test_found",
        "outcome": "passed",
        "evalset": {"digest": more.pop("digest", "d")},
        "scores": scores,
    }
    path.write_text(json.dumps({"schema": 1, "settings": {}, "tests": [test], **more}), encoding="utf-8")
    return str(path)


BEFORE = {f"q{n}": 1.0 for n in range(10)}
AFTER = BEFORE | dict.fromkeys(("q1", "q3", "q4", "q5", "q7", "q8"), 0.0)

Done = tuple[str, str]  # what a command printed, and its errors


@pytest.fixture
def diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Return a function that compares the reports a.json and b.json with scores, in the temporary folder."""
    monkeypatch.chdir(tmp_path)

    def run(before: object = None, after: object = None, *arguments: str, status: int = 0) -> Done:
        for name, scores in (("a.json", before), ("b.json", after)):
            if scores is not None:
                report(Path(name), *(scores if isinstance(scores, list) else [scores]))
        assert main(["diff", "a.json", "b.json", *arguments]) == status
        out, err = capsys.readouterr()
        return out, err

    return run


SCORE = (
    '{"schema": 1, "tests": [{"nodeid": "t", "outcome": "passed", "scores": [{"where": {}, "spec": "recall@3", '
    '"mean": %s, "examples": [%s]}]}]}'
)


def test_a_drop_has_its_interval_its_p_value_and_its_questions(diff):
    out, _ = diff(entry("recall@3", BEFORE), entry("recall@3", AFTER))
    assert out.startswith("test_r.py::test_found\n")
    row = re.search(r"recall@3 +1\.000 +0\.400 +-0\.600 +(\S+) to (\S+) +(\S+) +10 +0 +6 +4\n", out)
    assert row
    expected = joint_drop_test([PairedDrops([1, 1, 1, 1, 1, 1, 0, 0, 0, 0])], alpha=0.025).scores[0]
    assert float(row[3]) == pytest.approx(2 * expected.p_value, rel=0.1)
    assert float(row[2]) == pytest.approx(-expected.low, abs=5e-4)
    assert float(row[1]) < -0.6 < float(row[2]) < 0
    assert "lost in recall@3: q1, q3, q4, q5, q7 and 1 more (-v shows them)\n" in out
    assert "lost in recall@3: q1, q3, q4, q5, q7, q8\n" in diff(None, None, "-v")[0]


def test_the_other_way_round_it_is_a_gain_with_the_same_p_value(diff):
    """If the two reports are swapped, only the signs change, and lost questions become gained ones."""
    reports = entry("ndcg@3", BEFORE), entry("ndcg@3", AFTER)
    drop, gain = (json.loads(diff(*order, "--json")[0])["scores"][0] for order in (reports, reports[::-1]))
    assert gain["difference"] == -drop["difference"]
    assert gain["p_value"] == pytest.approx(drop["p_value"])
    assert gain["interval"] == pytest.approx([-bound for bound in reversed(drop["interval"])])
    assert gain["gained"] == drop["lost"] == ["q1", "q3", "q4", "q5", "q7", "q8"]
    assert gain["lost"] == drop["gained"] == []


def test_only_questions_with_two_scores_are_compared(diff):
    before = [entry("recall@3", {"q1": 1.0, "q2": 0.5, "q3": None, "old": 1.0}), entry("mrr@3", {"q1": 1.0})]
    after = [
        entry("recall@3", {"q1": 1.0, "q2": 1.0, "q3": 1.0, "new": 1.0}),
        entry("recall@3", {"q1": 1.0}, where={"topic": "x"}),
    ]
    report(Path("a.json"), *before, settings={"judge": "m-1"})
    report(Path("b.json"), *after, settings={"judge": "m-2"}, digest="other")
    out, _ = diff()
    assert "recall@3: only in a.json: old\n" in out
    assert "recall@3: only in b.json: new\n" in out
    assert "recall@3: unscored in one of them or in both: q3\n" in out
    assert "gained in recall@3: q2\n" in out
    assert "note: judge differs: m-1 before, m-2 after" in out
    assert "note: eval set of test_r.py::test_found differs: d before, other after" in out
    assert "note: only in a.json: mrr@3 of test_r.py::test_found" in out
    assert "note: only in b.json: recall@3 where topic='x' of test_r.py::test_found" in out


def test_the_eval_set_of_a_skipped_test_does_not_differ(diff):
    report(Path("a.json"), entry("recall@3", {"q1": 1.0}))
    skipped = {"nodeid": "test_r.py::test_found", "outcome": "skipped", "evalset": None, "scores": []}
    report(Path("b.json"), tests=[skipped])
    out, _ = diff()
    assert "eval set of" not in out
    assert "only in a.json: recall@3" in out


def test_scores_without_a_common_question_have_no_difference(diff):
    out, _ = diff(entry("recall@3", {"q1": 1.0}), entry("recall@3", {"q2": 0.0}))
    assert re.search(r"recall@3 +1\.000 +0\.000 +- +- +- +0 +0 +0 +0\n", out)
    assert "a.json and b.json have no score in common." in diff(None, entry("mrr@3", {"q2": 0.0}))[0]


def test_a_score_that_failed_in_a_report_is_not_the_same(diff):
    broken = {**entry("recall@3", {}), "verdict": "error", "reason": "it raised\nTimeoutError"}
    out, _ = diff(entry("recall@3", {"q1": 1.0}), broken, "--html", "d.html")
    reason, page = (
        "not computed in b.json: it raised TimeoutError",
        Path("d.html").read_text(encoding="utf-8"),
    )
    assert f"recall@3: {reason}\n" in out
    assert reason in page
    assert "rageval diff: 1 unclear of 1 score" in page


def test_grades_and_embeddings_are_compared_on_their_scale(diff):
    grades = ({"q1": 5.0, "q2": 1.0}, {"q1": 1.0, "q2": 1.0})
    cosines = ({"q1": 0.5, "q2": 0.25}, {"q1": 0.5 + 3e-7, "q2": 0.25})
    reports = [
        [entry("judged.faithfulness@3", graded), entry("answer.cosine@3", cosine)]
        for graded, cosine in zip(grades, cosines, strict=True)
    ]
    graded, cosine = json.loads(diff(*reports, "--json")[0])["scores"]
    assert graded["difference"] == -2
    assert graded["lost"] == ["q1"]
    assert cosine["gained"] == cosine["lost"] == []
    assert cosine["p_value"] == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("[]", "it has no list `tests`"),
        ('{"schema": 2, "tests": []}', "has schema 2; this version reads 1"),
        ('{"schema": 1, "tests": [3]}', "tests[0] is 3, and must be an object"),
        (
            '{"schema": 1, "tests": [{"nodeid": "t", "outcome": "passed", "scores": [{}]}]}',
            "tests[0].scores[0] has no 'examples'",
        ),
        (
            SCORE % ("1", '{"id": "q", "score": "1"}'),
            "tests[0].scores[0].examples[0].score is '1', and must be a finite number, or null",
        ),
        (SCORE % ("NaN", ""), "is not JSON: NaN is not a number"),
    ],
)
def test_a_file_that_is_no_report_is_named_with_the_reason(text, reason, tmp_path, capsys):
    good = report(tmp_path / "a.json", entry("recall@3", BEFORE))
    bad = tmp_path / "b.json"
    if text is not None:
        bad.write_text(text, encoding="utf-8")
    for arguments in ([good, str(bad)], [str(bad), good]):
        assert main(["diff", *arguments]) == 2
        err = capsys.readouterr().err
        assert str(bad) in err
        assert reason in err
        assert "pytest --rageval-report b.json" in err


def test_a_baseline_is_not_to_be_overwritten_with_a_report(diff):
    Path("b.json").write_text('{"schema": 1, "tests": {}}', encoding="utf-8")
    assert diff(entry("recall@3", BEFORE), status=2)[1] == (
        "b.json is a baseline, not a JSON report of pytest-rageval.\n"
        "Write a report to another file: pytest --rageval-report report.json\n"
    )


def seen(
    spec: str, values: Mapping[str, float | None], answers: Mapping[str, str], labels: list[str], **more: Any
) -> dict[str, Any]:
    score = entry(spec, values)
    score["examples"] = [
        {
            **example,
            "k": 2,
            "answer": answers[example["id"]],
            "before": 0.25,
            "before_answer": "of its baseline",
        }
        for example in score["examples"]
    ]
    questions = [
        {
            "id": name,
            "question": f"What is {name}?",
            "gold": ["kb-1"],
            "retrieved": [{"document": label, "text": f"Text of {label}."} for label in labels],
        }
        for name in values
    ]
    return {
        "nodeid": "test_r.py::test_found",
        "outcome": "passed",
        "evalset": None,
        "scores": [score],
        "questions": questions,
    } | more


def runs() -> None:
    """Write reports whose questions have passages and answers."""
    tests = {
        "a": seen(
            "answer.em@2",
            {"q1": 1.0, "q2": 0.0, "q3": 1.0, "old": 1.0},
            {"q1": "ten", "q2": "no", "q3": "yes", "old": "-"},
            ["kb-1", "kb-2", "kb-3"],
        ),
        "b": seen(
            "answer.em@2",
            {"q1": 0.0, "q2": 1.0, "q3": 1.0, "new": 1.0},
            {"q1": "two", "q2": "yes", "q3": "yes", "new": "-"},
            ["kb-2", "kb-9", "kb-1"],
        ),
    }
    settings = {"generator": "m-1", "judge": "m-2"}
    for name, test in tests.items():
        document = {"schema": 1, "settings": settings, "run": {"branch": name}, "tests": [test]}
        Path(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def test_changed_questions_show_what_was_retrieved_and_answered(diff):
    """Values of the baseline of the second report are not shown."""
    runs()
    out, _ = diff(None, None, "-v")
    assert re.search(r"answer\.em@2 .* 3 +1 +1 +1\n", out)
    assert "answer.em@2: only in a.json: old\n" in out
    assert "answer.em@2: only in b.json: new\n" in out
    lines = [line.split() for line in out.partition("\n  answer.em@2\n")[2].splitlines()]
    assert lines[:7] == [
        ["q1", "1.00", "→", "0.00", "What", "is", "q1?"],
        ["gold", "kb-1"],
        ["retrieved", "kb-1,", "kb-2"],
        ["→", "kb-2,", "kb-9"],
        ["answer", "ten"],
        ["→", "two"],
        ["q2", "0.00", "→", "1.00", "What", "is", "q2?"],
    ]
    assert "q3" not in out.partition("\n  answer.em@2\n")[2]
    assert "of its baseline" not in out
    assert "What is" not in diff()[0]


def test_the_page_has_every_question_of_both_reports(diff):
    runs()
    assert "page: d.html\n" in diff(None, None, "--html", "d.html")[1]
    text = Path("d.html").read_text(encoding="utf-8")
    assert "<title>rageval diff: 1 unclear of 1 score</title>" in text
    assert "a.json, a, generator m-1, judge m-2" in text
    for name in ("q1", "q2", "q3", "old", "new"):
        assert f"What is {name}?" in text
    for shown in ("1 → 0", "0 → 1", "Text of kb-9.", "1 question only in b.json"):
        assert shown in text
    assert re.search(r"<dt>answer before.*?</dt><dd>ten</dd>", text)
    assert "of its baseline" not in text
    assert "0.25" not in text


DEVIL = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'&"


def test_nothing_in_a_report_is_markup_on_the_page(diff):
    """A report may come from a fork: HTML in any of its texts is escaped on the page."""
    test = seen("recall@3", {DEVIL: 1.0}, {DEVIL: DEVIL}, [DEVIL], nodeid=DEVIL)
    test["questions"][0] |= {"question": DEVIL, "gold": [DEVIL], "tags": {DEVIL: DEVIL}, "history": [DEVIL]}
    document = {"schema": 1, "settings": {"judge": DEVIL}, "run": {"branch": DEVIL}, "tests": [test]}
    other = document | {
        "settings": {"judge": "m"},
        "tests": [test | {"scores": [test["scores"][0] | {"spec": "mrr@3"}]}],
    }
    Path("a.json").write_text(json.dumps(document), encoding="utf-8")
    for second in (document, other):
        Path("b.json").write_text(json.dumps(second), encoding="utf-8")
        diff(None, None, "--html", "d.html")
        text = Path("d.html").read_text(encoding="utf-8")
        assert "<img" not in text
        assert text.count("<script>") == 1
        assert "&lt;img src=x" in text


def test_less_of_a_cost_is_a_gain(diff):
    high, low = ({f"q{n}": tokens for n in range(9)} for tokens in (900.0, 300.0))
    scores = entry("context.tokens@3", high), entry("context.tokens@3", low)
    (difference,) = json.loads(diff(*scores, "--json", "--html", "d.html")[0])["scores"]
    assert (len(difference["gained"]), len(difference["lost"]), difference["difference"]) == (9, 0, -600)
    page = Path("d.html").read_text(encoding="utf-8")
    assert "rageval diff: 1 better of 1 score" in page
    assert '<span class="change is-gain">−600.000</span>' in page


def test_a_small_cost_has_digits(diff):
    scores = (entry("retrieval.cost", {f"q{n}": cost for n in range(9)}) for cost in (0.0003, 0.0001))
    assert "  retrieval.cost  0.0003  0.0001     -0.0002  " in diff(*scores)[0]


def test_json_has_each_question(diff):
    before = entry("recall@3", {"q1": 1.0, "q2": None, "old": 0.5})
    after = entry("recall@3", {"q1": 0.0, "q2": 1.0, "new": 1.0})
    (difference,) = json.loads(diff(before, after, "--json")[0])["scores"]
    assert difference["examples"] == [
        {"id": "q1", "before": 1.0, "after": 0.0},
        {"id": "q2", "before": None, "after": 1.0},
        {"id": "old", "before": 0.5, "after": None},
        {"id": "new", "before": None, "after": 1.0},
    ]
    only = difference["only_before"], difference["only_after"], difference["unscored"]
    assert only == (["old"], ["new"], ["q2"])
    assert (difference["n"], difference["same"], difference["left_out"]) == (1, 0, 3)


def test_questions_with_the_same_id_and_another_text_are_named(diff):
    runs()
    document = json.loads(Path("b.json").read_text(encoding="utf-8"))
    document["tests"][0]["questions"][1]["question"] = "Something else?"
    Path("b.json").write_text(json.dumps(document), encoding="utf-8")
    note = "note: 1 question of test_r.py::test_found with the same id and another text: q2\n"
    assert note in diff()[0]


def systems(path: Path, *names: tuple[str, str], lost: str = "") -> str:
    tests = [
        {
            "nodeid": f"test_r.py::test_found[{retriever}-{generator}-5]",
            "outcome": "passed",
            "function": "test_r.py::test_found",
            "system": {"rageval_retriever": retriever, "rageval_generator": generator},
            "parameters": {"k": "5"},
            "evalset": {"digest": "d"},
            "scores": [entry("recall@3", AFTER if retriever == lost else BEFORE)],
        }
        for retriever, generator in names
    ]
    plain = {"nodeid": "test_r.py::test_other", "outcome": "passed", "evalset": None, "scores": []}
    path.write_text(json.dumps({"schema": 1, "tests": [plain, *tests]}), encoding="utf-8")
    return str(path)


def test_a_system_of_one_report_is_compared_with_one_of_another(tmp_path, capsys):
    first = systems(tmp_path / "a.json", ("bm25", "g1"))
    second = systems(tmp_path / "b.json", ("bm25 tuned", "g1"), lost="bm25 tuned")
    assert main(["diff", first, second, "--system", "bm25", "bm25 tuned", "--json"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["scores"]
    assert difference["nodeid"] == "test_r.py::test_found[g1-5]"
    assert difference["difference"] == -0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["a.json"],
            "There is one report, and no two systems to compare.\nName a second report; or two systems",
        ),
        (
            ["a.json", "--system", "bm25", "none"],
            "a.json has no system 'none'. Its systems: bm25, g1, dense.\n",
        ),
        (
            ["p.json", "--system", "x", "y"],
            "p.json has no system 'x'. Its systems: none: no test of it has a",
        ),
        (["a.json", "p.json", "--html", "p.json"], "--html p.json is one of the reports.\n"),
        (["a.json", "p.json", "--html", "no/d.html"], "The page no/d.html cannot be written: No such file"),
    ],
)
def test_values_that_cannot_be_compared_or_written_are_reported(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    systems(tmp_path / "a.json", ("bm25", "g1"), ("dense", "g1"))
    report(tmp_path / "p.json", entry("recall@3", BEFORE))
    before = (tmp_path / "p.json").read_text(encoding="utf-8")
    assert main(["diff", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "p.json").read_text(encoding="utf-8") == before


def test_times_are_left_out(diff):
    reports = [
        [entry("recall@3", BEFORE), entry("latency.p95", {"q1": seconds}, statistic="p95")]
        for seconds in (0.1, 3.0)
    ]
    out, _ = diff(*reports)
    note = (
        "latency.p95 of test_r.py::test_found is left out: times are not comparable between machines and runs"
    )
    assert f"note: {note}\n" in out
    assert out.count("latency") == 1
