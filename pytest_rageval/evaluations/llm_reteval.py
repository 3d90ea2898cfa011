"""LLM-retEval: would this generator have given the same answer with an ideal retriever?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.errors import NoGroundTruth, Planned
from pytest_rageval.evaluations.at_once import both
from pytest_rageval.evaluations.facts import facts_of
from pytest_rageval.evaluations.ground_truth import gold_passages
from pytest_rageval.evaluations.ranking import measured
from pytest_rageval.evaluations.run import Run
from pytest_rageval.evaluations.scoring import score_each
from pytest_rageval.evaluations.terms import Terms
from pytest_rageval.evaluations.triage import YES, Facts, case_of, lost_by
from pytest_rageval.measures.labels import GoldMatch
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["evaluate_llm_reteval"]

BESIDE: Final = ("recall", "precision", "f1")
"""The ranking measures that are shown beside it."""


async def evaluate_llm_reteval(run: Run, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
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
        semi_gold, answer = await both(run.semi_gold(example), run.answer(example.question, terms.k))
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
