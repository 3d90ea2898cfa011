"""Attack: a plan counts too few requests, so that a run pays for requests that nobody approved."""

import re

import pytest

pytestmark = pytest.mark.slow

HEAD = "import math, statistics, copy, json\n"
ASKS = "    rageval.score('answer.em@2')\n"
"""A statement of four more requests, after a statement that might end the test."""


def _requests(result):
    lines = result.outlines
    return int(re.split(r" {2,}", lines[lines.index("in total") + 1].strip())[0].removeprefix("≤ "))


def _planned(project, llm, body):
    project.use(llm)
    project.test(f"{HEAD}def test_own(rageval):\n{body}{ASKS}")
    plan = project.run("--rageval-plan")
    assert not llm.requests
    project.run(passed=1)
    return plan, len(llm.requests)


TOUCHES = [
    "assert score.n == 4 and len(score.values) == 4",
    "assert score.ci95[0] <= 1 and score.ci95[1] - score.ci95[0] >= 0",
    "assert score.unscored == 0 and score.undefined == 0",
    "assert all(outcome.value >= 0.5 for outcome in score.outcomes)",
    "assert [outcome.example.id for outcome in score.outcomes] == ['q1', 'q2', 'q3', 'q4']",
    "assert [outcome.evidence.counts for outcome in score.outcomes]",
    "assert score.where(topic='odd').n == 2 and score.where(topic='odd').where(topic='odd') >= 0.9",
    "assert score.name and score.spec and score.slice == {} and score.scale == (0.0, 1.0)",
    "assert not score.reasons and not score.undefined_reasons and score.counts == {}",
    "assert score.votes.verdicts == 0 and score.spread is None and score.repeats == ()",
    "assert score.max_unscored >= 0 and score.seed == 0 and score.reach == (0.0, 1.0)",
    "assert f'{score:.3f} {score:>8.1%}' and str(score) and repr(score) and '%.2f' % score",
    "assert round(score, 2) >= 0.9 and round(score) == 1 and abs(score) > 0.9 and -score < 0",
    "assert score * 100 > 90 and 100 * score > 90 and score - 0.9 > 0 and 1 - score < 0.1 and score / 2 > 0.4",
    "assert score ** 2 > 0.8 and score // 1 >= 0 and score % 2 >= 0",
    "assert sum(score.values) / score.n > 0.9 and max(score.values) >= 0.9 and sorted(score.values)",
    "assert score > 0.9 and score >= 0.9 and score < 1.1 and score <= 1.1 and score == 1.0",
    "assert 0.9 < score and 1.1 > score and score == pytest.approx(1.0)",
    "assert int(score * 100) >= 0 and float(score) >= 0 and math.isfinite(score) and bool(score)",
    "assert statistics.mean(score.values) >= 0 and math.fsum(score.values) >= 0",
    "assert copy.deepcopy(score) >= 0.9 and copy.copy(score).n == 4",
    "assert json.dumps({'score': score, 'values': score.values})",
    "assert score.counting(0.0, 'retriever') >= 0.9 and score.lacking('retriever') == []",
    "assert isinstance(score, float) and {score: 1}[score] == 1",
    "print(*score.outcomes, sep='\\n')",
    "answer = rageval.answer('What is the code of item-1?', 1); assert answer == 'c1x'",
    "answer = rageval.answer('What is the code of item-1?', 1); assert 'c1' in answer",
    "assert rageval.answer('What is the code of item-1?', 1).startswith('c')",
    "answer = rageval.answer('What is the code of item-1?', 1); assert answer.strip().lower() != 'x' and len(answer)",
    "assert 'doc-1' in rageval.retrieve('What is the code of item-1?', 2)",
    "assert rageval.retrieve('What is the code of item-1?', 2).ids[0] == 'doc-1'",
    "assert rageval.examples[0].id == 'q1'",
]


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_plan_continues_after_whatever_a_test_does_with_a_score(project, llm, touch):
    """Attack: `ci95` or `n` of the first score raised, the test was "skipped", and 0 requests were planned.

    Promise: any use of a score is allowed, and all requests are planned.
    """
    plan, request_count = _planned(project, llm, f"    score = rageval.score('answer.em@1')\n    {touch}\n")
    plan.assert_outcomes(skipped=1)
    assert plan.ret == 0
    plan.stdout.no_fnmatch_line("*could not be planned*")
    assert _requests(plan) >= request_count >= 8


