"""Comparator expressions such as "judge or f1>=0.5": parsing and evaluation."""

import asyncio
from collections import Counter

import pytest

from pytest_rageval.answers.comparators import (
    MEASURES,
    Atom,
    CanonicalComparator,
    Expression,
    parse_expression,
)
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError, Planned, Unscored

ASKED: Counter[str] = Counter()


class Says:
    def __init__(self, name: str, verdict: float | Unscored | None) -> None:
        self.name, self.verdict = name, verdict

    async def compare(self, *_: object) -> float:
        ASKED[self.name] += 1
        if self.verdict is None:
            raise Planned("not asked")
        if isinstance(self.verdict, Unscored):
            raise self.verdict
        return self.verdict


def _parsed(text: object, judge: float | None = 1.0) -> Expression:
    ASKED.clear()
    comparators = {
        name: Says(name, verdict)
        for name, verdict in (("judge", judge), ("graded", judge), ("canonical", 0.0))
    }
    return parse_expression(text, measures=MEASURES, comparators=comparators)


def _value(text: str, judge: float = 1.0, prediction: str = "two words", reference: str = "two") -> float:
    expression = _parsed(text, judge)
    return asyncio.run(expression.compare("q", [reference], prediction))


def test_and_binds_tighter_than_or() -> None:
    assert _parsed(" judge  and f1>=0.5 or  em ").alternatives == (
        (Atom("judge"), Atom("f1", 0.5)),
        (Atom("em"),),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "judge", "value"),
    [
        ("judge", 1.0, 1.0),
        ("judge", 0.25, 0.25),
        ("em", 1.0, 0.0),
        ("f1", 1.0, 2 / 3),
        ("f1>=0.5", 1.0, 1.0),
        ("f1>=.7", 1.0, 0.0),
        ("f1 >= 0.5", 1.0, 1.0),
        ("judge or em", 0.0, 0.0),
        ("judge and containment", 1.0, 1.0),
        ("judge and em", 1.0, 0.0),
        ("judge and f1", 1.0, 2 / 3),
        ("em or f1", 1.0, 2 / 3),
        ("canonical or judge and f1>=0.5", 1.0, 1.0),
        ("rouge1>=0.6 and rouge2>=0.1", 1.0, 0.0),
    ],
)
def test_a_value_is_that_of_its_parts(text: str, judge: float, value: float) -> None:
    """Token F1 of "two words" with "two" is 2 · 1 / (2 + 1); they share no two words in a row."""
    assert _value(text, judge) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("containment or judge", 0),
        ("judge or containment", 0),
        ("judge and em", 0),
        ("em and judge", 0),
        ("judge or em", 1),
        ("judge and containment", 1),
        ("judge and em or judge and containment", 1),
    ],
)
def test_a_model_is_asked_only_where_it_matters(text: str, calls: int) -> None:
    """Free measures are evaluated first, and the judge is called only if its verdict can change the value."""
    _value(text)
    assert ASKED["judge"] == calls


