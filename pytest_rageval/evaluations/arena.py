"""Pairwise comparison of the long answer with the long reference: `arena.win@5` and `arena.win_tie@5`.

`fight` compares the long answers of two systems, for their ratings.

Source: Han et al. (2024), "RAG-QA Arena", section 4 and appendix A.1.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import Preference
from pytest_rageval.concurrency.gathering import gather_two
from pytest_rageval.datatypes import Example, ExampleSubset
from pytest_rageval.digests import digest
from pytest_rageval.errors import NoGroundTruth, Unscored
from pytest_rageval.evaluations.pipeline import Pipeline, ResolvedScore
from pytest_rageval.evaluations.scoring import ScoreDef, score_each, score_in_turn
from pytest_rageval.scores import Evidence, Outcome, Places, Score
from pytest_rageval.stats.intervals import Estimate
from pytest_rageval.stats.systems import first_place_share, position_bias

__all__ = [
    "LEAST",
    "SCORES",
    "arena_notes",
    "drawn",
    "fight",
    "leading_half",
    "place_bias",
    "shares_of_pairs",
]

WON, TIED, LOST = 1.0, 0.5, 0.0

RESULT_OF_FIRST: Final = {1: WON, 2: LOST, 0: TIED}
"""By the judge's preference: the result of the answer that it read first."""

LEAST: Final = {"win": WON, "win_tie": TIED}
"""By score: the lowest result that counts as 1."""

DOMAIN: Final = "domain"
"""The tag whose values are represented equally in a sample of battles."""


