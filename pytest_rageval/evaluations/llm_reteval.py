"""LLM-retEval: would this generator have given the same answer with an ideal retriever?

Where Recall@k and the verdict disagree, triage finds which of them erred, and what lost the question.
"""

from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.concurrency.gathering import gather_all, gather_two
from pytest_rageval.datatypes import Example, Ranking
from pytest_rageval.errors import NoGroundTruth, Planned, Unscored
from pytest_rageval.evaluations.pipeline import Pipeline, ResolvedScore, gold_passages, references_of
from pytest_rageval.evaluations.ranking import row_of
from pytest_rageval.evaluations.scoring import GOLD_TEXTS, ScoreDef, score_in_turn
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.measures.gold_measures import GOLD_MEASURES, GoldRanks
from pytest_rageval.measures.near_duplicates import near_duplicate
from pytest_rageval.scores import NOTHING, YES, Evidence, Outcome, Score
from pytest_rageval.stats.agreement import spearman_rho

__all__ = ["SCORES", "ReferenceChecks", "case_of", "lost_by", "triage_notes"]

COMPANIONS: Final = ("recall", "precision", "f1")
"""The ranking measures that are shown with the score."""

RECALL_ERRED: Final = {"A", "B", "C"}
"""The cases that "refined" leaves out (Alinejad et al. 2024, section 4.3)."""