@pytest.mark.parametrize("graded", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("order", ["{0} {2} {1}", "{1} {2} {0}"])
@pytest.mark.parametrize(("word", "decisive"), [("or", 1.0), ("and", 0.0)])
def test_a_part_without_a_verdict_leaves_the_rest_to_decide(word, decisive, order, graded):
    """If a part is unscored, another part may decide: 1 decides `or`, 0 decides `and`, in either order."""
    ASKED.clear()
    comparators = {"judge": Says("judge", Unscored("no verdict")), "house": Says("house", graded)}
    text = order.format("judge", "house", word)
    expression = parse_expression(text, measures=MEASURES, comparators=comparators)
    compared = expression.compare("q", ["two"], "two words")
    if graded == decisive:
        assert asyncio.run(compared) == decisive
    else:
        with pytest.raises(Unscored, match="no verdict"):
            asyncio.run(compared)


def test_in_a_plan_what_is_not_known_rules_over_what_has_no_verdict() -> None:
    comparators = {"judge": Says("judge", Unscored("no verdict")), "house": Says("house", None)}
    for text in ("judge or house", "house or judge", "house and judge"):
        expression = parse_expression(text, measures=MEASURES, comparators=comparators)
        with pytest.raises(Planned):
            asyncio.run(expression.compare("q", ["two"], "two words"))


MARK = "⟪reply 0123456789abcdef⟫"


@pytest.mark.parametrize("text", ["judge or em", "judge and em", "em and judge", "canonical and judge"])
@pytest.mark.parametrize(("prediction", "reference"), [(MARK, "two"), ("two", MARK), (MARK, MARK)])
def test_in_a_plan_a_measure_of_a_missing_reply_decides_nothing(text, prediction, reference):
    expression = _parsed(text, None)
    with pytest.raises(Planned):
        asyncio.run(expression.compare("q", [reference], prediction))
    assert ASKED["judge"] == 1


@pytest.mark.parametrize(
    ("first", "asked", "value"),
    [(1.0, 0, 1.0), (0.0, 1, 0.25), (Unscored("a reference is too long"), 1, 0.25)],
)
def test_then_the_judge_decides_what_the_rules_do_not_accept(first, asked: int, value: float) -> None:
    ASKED.clear()
    comparators = {"judge": Says("judge", 0.25), "canonical": Says("canonical", first)}
    expression = parse_expression("canonical  then judge", measures=MEASURES, comparators=comparators)
    assert expression.names == {"canonical", "judge"}
    assert asyncio.run(expression.compare("q", ["two"], "three")) == value
    assert ASKED["judge"] == asked


@pytest.mark.parametrize(
    ("text", "called", "value"),
    [
        ("judge and graded", ["judge", "graded"], None),
        ("judge or graded", ["judge", "graded"], None),
        ("judge and graded or canonical", ["judge", "graded", "canonical"], None),
        ("judge or f1", ["judge"], None),
        ("judge and em", [], 0.0),
        ("judge or containment", [], 1.0),
        ("judge and em or f1", [], 2 / 3),
        ("containment then judge", [], 1.0),
        ("canonical or em then judge", ["canonical", "judge"], None),
    ],
)
def test_in_a_plan_all_is_counted_that_may_decide(text: str, called: list[str], value: float | None) -> None:
    expression = _parsed(text, None)
    compared = expression.compare("q", ["two"], "two words")
    if value is None:
        with pytest.raises(Planned):
            asyncio.run(compared)
    else:
        assert asyncio.run(compared) == pytest.approx(value)
    assert sorted(ASKED) == sorted(called)


@pytest.mark.parametrize(
    ("text", "graded"),
    [
        ("judge", False),
        ("canonical or em", False),
        ("f1>=0.5 and rougeL>=0.6", False),
        ("f1", True),
        ("judge or f1", True),
        ("graded", True),
        ("graded>=0.75", False),
        ("canonical then judge", False),
    ],
)
def test_it_is_known_whether_values_lie_between(text: str, graded: bool) -> None:  # noqa: FBT001 - what is expected
    """`graded` is true if values between 0 and 1 are possible: some ranking measures need binary values."""
    assert _parsed(text).graded is graded


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing is named"),
        (None, "nothing is named"),
        (5, "nothing is named"),
        ("jugde", "there is no 'jugde'. Did you mean judge?"),
        ("judge or", "'judge or' is not of the form NAME or NAME>=NUMBER"),
        ("judge and and em", "'and em' is not of the form NAME"),
        ("f1>0.5", "'f1>0.5' is not of the form NAME or NAME>=NUMBER; the sign is >=, as in f1>=0.5"),
        ("judge or f1 => .5", "as in f1>=.5"),
        ("judge OR em", "'judge OR em' is not of the form NAME or NAME>=NUMBER; write or in lower case"),
        ("JUDGE", "there is no 'JUDGE'. Did you mean judge?"),
        ("rougel", "Did you mean rougeL?"),
        ("f1>=2", "the threshold of f1 is 2, and must be above 0 and at most 1"),
        ("f1>=0", "the threshold of f1 is 0"),
        ("f1>=-1", "is not of the form NAME"),
        ("(judge or em) and f1", "there are no brackets; and binds tighter than or"),
        ("judge, em", "is not of the form NAME"),
        ("canonical then em", "then is followed by judge, and nothing comes after it"),
        ("canonical then judge then judge", "then is followed by judge, and nothing comes after it"),
        ("canonical then judge or em", "then is followed by judge, and nothing comes after it"),
        ("f1 then judge", "before then stand comparisons without a model that say yes or no"),
        ("judge then judge", "before then stand comparisons without a model"),
        ("canonical THEN judge", "write then in lower case"),
    ],
)
def test_a_text_that_is_not_an_expression_is_reported(text: object, why: str) -> None:
    with pytest.raises(InputError) as caught:
        _parsed(text)
    assert f"comparator={text!r}: " in str(caught.value)
    assert why in str(caught.value)
    assert str(caught.value).endswith('Examples: "judge", "canonical", "f1>=0.5", "judge or em".')


def test_a_message_names_the_word_that_was_typed() -> None:
    with pytest.raises(InputError, match=r"^label='jugde': there is no 'jugde'"):
        parse_expression(
            "jugde", measures=MEASURES, comparators={"judge": Says("judge", 1.0)}, keyword="label"
        )


@pytest.mark.parametrize(
    ("references", "prediction", "expected"),
    [
        (["5 km"], "five kilometres", 1.0),
        (["6 km", "5 km"], "5 kilometres", 1.0),
        (["6 km"], "5 km", 0.0),
        ([], "5 km", 0.0),
    ],
)
def test_canonical_comparison_wants_one_of_the_references(loop, references, prediction, expected):
    assert loop.run(CanonicalComparator().compare("How far?", references, prediction)) == expected


LONG = "It is far, and further than anybody thought. " * 100


def test_a_reference_too_long_for_the_rules_has_no_verdict(loop: BackgroundEventLoop) -> None:
    """A reference of more than 300 words raises Unscored, unless another reference matches or the texts are equal."""
    compare = CanonicalComparator().compare
    with pytest.raises(Unscored, match="a reference is longer than 300 words"):
        loop.run(compare("How far?", [LONG, "6 km"], "5 km"))
    assert loop.run(compare("How far?", [LONG, "5 km"], "5 km")) == 1.0
    assert loop.run(compare("How far?", [LONG], LONG.upper())) == 1.0


def test_only_the_beginning_of_a_long_prediction_is_read(loop: BackgroundEventLoop) -> None:
    compare = CanonicalComparator().compare
    assert loop.run(compare("How far?", ["5 km"], f"5 km. {LONG}")) == 1.0
    assert loop.run(compare("How far?", ["5 km"], f"{LONG} 5 km.")) == 0.0