async def evaluate_arena(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Score whether the long answer from the first k retrieved passages is better than the reference, or as good.

    The judge reads the two in one order, the answer first in half of the examples (`leading_half`), or in both where
    the run says so; then a verdict that changes with the order is a tie. An abstention loses, against another it
    ties, and no judge is asked. An example without a long-form `reference` is unscored.
    """
    ids = examples.ids if isinstance(examples, ExampleSubset) else [example.id for example in examples]
    leading = leading_half(ids, pipeline.seed)

    async def score(example: Example) -> tuple[float, Evidence]:
        # Before anything is asked: an example that cannot be scored costs nothing.
        if example.reference is None:
            raise NoGroundTruth("no long-form reference")
        answer = await pipeline.long_answer(example, resolved.k)
        ranking = await pipeline.ranking(example, resolved.k)
        result, places, reasons = await _result(
            pipeline, example, answer, example.reference, first=example.id in leading
        )
        counts = {
            "wins": int(result == WON),
            "ties": int(result == TIED),
            "losses": int(result == LOST),
            "no_answer": int(abstains(answer)),
        }
        evidence = Evidence(
            ranking, answer, (example.reference,), counts=counts, places=places, explanation=reasons
        )
        return float(result >= LEAST[resolved.part]), evidence

    return await score_in_turn(pipeline, examples, score)


def leading_half(ids: Sequence[str], seed: int) -> frozenset[str]:
    """The examples in which the answer is read before the reference: half of them, rounded up.

    By digests of seed and id, so that an example more or less in the set changes the order of at most one other.

    >>> len(leading_half(["a", "b", "c", "d"], 0))
    2
    """
    ordered = sorted(ids, key=lambda name: digest([seed, name]))
    return frozenset(ordered[: (len(ordered) + 1) // 2])


def shares_of_pairs(systems: Iterable[str], n: int, seed: int) -> dict[tuple[str, str], int]:
    """How many of n battles each pair of systems has: equally many, or one more, which digests decide.

    The names of a pair are sorted.

    >>> shares_of_pairs(["dense", "bm25"], 7, 0)
    {('bm25', 'dense'): 7}
    """
    pairs = sorted(combinations(sorted(set(systems)), 2), key=lambda pair: digest([seed, *pair]))
    return {pair: n // len(pairs) + (place < n % len(pairs)) for place, pair in enumerate(pairs)}


def drawn(examples: Iterable[Example], seed: int) -> list[tuple[Example, bool]]:
    """The examples in the order in which they are drawn for battles, and whether the first system's answer leads.

    By digests of seed and id, one of each domain in turn, so that any beginning of the list has the domains equally;
    each pair of systems has such a beginning. Within a domain the two answers lead in turn.
    """
    domains: dict[str, list[Example]] = {}
    for example in sorted(examples, key=lambda each: digest(["battle", seed, each.id])):
        domains.setdefault(str(example.tags.get(DOMAIN)), []).append(example)
    rounds = [
        (place, number, example)
        for number, name in enumerate(sorted(domains))
        for place, example in enumerate(domains[name])
    ]
    rounds.sort(key=lambda each: each[:2])
    return [(example, (place + number) % 2 == 0) for place, number, example in rounds]


Answers = Callable[[Example], str | None]
"""The long answer of a system to an example; None where it has none."""


async def fight(
    pipeline: Pipeline, questions: Sequence[tuple[Example, bool]], one: Answers, other: Answers
) -> list[Outcome]:
    """Let two systems' long answers to each question battle; a value is the result of `one`.

    The rules are those against the reference: an abstention loses, two of them tie. So do two equal answers, without
    a judge. `questions` say of each whether the answer of `one` is read first; in both orders it is read in both.
    """
    leads = {example.id: first for example, first in questions}

    async def score(example: Example) -> tuple[float, Evidence]:
        answer, rival = one(example), other(example)
        if answer is None or rival is None:
            raise Unscored("one of the two systems has no answer")
        if answer == rival:
            return TIED, Evidence()
        result, places, _ = await _result(pipeline, example, answer, rival, first=leads[example.id])
        return result, Evidence(places=places)

    return await score_each([example for example, _ in questions], score)


async def _result(
    pipeline: Pipeline, example: Example, one: str, other: str, *, first: bool
) -> tuple[float, Places, str]:
    """The result of one answer against another, and the verdicts behind it, with reasons, where a judge read them."""
    declined = abstains(one), abstains(other)
    if any(declined):
        return TIED if all(declined) else LOST if declined[0] else WON, Places(), ""
    places, reasons = await _judged(pipeline, example, one, other, first=first)
    verdicts = {verdict for verdict in places if verdict is not None}
    return verdicts.pop() if len(verdicts) == 1 else TIED, places, reasons


async def _judged(
    pipeline: Pipeline, example: Example, one: str, other: str, *, first: bool
) -> tuple[Places, str]:
    """The judge's verdicts on one answer against another, in one order or in both, and its reasons."""

    async def as_first() -> tuple[float, str]:
        found = await pipeline.preferred(example.full_question, one, other)
        return RESULT_OF_FIRST[found.better], _reasons("1", found)

    async def as_second() -> tuple[float, str]:
        found = await pipeline.preferred(example.full_question, other, one)
        return WON - RESULT_OF_FIRST[found.better], _reasons("2", found)

    if pipeline.both_orders:
        (won_first, why_first), (won_second, why_second) = await gather_two(as_first(), as_second())
        return Places(won_first, won_second), " ".join(filter(None, (why_first, why_second)))
    won, why = await (as_first() if first else as_second())
    return (Places(first=won) if first else Places(second=won)), why


def _reasons(place: str, found: Preference) -> str:
    """The reasons, which speak of answer 1 and answer 2, with the number of the answer that is scored."""
    return f"(read as answer {place}) {found.explanation}" if found.explanation else ""


def arena_notes(score: Score | None) -> dict[str, Any]:
    """The share of abstentions and the measured position bias, as the report's key `arena`.

    `position_bias` is None where the verdicts do not show it. With `orders` 1, `verdicts` counts those that are no
    ties, and `first_place` is the share of them for the answer shown first. With 2, `verdicts` counts pairs,
    `flip_rate` is the share whose verdict changed with the order, and `first_place` the share of these in which an
    answer did better in the first place.
    """
    if score is None:
        return {}
    bias = place_bias(outcome.evidence.places for outcome in score.outcomes)
    return {"arena": {"no_answer_ratio": score.counts["no_answer"] / score.n, "position_bias": bias}}


def place_bias(verdicts: Iterable[Places]) -> dict[str, Any] | None:
    """The position bias that verdicts show, as in `arena_notes`."""
    places = list(verdicts)
    return _bias_in_both_orders(places) or _bias_in_one_order(places)


def _bias_in_both_orders(places: Sequence[Places]) -> dict[str, Any] | None:
    pairs = [(first, second) for first, second in places if first is not None and second is not None]
    bias = position_bias(pairs)
    if bias is None:
        return None
    return {
        "orders": 2,
        "verdicts": len(pairs),
        **_estimate("flip_rate", bias.flips),
        **_estimate("first_place", bias.first),
        "p_value": bias.p_value,
    }


def _bias_in_one_order(places: Sequence[Places]) -> dict[str, Any] | None:
    verdicts = [place.first for place in places]
    verdicts += [1 - place.second for place in places if place.second is not None]
    wins, losses = verdicts.count(WON), verdicts.count(LOST)
    share = first_place_share(wins, losses)
    if share is None:
        return None
    return {"orders": 1, "verdicts": wins + losses, **_estimate("first_place", share)}


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {name: None, f"{name}_ci95": None}
    return {name: estimate.value, f"{name}_ci95": [estimate.low, estimate.high]}


def _settings(pipeline: Pipeline, _resolved: ResolvedScore) -> dict[str, Any]:
    """The order of answers is drawn by the seed only where one order is judged."""
    return {"both_orders": pipeline.both_orders, **({} if pipeline.both_orders else {"seed": pipeline.seed})}


SCORES: Final = tuple(
    ScoreDef(
        f"arena.{part}",
        evaluate_arena,
        {"explain", "prefer"},
        settings=_settings,
        # Which answer the judge reads first depends on the other examples.
        separable=False,
        by_ids=True,
        notes=arena_notes,
        family="Arena",
        definition=definition,
        needs=("a long-form reference",),
    )
    for part, definition in (
        ("win", "1 where the judge prefers the generator's answer."),
        ("win_tie", "1 where the judge prefers the generator's answer or calls it a tie."),
    )
)
