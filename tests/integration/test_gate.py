"""`max_drop`: a significant drop fails the test, noise passes, and only the retriever may differ from the baseline."""

import json
import re

import pytest

from pytest_rageval.models.prompt_rendering import (
    Prompts,  # for a run in this process, which uses what a test patches
)
from pytest_rageval.stats.mcnemar import mcnemar_p_value

UPDATE = "--rageval-update-baseline"
RECALL = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n'
ASKING = (
    '@pytest.mark.rageval_threshold("answer.correct@1", max_drop=0.02)\n'
    '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\n'
    "def test_gate(): pass\n"
)
NONE_YET = "recall@1: 1.000 has no baseline yet to compare with; --rageval-update-baseline writes one"


def _baseline(project):
    return project.read("rageval_baseline.json")["tests"]


def test_the_first_run_passes_and_says_that_nothing_was_compared(project):
    project.evalset(5)
    project.test(RECALL)
    warning = f"warning: test_it.py::test_gate: {NONE_YET}"
    for arguments in ((), ("-q",)):
        project.run(*arguments, passed=1, shows=warning)
    project.run(
        "--rageval=require_baseline=true",
        errors=1,
        shows=f"{NONE_YET} (--rageval require_baseline=true, the default under CI=true)",
    )
    assert not (project.path / "rageval_baseline.json").exists()

    project.run(
        UPDATE,
        passed=1,
        shows=["*= rageval baseline =*", "baseline: *rageval_baseline.json (1 test written)"],
    )
    result = project.run(
        "--rageval=require_baseline=true",
        passed=1,
        shows=["  pass * recall@1 * ↓ 0.02 * 5*", "    recall@1: baseline 1.000, no change"],
    )
    result.stdout.no_fnmatch_line("*warning*")
    result.stdout.no_fnmatch_line("warning:*")


def test_a_worse_retriever_fails_and_the_text_shows_then_and_now(project, llm):
    project.use(llm)
    project.evalset(12)
    project.test(ASKING.replace("correct", "em").replace("test_gate()", "test_support_questions()"))
    project.run(UPDATE, passed=1)
    project.lose(*range(1, 8))
    result = project.run(
        failed=1,
        shows=[
            "answer.em@1 fell from 1.000 to 0.417 (allowed 0.02): 7 of 12 questions worse, 0",
            "  better. Chance alone: *",
            "recall@1 fell from 1.000 to 0.417 (allowed 0.02): 7 of 12 questions worse, 0",
            "Likely cause: *",
            "      answer.em@1  recall@1",
            "  q1  1 → 0        1 → 0     What is the code of item-1?",
            "      gold      doc-1",
            "      before    doc-1",
            "      now       doc-10",
            "      answer    c1x → no answer in the documents",
            "      reference c1x",
            "  q2  1 → 0        1 → 0     What is the code of item-2?",
            "  fail     answer.em@1  0.417 (−0.583)  *",
        ],
    )
    text = result.outlines[
        result.outlines.index(next(line for line in result.outlines if "FAILURES" in line)) :
    ]
    text = text[: text.index(next(line for line in text if "= rageval =" in line))]
    # A command is not wrapped.
    assert max(len(line) for line in text if not line.startswith("accept this drop: pytest ")) <= 80


@pytest.mark.slow
def test_the_length_of_the_failure_is_the_readers_choice(project):
    """A test's failure has at most 25 lines, 12 with -q; -v shows all questions, -vv with all that is known."""
    project.evalset(20)
    project.test(RECALL)
    project.run(UPDATE)
    project.lose(*range(1, 16))
    for arguments, most, shown in (((), 25, 3), (("-q",), 12, 0), (("-v",), 99, 15), (("-vv",), 199, 15)):
        lines = project.run(*arguments).outlines
        start = next(n for n, line in enumerate(lines) if "_ test_gate _" in line)
        end = lines.index("test_it.py:4: Failed") + 1
        assert end - start <= most
        rows = [line for line in lines[start:end] if "  1 → 0 " in line]
        assert len(rows) == shown
        rest = [f"q{n}" for n in range(shown + 1, 16)]
        more = [line for line in lines[start:end] if "(-v shows all)" in line]
        line = f"{len(rest)} {'more' if shown else 'lost'} (-v shows all): {', '.join(rest)}"
        # The ids that fit a line of 80 columns.
        assert more == ([line if len(line) <= 80 else f"{line[:79]}…"] if rest else [])


