"""Failures of the user's code: a few leave their questions unscored, too many raise an error."""

import asyncio
import pickle
import re

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.errors import BudgetError, CallableError, QueryError, Unscored
from pytest_rageval.core.evalset import Example, Gold, Nugget
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.scores.definition import check_failures, combine_errors, score_each


def _outcomes(failed: int, of: int) -> list[Outcome]:
    examples = [Example(f"e{n}", f"q{n}") for n in range(of)]
    errors = [
        QueryError(f"search raised for 'q{n}': KeyError\n  search.py:5", "search raised") for n in range(of)
    ]
    return [
        Outcome(example, None, error.reason, failed=error) if n < failed else Outcome(example, 1.0)
        for n, (example, error) in enumerate(zip(examples, errors, strict=True))
    ]


@pytest.mark.parametrize(("failed", "share"), [(0, 0.0), (1, 0.05), (29, 0.29), (99, 1.0)])
def test_a_share_may_fail(failed: int, share: float) -> None:
    check_failures(_outcomes(failed, 100), share)


@pytest.mark.parametrize(("failed", "share"), [(1, 0.0), (6, 0.05), (30, 0.29)])
def test_more_than_the_share_is_the_error_that_it_was(failed: int, share: float) -> None:
    """If more questions fail, the error has the first failure in full, the number of failures, and the remedy."""
    with pytest.raises(CallableError) as caught:
        check_failures(_outcomes(failed, 100), share)
    first, frame, ended, more = str(caught.value).split("\n")
    assert (first, frame) == ("search raised for 'q0': KeyError", "  search.py:5")
    assert ended.startswith(f"It affects {failed} example")
    assert more == (
        f"More than the allowed {100 * share:g}% of 100 examples have no score. "
        "Fix it, or allow a larger share with --rageval max_unscored=SHARE."
    )


def test_a_retriever_that_fails_at_all_questions_is_an_error_whatever_is_allowed() -> None:
    """If all questions fail, the error is raised even if all may be unscored, and suggests no larger share."""
    with pytest.raises(CallableError) as caught:
        check_failures(_outcomes(7, 7), 1.0)
    assert str(caught.value) == (
        "search raised for 'q0': KeyError\n  search.py:5\nIt affects 7 examples: e0, e1, e2, e3, e4, …."
    )


def test_no_examples_are_no_failure() -> None:
    check_failures([], 0.0)


def test_errors_for_different_reasons_have_different_messages() -> None:
    """A combined error has the first three messages in full and counts the examples with other messages."""
    failed = {f"e{n}": CallableError(f"error {n}") for n in range(5)} | {"e9": CallableError("error 0")}
    assert str(combine_errors(failed)) == (
        "error 0\nIt affects 2 examples: e0, e9.\n"
        "error 1\nIt affects 1 example: e1.\n"
        "error 2\nIt affects 1 example: e2.\n"
        "2 more examples ended with other messages."
    )


def test_errors_with_one_reason_are_one_message() -> None:
    failed = {f"e{n}": BudgetError(f"the limit is reached: 0.{n} USD", reason="the limit") for n in range(5)}
    combined = combine_errors(failed)
    assert type(combined) is BudgetError
    assert str(combined) == "the limit is reached: 0.0 USD\nIt affects 5 examples: e0, e1, e2, e3, e4."


def test_an_outcome_with_its_error_travels() -> None:
    """An outcome with an error can be pickled, because scores are sent to other processes."""
    (outcome,) = _outcomes(1, 1)
    back = pickle.loads(pickle.dumps(outcome))  # noqa: S301 - our own bytes
    assert (str(back.failed), back.failed.reason) == (str(outcome.failed), "search raised")


@pytest.mark.parametrize(
    "spec",
    [
        "recall@1",
        "llm_reteval@1",
        "answer.correct@1",
        "answer.em@1",
        "answer.abstained@1",
        "erag.p@1",
        "contains.p@1",
        "relevance.p@1",
        "rel_recall.answer@1",
        "rel.citation@1",
        "rel.citation_precision@1",
        "rel.coverage@1",
    ],
)
def test_every_score_leaves_the_question_unscored_and_continues(world, monkeypatch, spec: str) -> None:
    """The reason names the exception and not the question, so that equal reasons are counted together."""
    world.rankings = {"good": ["code 7"]}
    world.cited = {"code 7": "code 7 [1]"}
    search = world.rankings.get

    def get(question: str, default: list[str]) -> list[str]:
        if question == "bad":
            raise LookupError("no index\nof that name")
        return search(question, default)

    monkeypatch.setattr(world, "rankings", type("Rankings", (), {"get": staticmethod(get)}))
    examples = [
        Example(question, question, answers=("code 7",), gold=(Gold(text="code 7"),))
        for question in ("bad", "good")
    ]
    bad, good = world.evaluate(spec, *examples)
    assert bad.value is None
    assert re.fullmatch(
        r"rageval_retriever raised LookupError: no index \(test_failures\.py:\d+\)", bad.unscored
    )
    assert str(bad.failed).startswith("rageval_retriever raised for 'bad': LookupError: no index\n")
    assert good.value is not None
    assert good.failed is None
    assert world.asked["retrieve", "bad", "1"] == 1


