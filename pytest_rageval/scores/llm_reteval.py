"""Does the generator give the same answer as with the gold passages?

A retriever that found the answer in another passage loses nothing; a retriever whose passages mislead the generator
does. An abstention from the retrieved passages scores 0. A question is unscored if the generator abstains even with the
gold passages. A gold passage that has only an id has the text of the document with this id, if the retriever returned
it for any question of the eval set; bounds count a question whose gold it did not return as lost. Below the score are
its *ceiling*, recall, precision and F1 of the same rankings, the [cases](terminal-table.md) in which verdict and recall
disagree, and the cause of each lost question.

The ceiling says how often the generator is right with the gold passages. A verdict "yes" means only that the answer is
the same; with a weak generator both answers may be wrong. Right is what the canonical comparison, or a comparator that
sends no requests, finds in the reference answers.
"""

from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.calls.gathering import gather_all, gather_two
from pytest_rageval.core.errors import NoGroundTruth, Planned, Unscored
from pytest_rageval.core.evalset import EMPTY_MAPPING, Example
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted
from pytest_rageval.scores.definition import GOLD_TEXTS, Family, ScoreDef, WorkedExample, score_with_progress
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.measures import MEASURES, Labelled
from pytest_rageval.scores.near_duplicates import near_duplicate
from pytest_rageval.scores.pipeline import (
    Pipeline,
    ResolvedScore,
    has_references,
    references_of,
    retrieved_gold_texts,
)
from pytest_rageval.scores.ranking import gold_ranks
from pytest_rageval.stats.agreement import format_rho, spearman_rho

COMPANIONS: Final = ("recall", "precision", "f1")  # ranking measures that are reported with the score

FAILURES: Final = {
    "recall failures": {
        "A": "another passage has the answer",
        "B": "a near-duplicate of gold has it",
        "C": "gold retrieved, wrong answer",
    },
    "LLM-retEval failures": {
        "D": "answers with gold are wrong",
        "E": "answers with gold lack right ones",
        "F": "the comparison of answers",
    },
}
"""The rows of the paper's Table 1: for each measure, the cases in which it failed."""

RECALL_ERRED: Final = frozenset(FAILURES["recall failures"])
"""The cases in which recall erred. "Refined" correlations leave them out (Alinejad et al. 2024, section 4.3)."""