async def evaluate_llm_reteval(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Compare the answer from the retrieved passages with those from the gold passages.

    The score of an example is the comparator's verdict, in [0, 1]; their mean is the share of questions that the
    retriever did not lose. An abstention from the retrieved passages is 0 where the gold ones gave an answer.

    Unscored: an example without gold passages or without their text; one whose semi-gold answers all abstain, since
    the generator cannot answer it with an ideal retriever; one for which a model gave no usable reply.

    Where the verdict and Recall@k disagree, the reference answers determine the case (`case_of`) and what lost the
    question (`lost_by`). That needs more verdicts; one that is missing leaves the score as it is. Recall, precision
    and F1 of the same rankings are shown with the score.

    Source: Alinejad et al. (2024), section 2.2; by default three semi-gold samples at temperature 0.5.
    """

    async def score(example: Example) -> Outcome:
        # Before anything is asked: an example that cannot be scored costs nothing.
        gold_passages(example)
        semi_gold, (ranking, answer) = await gather_two(
            pipeline.semi_gold(example), pipeline.ranking_and_answer(example, resolved.k)
        )
        references = tuple(text for text in dict.fromkeys(semi_gold) if not abstains(text))
        if not references:
            raise NoGroundTruth("the generator abstains even with the gold passages")
        match = GoldMatch(ranking, example.gold, pipeline.match_share)
        found = len([label for label in match.labels if label > 0])
        retrieved, recall = found > 0, found / len(example.relevant)
        beside = _companions(row_of(example, match, resolved.k), resolved.k)
        evidence = Evidence(
            ranking, answer, references, "with gold", recall, beside=beside, counts=match.counts or NOTHING
        )

        def check() -> Awaitable[ReferenceChecks]:
            triage = _Triage(pipeline, example, answer, references, resolved.comparator)
            return triage.checks(ranking, gold_retrieved=retrieved)

        try:
            same = 0.0
            if not abstains(answer):
                same = await pipeline.same(example.full_question, references, answer, resolved.comparator)
        except Planned:
            # A plan does not know whether the verdict disagrees with recall: it counts these requests too.
            await check()
            raise
        yes = same >= YES
        checks = await check() if yes != retrieved else UNCHECKED
        case = case_of(checks, gold_retrieved=retrieved, yes=yes)
        others = not yes and any(not gold for gold in match.positions)
        lost = lost_by(case, checks, recall=recall, yes=yes, others=others)
        return Outcome(example, same, None, evidence, case=case, lost_by=lost)

    return await score_in_turn(pipeline, examples, score)


@lru_cache(maxsize=1 << 10)
def _companions(row: GoldRanks, k: int) -> Mapping[str, float]:
    """The ranking measures that are shown with the score; examples with equal rows, which are many, share them."""
    return {f"{name}@{k}": GOLD_MEASURES[name](row) for name in COMPANIONS}


@dataclass(frozen=True, slots=True)
class ReferenceChecks:
    """The answers to an example compared with its reference answers; None is "not known".

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


UNCHECKED: Final = ReferenceChecks()
"""Nothing is known: verdict and Recall@k agree, or there are no reference answers."""


def case_of(checks: ReferenceChecks, *, gold_retrieved: bool, yes: bool) -> str | None:
    """The letter of a disagreement of Recall@k and verdict; None without one, or where it is not known.

    >>> case_of(ReferenceChecks(correct=False), gold_retrieved=True, yes=False)
    'C'
    """
    if gold_retrieved == yes or checks.correct is None:
        return None
    if gold_retrieved and not checks.correct:
        return "C"
    if checks.correct and not gold_retrieved:
        return "B" if checks.near_duplicate else "A"
    # The others are errors of LLM-retEval.
    if gold_retrieved and checks.partly:
        return "E"
    if checks.semi_gold_correct is None or (gold_retrieved and checks.partly is None):
        return None
    return "F" if checks.semi_gold_correct else "D"


def lost_by(
    case: str | None, checks: ReferenceChecks, *, recall: float, yes: bool, others: bool
) -> str | None:
    """What lost a question whose verdict is no; None where it is yes.

    "judge": the answer is right. "retriever": not all of the gold passages are in the list. Where they are:
    "distraction", if the generator can answer from them alone and others led it astray; "generator", if it cannot,
    or there were no others. Else "not known".

    Args:
        case: of `case_of`.
        checks: likewise.
        recall: the share of the gold passages that was retrieved.
        yes: whether the verdict is yes.
        others: whether the prompt held a passage that is not gold.
    """
    if yes:
        return None
    if checks.correct or case in {"D", "E", "F"}:
        return "judge"
    if recall < 1:
        return "retriever"
    if case != "C" or (others and checks.semi_gold_correct is None):
        return "not known"
    return "distraction" if others and checks.semi_gold_correct else "generator"


@dataclass(frozen=True, slots=True)
class _Triage:
    """The answer and those from the gold passages, to compare with the reference answers.

    Nothing is asked that no longer matters. An unscored comparison is "not known" and does not end the rest, so that
    a plan, which knows no verdict, counts all that a run may ask.
    """

    run: Pipeline
    example: Example
    answer: str
    semi_gold: Sequence[str]
    comparator: str | None

    async def checks(self, ranking: Ranking, *, gold_retrieved: bool) -> ReferenceChecks:
        example, references = self.example, references_of(self.example)
        if not references and not example.answer_set:
            return UNCHECKED
        near = not gold_retrieved and _has_near_duplicate(ranking, example)

        async def is_right(text: str) -> bool | None:
            return await _is_yes(self.run.correct(example, text, self.comparator))

        correct = await is_right(self.answer)
        if correct and not gold_retrieved:
            return ReferenceChecks(correct, near_duplicate=near)
        semi_gold_correct = _any(await gather_all(map(is_right, self.semi_gold)))
        partly: bool | None = False
        # Of alternatives only an answer that is right is a part; of an answer set also one that is not all.
        if gold_retrieved and correct is not False and (semi_gold_correct is not False or not references):
            partly = await self._partly(references)
        return ReferenceChecks(correct, semi_gold_correct, partly, near)

    async def _partly(self, references: Sequence[str]) -> bool | None:
        """Whether the answer is a right one that no answer from the gold passages is, and these are another."""
        wanted = [(reference,) for reference in references] or self.example.answer_set
        if len(wanted) == 1:
            return False

        async def says(text: str, aliases: Sequence[str]) -> bool | None:
            return await _is_yes(self.run.same(self.example.full_question, aliases, text, self.comparator))

        async def missed(aliases: Sequence[str]) -> tuple[bool | None, bool | None]:
            """Whether the answer alone says it, and whether one from the gold passages does."""
            ours = await says(self.answer, aliases)
            if ours is False and references:
                return False, False
            theirs = _any(await gather_all(says(text, aliases) for text in self.semi_gold))
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


async def _is_yes(comparison: Awaitable[float]) -> bool | None:
    """Whether a comparison says yes; None without a verdict."""
    try:
        return await comparison >= YES
    except Unscored:
        return None


def _any(values: Iterable[bool | None]) -> bool | None:
    """Kleene's disjunction; None is "not known"."""
    known = list(values)
    if True in known:
        return True
    return None if None in known else False


def triage_notes(score: Score | None) -> dict[str, Any]:
    """The counts of the cases, and Spearman's rho of verdicts and Recall@k, as the keys `cases` and `spearman`.

    "refined" leaves out the questions where recall erred: those of case A, B and C. It is None where verdict and recall
    disagree on questions, and of none of these the case is known.
    """
    outcomes = () if score is None else score.outcomes
    cases = Counter(outcome.case for outcome in outcomes if outcome.case is not None)
    known = bool(cases) or not any(map(_disagrees, outcomes))
    refined = [outcome for outcome in outcomes if known and outcome.case not in RECALL_ERRED]
    return {
        "cases": dict(sorted(cases.items())),
        "spearman": {"all": _spearman(outcomes), "refined": _spearman(refined)},
    }


def _disagrees(outcome: Outcome) -> bool:
    """Whether the verdict is yes without a gold passage, or no with one."""
    recall = outcome.evidence.recall
    return outcome.value is not None and recall is not None and (outcome.value >= YES) != (recall > 0)


def _spearman(outcomes: Sequence[Outcome]) -> float | None:
    pairs = [
        (outcome.value, outcome.evidence.recall)
        for outcome in outcomes
        if outcome.value is not None and outcome.evidence.recall is not None
    ]
    return spearman_rho([value for value, _ in pairs], [recall for _, recall in pairs])


SCORES: Final = (
    ScoreDef(
        "llm_reteval",
        evaluate_llm_reteval,
        {"generate", "compare"},
        corrected_by="answers",
        notes=triage_notes,
        family="LLM-retEval",
        definition="The judge's verdict whether the answer from the first k retrieved passages says the same as "
        "one of the answers from the gold passages.",
        needs=(GOLD_TEXTS,),
        semi_gold=True,
    ),
)