def test_a_drop_that_may_be_noise_passes_with_a_warning(project):
    """The warning names the questions that got worse, and says what so few questions can show, also with -q."""
    project.evalset(12)
    project.test(RECALL)
    project.run(UPDATE)
    project.lose(2)
    warning = (
        "warning: test_it.py::test_gate: recall@1: UNSURE: fell from 1.000 to 0.917 (allowed 0.02): 1 of 12 questions "
        "worse, 0 better; look at q2 before you merge. Chance alone often does that. 12 questions show drops "
        "above about 0.*; smaller ones need more"
    )
    for arguments in ((), ("-q",)):
        project.run(*arguments, passed=1, shows=warning)


def test_a_cause_that_is_sure_is_said_of_a_drop_that_may_be_noise(project):
    project.evalset(12)
    project.test(RECALL)
    project.run(UPDATE)
    project.change('split("item-")[1]', 'replace("item-2?", "").split("item-")[-1]')
    project.change("    ranked =", "    if not wanted.isdigit(): return []\n    ranked =")
    result = project.run("--rageval-report=report.md", passed=1)
    cause = (
        "likely cause: nothing returned in 1 of 12 searches (q2), 0 before: a caught exception, or a filter?"
    )
    result.stdout.fnmatch_lines([f"warning: test_it.py::test_gate: {cause}"])
    assert cause in (project.path / "report.md").read_text(encoding="utf-8")


def test_a_strict_threshold_fails_until_a_drop_is_excluded(project):
    """With five unchanged questions the policy "release" refuses a threshold of 0.02 and passes one of 0.5."""
    project.evalset(5)
    project.test(RECALL.replace("0.02", "0.02, policy='release'"))
    project.run(UPDATE, passed=1)
    project.run(
        errors=1,
        shows="recall@1: the policy 'release' could not pass: 5 questions cannot show that the drop is below 0.02, *",
    )
    project.test(RECALL.replace("0.02", "0.5, policy='release'"))
    project.run(passed=1)


def test_slices_are_compared_with_their_own_past(project):
    """`where` and `by` need no new baseline: the baseline has each example's score, and tags select examples."""
    project.evalset(16)
    project.test(RECALL)
    project.run(UPDATE)
    project.lose(1, 3, 5, 7, 9, 11, 13)
    bound = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02'
    project.test(
        f'{bound}, where={{"topic": "even"}})\ndef test_even(): pass\n'
        f'{bound}, where={{"topic": "odd"}})\ndef test_odd(): pass\n'
        f'{bound}, by="topic")\ndef test_both(): pass\n'
    )
    document = (project.path / "rageval_baseline.json").read_text(encoding="utf-8")
    tests = json.loads(document)
    (entry,) = tests["tests"].values()
    tests["tests"] = {f"test_it.py::{name}": entry for name in ("test_even", "test_odd", "test_both")}
    (project.path / "rageval_baseline.json").write_text(json.dumps(tests), encoding="utf-8")
    project.run(
        passed=1,
        failed=2,
        shows=[
            "recall@1 where topic='odd' fell from 1.000 to 0.125 (allowed 0.02): 7 of 8",
            "  questions worse, 0 better. *",
            "recall@1 where topic='odd' fell from 1.000 to 0.125 (allowed 0.02): 7 of 8",
            "  1 of 2 values of topic fail: odd",
            "    recall@1 ?topic=odd?: the worst of 2 by topic; then even 1.000 pass",
        ],
    )


