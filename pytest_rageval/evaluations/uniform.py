"""A judge that says the same of everything: its scores stay where they are, whatever the retriever loses."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pytest_rageval.evaluations.run import Run
from pytest_rageval.measures.labels import GoldMatch
from pytest_rageval.scores import Outcome, Score

__all__ = ["FEWEST", "uniform_judge"]

FEWEST: Final = 30
"""So many verdicts that are all yes, or all no, are no chance; of fewer they may be."""

WORDS: Final = {1.0: "yes", 0.0: "no"}


def uniform_judge(run: Run, scores: Iterable[Score], moved: Collection[str]) -> str:
    """What a reader should know of a judge that gave one verdict for everything; empty where it did not.

    Where the rankings behind these verdicts are all as good, as in the baseline, that may be as it should.

    Args:
        run: that the scores are of.
        scores: of a test.
        moved: the questions of which one of these scores differs from its baseline.
    """
    outcomes = [outcome for score in scores for outcome in score.outcomes]
    examples = {outcome.example.question for outcome in outcomes}
    verdicts = [(question, verdict) for question, verdict in run.verdicts if question in examples]
    said = {verdict for _, verdict in verdicts}
    if len(verdicts) < FEWEST or len(said) > 1 or not said <= WORDS.keys():
        return ""
    judged = {question for question, _ in verdicts}
    found = set(_recalls(run, (outcome for outcome in outcomes if outcome.example.question in judged)))
    if len(found) < 2 and judged.isdisjoint(moved):  # noqa: PLR2004 - they differ
        return ""
    return (
        f"the judge said {WORDS[said.pop()]} {len(verdicts)} times and never anything else, though the rankings behind "
        "it differ in what they find: it may not tell right from wrong. Hold it against people's labels "
        "(rageval_calibration), or name another with --rageval-judge-model or --rageval-comparator"
    )


def _recalls(run: Run, outcomes: Iterable[Outcome]) -> Iterator[float]:
    """The share of its gold passages that each ranking holds."""
    for outcome in outcomes:
        relevant, ranking = outcome.example.relevant, outcome.evidence.ranking
        if relevant and ranking is not None:
            match = GoldMatch(ranking, outcome.example.gold, run.match_share)
            yield sum(label > 0 for label in match.labels) / len(relevant)
