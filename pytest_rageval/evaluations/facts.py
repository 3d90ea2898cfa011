"""What triage needs to know of an example, asked of the comparator where it makes a difference."""

from collections.abc import Awaitable, Iterable, Sequence

from pytest_rageval.errors import Unscored
from pytest_rageval.evaluations.at_once import all_of
from pytest_rageval.evaluations.ground_truth import references_of
from pytest_rageval.evaluations.run import Run
from pytest_rageval.evaluations.triage import YES, Facts
from pytest_rageval.measures.near_duplicates import near_duplicate
from pytest_rageval.model import Example, Ranking

__all__ = ["facts_of"]


async def facts_of(  # noqa: PLR0913 - what there is to know
    run: Run,
    example: Example,
    answer: str,
    semi_gold: Sequence[str],
    ranking: Ranking,
    *,
    gold_retrieved: bool,
    comparator: str | None = None,
) -> Facts:
    """Hold the answer and those with the gold passages against the reference answers.

    Nothing is asked that no longer matters. An unscored comparison is "not
    known" and does not end the rest, so that a plan, which knows no verdict,
    counts all that a run may ask.
    """
    references = references_of(example)
    if not references and not example.answer_set:
        return Facts()
    near = not gold_retrieved and _has_near_duplicate(ranking, example)
    correct = await _holds(run.correct(example, references, answer, comparator))
    if correct and not gold_retrieved:
        return Facts(correct, near_duplicate=near)
    each = await all_of(_holds(run.correct(example, references, said, comparator)) for said in semi_gold)
    semi_gold_correct = _any(each)
    partly: bool | None = False
    # Of alternatives only an answer that is right is a part; of an answer set also one that is not all.
    if gold_retrieved and correct is not False and (semi_gold_correct is not False or not references):
        partly = await _partly(run, example, answer, semi_gold, comparator)
    return Facts(correct, semi_gold_correct, partly, near)


async def _partly(
    run: Run, example: Example, answer: str, semi_gold: Sequence[str], comparator: str | None
) -> bool | None:
    """Whether the answer is a right one that no answer with the gold passages is, and these are another."""
    references = references_of(example)
    wanted = [(reference,) for reference in references] or example.answer_set
    if len(wanted) == 1:
        return False

    async def said(aliases: Sequence[str], text: str) -> bool | None:
        return await _holds(run.same(example.question, aliases, text, comparator))

    async def missed(aliases: Sequence[str]) -> tuple[bool | None, bool | None]:
        """Whether the answer alone says it, and whether one with the gold passages does."""
        ours = await said(aliases, answer)
        if ours is False and references:
            return False, False
        theirs = _any(await all_of(said(aliases, text) for text in semi_gold))
        if ours is False or theirs:
            return False, theirs
        return (None if ours is None or theirs is None else True), theirs

    found = await all_of(map(missed, wanted))
    other = True if references else _any(theirs for _, theirs in found)
    left_out = _any(alone for alone, _ in found)
    if left_out is False or other is False:
        return False
    return None if left_out is None or other is None else True


def _has_near_duplicate(ranking: Ranking, example: Example) -> bool:
    golds = [gold.text for gold in example.relevant if gold.text is not None]
    return any(near_duplicate(document.text, gold) for document in ranking for gold in golds)


async def _holds(comparison: Awaitable[float]) -> bool | None:
    """Whether a comparison says yes; None where it has no verdict."""
    try:
        return await comparison >= YES
    except Unscored:
        return None


def _any(values: Iterable[bool | None]) -> bool | None:
    """Whether one of them is true; None where one that is not known decides."""
    known = list(values)
    if True in known:
        return True
    return None if None in known else False