@pytest.mark.parametrize(
    ("slices", "lost", "tags", "line"),
    [
        (
            'by="topic"',
            range(1, 20, 2),
            {},
            "* 10 of 40 questions of the baseline cannot be compared, *: 10 edited (q1*",
        ),
        (
            'where={"topic": "odd"}',
            (1, 3, 5),
            {"topic": "Odd"},
            "recall@1 where topic='odd': 3 of 20 questions of the baseline cannot be compared, *: 3 edited (q1*",
        ),
        (
            'by="topic"',
            (1, 3),
            {},
            "recall@1: no question has topic='rare' now, and 2 questions had it in the baseline. *",
        ),
        (
            'by="topic"',
            (1, 3),
            {},
            "recall@1: no question has topic={'rare': 1} now, and 2 questions had it in the baseline. *",
        ),
    ],
)
def test_questions_that_lose_the_tag_of_their_slice_are_counted(project, slices, lost, tags, line):
    """Else a slice would pass as soon as its worst questions are no longer in it."""

    def retag(names, **new):
        path = project.evalset(40)
        records = [json.loads(text) for text in path.read_text().splitlines()]
        path.write_text(
            "\n".join(json.dumps(each | (new if each["id"] in names else {})) for each in records)
        )

    names = {f"q{number}" for number in lost}
    rare = {"rare": 1} if "{'rare'" in line else "rare"
    retag(names if "rare" in line else (), tags={"topic": rare})
    project.test(RECALL.replace("0.02", f"0.02, {slices}"))
    project.run(UPDATE, passed=1)
    project.lose(*lost)
    project.run(failed=1)
    retag(names, tags=tags)
    project.run("--rageval=require_baseline=true", errors=1, shows=line)
    project.run(
        passed=1, shows=f"warning: *{line.removeprefix('recall@1: ').removeprefix('recall@1 where ')[12:]}"
    )
    project.run(UPDATE, passed=1)
    project.run("--rageval=require_baseline=true", passed=1)


def test_questions_without_the_tag_are_counted_beside_the_slices(project):
    path = project.evalset(6)
    path.write_text(path.read_text().replace('"tags": {"topic": "odd"}', '"tags": {}', 2))
    project.test(RECALL.replace("max_drop=0.02", 'min=0.5, by="topic"'))
    project.run(
        "--rageval-report=report.json",
        passed=1,
        shows="*: the worst of 2 by topic; then odd 1.000 pass; 2 without topic are in none of them",
    )
    assert project.read()["tests"][0]["scores"][0]["by"]["outside"] == 2


def test_an_error_for_one_slice_does_not_hide_a_failure_of_another(project):
    project.evalset(16)
    project.test(RECALL.replace("0.02", '0.02, by="topic"'))
    project.run(UPDATE)
    path = project.path / "evals.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records[-1] |= {"question": "What is the code of item-20?", "tags": {"topic": "late"}}
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    project.lose(1, 3, 5, 7, 9, 11, 13, 15)
    project.run(
        errors=1,
        shows=[
            "recall@1 where topic='late': of 1 example none is in the baseline with the same question, answers *",
            "recall@1 where topic='odd'*",
        ],
    )