def test_a_planned_score_has_all_that_a_score_has(project, llm):
    """A planned score is a `Score`, and none of its public attributes raises, also attributes that are added later."""
    body = (
        "    score = rageval.score('answer.em@1')\n"
        "    from pytest_rageval import Score\n"
        "    assert isinstance(score, Score)\n"
        "    for name in dir(Score):\n"
        "        name.startswith('_') or getattr(score, name)\n"
    )
    plan, request_count = _planned(project, llm, body)
    assert _requests(plan) == request_count == 8


@pytest.mark.parametrize(
    "touch",
    [
        "assert table.of('erag', 'p', 1).tau > 0.5 and table.of('erag', 'p', 1).n == 4",
        "assert table.best('contains', 1).rho > 0.5",
        "assert table.best('erag', 1).measure == 'hit' and table.best('erag', 1).annotator == 'erag'",
        "assert len(table.associations) == 4 and not table.missing and table.label == 'em'",
        "assert {each.annotator for each in table.associations} == {'erag', 'contains'}",
        "assert max(table.associations, key=lambda each: each.tau).measure",
        "print(table)",
    ],
)
def test_a_plan_continues_after_a_table_of_annotators(project, llm, touch):
    llm.model = lambda _: "c1x"
    body = (
        "    table = rageval.agreement(ks=(1,), annotators=('erag', 'contains'), measures=('p', 'hit'), label='em')\n"
        f"    try:\n        {touch}\n    except Exception:\n"
        "        if 'lacks replies' in rageval._session.settings.effects: raise\n"
    )
    plan, request_count = _planned(project, llm, body)
    plan.stdout.no_fnmatch_line("*could not be planned*")
    assert _requests(plan) >= request_count


STUCK = [
    ("assert math.fsum(score.values) > 3.9", "AssertionError*"),
    ("assert re.search('c1x', rageval.answer('What is the code of item-1?', 1))", "AssertionError*"),
    ("raise RuntimeError('mine')", "RuntimeError: mine"),
    ("pytest.skip('only where it is good')", "Skipped: only where it is good"),
    ("pytest.fail('never')", "Failed: never"),
    ("pytest.xfail('not yet')", "XFailed: not yet"),
    ("score.where(topic='biling')", "InputError: No example has topic='biling'*"),
    ("deep(score)", "AssertionError: deep*"),
]


@pytest.mark.parametrize(("touch", "message"), STUCK)
def test_a_plan_says_where_it_stopped(project, llm, touch, message):
    project.use(llm)
    deep = "import re\ndef deep(score):\n    assert False, 'deep'\n\n"
    project.test(
        f"{HEAD}{deep}def test_own(rageval):\n    score = rageval.score('answer.em@1')\n    {touch}\n{ASKS}"
    )
    for quiet in ((), ("-q",)):
        plan = project.run("--rageval-plan", *quiet)
        plan.assert_outcomes(**{"xfailed" if "xfail" in touch else "skipped": 1})
        assert plan.ret == pytest.ExitCode.TESTS_FAILED
        plan.stdout.fnmatch_lines(
            [
                "1 test could not be planned to the end; requests after these places are not counted:",
                f"  test_it.py::test_own: line *, {message}",
            ]
        )
        assert _requests(plan) >= 4


def test_a_test_that_skips_itself_before_it_asks_is_planned(project, llm):
    """A test that skips itself before its first score is planned completely, because a run skips it too."""
    project.use(llm)
    project.test(f"def test_own(rageval):\n    pytest.skip('not on this machine')\n{ASKS}")
    plan = project.run("--rageval-plan")
    assert plan.ret == 0
    plan.stdout.no_fnmatch_line("*could not be planned*")


def test_a_plan_continues_after_an_answer_of_the_users_own_generator(project, llm):
    own = (
        "\n@pytest.fixture(scope='session')\ndef rageval_generator():\n"
        "    def generate(question, passages): return passages[0].text.split()[-1].rstrip('.')\n    return generate\n"
    )
    project.add(own)
    body = (
        "    assert 'c1x' in rageval.answer('What is the code of item-1?', 1)\n"
        "    rageval.score('answer.correct@1', comparator='judge')\n"
    )
    project.use(llm)
    project.test(f"def test_own(rageval):\n{body}")
    plan = project.run("--rageval-plan")
    assert plan.ret == 0
    plan.stdout.fnmatch_lines(["* × calls of rageval_generator, your own function: *"])