@pytest.mark.parametrize(
    ("spec", "words", "part"),
    [
        ("answer.correct@1", {}, "answer"),
        ("answer.correct@1", {}, "compare"),
        ("llm_reteval@1", {}, "answer"),
        ("llm_reteval@1", {}, "compare"),
        ("erag.p@1", {}, "answer"),
        ("erag.p@1", {}, "compare"),
        ("udcg@1", {}, "answer"),
        ("udcg@1", {}, "ask"),
        ("relevance.p@1", {}, "ask"),
        ("rel.coverage@1", {"relevant": "judge"}, "ask"),
        ("rel.citation@1", {}, "answer"),
        ("sufficient@1", {}, "ask"),
        ("judged.faithfulness@1", {}, "answer"),
        ("judged.faithfulness@1", {}, "ask"),
        ("arena.win_tie@1", {}, "answer"),
        ("arena.win_tie@1", {}, "ask"),
        ("nuggets.coverage@1", {}, "ask"),
        ("nuggets.vital@1", {}, "ask"),
        ("nuggets.ndcg@1", {}, "ask"),
        ("answer.nuggets@1", {}, "answer"),
        ("answer.nuggets@1", {}, "ask"),
    ],
)
def test_without_an_answer_or_a_verdict_a_question_is_unscored(world, monkeypatch, spec, words, part):
    """It has the reason of the generator or the judge, and no other value. The other questions are scored."""
    original = getattr(world, part)

    async def fails_once(*arguments, **named):
        if "bad" in arguments:
            raise Unscored("unreadable")
        return await original(*arguments, **named)

    monkeypatch.setattr(world, part, fails_once)
    world.rankings = {"bad": ["code 7"], "good": ["code 7"]}
    world.cited = {"code 7": "code 7 [1]"}
    world.explained = {"code 7": "It is code 7."}
    world.better = {"good": 0}
    world.relevance = {"code 7": 1.0}
    world.ratings = {("faithfulness", ("code 7",), ("code 7",)): Verdict(4.0, "")}
    shared = {"answers": ("code 7",), "reference": "It is 7.", "nuggets": (Nugget("7"),)}
    examples = [Example(name, name, gold=(Gold(text="code 7"),), **shared) for name in ("bad", "good")]
    bad, good = world.evaluate(spec, *examples, **words)
    assert (bad.value, bad.unscored) == (None, "unreadable")
    assert (good.value is None, good.unscored) == (False, None)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        *((spec, "no gold passages") for spec in ("recall@5", "ndcg@5", "full_recall@5", "llm_reteval@5")),
        ("provenance.p@5", "no gold passages"),
        ("judged.context_quality@5", "no gold passages"),
        ("judged.correctness@5", "no reference answers"),
        *((f"answer.{name}@5", "no reference answers") for name in ("correct", "em", "f1")),
        *((f"{name}.p@5", "no reference answers") for name in ("erag", "contains")),
        ("arena.win@5", "no long-form reference"),
        *((f"nuggets.{name}@5", "no nuggets") for name in ("coverage", "vital", "ndcg")),
        ("answer.nuggets@5", "no nuggets"),
    ],
)
def test_without_what_a_score_compares_with_nothing_is_asked(world, spec: str, reason: str) -> None:
    """The eval set lacks it, so the example is unscored, whatever else it has, and costs nothing."""
    fields = {
        "gold": {"gold": (Gold(text="a"),)},
        "reference": {"gold": (Gold(text="a"),), "nuggets": (Nugget("a"),)},
        "long-form": {"answers": ("a",), "gold": (Gold(text="a"),)},
        "nuggets": {"answers": ("a",), "gold": (Gold(text="a"),)},
    }
    missing = reason.split()[1]
    given = {"answers": ("a",), "reference": "a"} if missing == "gold" else fields[missing]
    (outcome,) = world.evaluate(spec, Example("q", "q", **given))
    assert (outcome.value, outcome.unscored) == (None, reason)
    assert not world.asked


def test_one_unscored_example_does_not_stop_the_others(loop) -> None:
    examples = [Example(str(n), "q") for n in range(3)]

    async def score(example: Example) -> tuple[float, Evidence]:
        if example.id == "1":
            raise Unscored("too long")
        return 0.5, Evidence(answer=example.id)

    outcomes = loop.run(score_each(examples, score))
    assert [(o.example, o.value, o.unscored) for o in outcomes] == [
        (examples[0], 0.5, None),
        (examples[1], None, "too long"),
        (examples[2], 0.5, None),
    ]
    assert [o.evidence.answer for o in outcomes] == ["0", None, "2"]


def test_errors_are_reported_in_the_order_of_the_examples(loop) -> None:
    examples = [Example(f"e{n}", "q") for n in range(4)]

    async def score(example: Example) -> tuple[float, Evidence]:
        for _ in range(9 - 3 * examples.index(example)):
            await asyncio.sleep(0)
        raise CallableError("odd" if example.id in {"e1", "e3"} else "even")

    with pytest.raises(CallableError) as caught:
        loop.run(score_each(examples, score))
    assert str(caught.value) == "even\nIt affects 2 examples: e0, e2.\nodd\nIt affects 2 examples: e1, e3."