def test_another_eval_set_is_compared_on_the_common_examples(project):
    """Questions that are new, removed or edited since the baseline are excluded from the comparison, and counted."""
    project.evalset(8)
    project.test(RECALL)
    project.run(UPDATE)
    path = project.path / "evals.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    edited = lines[7].replace("What is the code", "Tell me the code")
    added = lines[0].replace("q1", "q99").replace("item-1", "item-99")
    path.write_text("\n".join([*lines[1:7], edited, added]) + "\n", encoding="utf-8")
    project.run("--rageval-report=report.json", passed=1)
    (test,) = project.read()["tests"]
    (score,) = test["scores"]
    # q2 to q7 are common; q1 is gone, q8 another question, q99 new.
    assert (score["n"], score["baseline"]["n"]) == (8, 6)
    assert [score["baseline"][key] for key in ("left_out", "removed", "new", "edited")] == [3, 1, 1, 1]
    assert score["reason"] == (
        "is 1.000 as before: 0 of 6 questions worse, 0 better (1 removed, 1 new, 1 edited since the baseline)"
    )
    # Two of eight questions have no score in the baseline, and could hide a drop: a warning, also with -q.
    project.run(
        "-q",
        shows=[
            "warning: *: questions since the baseline: 1 removed, 1 new, 1 edited; they are not compared",
            (
                "warning: *: recall@1: 2 of 8 questions of the baseline cannot be compared, more than *: "
                "1 removed (q1), 1 edited (q8). Restore them; *. Under CI=true this is an error"
            ),
            "warning: *: recall@1: a drop among 2 of 8 examples would not be seen; 2 have no score in the *",
        ],
    )
    path.write_text(added + "\n", encoding="utf-8")
    project.run(
        errors=1,
        shows=[
            "recall@1: of 1 example none is in the baseline with the same question, answers and gold, *",
            "Write a new baseline *",
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("--rageval-model=m2", "--rageval-judge-model=m1"), ["generator: m1 at *, m2 at *"]),
        (("--rageval-judge-model=m2",), ["judge: m1 at */v1 in the baseline, m2 at */v1 now"]),
        (
            ("--rageval-model=m2",),
            [
                "generator: m1 at * in the baseline, m2 at * now",
                "judge: m1 at * in the baseline, m2 at * now",
            ],
        ),
        (("--rageval=comparator=judge or em",), ["comparator: judge in the baseline, judge or em now"]),
        (
            ("--rageval=comparator=em",),
            [
                "comparator: judge in the baseline, em now",
                "judge: m1 at * in the baseline, nothing now",
                "judge prompt to compare: ???????????? in the baseline, nothing now",
                "judge votes: 1 in the baseline, nothing now",
            ],
        ),
        (
            ("--rageval=max_tokens=64",),
            [
                "generator max_tokens: nothing in the baseline, 64 now",
                "judge max_tokens: nothing in the baseline, 64 now",
            ],
        ),
        (("--rageval=judge_votes=3",), ["judge votes: 1 in the baseline, 3 now"]),
    ],
)
def test_all_but_the_retriever_must_be_the_same(project, llm, arguments, changed):
    project.evalset(5)
    project.use(llm)
    project.test(ASKING)
    project.run(UPDATE, passed=1)
    result = project.run(
        *arguments,
        errors=1,
        shows=[
            "answer.correct@1: the baseline was made with other settings; only the retriever may differ. Changed *",
            *(f"  {line}" for line in changed),
            "Go back to what it was, or write a new baseline on the commit to compare with: *",
            "  error * answer.correct@1 *",
            "  pass * recall@1 *",
        ],
    )
    reported = [
        line for line in result.outlines if re.match(r"  [a-z_ ]+: .* in the baseline, .* now$", line)
    ]
    assert len(reported) == len(changed)


def test_a_changed_prompt_is_named(project, llm, monkeypatch):
    project.use(llm)
    project.test(ASKING)
    project.run(UPDATE, passed=1)
    original = Prompts.fill
    monkeypatch.setattr(Prompts, "fill", lambda *arguments: f"Please. {original(*arguments)}")
    project.run(
        errors=1, shows="  generator prompt to generate: ???????????? in the baseline, ???????????? now"
    )


def test_settings_that_do_not_affect_scores_may_change(project, llm, monkeypatch):
    project.evalset(5)
    project.use(llm)
    project.test(ASKING)
    project.run(UPDATE)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    project.run("--rageval=timeout=9", "--rageval=retries=1", "--rageval=cache_dir=elsewhere", passed=1)
    text = (project.path / "rageval_baseline.json").read_text(encoding="utf-8")
    assert "sk-" not in text
    project.run(UPDATE)
    assert (project.path / "rageval_baseline.json").read_text(encoding="utf-8") == text


