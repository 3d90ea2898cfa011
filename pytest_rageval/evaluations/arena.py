"""The long answer against the long-form reference, in pairs: `arena.win@5` and `arena.win_tie@5`.

Source: Han et al. (2024), "RAG-QA Arena", section 4.
"""

from collections.abc import Sequence
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.context import Pipeline, Terms, gather_two
from pytest_rageval.evaluations.scoring import score_each
from pytest_rageval.fingerprint import digest
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome, Places

__all__ = ["LEAST", "evaluate_arena", "leading_half"]

WON, TIED, LOST = 1.0, 0.5, 0.0

SCORE_OF_FIRST: Final = {1: WON, 2: LOST, 0: TIED}
"""By what the judge prefers: what the answer that it read first has got."""

LEAST: Final = {"win": WON, "win_tie": TIED}
"""By score: the least that an answer must have got to count as 1."""


async def evaluate_arena(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score whether the long answer from the first k retrieved passages is better than the reference, or as good.

    The judge reads the two in one order, or in both where the run says so; then
    a verdict that changes with the order is a tie. In one order, the answer is
    first in half of the examples: see `leading_half`. An answer that abstains
    loses, one against a reference that abstains wins, and two of them tie; no judge is
    asked then. An example without a long-form `reference` is unscored.

    Beside the score, wins, ties, losses and abstentions of the answer are counted.
    """
    leading = leading_half([example.id for example in examples], run.seed)

    async def score(example: Example) -> tuple[float, Evidence]:
        # Looked at before anything is asked: an example that cannot be scored costs nothing.
        if example.reference is None:
            raise NoGroundTruth(NO_REFERENCE)
        answer = await run.long_answer(example.question, terms.k)
        ranking = await run.ranking(example.question, terms.k)
        declined = abstains(answer), abstains(example.reference)
        if any(declined):
            places, got = Places(), TIED if all(declined) else LOST if declined[0] else WON
        else:
            places = await _judged(run, example, answer, example.reference, first=example.id in leading)
            got = _settled(places)
        counts = {
            "wins": int(got == WON),
            "ties": int(got == TIED),
            "losses": int(got == LOST),
            "no_answer": int(declined[0]),
        }
        evidence = Evidence(ranking, answer, (example.reference,), counts=counts, places=places)
        return float(got >= LEAST[terms.part]), evidence

    return await score_each(examples, score)


NO_REFERENCE = "no long-form reference"


def leading_half(ids: Sequence[str], seed: int) -> frozenset[str]:
    """The examples in which the answer is read before the reference: half of them, or one more than the others.

    Those with the lower half of all digests of seed and id, so that an example
    more or less in the set changes the order of at most one other.

    >>> len(leading_half(["a", "b", "c", "d"], 0))
    2
    """
    ordered = sorted(ids, key=lambda name: digest([seed, name]))
    return frozenset(ordered[: (len(ordered) + 1) // 2])


async def _judged(run: Pipeline, example: Example, answer: str, reference: str, *, first: bool) -> Places:
    """What the judge says of the answer against the reference, in one order or in both."""

    async def as_first() -> float:
        return SCORE_OF_FIRST[await run.preferred(example.question, answer, reference)]

    async def as_second() -> float:
        return WON - SCORE_OF_FIRST[await run.preferred(example.question, reference, answer)]

    if run.both_orders:
        return Places(*await gather_two(as_first(), as_second()))
    return Places(first=await as_first()) if first else Places(second=await as_second())


def _settled(places: Places) -> float:
    """What the verdicts agree on, else a tie."""
    verdicts = {verdict for verdict in places if verdict is not None}
    return verdicts.pop() if len(verdicts) == 1 else TIED
