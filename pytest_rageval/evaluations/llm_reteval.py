"""LLM-retEval: would this generator have given the same answer with an ideal retriever?

Where Recall@k and the verdict disagree, triage says which of them erred, and who lost the question.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.errors import NoGroundTruth, Planned, Unscored
from pytest_rageval.evaluations.context import (
    Pipeline,
    Terms,
    gather_all,
    gather_two,
    gold_passages,
    references_of,
)
from pytest_rageval.evaluations.ranking import measured
from pytest_rageval.evaluations.scoring import score_each
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.measures.near_duplicates import near_duplicate
from pytest_rageval.model import Example, Ranking
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["YES", "Facts", "case_of", "evaluate_llm_reteval", "facts_of", "lost_by"]

YES: Final = 0.5
"""A graded verdict is a yes from here on; of the judge's grades, 3: the main point is there."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the reference answers say of an example; None is "not known".

    Attributes:
        correct: whether the answer from the retrieved passages is right.
        semi_gold_correct: whether any answer from the gold passages is.
        partly: whether these are some of several right answers, and the answer is another one.
        near_duplicate: whether a retrieved passage is a near-duplicate of a gold one.
    """

    correct: bool | None = None
    semi_gold_correct: bool | None = None
    partly: bool | None = None
    near_duplicate: bool = False


def case_of(facts: Facts, *, gold_retrieved: bool, yes: bool) -> str | None:
    """The letter of a disagreement; None where there is none, or where the facts do not tell.

    >>> case_of(Facts(correct=False), gold_retrieved=True, yes=False)
    'C'
    """
    if gold_retrieved == yes or facts.correct is None:
        return None
    if gold_retrieved and not facts.correct:
        return "C"
    if facts.correct and not gold_retrieved:
        return "B" if facts.near_duplicate else "A"
    # What is left are the errors of LLM-retEval.
    if gold_retrieved and facts.partly:
        return "E"
    if facts.semi_gold_correct is None or (gold_retrieved and facts.partly is None):
        return None
    return "F" if facts.semi_gold_correct else "D"


def lost_by(case: str | None, facts: Facts, *, recall: float, yes: bool, others: bool) -> str | None:
    """Who lost a question whose verdict is no; None where it is yes.

    "judge": the answer is right. "retriever": of the gold passages, some are not
    in the list, or none. Where all of them are: "distraction": the generator can
    answer from them alone, and other passages led it astray; "generator": it
    cannot, or there were no others. Else "not known".

    Args:
        case: of `case_of`.
        facts: likewise.
        recall: the share of the gold passages that was retrieved.
        yes: whether the verdict is.
        others: whether a passage that is no gold one was in the prompt.
    """
    if yes:
        return None
    if case in {"D", "E", "F"}:
        return "judge"
    if recall < 1:
        return "retriever"
    if case != "C" or (others and facts.semi_gold_correct is None):
        return "not known"
    return "distraction" if others and facts.semi_gold_correct else "generator"


async def facts_of(  # noqa: PLR0913 - what there is to know
    run: Pipeline,
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
    each = await gather_all(_holds(run.correct(example, references, said, comparator)) for said in semi_gold)
    semi_gold_correct = _any(each)
    partly: bool | None = False
    # Of alternatives only an answer that is right is a part; of an answer set also one that is not all.
    if gold_retrieved and correct is not False and (semi_gold_correct is not False or not references):
        partly = await _partly(run, example, answer, semi_gold, comparator)
    return Facts(correct, semi_gold_correct, partly, near)


async def _partly(
    run: Pipeline, example: Example, answer: str, semi_gold: Sequence[str], comparator: str | None
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
        theirs = _any(await gather_all(said(aliases, text) for text in semi_gold))
        if ours is False or theirs:
            return False, theirs
        return (None if ours is None or theirs is None else True), theirs

    found = await gather_all(map(missed, wanted))
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


BESIDE: Final = ("recall", "precision", "f1")
"""The ranking measures that are shown beside it."""


async def evaluate_llm_reteval(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Compare the answer from the retrieved passages with those from the gold passages.

    The score of an example is the comparator's verdict, in [0, 1]; of the set,
    its mean: the share of questions that the retriever did not lose.

    Unscored: an example without gold passages or without their text; one whose
    semi-gold answers all abstain, since the generator cannot answer it even
    with an ideal retriever; one for which a model gave no usable reply. An
    abstention from the retrieved passages is 0 where the gold ones gave an answer.

    Where the verdict and Recall@k disagree, the reference answers tell the
    case; where a question is lost, also by whom (`triage`). That asks for more
    verdicts, on disagreements alone; what is unscored there leaves the score as it is.

    Beside it, over the scored examples: recall, precision and F1 of the same rankings against gold, which
    cost nothing. Answer correctness asks the judge once more for each example, and is a score of its own,
    `answer.correct`.

    Source: Alinejad et al. (2024), section 2.2; three semi-gold samples at
    temperature 0.5.
    """
    matches: dict[str, GoldMatch] = {}

    async def score(example: Example) -> Outcome:
        # Looked at before anything is asked: an example that cannot be scored costs nothing.
        gold_passages(example)
        semi_gold, answer = await gather_two(run.semi_gold(example), run.answer(example.question, terms.k))
        references = tuple(dict.fromkeys(said for said in semi_gold if not abstains(said)))
        if not references:
            reason = "the generator abstains even with the gold passages"
            raise NoGroundTruth(reason)
        ranking = await run.ranking(example.question, terms.k)
        match = GoldMatch(ranking, example.gold, run.match_share)
        matches[example.id] = match
        found = sum(label > 0 for label in match.labels)
        retrieved, recall = found > 0, found / len(example.relevant)
        evidence = Evidence(ranking, answer, references, "with gold", recall, counts=match.counts)

        comparator = terms.comparator
        facts = partial(
            facts_of,
            run,
            example,
            answer,
            references,
            ranking,
            gold_retrieved=retrieved,
            comparator=comparator,
        )
        declined = abstains(answer)
        try:
            same = 0.0 if declined else await run.same(example.question, references, answer, comparator)
        except Planned:
            # Whether a run disagrees with recall is not known: what it then asks is counted.
            await facts()
            raise
        yes = same >= YES
        known = await facts() if yes != retrieved else Facts()
        case = case_of(known, gold_retrieved=retrieved, yes=yes)
        others = any(not gold for gold in match.positions)
        lost = lost_by(case, known, recall=recall, yes=yes, others=others)
        return Outcome(example, same, None, evidence, case=case, lost_by=lost)

    return _with_figures(await score_each(examples, score), matches, terms.k)


def _with_figures(outcomes: list[Outcome], matches: Mapping[str, GoldMatch], k: int) -> list[Outcome]:
    """The outcomes, with the ranking measures of those that have a value."""
    scored = [outcome.example for outcome in outcomes if outcome.value is not None]
    found = [(example, matches[example.id]) for example in scored]
    figures = {f"{name}@{k}": measured(name, found, k) for name in BESIDE}
    rows = iter(zip(*figures.values(), strict=True))
    return [
        outcome
        if outcome.value is None
        else replace(
            outcome, evidence=replace(outcome.evidence, beside=dict(zip(figures, next(rows), strict=True)))
        )
        for outcome in outcomes
    ]