async def evaluate_llm_reteval(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Compare the answer from the retrieved passages with the semi-gold answers: those from the gold passages.

    The score of an example is the comparator's verdict, in [0, 1]. An abstention from the retrieved passages is 0 if
    one of the semi-gold answers is no abstention.

    Unscored: an example without gold passages or without their text; an example whose semi-gold answers all abstain,
    because the generator cannot answer it with an ideal retriever; an example for which a model gave no usable reply.

    If the verdict and Recall@k disagree, the reference answers determine the case (`case_of`) and what lost the
    question (`lost_by`). This needs further verdicts. A missing one does not change the score.

    Source: Alinejad et al. (2024), section 2.2; by default three semi-gold samples at temperature 0.5.
    """

    async def score(example: Example) -> Outcome:
        # Checked before the first request, so that an example that cannot be scored costs nothing.
        golds = await pipeline.gold.get(example, resolved.k)
        question = example.full_question
        cached = await pipeline.cached_semi_gold(question, golds)
        if cached is not None:
            semi_gold, (ranking, answer) = cached, await pipeline.ranking_and_answer(example, resolved.k)
        else:
            semi_gold, (ranking, answer) = await gather_two(
                pipeline.semi_gold(question, golds), pipeline.ranking_and_answer(example, resolved.k)
            )
        references = tuple([text for text in dict.fromkeys(semi_gold) if not abstains(text)])
        # The answers of several draws are often equal, and equal to the answer from the retrieved passages.
        right = {
            text: await _is_right(pipeline, example, text, resolved) for text in dict.fromkeys(semi_gold)
        }
        values = [right[text] for text in semi_gold]
        sizes = {} if None in values else {"answers": len(values), "right": values.count(True)}
        if not references:
            reason = "the generator abstains even with the gold passages"
            return Outcome(example, None, reason, Evidence(sizes=sizes), cause=NoGroundTruth.cause)
        match = GoldMatch(ranking, example.gold, pipeline.match_share)
        retrieved_count = len([label for label in match.labels if label > 0])
        gold_retrieved, recall = retrieved_count > 0, retrieved_count / len(golds)
        companions = _companion_values(gold_ranks(example, match, resolved.k), resolved.k)

        def check_references() -> Awaitable[ReferenceChecks]:
            triage = _Triage(pipeline, example, golds, answer, references, resolved.comparator)
            return triage.checks(ranking, gold_retrieved=gold_retrieved)

        try:
            verdict = 0.0
            if not abstains(answer):
                verdict = await pipeline.compare(question, references, answer, resolved.comparator)
        except Planned:
            # A plan has no verdict that could disagree with recall, so it counts the requests of triage too.
            await check_references()
            raise
        yes = verdict >= YES_THRESHOLD
        if yes and sizes:
            if answer not in right:
                right[answer] = await _is_right(pipeline, example, answer, resolved)
            sizes |= {} if right[answer] is None else {"yes": 1, "right_of_yes": int(right[answer] is True)}
        checks = await check_references() if yes != gold_retrieved else UNCHECKED
        case = case_of(checks, gold_retrieved=gold_retrieved, yes=yes)
        has_other_passages = not yes and any(not positions for positions in match.positions)
        cause = lost_by(case, checks, recall=recall, yes=yes, has_other_passages=has_other_passages)
        counts = {**match.counts, **retrieved_gold_texts(example)} or EMPTY_MAPPING
        evidence = Evidence(
            ranking, answer, references, "with gold", recall, counts, beside=companions, sizes=sizes
        )
        return Outcome(example, verdict, None, evidence, case=case, lost_by=cause)

    return await score_with_progress(pipeline, examples, score)


async def _is_right(
    pipeline: Pipeline, example: Example, answer: str, resolved: ResolvedScore
) -> bool | None:
    """Return whether an answer is right by the reference answers; None without any, or if they cannot be compared.

    They are compared without requests (`Pipeline.free_comparator`); an abstention is wrong.
    """
    if not has_references(example):
        return None
    free = pipeline.free_comparator(resolved.comparator)
    return await _is_yes(pipeline.correctness(example, answer, free))


@lru_cache(maxsize=1 << 10)
def _companion_values(ranks: Labelled, k: int) -> Mapping[str, float]:
    """Examples with equal ranks share one dict."""
    return {f"{name}@{k}": MEASURES[name](ranks) for name in COMPANIONS}


@dataclass(frozen=True, slots=True)
class ReferenceChecks:
    """The answers to an example compared with its reference answers; None means "not known"."""

    correct: bool | None = None  # the answer from the retrieved passages
    semi_gold_correct: bool | None = None  # at least one of the semi-gold answers
    # The semi-gold answers have only some of several right answers, and the answer has another one.
    partly: bool | None = None
    near_duplicate: bool = False  # a retrieved passage is one of a gold passage


UNCHECKED: Final = ReferenceChecks()
"""Nothing is known: the verdict and Recall@k agree, or the example has no reference answers."""


def case_of(checks: ReferenceChecks, *, gold_retrieved: bool, yes: bool) -> str | None:
    """Return the letter of the case in which Recall@k and the verdict disagree; None if they agree, or it is not known.

    >>> case_of(ReferenceChecks(correct=False), gold_retrieved=True, yes=False)
    'C'
    """
    if gold_retrieved == yes or checks.correct is None:
        return None
    if gold_retrieved and not checks.correct:
        return "C"
    if checks.correct and not gold_retrieved:
        return "B" if checks.near_duplicate else "A"
    # In the remaining cases LLM-retEval erred.
    if gold_retrieved and checks.partly:
        return "E"
    if checks.semi_gold_correct is None or (gold_retrieved and checks.partly is None):
        return None
    return "F" if checks.semi_gold_correct else "D"


def lost_by(
    case: str | None, checks: ReferenceChecks, *, recall: float, yes: bool, has_other_passages: bool
) -> str | None:
    """Return the cause of a lost question, whose verdict is no; None if the verdict is yes.

    - "judge": the answer is right.
    - "retriever": not all gold passages were retrieved.
    - "distraction": all gold passages were retrieved, and the generator can answer from them alone, but other passages
      misled it.
    - "generator": all gold passages were retrieved, and the generator cannot answer from them alone, or there were no
      other passages.
    - "not known": none of these can be determined.
    """
    if yes:
        return None
    if checks.correct or case in {"D", "E", "F"}:
        return "judge"
    if recall < 1:
        return "retriever"
    if case != "C" or (has_other_passages and checks.semi_gold_correct is None):
        return "not known"
    return "distraction" if has_other_passages and checks.semi_gold_correct else "generator"


@dataclass(frozen=True, slots=True)
class _Triage:
    """Compares the answer and the semi-gold answers of an example with its reference answers.

    A request is sent only if its result still matters. If a comparison is unscored, its result is "not known" and the
    other comparisons continue. So a plan, which has no verdicts, counts all requests that a run may send.
    """

    pipeline: Pipeline
    example: Example
    golds: Sequence[Document]
    answer: str
    semi_gold: Sequence[str]
    comparator: str | None

    async def checks(self, ranking: Ranking, *, gold_retrieved: bool) -> ReferenceChecks:
        example, references = self.example, references_of(self.example)
        if not references and not example.answer_set:
            return UNCHECKED
        has_duplicate = not gold_retrieved and any(
            near_duplicate(document.text, gold.text) for document in ranking for gold in self.golds
        )

        async def is_right(text: str) -> bool | None:
            return await _is_yes(self.pipeline.correctness(example, text, self.comparator))

        correct = await is_right(self.answer)
        if correct and not gold_retrieved:
            return ReferenceChecks(correct, near_duplicate=has_duplicate)
        semi_gold_correct = _any(await gather_all(map(is_right, self.semi_gold)))
        partly: bool | None = False
        # Semi-gold answers that are a part of the right answers are right themselves. With an answer set this need not
        # be so, because a right answer must have all answers of the set.
        if gold_retrieved and correct is not False and (semi_gold_correct is not False or not references):
            partly = await self._partly(references)
        return ReferenceChecks(correct, semi_gold_correct, partly, has_duplicate)

    async def _partly(self, references: Sequence[str]) -> bool | None:
        """Return True if the answer is a right one that no semi-gold answer has, and these have another right one."""
        wanted = [(reference,) for reference in references] or self.example.answer_set
        if len(wanted) == 1:
            return False

        async def has(text: str, aliases: Sequence[str]) -> bool | None:
            comparison = self.pipeline.compare(self.example.full_question, aliases, text, self.comparator)
            return await _is_yes(comparison)

        async def compare(aliases: Sequence[str]) -> tuple[bool | None, bool | None]:
            """Return whether only the answer has a wanted answer, and whether a semi-gold answer has it."""
            in_answer = await has(self.answer, aliases)
            if in_answer is False and references:
                return False, False
            in_semi_gold = _any(await gather_all(has(text, aliases) for text in self.semi_gold))
            if in_answer is False or in_semi_gold:
                return False, in_semi_gold
            return (None if in_answer is None or in_semi_gold is None else True), in_semi_gold

        results = await gather_all(map(compare, wanted))
        semi_gold_has_one = True if references else _any(in_semi_gold for _, in_semi_gold in results)
        only_answer_has_one = _any(only_in_answer for only_in_answer, _ in results)
        if only_answer_has_one is False or semi_gold_has_one is False:
            return False
        return None if only_answer_has_one is None or semi_gold_has_one is None else True


async def _is_yes(comparison: Awaitable[float]) -> bool | None:
    try:
        return await comparison >= YES_THRESHOLD
    except Unscored:
        return None


def _any(values: Iterable[bool | None]) -> bool | None:
    """Return the disjunction of values in Kleene's three-valued logic, in which None means "not known"."""
    known = list(values)
    if True in known:
        return True
    return None if None in known else False


def ceiling_notes(score: Score | None) -> dict[str, object]:
    """Return the report's key `ceiling`: how often the generator is right with the gold passages.

    `answers` and `right` count its answers from the gold passages, also those of questions that are unscored because it
    abstains; `yes` counts the verdicts "yes", and `right_of_yes` those whose answer is right. Empty if none is known.
    """
    outcomes = () if score is None else score.outcomes
    sizes = [outcome.evidence.sizes for outcome in outcomes if "answers" in outcome.evidence.sizes]
    names = ("answers", "right", "yes", "right_of_yes")
    return {"ceiling": {name: sum([each.get(name, 0) for each in sizes]) for name in names}} if sizes else {}


def ceiling_text(entry: JsonObject) -> str:
    """Return "the generator answers 42% right with the gold passages (51 of 120 answers); of 18 verdicts yes, …"."""
    ceiling = entry["ceiling"]
    answers, right = ceiling["answers"], ceiling["right"]
    text = f"the generator answers {right / answers:.0%} right with the gold passages ({right} of {answers} answers)"
    yes = f"; of {counted(ceiling['yes'], 'verdict')} yes, the answer is right in {ceiling['right_of_yes']}"
    return text + (yes if ceiling["yes"] else "")


def triage_notes(score: Score | None) -> dict[str, object]:
    """Return the report keys `ceiling`, `cases` (with their counts) and `spearman` (rho of verdicts and Recall@k).

    "refined" leaves out the questions on which recall erred: those of the cases A, B and C. It is None if verdict and
    recall disagree on some questions and the case of none of them is known.
    """
    outcomes = () if score is None else score.outcomes
    cases = Counter(outcome.case for outcome in outcomes if outcome.case is not None)
    disagree = any((value >= YES_THRESHOLD) != (recall > 0) for value, recall in _pairs(outcomes))
    known = bool(cases) or not disagree
    refined = [outcome for outcome in outcomes if known and outcome.case not in RECALL_ERRED]
    return {
        **ceiling_notes(score),
        "cases": dict(sorted(cases.items())),
        "spearman": {"all": _spearman(outcomes), "refined": _spearman(refined)},
    }


def _pairs(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    """Return the verdict and the recall of each question that has both."""
    return [
        (outcome.value, outcome.evidence.recall)
        for outcome in outcomes
        if outcome.value is not None and outcome.evidence.recall is not None
    ]


def _spearman(outcomes: Sequence[Outcome]) -> float | None:
    pairs = _pairs(outcomes)
    return spearman_rho([value for value, _ in pairs], [recall for _, recall in pairs])


def triage_rows(entries: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of failures by cut-off, with a column for each score of a test; empty if nothing is known.

    Without a failure a score has one line: "llm_reteval@5: Spearman with recall .58, refined .87".
    """
    counts = [entry["cases"] for entry in entries.values()]
    if not any(counts):
        texts = ((name, _spearman_text(entry)) for name, entry in entries.items())
        return [[f"{name}: {text}"] for name, text in texts if text]
    rows: list[list[str]] = []
    for measure, cases in FAILURES.items():
        rows.append([f"  {measure}", *(str(sum(each.get(case, 0) for case in cases)) for each in counts)])
        for case, reason in cases.items():
            if any(case in each for each in counts):
                rows.append([f"    {case}: {reason}", *(str(each.get(case, 0)) for each in counts)])
    for key, name in (("all", "Spearman with recall"), ("refined", "Spearman, refined")):
        rhos = [entry["spearman"][key] for entry in entries.values()]
        if any(rho is not None for rho in rhos):
            rows.append([f"  {name}", *("-" if rho is None else format_rho(rho) for rho in rhos)])
    return [["llm_reteval", *(name.removeprefix("llm_reteval") for name in entries)], *rows]


def _spearman_text(entry: Mapping[str, Any]) -> str:
    rhos = (
        f"{name} {format_rho(rho)}"
        for key, name in (("all", "with recall"), ("refined", "refined"))
        if (rho := entry["spearman"][key]) is not None
    )
    text = ", ".join(rhos)
    return f"Spearman {text}" if text else ""


FAMILY: Final = Family(
    "LLM-retEval",
    __doc__,
    requests="3 answers from the gold passages, 1 answer from the retrieved ones, 1 verdict; more verdicts if it "
    "disagrees with recall",
    source="Alinejad et al. (2024), section 2.2.",
    example=WorkedExample(
        text='From the gold passage `g` the generator answers "Tulsa". The retriever returns `x` and `y`, and from '
        'them the generator answers "in Tulsa". The judge says yes.',
        k=2,
        record={
            "question": "Where is the company based?",
            "answers": ["Tulsa"],
            "gold": [{"id": "g", "text": "Our seat is Tulsa."}],
        },
        retrieved=("x", "y"),
        says={"g": "Tulsa", "x y": "in Tulsa"},
    ),
)

SCORES: Final = (
    ScoreDef(
        "llm_reteval",
        evaluate_llm_reteval,
        {"generate", "compare"},
        corrected_by="answers",
        notes=triage_notes,
        definition="The judge's verdict whether the answer from the first k retrieved passages says the same as "
        "one of the answers from the gold passages.",
        worked=(1.0, "the verdict is yes, though `recall@2` is 0"),
        needs=(GOLD_TEXTS,),
        semi_gold=True,
    ),
)
