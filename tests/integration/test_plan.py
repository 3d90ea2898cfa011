"""`--rageval-plan`: the requests and the cost of a run, without sending requests."""

import re

import pytest

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'

PRICES = '["m1"]\ninput = 2.0\noutput = 8.0\nmax_output = 100\n'


def _row(result, name):
    lines = result.outlines
    return re.split(r" {2,}", lines[lines.index(name) + 1].strip())


def test_a_plan_asks_nothing_and_bounds_what_a_run_asks(project, llm):
    project.use(llm)
    project.test(GATE + "def test_own(rageval):\n    assert rageval.score('answer.correct@2') > 0.9\n")
    project.pytester.makepyfile(test_other="def test_nothing_of_ours(): assert False\n")
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    options = ("--rageval=prices=prices.toml", "--rageval=max_tokens=20")
    plan = project.run("--rageval-plan", *options, skipped=2, deselected=1)
    assert plan.ret == 0
    assert not llm.requests
    # Twelve answers with gold, four of which are also the answers from the retrieved passages; four verdicts;
    # and a verdict on whether each of the twelve answers is right, if the verdicts disagree with recall.
    assert _row(plan, "test_it.py::test_gate")[:3] == ["≤ 28", "0", "≤ 28"]
    # Four answers from two passages, and four verdicts.
    assert _row(plan, "test_it.py::test_own")[:3] == ["≤ 8", "0", "≤ 8"]
    total = _row(plan, "in total")
    assert total[:3] == ["≤ 36", "0", "≤ 36"]
    plan.stdout.fnmatch_lines(
        ["20 of the live requests are an upper bound: they depend on replies that do not exist yet *"]
    )
    run = project.run(*options)
    usage = re.search(
        r"(\d+) replies: 0 cached, (\d+) live, (\d+) tokens in, (\d+) out, (.*) USD", str(run.stdout)
    )
    # Both tests share four verdicts on the same answers, which are requested once.
    assert int(usage[1]) == len(llm.requests) == 20
    numbers = [float(cell.removeprefix("≤ ").replace(",", "")) for cell in total]
    # The estimate of tokens per request is at most twice the counted tokens.
    assert int(usage[3]) <= numbers[3]
    assert numbers[3] / 36 <= 2 * int(usage[3]) / 20
    assert int(usage[4]) <= numbers[4] == 36 * 20
    assert float(usage[5]) <= numbers[5]


def test_a_plan_bounds_what_a_run_asks_where_every_verdict_disagrees(project, llm):
    numbers = iter(range(1000))

    def model(prompt: str) -> str:
        if "Answer to check:" not in prompt:
            return f"answer number {next(numbers)}"
        return "no" if "- answer number" in prompt else "yes"

    llm.model = model
    project.use(llm)
    project.evalset(4, answers=["one right answer", "another"])
    project.test(GATE)
    plan = project.run("--rageval-plan")
    project.run(
        shows=[
            "Likely cause: lost by judge 4",
            "      LLM-retEval failures*4",
            "        F: the comparison of answers*4",
        ]
    )
    # Per question: three answers, a verdict, three verdicts on correctness, and two references for each answer.
    assert len(llm.requests) == 4 * (3 + 1 + 3 + 2 * 3)
    assert _row(plan, "in total")[:3] == [f"≤ {len(llm.requests)}", "0", f"≤ {len(llm.requests)}"]


def test_a_plan_counts_what_is_cached(project, llm):
    project.use(llm)
    project.test(GATE)
    project.run()
    llm.requests.clear()
    plan = project.run("--rageval-plan", "-q")  # the plan is printed with -q too
    assert _row(plan, "in total") == ["16", "16", "0", "0", "0", "0"]
    project.lose(2)
    plan = project.run("--rageval-plan")
    # The answer from another passage, and a verdict on it, which also decides whether the answer is right,
    # since the reference equals the answer with gold. The verdict on the answer with gold is cached.
    assert _row(plan, "in total")[:3] == ["≤ 18", "16", "≤ 2"]
    assert not llm.requests