def test_a_violated_minimum_is_reported_together_with_a_stale_baseline(project, llm):
    project.use(llm)
    project.test(ASKING)
    project.run(UPDATE)
    project.lose(1, 2, 3)
    minimum = '@pytest.mark.rageval_threshold("hit@1", min=0.9)\n'
    project.test(minimum + ASKING)
    project.run(
        "--rageval-judge-model=m2",
        errors=1,
        shows=[
            "answer.correct@1: the baseline was made with other settings*",
            "hit@1: 0.250 is below the minimum 0.9: *",
        ],
    )
    project.test(ASKING.replace("max_drop", "min=0.9, max_drop"))
    project.run(
        "--rageval-judge-model=m2", failed=1, shows="answer.correct@1: 0.250 is below the minimum 0.9: *"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<<<<<<< HEAD\n{}\n=======\n", "is not JSON: it contains the marks of a merge conflict."),
        ('{"schema": 99, "tests": {}}', "has schema 99; this version reads up to 2. Update the package."),
    ],
)
def test_a_broken_baseline_is_an_error_with_a_remedy_that_works(project, text, problem):
    project.evalset(5)
    path = project.path / "rageval_baseline.json"
    path.write_text(text, encoding="utf-8")
    project.test(RECALL + '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_min(): pass\n')
    project.run(passed=1, errors=1, shows=f"The baseline {path} {problem}")
    result = project.run(UPDATE, passed=2, shows=f"The baseline {path} {problem}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert path.read_text(encoding="utf-8") == text
    path.unlink()
    project.run(UPDATE, passed=2)
    project.run("--rageval=require_baseline=true", passed=2)


def test_the_baseline_may_be_another_file(project):
    """Its path is relative to the current folder on the command line, and to the root directory in the ini file."""
    project.evalset(5)
    project.test(RECALL)
    project.run(UPDATE, "--rageval-baseline=evals/main.json")
    assert (project.path / "evals" / "main.json").exists()
    project.ini(rageval_baseline="evals/main.json", rageval_require_baseline="true")
    project.run(passed=1)
    project.run("--rageval-baseline=other.json", errors=1)


def test_a_score_in_the_tests_own_words_is_gated_too(project):
    """`max_drop` in `rageval.score` has a significance level of its own, as the number of calls is unknown."""
    project.evalset(10)
    body = "def test_own(rageval):\n    assert rageval.score('recall@1', max_drop=0.02) > 0.1\n"
    project.test(body + RECALL)
    project.run(UPDATE, passed=2)
    assert set(_baseline(project)) == {"test_it.py::test_own", "test_it.py::test_gate"}
    project.lose(1, 2, 3, 4, 5, 6)
    result = project.run(failed=2)
    assert (
        " ".join(" ".join(result.outlines).split()).count(": 6 of 10 questions worse, 0 better. Chance") == 2
    )


@pytest.mark.parametrize(
    "options", [("--rageval-plan",), ("--rageval-shard=1/1", "--rageval-report=shard.json"), (UPDATE,)]
)
def test_a_run_that_compares_nothing_misses_no_test(project, options):
    project.evalset(5)
    project.test(RECALL + RECALL.replace("test_gate", "test_other"))
    project.run(UPDATE, passed=2)
    project.test(RECALL)
    required = "--rageval=require_baseline=true"
    result = project.run(required, passed=1, shows="*1 of 2 gated tests*")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result = project.run(required, *options)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*gated test*")


def test_an_update_and_a_plan_do_not_go_together(project):
    """--rageval-update-baseline with --rageval-plan is a usage error, since a plan has no scores to write."""
    result = project.run(UPDATE, "--rageval-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --rageval-plan sends no requests, so there are no scores for *"])


