"""Do the retrieved passages contain enough to answer the question?

The judge reads the question and the first k passages, gives its reasons, and says whether they are enough for a
definite answer. They may have to be combined; a step that has to be guessed, or an ambiguity that they leave open,
makes them insufficient. Failures and the JSON report show the reasons. Neither gold passages, references nor a
generator are needed: an eval set of questions alone is enough. A list without passages scores 0.

If the same test has a threshold on `answer.correct` or `llm_reteval` with the same k, the report shows how many answers
are correct, wrong or abstentions, with sufficient and with insufficient context. A wrong answer is lost by the
generator if the context was sufficient, and by the retriever if it was not. See
[](../explanation/methods.md#sufficient-context).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import JudgeTask, Verdict
from pytest_rageval.answers.judge.replies import parse_explained_yes_no
from pytest_rageval.answers.judge.tasks import explained, majority, read_explained, require_result
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence, Outcome
from pytest_rageval.core.ranking import texts_of
from pytest_rageval.lib.foreign_values import as_share
from pytest_rageval.options import DEFAULT_MATCH_SHARE
from pytest_rageval.scores.definition import Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

SUFFICIENT: Final = "sufficient"
"""The name of the score, and of the stratum of questions with sufficient context."""

RESULTS: Final = ("correct", "wrong", "abstained")
"""The results of an answer that are counted in each stratum."""


ALLOWED: Final = (
    "Return True or False, a number between 0 and 1, (one of these, explanation), or None for no verdict."
)

ENOUGH: Final = JudgeTask(
    name="sufficient",
    template="sufficiency",
    texts=("question", "passages*"),
    parse=parse_explained_yes_no,
    vote=partial(explained, majority),
    read=partial(read_explained, number_of=lambda value: as_share(require_result(value)), allowed=ALLOWED),
    call="sufficient(question, passages), which the score sufficient needs",
    returns="True or False, and perhaps why",
    decides="Whether passages are enough for an answer",
    instead="leave out the score sufficient",
    is_yes_no=True,
    by_majority=True,
)
"""1 if the passages, best first, are together enough to answer the question, else 0."""


@each_example
async def evaluate_sufficient(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    verdict = Verdict(0.0, "Nothing was retrieved.")
    if ranking:
        verdict = await pipeline.ask(ENOUGH, example.full_question, texts_of(ranking))
    return verdict.value, Evidence(ranking, explanation=verdict.explanation)


def stratify_answers(context: Iterable[Outcome], answers: Iterable[Outcome]) -> dict[str, object]:
    """Return the numbers of correct, wrong and abstaining answers with "sufficient" and with "insufficient" context.

    `context` are the outcomes of the score `sufficient`. Questions without a verdict on the context or on the answer
    are counted as "left_out".
    """
    verdicts = {outcome.example.id: outcome.value for outcome in context}
    strata = {name: dict.fromkeys(RESULTS, 0) for name in (SUFFICIENT, "insufficient")}
    left_out = 0
    for answer in answers:
        verdict = verdicts.get(answer.example.id)
        if verdict is None or answer.value is None:
            left_out += 1
        else:
            strata[SUFFICIENT if verdict >= YES_THRESHOLD else "insufficient"][_result(answer)] += 1
    return {**strata, "left_out": left_out}


def _result(outcome: Outcome) -> str:
    if outcome.value is not None and outcome.value >= YES_THRESHOLD:
        return "correct"
    return "abstained" if abstains(outcome.evidence.answer or "") else "wrong"


def blame_outcomes(
    answers: Sequence[Outcome], context: Iterable[Outcome], match_share: float = DEFAULT_MATCH_SHARE
) -> list[Outcome]:
    """Return the outcomes of a score of answers, with `lost_by` of wrong answers set by the verdict on the `context`.

    The cause is the generator if the context was sufficient. If it was insufficient, the cause is the retriever; but if
    all gold passages were retrieved, it is "not known". A cause that LLM-retEval has determined from gold passages and
    reference answers is not changed: "judge", "distraction" or "generator".
    """
    contexts = {outcome.example.id: outcome for outcome in context}
    return [_blame_outcome(answer, contexts.get(answer.example.id), match_share) for answer in answers]


def _blame_outcome(answer: Outcome, context: Outcome | None, match_share: float) -> Outcome:
    is_known = answer.lost_by in {"judge", "distraction", "generator"}
    if is_known or context is None or context.value is None:
        return answer
    if answer.value is None or answer.value >= YES_THRESHOLD:
        return answer
    if context.value >= YES_THRESHOLD:
        return replace(answer, lost_by="generator")
    gold, ranking = context.example.relevant, context.evidence.ranking
    all_found = gold and ranking is not None and all(GoldMatch(ranking, gold, match_share).found)
    return replace(answer, lost_by="not known" if all_found else "retriever")


def strata_text(entry: Mapping[str, Any]) -> str:
    """Return the verdicts on answers by stratum of contexts."""
    return "; ".join(
        f"{strata['score']} by context: {_stratum_counts_text(strata)}" for strata in entry["strata"]
    )


def _stratum_counts_text(strata: Mapping[str, object]) -> str:
    texts = []
    for name, counts in strata.items():
        if not isinstance(counts, Mapping):
            continue
        others = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("wrong", "abstained"))
        n = sum(counts.values())
        texts.append(f"{name} {counts['correct']} of {n} correct, {others}" if n else f"{name} 0")
    left_out = strata["left_out"]
    return "; ".join(texts) + (f"; {left_out} without one of the verdicts" if left_out else "")


FAMILY: Final = Family(
    "Sufficient context",
    __doc__,
    requests="1 verdict",
    source="Joren et al. (2025), section 3; our own prompt.",
    example=WorkedExample(
        text="The judge finds the passages enough.",
        k=2,
        record={"question": "Where is the company based?"},
        retrieved=("x", "y"),
        judge={"sufficient": True},
    ),
)

SCORES: Final = (
    ScoreDef(
        SUFFICIENT,
        evaluate_sufficient,
        {ENOUGH},
        definition="The judge's verdict whether the first k passages contain enough to answer the question.",
        worked=(1.0, "the verdict"),
        strata=stratify_answers,
    ),
)
