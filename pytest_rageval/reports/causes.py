"""The likely cause of the losses of a test, read from its rankings now and in the baseline.

It is computed once, for the entry of the test, from which every report shows it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from pytest_rageval.baseline.entries import ScoreEntry
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import Spec
from pytest_rageval.gate.comparison import Comparison, ExamplePair
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.reports.anomalies import rankings_of
from pytest_rageval.reports.notes import count_causes
from pytest_rageval.reports.questions import Explanation, explain

NEW_SHARE: Final = 0.8  # from this share of ids that the baseline lacks, the index was probably rebuilt

MIN_SAME_TAG: Final = 3  # with fewer lost questions, a tag that they share may be chance

MIN_REMOVED: Final = 3
"""From this number of questions on that retrieved a gold passage which none retrieves now, it was probably removed."""

MIN_GONE, MOST_GONE = 5, 0.5
"""From this number and share of the passages of the baseline on that no search finds now, that is said."""

SAME_ORDER_SHARE: Final = 0.8  # of those searches, with the other passages in their order

MAX_LISTED: Final = 3

T = TypeVar("T")

Loss = tuple[Outcome, ExamplePair | None]


class _Ranks(NamedTuple):
    """The rank of the first gold passage of a question, from 1, in the baseline and now; None if it is in neither."""

    then: int | None
    now: int | None


def changed_prompts_text(
    before: Mapping[str, ScoreEntry],
    thresholds: Iterable[Threshold],
    missed: Sequence[Example],
    ranking_of: Callable[[Example, int], Ranking | None],
) -> str:
    """Return what made the prompts of these examples new, which lack a reply; empty if that is not known.

    `before` are the scores of the test in the baseline. The rankings of other examples say nothing about these.
    """
    rankings: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    for threshold in (item for item in thresholds if item.name in before):
        old, k = before[threshold.name]["examples"], Spec.parse(threshold.spec).k or 0
        for example in missed:
            then = old[example.id].get("ranking") if example.id in old else None
            now = ranking_of(example, k)
            if then is not None and now is not None:
                rankings[example.id] = then, now.labels
    if not rankings:
        return ""
    changed = sum(list(then) != now for then, now in rankings.values())
    questions = f"{counted(len(rankings), 'question')} without a recorded reply"
    if changed:
        part = f"{changed} of " if changed < len(rankings) else ""
        return (
            f"For {part}{questions} the retriever returned other passages than in the baseline, which changes "
            "the prompts."
        )
    return (
        f"The retrieved ids of {questions} are those of the baseline: the prompt, the model, its settings or the text "
        "of a passage changed."
    )


class _Cause(NamedTuple):
    """A cause; `is_sure` if the rankings show it whether or not the loss is chance."""

    text: str
    is_sure: bool = False


def likely_cause(results: Sequence[ThresholdResult], *, sure: bool = False) -> str:
    explained = [(result.score, explain(result)) for result in results if result.score is not None]
    return cause_text(explained, sure=sure)


def cause_text(explained: Sequence[tuple[Score, Explanation | None]], *, sure: bool = False) -> str:
    """Return the likely cause of the losses of a test's scores; empty if nothing stands out.

    `sure`: only what is no chance, for losses that may be.
    """
    # The rankings do not say why a time, a cost or a number of calls is too large; what the questions share may.
    low = [(score, each) for score, each in explained if each is None or each.why != "above"]
    lost_below = {outcome.example.id for _, each in low if each for outcome, _ in each.losses}
    scores = [score for score, _ in explained if lost_below and rankings_of(score.outcomes)]
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
        comparison = next(filter(None, comparisons), None)
        if not any(map(len, rankings_of(deepest.outcomes))):
            return "every search returned nothing: is the index built?"
        found = [loss for name, loss in losses.items() if name in lost_below]
        causes = _ranking_causes(deepest, comparison, found)
        texts = [cause.text for cause in causes if cause.is_sure or not sure]
    if sure:
        return "; ".join(texts)
    counts = (
        {}
        if deepest is None
        else count_causes(outcome for _, each in explained if each for outcome, _ in each.losses)
    )
    texts += [f"lost by {', '.join(f'{cause} {count}' for cause, count in counts.items())}"] if counts else []
    tag = _common_tag([outcome.example for outcome in lost], explained)
    return "; ".join([*texts, *([tag] if tag else [])])


def _cut_off(outcomes: Sequence[Outcome]) -> int:
    return max((ranking.k for ranking in rankings_of(outcomes)), default=0)


def _ranking_causes(score: Score, comparison: Comparison | None, losses: Sequence[Loss]) -> Iterator[_Cause]:
    rankings = rankings_of(score.outcomes)
    pairs = [] if comparison is None else [*comparison.pairs]
    old = [pair.old_ranking for pair in pairs if pair.old_ranking is not None]
    smaller = _smaller_number(rankings, old)
    short = [*_short_causes(score.outcomes, old, smaller)]
    yield from short
    now = {label for ranking in rankings for label in ranking.labels}
    new = len(now.difference(*old)) / len(now)
    is_rebuilt = bool(old) and new >= NEW_SHARE
    if is_rebuilt:
        yield _Cause(f"{new:.0%} of the retrieved ids are new to the baseline: the index was rebuilt")
    renamed = [name for outcome, _ in losses if (name := _renamed(outcome)) is not None]
    if renamed:
        gold, retrieved = renamed[0]
        yield _Cause(f"{len(renamed)} lost: ids renamed: gold {gold!r:.60} has the text of {retrieved!r:.60}")
    removed = [] if smaller or is_rebuilt or renamed else _removed(losses, pairs, now)
    if removed:
        questions = sum(not set(removed).isdisjoint(labels) for labels in old)
        names = join_first([f"{label:.60}" for label in removed], MAX_LISTED)
        what = f"gold {names}" if len(removed) == 1 else f"{len(removed)} gold passages ({names})"
        then = f"retrieved for {questions} questions before, for none now"
        yield _Cause(f"{what}: {then}: removed from the index, or filtered out?", is_sure=True)
    elif not (short or is_rebuilt or renamed):
        before = set(chain.from_iterable(old))
        gone = before - now
        if len(gone) >= max(MIN_GONE, MOST_GONE * len(before)):
            removed = [*gone]
            which = f"{len(gone)} of {len(before)} passages of the baseline are found by no search now"
            yield _Cause(f"{which}: is the index incomplete, or is there a filter?")
    if shared := _shared_metadata(rankings, losses):
        yield _Cause(f"all that is found now has {shared}")
    returned = None if smaller is None else smaller[0]
    yield from map(_Cause, _rank_causes(losses, known={*removed}, renamed=len(renamed), returned=returned))


def _short_causes(
    outcomes: Sequence[Outcome], old: Sequence[Sequence[str]], smaller: tuple[int, str] | None
) -> Iterator[_Cause]:
    """Yield why more rankings are shorter than k than in the baseline: repeats, none at all, another k, or the rest."""
    rankings, k = rankings_of(outcomes), _cut_off(outcomes)
    was_empty = sum(not labels for labels in old)
    was_short = sum(len(labels) < k for labels in old) - was_empty
    short = [
        (outcome.example.id, ranking)
        for outcome in outcomes
        if (ranking := outcome.evidence.ranking) is not None and ranking.missing
    ]
    # A baseline does not have the number of repeats: what was short may have had them.
    repeats = [ranking for _, ranking in short if ranking.duplicates]
    least = was_short + 1 if smaller is None else len(rankings)
    repeats = repeats if len(repeats) >= least else []
    empty = [name for name, ranking in short if not ranking]
    rest = len(short) - len(repeats) - len(empty)
    if repeats:
        repeated = _range([ranking.duplicates for ranking in repeats])
        number = _range([len(ranking) + ranking.duplicates for ranking in repeats])
        which = (
            f"{repeated} of the {number} documents are repeats in {len(repeats)} of {len(rankings)} searches"
        )
        yield _Cause(f"{which}: duplicates in the index?", is_sure=True)
    elif smaller is not None:
        yield _Cause("the retriever now returns {}, {} before".format(*smaller), is_sure=True)
    if len(empty) > was_empty:
        names, before = join_first(empty, MAX_LISTED), f", {was_empty} before" if old else ""
        which = f"nothing returned in {len(empty)} of {len(rankings)} searches ({names}){before}"
        yield _Cause(f"{which}: a caught exception, or a filter?", is_sure=True)
    if smaller is None and rest > was_short:
        before = f", {was_short} before" if old else ""
        which = f"fewer than {k} returned in {rest} of {len(rankings)} searches{before}"
        yield _Cause(f"{which}: a threshold or a filter")


def _shared_metadata(rankings: Sequence[Ranking], losses: Sequence[Loss]) -> str:
    """Return the metadata "topic=stay" if all documents share it and lost questions have another value of this tag."""
    if sum(len(ranking) > 0 for ranking in rankings) < MIN_SAME_TAG:
        return ""
    lost = [outcome.example.tags for outcome, _ in losses]
    for key in dict.fromkeys(key for tags in lost for key in tags):
        value = _only({str(document.metadata.get(key, "")) for ranking in rankings for document in ranking})
        if value and any(value not in str(tags.get(key, value)) for tags in lost):
            return f"{key}={value:.60}"
    return ""


def _removed(losses: Sequence[Loss], pairs: Sequence[ExamplePair], now: Collection[str]) -> list[str]:
    """Return the gold passages that several searches found before, and none finds now; the most frequent first.

    The other passages must be in the same order as before: another order may have moved the gold passages too.
    """
    searches = [(pair.old_ranking or (), pair.outcome.evidence.ranking) for pair in pairs]
    times = Counter(chain.from_iterable(set(old) for old, _ in searches))
    gold = {passage.label for outcome, _ in losses for passage in outcome.example.relevant}
    removed = {label for label in gold if times[label] > 1 and label not in now}
    without = [
        ([label for label in old if label in now], [] if ranking is None else ranking.labels)
        for old, ranking in searches
        if not removed.isdisjoint(old)
    ]
    same = sum(bool(rest) and labels[: len(rest)] == rest for rest, labels in without)
    is_sure = same >= max(MIN_REMOVED, SAME_ORDER_SHARE * len(without))
    return sorted(removed, key=lambda label: (-times[label], label)) if is_sure else []


def _smaller_number(rankings: Sequence[Ranking], old: Sequence[Sequence[str]]) -> tuple[int, str] | None:
    """Return how many documents every search returns now, and before as text; None if that is not fewer, or varies."""
    now, then = _only(set(map(len, rankings))), _only(set(map(len, old)))
    if now is None or then is None or now >= then:
        return None
    return now, f"{then}" if then < rankings[0].k else f"{then} or more"


def _only(values: set[T]) -> T | None:
    return next(iter(values)) if len(values) == 1 else None


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}–{high}" if low < high else f"{low}"


def _rank_causes(
    losses: Sequence[Loss], *, known: Collection[str], renamed: int, returned: int | None
) -> Iterator[str]:
    """Yield how many lost questions have their gold passages at lower ranks, except where the cause is said.

    That is where the gold passages are `known` ones, or were beyond the number that is `returned` now. The text says
    "another" if such questions lost their gold passages too.
    """
    unknown = [loss for loss in losses if {gold.label for gold in loss[0].example.relevant} - {*known}]
    ranks = [rank for outcome, pair in unknown if (rank := first_gold(outcome, pair)) is not None]
    gone = [
        rank for rank in ranks if rank.now is None and not (returned and rank.then and rank.then > returned)
    ]
    if renamed < len(gone):
        k = _cut_off([outcome for outcome, _ in losses])
        lost_gold = [rank for loss in losses if (rank := first_gold(*loss)) is not None and rank.now is None]
        another = "another " if len(lost_gold) > len(gone) else ""
        yield f"{another}{len(gone)} of {len(losses)} lost: their gold is not in the top {k} now"
    moved = [(then, now) for then, now in ranks if then is not None and now is not None and now > then]
    if moved:
        then, now = map(_range, zip(*moved, strict=True))
        yield f"{len(moved)} lost: gold fell from rank {then} to {now}: another order"


def _renamed(outcome: Outcome) -> tuple[str, str] | None:
    """Return the id of a gold passage, and the other id under which its text was retrieved; None if it was not."""
    with_text = (each for each in outcome.evidence.ranking or () if each.id is not None and each.text.strip())
    ids = {" ".join(each.text.split()): each.id for each in with_text}
    for gold in outcome.example.relevant:
        name = ids.get(" ".join((gold.text or "").split()))
        if gold.id is not None and name is not None and name != gold.id and outcome.value == 0:
            return gold.id, name
    return None


def first_gold(outcome: Outcome, pair: ExamplePair | None) -> _Ranks | None:
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
