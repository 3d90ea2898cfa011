"""The change of the answer's quality when one passage is left out, on numbers that a reader can check."""

from math import sqrt
from pathlib import Path

import pytest

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer
from tests.unit.scores.conftest import World

FAMILY = "erag.leave_one_out"
NONE = "no answer in the documents"


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    """Return a world whose question takes the passages a and b; c alone has the answer, and d is useless."""
    world = World(loop)
    world.rankings["q"] = ["a", "b", "c", "d"]
    world.answers |= {"a": NONE, "b": NONE, "c": "Tulsa", "d": "Reno"}
    world.answers |= {
        "a|b|c|d": "Tulsa",
        "b|c|d": "Reno",
        "a|c|d": "Reno",
        "a|b|d": "Tulsa",
        "a|b|c": "Tulsa",
    }
    return world


def _example(question: str = "q", **fields: object) -> Example:
    return Example(question, question, **{"answers": ("Tulsa",), **fields})


def test_changes_and_their_agreement_with_the_passages_alone(world: World) -> None:
    """The changes are 1, 1, 0, 0 and the labels 0, 0, 1, 0: they agree on d alone.

    Mean ranks of the changes are 3.5, 3.5, 1.5, 1.5, and of the labels 2, 2, 4, 2. From the mean of 2.5 they differ by
    1, 1, -1, -1 and -.5, -.5, 1.5, -.5: rho is (-.5 - .5 - 1.5 + .5) / sqrt(4 * 3).
    """
    for part, value in {"mean": 0.5, "needed": 0.5, "harmful": 0.0}.items():
        [outcome] = world.evaluate(f"{FAMILY}.{part}@4", _example())
        assert outcome.value == value
        assert outcome.evidence.beside == {
            "alone": 0.25,
            "same sign": 0.25,
            "Spearman": pytest.approx(-2 / sqrt(12)),
        }
        assert outcome.evidence.labels == (0, 0, 1, 0)
        assert outcome.evidence.answer == "Tulsa"
        assert outcome.evidence.remark == 'needed: 1. "a", 2. "b"'
    assert world.call_count("generate") == 1 + 2 * 4


def test_a_passage_that_misleads_is_harmful(world: World) -> None:
    world.answers |= {"a|b|c|d": "Reno", "a|b|c": "Tulsa", "a|b|d": "Reno"}
    values = {
        part: world.evaluate(f"{FAMILY}.{part}@4", _example())[0] for part in ("mean", "needed", "harmful")
    }
    assert {part: outcome.value for part, outcome in values.items()} == {
        "mean": -0.25,
        "needed": 0.0,
        "harmful": 0.25,
    }
    assert values["mean"].evidence.remark == 'harmful: 4. "d"'


def test_a_label_measures_by_degrees(world: World) -> None:
    """From all "Tulsa, Reno": F1 2/3. Without b or c it is 1; without a or d 0."""
    world.answers |= {"a|b|c|d": "Tulsa Reno", "b|c|d": "x", "a|c|d": "Tulsa", "a|b|d": "Tulsa", "a|b|c": "x"}
    [outcome] = world.evaluate(f"{FAMILY}.mean@4", _example(), label="f1")
    assert outcome.value == pytest.approx((2 / 3 - 1 / 3 - 1 / 3 + 2 / 3) / 4)
    assert world.evaluate(f"{FAMILY}.harmful@4", _example(), label="f1")[0].value == 0.5
    assert not world.call_count("compare")


def test_answers_are_shared_with_other_scores(world: World) -> None:
    """With two passages, those without one are those of the other alone."""
    world.answers |= {"a|b": "Tulsa"}
    world.evaluate("answer.correct@2", _example())
    world.evaluate("erag.p@2", _example())
    assert world.call_count("generate") == 3
    assert world.evaluate(f"{FAMILY}.mean@2", _example())[0].value == 1.0
    assert world.call_count("generate") == 3