def test_the_json_report_has_the_comparison(project):
    project.evalset(10)
    project.policies(pr="alpha = 0.1\nsmall_set_drop = false")
    project.test(RECALL.replace("0.02", "0.02, min=0.1"))
    project.run(UPDATE)
    project.lose(1, 2)
    project.run("--rageval-report=report.json")
    (test,) = project.read()["tests"]
    assert test.keys() == {
        *("nodeid", "outcome", "evalset", "scores", "retrieval", "fingerprint", "questions")
    }
    (score,) = test["scores"]
    assert score["threshold"] == {"min": 0.1, "max": None, "max_drop": 0.02, "alpha": 0.1}
    baseline = score["baseline"]
    assert baseline["mean"] == 1.0
    assert baseline["drop"] == pytest.approx(0.2)
    assert (baseline["p_value"], baseline["alpha"]) == (pytest.approx(mcnemar_p_value(2, 0, 10)), 0.1)
    low, high = baseline["interval"]
    assert low < 0.2 < high
    assert 0 < baseline["detectable_drop"] <= 1
    # From two changed questions, nobody knows how many are needed.
    assert baseline["examples_needed"] is None
    assert (baseline["n"], baseline["left_out"], baseline["unscored"]) == (10, 0, 0)
    assert (baseline["worse"], baseline["better"]) == (["q1", "q2"], [])
    assert score["verdict"] == "inconclusive"
    assert score["warnings"] == [score["reason"]]
    questions = score["questions"]
    assert (questions["why"], questions["of"], questions["better"]) == ("worse", 10, 0)
    assert [(question["id"], question["before"], question["score"]) for question in questions["listed"]] == [
        (f"q{n}", {"score": 1.0, "retrieved": [f"doc-{n}"]}, 0.0) for n in (1, 2)
    ]


def test_a_bound_beyond_the_scale_is_an_error_before_any_request(project, llm):
    project.use(llm)
    project.evalset(4)
    project.test(
        '@pytest.mark.rageval_threshold("recal@1", min=0.5)\n'
        '@pytest.mark.rageval_threshold("answer.em@1", min=85)\n'
        "def test_gate(): pass\n"
        "def test_asked(rageval):\n"
        '    rageval.score("judged.correctness@1", min=0.7)\n'
    )
    result = project.run(errors=1, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "There is no score 'recal'.*",
            "answer.em@1: min=85 is not on the score's scale, which goes from 0 to 1.",
            "For 85% write min=0.85.",
            "*judged.correctness@1: min=0.7 is not on the score's scale, which goes from 1 to 5.",
        ]
    )
    assert not llm.requests


def test_by_and_where_of_the_same_slice_are_two_thresholds(project):
    project.evalset(6)
    project.lose(1)
    project.gate('recall@1 min=0.5, by="topic"', 'recall@1 min=0.5, where={"topic": "odd"}')
    project.run("--rageval-report=out.json", passed=1)
    report = project.read("out.json")
    scores = report["tests"][0]["scores"]
    assert [(score["where"], "by" in score) for score in scores] == [
        ({"topic": "odd"}, True),
        ({"topic": "odd"}, False),
    ]


LOST = '@pytest.mark.rageval_threshold("recall@1", max_lost={})\ndef test_gate(): pass\n'


def test_a_number_of_lost_questions_is_bounded_without_a_test(project):
    project.test(LOST.format(1))
    project.run(UPDATE, passed=1)
    project.lose(2)
    project.run("--rageval-report=report.json", passed=1, shows="  pass * recall@1 * lost ≤ 1 *")
    (test,) = project.read()["tests"]
    assert test["scores"][0]["threshold"]["max_lost"] == 1
    assert "p_value" not in test["scores"][0]["baseline"]
    project.test(LOST.format(0))
    project.run(
        failed=1,
        shows=[
            "recall@1: 0.750: 1 of 4 questions worse than in the baseline (allowed 0): q2",
            "  q2  1 → 0     What is the code of item-2?",
        ],
    )


