"""How far cited passages support the statements of an answer, on numbers that a reader can check."""

from typing import Any

import pytest

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.answers.judge.user_judge import adapt_judge
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.citation_support.scores import SUPPORT_OF_STATEMENTS, statements
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer
from tests.unit.scores.conftest import World

ANSWER = "It makes pumps [1][2]. Orr founded it [3], and it is in Tulsa [1][9]. It is well known."
"""Four statements, of which the last cites nothing, and a citation of a passage that does not exist."""


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    world = World(loop)
    world.rankings["q"] = ["p1", "p2", "p3"]
    world.cited["p1|p2|p3"] = ANSWER
    world.nuggets = {"p1": (0.5, 1.0), "p2": (1.0,), "p3": (0.0,)}
    return world


EXAMPLE = Example("q", "q")
SINGLE = {"p1": 0, "p2": 0.5, "p3": 0.5}


def test_precision_is_over_citations_and_recall_over_statements(world: World) -> None:
    """Labels by statement: (0.5, 1), (0), (1, and 0 for the passage 9), none."""
    [precision] = world.evaluate("support.precision@3", EXAMPLE)
    assert precision.value == pytest.approx((0.5 + 1 + 0 + 1 + 0) / 5)
    assert precision.evidence.beside == {"first citations": pytest.approx((0.5 + 0 + 1) / 3)}
    [recall] = world.evaluate("support.recall@3", EXAMPLE)
    assert recall.value == pytest.approx((1 + 0 + 1 + 0) / 4)
    assert recall.evidence.beside == {"first citations": pytest.approx((0.5 + 0 + 1 + 0) / 4)}
    assert recall.evidence.counts == {"statements_without_citation": 1, "hallucinated_citations": 1}
    assert recall.evidence.answer == ANSWER
    assert recall.evidence.remark == 'cites nothing: "It is well known."; not supported: "Orr founded it"'
    # One request for each cited passage, with all statements that cite it; both scores share them.
    assert world.asked["support", "q", "It makes pumps.", "it is in Tulsa.", "p1"] == 1
    assert (world.call_count("support"), world.call_count("cite")) == (3, 1)


@pytest.mark.parametrize(
    "case",
    [
        ("[1]", {"p1": 1}, 1, 1, 1),
        ("[1]", {"p1": 0.5}, 0, 0, 1),
        # Each alone is not enough, both are: both are needed.
        ("[1][2]", {"p1": 0.5, "p2": 0.5, "p1\np2": 1}, 1, 1, 3),
        # p1 is enough, and so p2 is not needed.
        ("[1][2]", {"p1": 1, "p2": 0.5, "p1\np2": 1}, 1 / 2, 1, 3),
        # Each is enough alone: neither is cited in vain.
        ("[1][2]", {"p1": 1, "p2": 1, "p1\np2": 1}, 1, 1, 3),
        ("[1][2]", {"p1": 0.5, "p2": 0.5, "p1\np2": 0.5}, 0, 0, 3),
        # p2 and p3 are needed, p1 is not: the others support the statement without it.
        ("[1][2][3]", SINGLE | {"p1\np2\np3": 1, "p2\np3": 1, "p1\np2": 0.5, "p1\np3": 0.5}, 2 / 3, 1, 7),
        ("[1][9]", {"p1": 1}, 0, 0, 1),
        ("[9]", {}, 0, 0, 0),
    ],
)
def test_alce_judges_the_cited_passages_together(world: World, case: tuple[Any, ...]) -> None:
    """The second statement cites nothing, and so is not supported."""
    citations, labels, precision, recall, judged = case
    world.cited["p1|p2|p3"] = f"It makes pumps {citations}. It is known."
    world.nuggets = {text: (float(label),) for text, label in labels.items()}
    [outcome] = world.evaluate("support.alce_recall@3", EXAMPLE)
    assert outcome.value == recall / 2
    assert world.call_count("support") == bool(labels)
    [outcome] = world.evaluate("support.alce_precision@3", EXAMPLE)
    assert outcome.value == pytest.approx(precision)
    assert world.call_count("support") == judged


def test_the_answer_is_that_of_rel_recall(world: World) -> None:
    example = Example("q", "q", answer_set=(("pumps",),))
    world.evaluate("rel.answer@3", example)
    world.evaluate("support.recall@3", example)
    assert world.call_count("cite") == 1


def test_citations_count_in_the_order_of_the_prompt(world: World) -> None:
    world.run = world.make_pipeline(seed=1)
    [outcome] = world.evaluate("support.recall@3", EXAMPLE, order="random")
    [[_, _, shown, _]] = [call for call in world.asked if call[0] == "cite"]
    order = shown.split("|")
    assert order != ["p1", "p2", "p3"]
    world.cited[shown] = "It makes pumps [1]."
    world.nuggets = dict.fromkeys(order, (0.0,)) | {order[0]: (0.5,)}
    world.run = world.make_pipeline(seed=1)
    [outcome] = world.evaluate("support.recall@3", EXAMPLE, order="random")
    assert outcome.value == 0.5


