"""Changes of the retrieved passages since the baseline that no score of a test shows.

Recall does not see the order, scores by id do not see the texts, and no score sees the passages without a label. The
baseline has the rankings of each question, and of a sample of the passages a digest and the length of the text. What is
said needs no more searches. It is a warning, and no failure: an index with better texts is a change of this kind too.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from statistics import fmean
from typing import Final

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.gate.comparison import Comparison, ExamplePair
from pytest_rageval.lib.digests import text_digest
from pytest_rageval.reports.causes import first_gold
from pytest_rageval.run.base import TestRecord

NOTABLE: Final = 0.2  # share of the passages, or questions, from which on a change is said
MIN_GONE: Final = 5  # passages from which on it is said that they are gone
MAX_QUESTIONS: Final = 2000  # that are looked at: no more are needed to see such a share
SAMPLE: Final = 100  # passages in the baseline
DIGITS: Final = 8  # of a digest
MEANT: Final = "If it is meant, write a new baseline"

Texts = Mapping[str, tuple[str, int]]
"""The digest and the number of characters of the text of each passage, by its id; without one, by its beginning."""


def texts_of(record: TestRecord) -> Texts:
    """Return the texts of the retrieved passages, without those whose text is another one for another question."""
    rankings: dict[str, Ranking] = {}
    for runs in record.runs.values():
        for outcome in islice([] if isinstance(runs, RagevalError) else runs[0], MAX_QUESTIONS):
            ranking, question = outcome.evidence.ranking, outcome.example.id
            if ranking is not None and len(ranking) > len(rankings.get(question, ())):
                rankings[question] = ranking
    found: dict[str, tuple[str, int]] = {}
    varying = set()
    for ranking in rankings.values():
        for document in ranking:
            name, text = document.chunk_id or document.label, " ".join(document.text.split())
            value = text_digest(text)[:DIGITS], len(text)
            if found.setdefault(name, value) != value:
                varying.add(name)
    return {name: value for name, value in found.items() if name not in varying}


def sample(texts: Texts) -> list[list[object]]:
    """Return some of the passages as the baseline has them. The same ids are chosen in each run."""
    chosen = nsmallest(SAMPLE, texts, key=text_digest)
    return [[name, *texts[name]] for name in sorted(chosen)]


def change_of_texts(before: Sequence[tuple[str, str, int]], now: Texts) -> str:
    try:
        same = [(name, old, int(length), *now[name]) for name, old, length in before if name in now]
    except (TypeError, ValueError):
        return "the passages in the baseline, with the lengths of their texts, cannot be read: write a new baseline"
    changed = [(name, then, length) for name, old, then, new, length in same if new != old]
    if not changed or len(changed) < NOTABLE * len(same):
        return ""
    then, length = (fmean(column) for column in zip(*((then, now) for _, then, now in changed), strict=True))
    # The largest change tells a few other characters from a text that was lost; of two, the loss.
    most, was, is_now = max(changed, key=lambda each: (abs(each[1] - each[2]), each[1] - each[2]))
    characters = (
        f"{then:.0f} characters on average, each as many as before"
        if was == is_now
        else f"{then:.0f} → {length:.0f} characters on average, most of all {most:.60}: {was} → {is_now}"
    )
    names = "beginnings" if all(name.startswith('"') for name, *_ in before) else "ids"
    return (
        f"the texts of {len(changed) / len(same):.0%} of the retrieved passages changed under the same {names} "
        f"({characters}). Scores by id do not show it. {MEANT}"
    )


def changes_of_rankings(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what changed in the rankings, of the deepest of the scores that are compared."""
    pairs = max(
        map(_ranked, comparisons),
        key=lambda each: (max((ranking.k for _, ranking in each), default=0), len(each)),
    )
    if not pairs:
        return
    k, n = max(ranking.k for _, ranking in pairs), len(pairs)
    short, was_short = (
        sum(size < k for size in sizes)
        for sizes in zip(
            *((len(ranking), len(pair.old_ranking or ())) for pair, ranking in pairs), strict=True
        )
    )
    if short - was_short >= NOTABLE * n:
        yield (
            f"fewer than {k} different passages were found in {short} of {n} searches, and in {was_short} in the "
            f"baseline. {MEANT}"
        )
    drops = [comparison.drops_by_id for comparison in comparisons]
    unseen = [
        (pair, ranking)
        for pair, ranking in pairs
        if not any(each.get(pair.outcome.example.id) for each in drops)
    ]
    yield from _change_of_order([pair for pair, _ in unseen], n, k)
    gone = _gone([(pair.old_ranking or (), ranking.labels) for pair, ranking in pairs])
    if gone:
        yield (
            f"{gone} passages that the baseline's searches found are found by none now: is the index complete? {MEANT}"
        )
    # Where a score rose, other passages are what was wanted.
    elif unseen and all(comparison.drop >= 0 for comparison in comparisons):
        new = fmean(
            len({*ranking.labels}.difference(pair.old_ranking or ())) / max(len(ranking), 1)
            for pair, ranking in unseen
        )
        if new >= NOTABLE:
            yield (
                f"{new:.0%} of the first {k} passages are others than in the baseline, where no score changed: another "
                f"filter, index or model? rbo@{k} gates it. {MEANT}"
            )


def _ranked(comparison: Comparison) -> list[tuple[ExamplePair, Ranking]]:
    pairs = ((pair, pair.outcome.evidence.ranking) for pair in islice(comparison.pairs, MAX_QUESTIONS))
    return [
        (pair, ranking) for pair, ranking in pairs if pair.old_ranking is not None and ranking is not None
    ]


def _gone(searches: Sequence[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Return how many passages are gone from the index, as "14 of 40"; empty if few are, or others outrank them.

    Another order drops passages too, and in a large index no other search finds them. It moves the others. Where
    passages are gone, those behind them move up, and new ones come last.
    """
    found = {label for _, labels in searches for label in labels}
    before = {label for old, _ in searches for label in old}
    gone = before - found
    if len(gone) < max(NOTABLE * len(before), MIN_GONE):
        return ""
    moved_up = []
    for old, now in searches:
        kept = [label for label in old if label in found]
        # A ranking that lost its end, or keeps one passage, says nothing: a better order can do that.
        if len(kept) > 1 and kept != [*old[: len(kept)]]:
            moved_up.append({*kept} <= {*now[: len(kept)]})
    return f"{len(gone)} of {len(before)}" if sum(moved_up) > len(moved_up) / 2 else ""


def _change_of_order(unseen: Sequence[ExamplePair], n: int, k: int) -> Iterator[str]:
    ranks = [rank for pair in unseen if (rank := first_gold(pair.outcome, pair)) is not None]
    moved = [(rank.then, rank.now) for rank in ranks if rank.then is not None and rank.now is not None]
    fell = [(then, now) for then, now in moved if now > then]
    if len(fell) - sum(now < then for then, now in moved) >= max(NOTABLE * n, 1):
        then, now = (fmean(column) for column in zip(*fell, strict=True))
        yield (
            f"the first gold passage fell in {len(fell)} of {n} questions, from rank {then:.1f} to {now:.1f} on "
            f"average, and no score of the test shows it: add ndcg@{k}. {MEANT}"
        )
