"""Properties of the overlap of chunks with gold passages, for any cut of a text."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.scores.gold_matching import GoldMatch, overlap

# All words are different and of one length, so that spans and texts cover the same shares.
WORDS = [f"{n:03}" for n in range(200)]


def _span(first: int, last: int) -> Span:
    return Span("a.md", 3 * first, 3 * last)


@st.composite
def pieces(draw: st.DrawFn, shortest: int = 1) -> tuple[int, int]:
    first = draw(st.integers(0, len(WORDS) - shortest))
    return first, draw(st.integers(first + shortest, len(WORDS)))


@given(gold=pieces(16), chunk=pieces())
def test_spans_and_texts_agree_where_no_word_comes_twice(gold, chunk) -> None:
    by_span = overlap(
        Document("x", span=_span(*chunk)), Gold(source="a.md", start=3 * gold[0], end=3 * gold[1])
    )
    by_text = overlap(Document(" ".join(WORDS[slice(*chunk)])), Gold(text=" ".join(WORDS[slice(*gold)])))
    common = min(gold[1], chunk[1]) - max(gold[0], chunk[0])
    assert by_text.parts == (by_span.parts if common >= 8 else ())


@given(gold=pieces(), chunks=st.lists(pieces(), min_size=1, max_size=6), share=st.floats(0.01, 1))
def test_a_passage_is_found_at_the_first_rank_where_its_characters_are_there(gold, chunks, share) -> None:
    wanted = set(range(3 * gold[0], 3 * gold[1]))
    held = accumulate(
        (wanted.intersection(range(3 * first, 3 * last)) for first, last in chunks), set.union, initial=set()
    )
    enough = [len(characters) / len(wanted) >= share - 1e-9 for characters in held][1:]
    labels = [int(now and not before) for before, now in zip([False, *enough], enough, strict=False)]
    ranking = Ranking("q", tuple(Document("x", span=_span(*chunk)) for chunk in chunks))
    passage = Gold(source="a.md", start=3 * gold[0], end=3 * gold[1])
    assert GoldMatch(ranking, [passage], share).labels == labels


@given(golds=st.lists(pieces(), min_size=1, max_size=4, unique=True), chunks=st.lists(pieces(), max_size=6))
def test_labels_positions_and_surplus_tell_one_story(golds, chunks) -> None:
    ranking = Ranking("q", tuple(Document("x", span=_span(*chunk)) for chunk in chunks))
    passages = [Gold(source="a.md", start=3 * first, end=3 * last) for first, last in golds]
    match = GoldMatch(ranking, passages)
    found_positions = {position for positions in match.positions for position in positions}
    assert sum(match.labels) == len(found_positions) == match.counts.get("matched_by_span", 0)
    assert len(match.labels) == len(chunks) + match.surplus
    fewer = GoldMatch(Ranking("q", ranking.documents[:-1]), passages)
    assert match.labels[: len(fewer.labels)] == fewer.labels