@pytest.mark.parametrize(
    ("answer", "precision", "recall"),
    [
        ("no answer in the documents", "the answer states nothing", "the answer states nothing"),
        ("...", "the answer states nothing", "the answer states nothing"),
        ("It makes pumps.", "nothing was cited", 0.0),
        ("It makes pumps [9].", 0.0, 0.0),
    ],
)
def test_answers_that_cite_nothing_ask_nothing(world, answer, precision, recall):
    world.cited["p1|p2|p3"] = answer
    for part, expected in {"precision": precision, "recall": recall}.items():
        [outcome] = world.evaluate(f"support.{part}@3", EXAMPLE)
        assert expected == (outcome.undefined if outcome.value is None else outcome.value)
    assert not world.call_count("support")


def test_without_labels_the_question_is_unscored(world: World) -> None:
    world.nuggets["p2"] = Unscored("unreadable")
    [outcome] = world.evaluate("support.precision@3", EXAMPLE)
    assert (outcome.value, outcome.unscored) == (None, "unreadable")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Ostrel bridge [1][3], Linden bridge [1]", [("Ostrel bridge", (1, 3)), ("Linden bridge", (1,))]),
        ("Ostrel bridge [1] and Linden bridge [2]", [("Ostrel bridge", (1,)), ("Linden bridge", (2,))]),
        ("1. Ostrel [1]\n2. Linden [2]", [("Ostrel", (1,)), ("Linden", (2,))]),
        ("- 1931 [1]\n- 1962 [2]\n", [("1931", (1,)), ("1962", (2,))]),
        ("It is red. [1] It is old.[2]", [("It is red.", (1,)), ("It is old.", (2,))]),
        ("It is red.[1][2] It is old.", [("It is red.", (1, 2)), ("It is old.", ())]),
        (
            "Dr. J. Orr of No. 5, e.g. A, paid 3.5 m [1].",
            [("Dr. J. Orr of No. 5, e.g. A, paid 3.5 m.", (1,))],
        ),
        ('He said "No!" [1] Then "Yes." [2]', [('He said "No!"', (1,)), ('Then "Yes."', (2,))]),
        ("Red, blue and white [1]", [("Red, blue and white", (1,))]),
        ("Orr [sic] said so [2-3].", [("Orr [sic] said so.", (2, 3))]),
        ("它是红色的。[1]它很旧。[2]", [("它是红色的。", (1,)), ("它很旧。", (2,))]),
        ("Passage [1]; sand [2]; and Wels [3]", [("Passage", (1,)), ("sand", (2,)), ("Wels", (3,))]),
        ("", []),
        ("[1]", []),
    ],
)
def test_the_statements_of_an_answer(answer: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(text, cited.positions) for text, cited in statements(answer, 3)] == expected


def test_a_runaway_output_takes_no_time() -> None:
    for text in ("A. " * 10_000, ". " * 10_000, ".[" * 10_000, "[1], " * 5_000, ". a " * 10_000):
        assert len(statements(text, 3)) <= 1


def test_a_judge_without_the_method_is_told_what_needs_it(loop: BackgroundEventLoop) -> None:
    judge = adapt_judge(lambda _question, _references, _prediction: True, loop)
    message = r"support\(question, statements, passage\), which the scores support\.\*"
    with pytest.raises(CallableError, match=message):
        judge.require(SUPPORT_OF_STATEMENTS)


@pytest.mark.parametrize(
    ("parts", "judged"),
    [
        (("precision", "recall"), 5),
        (("alce_recall",), 1),
        (("alce_precision",), 5 + 1 + 5),
        (("precision", "recall", "alce_recall", "alce_precision"), 5 + 1 + 5),
    ],
)
def test_a_plan_counts_the_requests(llm, tmp_path, parts, judged):
    session = Session(Settings(model="m", judge_model="j", base_url=llm.url, cache_dir=tmp_path, plan=True))
    passages = [{"text": f"passage {n}"} for n in range(5)]
    models = DefaultGenerator(session.models), DefaultJudge(session.models)
    components = Components(lambda _query, _k: passages, *models)
    evalset = EvalSet("evals", (EXAMPLE,))
    requests = [ScoreRequest(f"support.{part}@5") for part in parts]
    outcomes = session.evaluator.outcomes(components, evalset, requests)
    assert all(isinstance(runs, list) for runs in outcomes.values())
    assert session.usage.live == 1 + judged
    assert not llm.requests
    session.close()


def _model(prompt: str) -> str:
    if "Label each nugget" not in prompt:
        return "It makes pumps [1]. It is in Tulsa [2]."
    return '["support"]' if "pumps" in prompt.partition("Nuggets:")[2] else '["partial_support"]'


CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: [{"id": name, "text": f"passage {name}"} for name in "ab"]
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset([{"id": "q", "question": "What is it?"}])
@pytest.mark.rageval_threshold("support.precision@2", min=0.9)
@pytest.mark.rageval_threshold("support.recall@2", min=0.5)
def test_it():
    pass
"""


@pytest.mark.slow
def test_a_run_with_a_model_as_judge(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    with LLMServer(_model) as llm:
        options = ("--rageval-model=m", "--rageval-judge-model=j", f"--rageval-base-url={llm.url}")
        result = pytester.runpytest_inprocess(*WITHOUT, *options)
        assert len(llm.requests) == 3
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["support.precision@2: 0.750 is below the minimum 0.9*", "*pass*support.recall@2*0.750*"]
    )
