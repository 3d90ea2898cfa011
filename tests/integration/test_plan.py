"""`--rageval-plan`: what a run would ask and cost, without asking."""

import re

import pytest

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'

PRICES = '["m1"]\ninput = 2.0\noutput = 8.0\nmax_output = 100\n'


def _row(result, name):
    """The cells below a test's name."""
    lines = result.outlines
    return re.split(r" {2,}", lines[lines.index(name) + 1].strip())


def test_a_plan_asks_nothing_and_bounds_what_a_run_asks(project, llm):
    """The run that follows stays within it: requests, tokens, cost."""
    project.use(llm)
    project.test(GATE + "def test_own(rageval):\n    assert rageval.score('answer.correct@2') > 0.9\n")
    project.pytester.makepyfile(test_other="def test_nothing_of_ours(): assert False\n")
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    options = ("--rageval-prices=prices.toml", "--rageval-max-tokens=20")
    plan = project.run("--rageval-plan", *options)
    plan.assert_outcomes(skipped=2, deselected=1)
    assert plan.ret == 0
    assert not llm.requests
    # Twelve answers with gold, of which four are those to what was retrieved; four verdicts;
    # and whether each of the twelve answers is right, should the verdicts disagree with recall.
    assert _row(plan, "test_it.py::test_gate")[:3] == ["≤ 28", "0", "≤ 28"]
    # Four answers from two passages, and four verdicts.
    assert _row(plan, "test_it.py::test_own")[:3] == ["≤ 8", "0", "≤ 8"]
    total = _row(plan, "in total")
    assert total[:3] == ["≤ 36", "0", "≤ 36"]
    plan.stdout.fnmatch_lines(
        ["20 of the live requests are an upper bound: they depend on replies that do not exist yet *"]
    )
    run = project.run(*options)
    asked = re.search(
        r"(\d+) replies: 0 cached, (\d+) live, (\d+) tokens in, (\d+) out, (.*) USD", str(run.stdout)
    )
    # Four verdicts on the same answers are asked for once.
    assert int(asked[1]) == len(llm.requests) == 20
    numbers = [float(cell.removeprefix("≤ ").replace(",", "")) for cell in total]
    # By request the estimate is at most twice what was counted.
    assert int(asked[3]) <= numbers[3]
    assert numbers[3] / 36 <= 2 * int(asked[3]) / 20
    assert int(asked[4]) <= numbers[4] == 36 * 20
    assert float(asked[5]) <= numbers[5]


def test_a_plan_bounds_what_a_run_asks_where_every_verdict_disagrees(project, llm):
    """Each answer is another one and right, and the judge calls none the same: all there is to ask."""
    said = iter(range(1000))

    def model(prompt: str) -> str:
        if "Answer to check:" not in prompt:
            return f"answer number {next(said)}"
        return "no" if "- answer number" in prompt else "yes"

    llm.model = model
    project.use(llm)
    project.evalset(4, answers=["one right answer", "another"])
    project.test(GATE)
    plan = project.run("--rageval-plan")
    run = project.run()
    run.stdout.fnmatch_lines(["  lost by: judge 4", "    llm_reteval@1: cases F 4"])
    # A question: three answers, a verdict, which of them are right, and which of two references each is.
    assert len(llm.requests) == 4 * (3 + 1 + 3 + 2 * 3)
    assert _row(plan, "in total")[:3] == [f"≤ {len(llm.requests)}", "0", f"≤ {len(llm.requests)}"]


def test_a_plan_counts_what_is_cached(project, llm):
    """After a run there is nothing left to ask; with another retriever there is what it changed."""
    project.use(llm)
    project.test(GATE)
    project.run()
    llm.requests.clear()
    plan = project.run("--rageval-plan", "-q")  # with -q too: the plan is what was asked for
    assert _row(plan, "in total") == ["16", "16", "0", "0", "0", "0"]
    project.lose(2)
    plan = project.run("--rageval-plan")
    # The answer from another passage, and a verdict on it, which is also on whether it is right:
    # the reference and the answer with gold are one. That the latter is right is known.
    assert _row(plan, "in total")[:3] == ["≤ 18", "16", "≤ 2"]
    assert not llm.requests


def test_an_unknown_price_and_length_are_reported(project, llm):
    """And not guessed."""
    project.use(llm)
    project.test(GATE)
    plan = project.run("--rageval-plan")
    assert _row(plan, "in total")[4:] == ["unbounded", "unknown"]
    plan.stdout.fnmatch_lines(
        [
            "Nothing bounds the length of 28 replies. Set --rageval-max-tokens, *",
            "The cost of 28 replies is not known: --rageval-prices names prices.",
        ]
    )