def test_a_plan_continues_after_a_ranking_that_depends_on_a_model(project, llm):
    """A plan does not know the ranking of a HyDE retriever, and continues as if it contained every document."""
    hyde = (
        "\n@pytest.fixture(scope='session')\ndef rageval_retriever(rageval_llm):\n"
        "    from pytest_rageval import HyDERetriever\n"
        "    return HyDERetriever(lambda query, k: search('What is the code of item-2?', k), rageval_llm)\n"
    )
    project.add(hyde)
    project.use(llm)
    project.test(
        "def test_own(rageval):\n    found = rageval.retrieve('What is the code of item-1?', 1)\n"
        f"    assert 'doc-1' in found and len(found) == 1 and found.query\n{ASKS}"
    )
    plan = project.run("--rageval-plan")
    assert plan.ret == 0
    # The score needs the passage for the first question too, so it is requested once.
    assert _requests(plan) >= 8


BY_NAME = """
@pytest.fixture
def judged(request):
    return request.getfixturevalue("rageval")

class Base:
    @pytest.fixture(autouse=True)
    def keep(self, request):
        self.request = request

class TestOwn(Base):
    def test_by_class(self):
        assert self.request.getfixturevalue("rageval").score("answer.em@1") > 0.9

def test_by_fixture(judged):
    assert judged.score("answer.em@2") > 0.9

def test_by_request(request):
    assert request.getfixturevalue("rageval").score("answer.correct@2") > 0.9

def test_by_doctest_name(): pass
def test_with_a_folder(tmp_path, capsys): pass
"""


def test_a_plan_counts_tests_that_get_the_fixture_by_name(project, llm):
    """Attack: tests that get `rageval` by `request.getfixturevalue` were deselected, and a run sent requests anyway.

    Such a suite ended with exit status 5 and a warning that its eval set is not used. Promise: tests that can get any
    fixture are planned, and others are not run.
    """
    project.use(llm)
    project.test(BY_NAME)
    plan = project.run("--rageval-plan")
    assert plan.ret == 0
    plan.assert_outcomes(skipped=3, deselected=2)
    plan.stdout.no_fnmatch_line("*does nothing*")
    project.run(passed=5)
    assert _requests(plan) == len(llm.requests) == 12


def test_a_plan_counts_a_doctest_that_gets_the_fixture(project, llm):
    project.use(llm)
    project.pytester.makepyfile(
        module='"""\n>>> getfixture("rageval_llm").complete("Hello?").text and None\n"""\ndef f(): "1"\n'
    )
    plan = project.run("--rageval-plan", "--doctest-modules", "module.py")
    assert (plan.ret, _requests(plan)) == (0, 1)


def test_a_suite_without_requests_has_an_empty_plan(project, llm):
    """If no test can send requests, the plan is complete: the exit status is 0. Without any tests it stays 5."""
    project.use(llm)
    project.pytester.makepyfile(test_it="def test_nothing_of_ours(tmp_path): assert False\n")
    plan = project.run("--rageval-plan")
    assert plan.ret == 0
    plan.assert_outcomes(deselected=1)
    assert project.run("--rageval-plan", "-k", "nowhere").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_test_that_fails_before_any_placeholder_is_planned(project, llm):
    """A test that fails before a placeholder was given fails in a run too; later, a placeholder may be the reason."""
    project.use(llm)
    fails = "def test_{}(request): assert False\n"
    project.test(
        fails.format("a") + "def test_b(rageval): rageval.score('answer.em@1')\n" + fails.format("c")
    )
    plan = project.run(
        "--rageval-plan",
        shows=["1 test could not be planned to the end; *", "  test_it.py::test_c: line 6, *"],
    )
    assert _requests(plan) == 4


def test_a_plan_says_which_fixture_it_could_not_finish(project, llm):
    """A fixture of the user that fails on a placeholder is named, for each test with it; other failures stay errors."""
    project.use(llm)
    project.test(
        "import json\n"
        "@pytest.fixture(scope='module')\n"
        "def parsed(rageval_llm):\n    return json.loads(rageval_llm.complete('Give JSON.').text)\n"
        "@pytest.fixture\n"
        "def skipping(request):\n"
        "    if request.getfixturevalue('rageval').score('answer.em@1') > 0: pytest.skip('good enough')\n"
        "@pytest.fixture\n"
        "def broken(request): raise RuntimeError('mine')\n"
        "def test_one(parsed): pass\n"
        "def test_two(parsed): pass\n"
        "def test_three(skipping): pass\n"
        "def test_four(broken): pass\n"
    )
    plan = project.run(
        "--rageval-plan",
        skipped=3,
        errors=1,
        shows=[
            "3 tests could not be planned to the end; requests after these places are not counted:",
            "  test_it.py::test_one: line 7, JSONDecodeError: *",
            "  test_it.py::test_two: line 7, JSONDecodeError: *",
            "  test_it.py::test_three: line 10, Skipped: good enough",
        ],
    )
    assert _requests(plan) == 5