@pytest.mark.parametrize("decorator", ["", "@partial(rageval_llm.cached, version='1')"])
def test_a_plan_counts_what_depends_on_answers_of_the_users_generator(project, llm, decorator):
    project.add(f"""
from functools import partial

@pytest.fixture(scope="session")
def rageval_generator(rageval_llm):
    {decorator}
    def generate(question, passages):
        return f"{{passages[0]['text'] if isinstance(passages[0], dict) else passages[0].text}} Or so."
    return generate
""")
    project.use(llm)
    project.gate("answer.correct@1 max=1.0")
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    plan = project.run("--rageval-plan", "--rageval=prices=prices.toml")
    requests, cached, live, tokens_in, _, cost = _row(plan, "in total")
    assert not llm.requests
    project.run()
    assert llm.requests
    assert (requests, cached, live) == (f"≤ {len(llm.requests)}", "0", f"≤ {len(llm.requests)}")
    assert tokens_in.startswith("≈ ")
    assert cost.startswith("≈ ")
    plan.stdout.fnmatch_lines(["* × requests on an answer of your own function, which is not known: *"])


def test_a_plan_tells_an_error_from_a_test_without_requests(project, llm):
    project.use(llm)
    project.test(GATE + GATE.replace("llm_reteval@1", "recal@1").replace("test_gate", "test_mistake"))
    plan = project.run(
        "--rageval-plan",
        skipped=1,
        errors=1,
        shows=["There is no score 'recal'.*", "The plan may lack requests of 1 test that ended as an error."],
    )
    plan.stdout.no_fnmatch_line("*other test*")


@pytest.mark.parametrize("comparator", ["judge or em", "judge and em", "judge and graded"])
def test_a_plan_bounds_what_mixed_comparators_ask(project, llm, comparator):
    """A plan counts every verdict of a mixed comparator, since no measure can be computed before the answer exists."""
    llm.model = lambda prompt: "c1x" if "Passages:" in prompt else "5" if "grade" in prompt else "yes"
    project.use(llm)
    project.evalset(4, answers=["c1x or so" if " or " in comparator else "c1x"])
    project.test("def test_own(rageval): rageval.score('answer.correct@1')\n")
    option = f"--rageval=comparator={comparator}"
    plan = project.run("--rageval-plan", option)
    project.run(option)
    # For each question an answer, and a verdict from each judge prompt.
    assert len(llm.requests) == (12 if "graded" in comparator else 8)
    assert _row(plan, "in total")[:3] == [f"≤ {len(llm.requests)}", "0", f"≤ {len(llm.requests)}"]


def test_a_plan_counts_the_calls_of_every_method_that_a_judge_has(project, llm):
    """A plan counts the calls of each method of the user's judge; a missing method is an error before any request."""
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    judge = """
class Judge:
    def compare(self, *_): raise AssertionError("called in a plan")
    def relevant(self, *_): raise AssertionError("called in a plan")

@pytest.fixture(scope="session")
def rageval_judge(): return Judge()
"""
    project.use(llm)
    project.gate("relevance.p@2 min=0.5")
    project.pytester.makeconftest(conftest + judge)
    project.run("--rageval-plan", skipped=1, shows="8 × calls of rageval_judge, your own function: *")
    project.pytester.makeconftest(conftest + judge.replace("def relevant", "def other"))
    project.run(
        "--rageval-plan", errors=1, shows="rageval_judge lacks the method relevant(question, passage)*"
    )


def test_a_plan_has_a_column_for_the_flex_tier(project, llm):
    project.use(llm)
    project.test(GATE)
    prices = project.path / "prices.toml"
    options = ("--rageval=prices=prices.toml", "--rageval=max_tokens=20", "--rageval=flex=true")
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
