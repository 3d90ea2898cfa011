"""Names the likely cause of losses, from the rankings of the run and of the baseline alone."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pytest_rageval.core.data import Example, Ranking
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import ExamplePair
from pytest_rageval.reports.notes import count_causes
from pytest_rageval.reports.questions import Explanation

NEW_SHARE: Final = 0.5
"""From this share of ids that the baseline does not have, the index was probably rebuilt."""

MIN_SAME_TAG: Final = 3  # with fewer lost questions, a tag that they share may be chance


class _Ranks(NamedTuple):
    """The rank of the first gold passage of a question, from 1, in the baseline and now; None if it is in neither."""

    then: int | None
    now: int | None


def cause_text(explained: Sequence[tuple[Score, Explanation | None]]) -> str:
    """Return the likely cause of the losses of a test's scores; empty if nothing stands out."""
    # The rankings do not say why a time, a cost or a number of calls is too large; what the questions share may.
    low = [(score, each) for score, each in explained if each is None or each.why != "above"]
    lost_below = {outcome.example.id for _, each in low if each for outcome, _ in each.losses}
    scores = [score for score, _ in explained if lost_below and _rankings(score.outcomes)]
    # The whole set says more than a slice, and a longer ranking more than a shorter one.
    deepest = max(scores, key=lambda score: (not score.slice, _cut_off(score.outcomes)), default=None)
    losses = {
        outcome.example.id: (outcome, pair)
        for _, explanation in sorted(explained, key=lambda item: _cut_off(item[0].outcomes))
        for outcome, pair in (explanation.losses if explanation else ())
    }
    if not losses:
        return ""
    lost = [outcome for outcome, _ in losses.values()]
    texts = []
    if deepest is not None:
        comparisons = [each.comparison for score, each in explained if score is deepest and each]
        pairs = [pair for comparison in comparisons if comparison for pair in comparison.pairs]
        if not any(map(len, _rankings(deepest.outcomes))):
            return "every search returned nothing: is the index built?"
        found = [loss for name, loss in losses.items() if name in lost_below]
        texts = [*_search_causes(deepest, pairs), *_gold_causes(found)]
    counts = (
        {}
        if deepest is None
        else count_causes(outcome for score, each in explained if each for outcome, _ in each.losses)
    )
    texts += [f"lost by {', '.join(f'{cause} {count}' for cause, count in counts.items())}"] if counts else []
    tag = _common_tag([outcome.example for outcome in lost], explained)
    return "; ".join([*texts, *([tag] if tag else [])])


def _rankings(outcomes: Sequence[Outcome]) -> list[Ranking]:
    return [outcome.evidence.ranking for outcome in outcomes if outcome.evidence.ranking is not None]


def _cut_off(outcomes: Sequence[Outcome]) -> int:
    return max((ranking.k for ranking in _rankings(outcomes)), default=0)


def _search_causes(score: Score, pairs: Sequence[ExamplePair]) -> Iterator[str]:
    rankings = _rankings(score.outcomes)
    k = _cut_off(score.outcomes)
    old = [pair.old_ranking for pair in pairs if pair.old_ranking is not None]
    short, was_short = (
        sum(ranking.missing > 0 for ranking in rankings),
        sum(len(ranking) < k for ranking in old),
    )
    if short > was_short:
        before = f", {was_short} before" if old else ""
        yield f"fewer than {k} returned in {short} of {len(rankings)} searches{before}: a threshold or a filter"
    now = {label for ranking in rankings for label in ranking.labels}
    new = len(now.difference(*old)) / len(now)
    if old and new >= NEW_SHARE:
        yield f"{new:.0%} of the retrieved ids are new to the baseline: the index was rebuilt"


def _gold_causes(losses: Sequence[tuple[Outcome, ExamplePair | None]]) -> Iterator[str]:
    renamed = [name for outcome, _ in losses if (name := _renamed(outcome)) is not None]
    if renamed:
        gold, retrieved = renamed[0]
        yield f"{len(renamed)} lost: ids renamed: gold {gold!r:.60} has the text of {retrieved!r:.60}"
    ranks = [rank for outcome, pair in losses if (rank := _first_gold(outcome, pair)) is not None]
    gone = [rank for rank in ranks if rank.now is None]
    if len(renamed) < len(gone):
        k = _cut_off([outcome for outcome, _ in losses])
        yield f"{len(gone)} of {len(losses)} lost: their gold is not in the top {k} now"
    moved = [(then, now) for then, now in ranks if then is not None and now is not None and now > then]
    if moved:
        then, now = (
            f"{low}–{high}" if (low := min(n)) < (high := max(n)) else f"{low}"
            for n in zip(*moved, strict=True)
        )
        yield f"{len(moved)} lost: gold fell from rank {then} to {now}: another order"


def _renamed(outcome: Outcome) -> tuple[str, str] | None:
    """Return the id of a gold passage, and the other id under which its text was retrieved; None if it was not."""
    ranking = outcome.evidence.ranking
    ids = (
        {}
        if ranking is None
        else {" ".join(each.text.split()): each.id for each in ranking if each.id is not None}
    )
    for gold in outcome.example.relevant:
        name = ids.get(" ".join((gold.text or "").split()))
        if gold.id is not None and name is not None and name != gold.id and outcome.value == 0:
            return gold.id, name
    return None


def _first_gold(outcome: Outcome, pair: ExamplePair | None) -> _Ranks | None:
    """Return the rank of the first gold passage; None if the passages cannot be recognised by their labels."""
    ranking, gold = outcome.evidence.ranking, {gold.label for gold in outcome.example.relevant}
    old = None if pair is None else pair.old_ranking
    if ranking is None or not gold or any(gold.id is None for gold in outcome.example.relevant):
        return None
    then, now = (
        next((rank for rank, label in enumerate(labels or (), 1) if label in gold), None)
        for labels in (old, ranking.labels)
    )
    # If the baseline's ranking has none either, gold passages are matched by something else.
    return None if old is not None and then is None else _Ranks(then, now)


def _common_tag(lost: Sequence[Example], explained: Sequence[tuple[Score, Explanation | None]]) -> str:
    """Return the tag that all lost questions share, and not all questions: "all topic=devices"; else empty."""
    if len(lost) < MIN_SAME_TAG:
        return ""
    others = [outcome.example for score, _ in explained for outcome in score.outcomes]
    for tag, value in lost[0].tags.items():
        is_shared = all(example.tags.get(tag) == value for example in lost)
        if is_shared and any(example.tags.get(tag) != value for example in others):
            return f"all {tag}={value}"
    return ""