def test_a_plan_does_not_call_the_users_generator_and_judge(project, llm):
    """They may ask whom they like; their calls are counted."""
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(
        conftest
        + """
@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        raise AssertionError("called in a plan")
    return generate
"""
    )
    project.use(llm)
    project.test(GATE)
    plan = project.run("--rageval-plan")
    plan.assert_outcomes(skipped=1)
    plan.stdout.fnmatch_lines(
        ["* × calls of rageval_generator, your own function: their requests are not counted"]
    )


def test_a_plan_tells_an_error_from_a_test_without_requests(project, llm):
    """A threshold with a mistake is an error before any request."""
    project.use(llm)
    project.test(GATE + GATE.replace("llm_reteval@1", "recal@1").replace("test_gate", "test_mistake"))
    plan = project.run("--rageval-plan")
    plan.assert_outcomes(skipped=1, errors=1)
    plan.stdout.fnmatch_lines(["The plan may lack requests of 1 test that ended as an error."])
    plan.stdout.no_fnmatch_line("*other test*")


def test_a_plan_still_says_what_cannot_be_planned(project, llm):
    """A missing eval set is an error now, and not after the plan was approved."""
    project.use(llm)
    project.test(GATE)
    (project.path / "evals.jsonl").unlink()
    plan = project.run("--rageval-plan")
    plan.assert_outcomes(errors=1)
    plan.stdout.fnmatch_lines(["There is no eval set 'evals.jsonl'.*"])


def test_a_plan_continues_after_assertions(project, llm):
    """Each score of a test is planned, whatever the test makes of the one before."""
    project.use(llm)
    project.test(
        "def test_own(rageval):\n"
        "    score = rageval.score('answer.em@1')\n"
        "    assert score > 0.9 and score.where(topic='odd') >= 1\n"
        "    assert not rageval.score('answer.em@2') < 0.9 or True\n"
    )
    assert _row(project.run("--rageval-plan"), "in total")[0] == "8"
    assert not llm.requests


@pytest.mark.parametrize("comparator", ["judge or em", "judge and em", "judge and graded"])
def test_a_plan_bounds_what_mixed_comparators_ask(project, llm, comparator):
    """A measure of replies that are not there yet spares the judge nothing."""
    llm.model = lambda prompt: "c1x" if "Passages:" in prompt else "5" if "grade" in prompt else "yes"
    project.use(llm)
    project.evalset(4, answers=["c1x or so" if " or " in comparator else "c1x"])
    project.test("def test_own(rageval): rageval.score('answer.correct@1')\n")
    option = f"--rageval-comparator={comparator}"
    plan = project.run("--rageval-plan", option)
    project.run(option)
    # For each question an answer, and each verdict on it.
    assert len(llm.requests) == (12 if "graded" in comparator else 8)
    assert _row(plan, "in total")[:3] == [f"≤ {len(llm.requests)}", "0", f"≤ {len(llm.requests)}"]


def test_a_plan_counts_the_calls_of_every_method_that_a_judge_has(project, llm):
    """Also of `relevant`; one that it lacks is an error before anything is paid."""
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    judge = """
class Judge:
    def compare(self, *_): raise AssertionError("called in a plan")
    def relevant(self, *_): raise AssertionError("called in a plan")

@pytest.fixture(scope="session")
def rageval_judge(): return Judge()
"""
    project.use(llm)
    project.test('@pytest.mark.rageval_threshold("relevance.p@2", min=0.5)\ndef test_gate(): pass\n')
    project.pytester.makeconftest(conftest + judge)
    plan = project.run("--rageval-plan")
    plan.assert_outcomes(skipped=1)
    plan.stdout.fnmatch_lines(["8 × calls of rageval_judge, your own function: *"])
    project.pytester.makeconftest(conftest + judge.replace("def relevant", "def other"))
    plan = project.run("--rageval-plan")
    plan.assert_outcomes(errors=1)
    plan.stdout.fnmatch_lines(["rageval_judge lacks the method relevant(question, passage)*"])


def test_a_plan_has_a_column_for_the_flex_tier(project, llm):
    """Half the cost, where the file has the price; without it, unknown."""
    project.use(llm)
    project.test(GATE)
    prices = project.path / "prices.toml"
    options = ("--rageval-prices=prices.toml", "--rageval-max-tokens=20", "--rageval-flex")
    prices.write_text("[m1]\ninput = 4\noutput = 8\nflex_input = 2\nflex_output = 4\n", encoding="utf-8")
    plan = project.run("--rageval-plan", *options)
    plan.stdout.re_match_lines([r" *requests .* USD +USD flex$"])
    usual, flex = (float(cell.removeprefix("≤ ")) for cell in _row(plan, "in total")[5:])
    assert flex == pytest.approx(usual / 2, abs=1e-4)
    prices.write_text("[m1]\ninput = 4\noutput = 8\n", encoding="utf-8")
    plan = project.run("--rageval-plan", *options)
    assert _row(plan, "in total")[6] == "unknown"
    plan.stdout.fnmatch_lines(
        ["The cost of 28 replies in the flex tier is not known: flex_input and flex_output *"]
    )