def test_without_the_only_passage_there_is_none(world: World) -> None:
    """The change is against the generator's own memory: here it abstains, or knows the answer."""
    world.rankings["q"] = ["c"]
    [outcome] = world.evaluate(f"{FAMILY}.mean@1", _example())
    assert outcome.value == 1.0
    assert outcome.evidence.beside == {"alone": 1.0, "same sign": 1.0}
    world.answers[""] = "Tulsa"
    world.rankings["r"] = ["c"]
    assert world.evaluate(f"{FAMILY}.mean@1", _example("r"))[0].value == 0.0


@pytest.mark.parametrize("part", ["mean", "needed", "harmful"])
def test_questions_without_passages_references_or_answers(world: World, part: str) -> None:
    [outcome] = world.evaluate(f"{FAMILY}.{part}@4", _example("nothing"))
    assert (outcome.value, outcome.evidence.beside) == (0.0, {})
    [outcome] = world.evaluate(f"{FAMILY}.{part}@4", _example(answers=()))
    assert (outcome.value, outcome.unscored) == (None, "no reference answers")
    world.answers["a|b|d"] = Unscored("the generator's reply is empty")
    [outcome] = world.evaluate(f"{FAMILY}.{part}@4", _example())
    assert (outcome.value, outcome.unscored) == (None, "the generator's reply is empty")


def test_all_of_an_answer_set_are_wanted_from_the_prompt(world: World) -> None:
    """Without a passage that has one of two answers, the answer is no longer complete; alone one answer is enough."""
    world.rankings["q"] = ["a", "b"]
    world.answers |= {"a|b": "Tulsa and Reno", "a": "Tulsa", "b": "Reno"}
    world.verdicts |= {"Tulsa and Reno": 1.0}
    both = _example(answers=(), answer_set=(("Tulsa",), ("Reno",)))
    [outcome] = world.evaluate(f"{FAMILY}.needed@2", both)
    assert outcome.value == 1.0
    assert outcome.evidence.beside["same sign"] == 1.0


@pytest.mark.parametrize(("found", "answers"), [(1, 2), (2, 3), (3, 7), (5, 11)])
def test_a_plan_counts_all_requests(llm: LLMServer, tmp_path: Path, found: int, answers: int) -> None:
    """1 + 2k answers with a verdict each; fewer where the prompt is one of a single passage."""
    session = Session(Settings(model="m", judge_model="j", base_url=llm.url, cache_dir=tmp_path, plan=True))
    parts = Components(
        lambda _query, _k: [{"text": f"passage {n}"} for n in range(found)],
        DefaultGenerator(session.models),
        DefaultJudge(session.models),
    )
    evalset = EvalSet("evals", (_example("Where?"),))
    request = ScoreRequest(f"{FAMILY}.mean@5", comparator="judge")
    [runs] = session.evaluator.outcomes(parts, evalset, [request]).values()
    assert isinstance(runs, list)
    assert session.usage.live == 2 * answers
    assert not llm.requests
    session.close()


CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: [{"id": name, "text": name} for name in "abcd"]

@pytest.fixture(scope="session")
def rageval_generator():
    def answer(question, passages):
        shown = {passage.text for passage in passages}
        return "Tulsa" if {"a", "b"} <= shown or shown == {"c"} else "Reno"
    return answer
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset([{"id": "q", "question": "Where?", "answers": ["Tulsa"]}])
@pytest.mark.rageval_threshold("erag.leave_one_out.mean@4", min=0.9)
@pytest.mark.rageval_threshold("erag.leave_one_out.harmful@4", max=0.1)
def test_it():
    pass
"""


@pytest.mark.slow
def test_a_run_fails_and_says_how_far_both_agree(pytester: pytest.Pytester) -> None:
    """The changes and labels are those of the first test above."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "erag.leave_one_out.mean@4: 0.500 is below the minimum 0.9*",
            "*for comparison alone 0.250, same sign 0.250, Spearman -0.577",
        ]
    )
