"""Warns of a judge that gives the same verdict on everything, although the rankings differ in what they find."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.core.outcome import Outcome, Score
    from pytest_rageval.run.judged import JudgedTest

MIN_UNIFORM_VERDICTS: Final = 30  # from these on equal verdicts are unlikely to be chance


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    scores, verdicts = test.report.scores, test.record.verdicts
    if not (scores and verdicts):
        return {}
    moved = {
        pair.outcome.example.full_question
        for result in test.judged
        if result.comparison
        for pair in result.comparison.changed_pairs
    }
    match_share = test.session.settings.match_share
    text = _uniform_judge_warning(verdicts, scores, moved, match_share=match_share)
    return {"warnings": [text]} if text else {}


def _uniform_judge_warning(
    verdicts: Sequence[tuple[str, float]],
    scores: "Sequence[Score]",
    moved: Collection[str],
    *,
    match_share: float,
) -> str:
    """Return a warning if the judge gave the same verdict on everything; otherwise an empty text.

    There is no warning if all rankings have the same recall and no question moved, because then the verdicts may be
    right. `verdicts` have their questions. `moved` are the questions of which a score differs from its baseline.
    """
    questions = {outcome.example.full_question for score in scores for outcome in score.outcomes}
    count, values = 0, set[float]()
    for question, verdict in verdicts:
        if question in questions:
            count += 1
            values.add(verdict)
    if count < MIN_UNIFORM_VERDICTS or len(values) > 1 or not values <= {0.0, 1.0}:
        return ""
    judged = questions.intersection(question for question, _ in verdicts)
    if judged.isdisjoint(moved):
        outcomes = (outcome for score in scores for outcome in score.outcomes)
        recalls = _recalls(
            (outcome for outcome in outcomes if outcome.example.full_question in judged), match_share
        )
        first = next(recalls, None)
        if all(recall == first for recall in recalls):
            return ""
    word = "yes" if values.pop() else "no"
    return (
        f"the judge said {word} {count} times and never anything else, although the rankings differ in what "
        "they find: it may not tell right from wrong. Compare it with human labels (rageval_calibration), or choose "
        "another judge with --rageval-judge-model or --rageval comparator=EXPRESSION"
    )


def _recalls(outcomes: "Iterable[Outcome]", match_share: float) -> Iterator[float]:
    """Yield the recall of each ranking once; several scores may have the same ranking."""
    # Hashes, since 100,000 pairs would take 12 MB more.
    seen: set[int] = set()
    for outcome in outcomes:
        example, ranking = outcome.example, outcome.evidence.ranking
        if ranking is None or (pair := hash((id(example), id(ranking)))) in seen:
            continue
        seen.add(pair)
        if outcome.evidence.recall is not None:
            yield outcome.evidence.recall
        elif relevant := example.relevant:
            from pytest_rageval.scores.gold_matching import GoldMatch  # noqa: PLC0415 - as above

            labels = GoldMatch(ranking, example.gold, match_share).labels
            yield len([label for label in labels if label > 0]) / len(relevant)