def test_a_lost_question_needs_a_baseline(project):
    project.test(LOST.format(0))
    project.run(passed=1, shows=f"warning: test_it.py::test_gate: {NONE_YET}")
    project.run("--rageval=require_baseline=true", errors=1)


@pytest.mark.parametrize("policy", ["pr", "nightly"])
def test_a_drop_that_is_not_significant_can_fail(project, policy):
    project.policies(pr="small_set_drop = false")
    project.evalset(5)
    project.test(RECALL)
    project.run(UPDATE)
    project.lose(2)
    project.run(passed=1)
    project.policies(
        **{"pr": "small_set_drop = false", policy: 'small_set_drop = false\ninconclusive = "fail"'}
    )
    project.test(RECALL.replace("0.02", f"0.02, policy={policy!r}"))
    project.run(failed=1, shows=["recall@1 fell from *", "*; inconclusive is set to*"])


def test_more_than_an_allowed_drop_is_to_be_shown(project):
    """Four of 20 questions lost is a significant drop, but not significantly more than 0.15."""
    project.evalset(20)
    project.test(RECALL.replace("0.02", "0.02"))
    project.run(UPDATE)
    project.lose(1, 2, 3, 4)
    project.run(failed=1)
    project.policies(pr='burden = "beyond"')
    project.test(RECALL.replace("0.02", "0.15"))
    project.run(passed=1, shows="*With a true drop of 0.15, chance alone *")
    project.lose(*range(5, 18))
    project.run(failed=1)


def test_questions_of_one_document_are_one_loss(project):
    """Seven of 16 are worse, all of one topic: with this cluster one of two clusters is worse, which may be noise.

    Even both clusters could not be significant, so the verdict is an error.
    """
    project.evalset(16)
    project.test(RECALL)
    project.run(UPDATE)
    project.lose(1, 3, 5, 7, 9, 11, 13)
    project.run(failed=1)
    project.policies(pr='cluster = "topic"\nsmall_set_drop = false')
    project.run(
        "--rageval-report=report.json",
        errors=1,
        shows="recall@1: it could not fail, *: with 2 clusters chance alone does that in 1 of * at least 5 clusters *",
    )
    (test,) = project.read()["tests"]
    (score,) = test["scores"]
    # The cluster is drawn at least once, and lost each time it is drawn: 1/4 + 1/16.
    assert score["baseline"]["clusters"] == 2
    assert score["baseline"]["p_value"] == pytest.approx(5 / 16, abs=0.02)
    assert score["threshold"]["cluster"] == "topic"
    project.policies(pr='cluster = "subject"')
    project.run(errors=1, shows="The policy's cluster 'subject': no example has a tag 'subject'.*")


def test_a_score_of_0_on_every_question_is_red(project):
    for n in (1, 12):
        project.evalset(n, gold=[{"id": "handbook.md"}])
        project.test(RECALL)
        for arguments in (("-q",), ("-q", UPDATE)):
            project.run(
                *arguments,
                errors=1,
                shows=[
                    "*recall@1: every question scores 0, so that nothing could be a drop, and this is no baseline.",
                    f"No id in {n} ranking* is that of any gold passage: *? Gold 'handbook.md', retrieved 'doc-1'.",
                ],
            )


LEFT = """
import gc, pytest
from pytest_rageval import Example, Outcome

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    gc.collect()
    print("left:", sum(isinstance(each, Example | Outcome) for each in gc.get_objects()))
"""


@pytest.mark.slow
def test_nothing_that_was_evaluated_is_left_when_pytest_ends(project):
    """No `Example` or `Outcome` is alive when pytest ends: pytest's garbage collections would visit each of them."""
    project.evalset(12)
    project.test(RECALL)
    (project.path / "leftovers.py").write_text(LEFT, encoding="utf-8")
    for arguments in ((), ("--rageval-report=report.json",)):
        project.run_process("-s", "-p", "leftovers", *arguments, passed=1, shows="left: 0")
