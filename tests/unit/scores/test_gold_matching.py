"""Matching of the documents of a ranking with gold passages."""

import random

import pytest

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.options import DEFAULT_MATCH_SHARE
from pytest_rageval.scores import gold_matching
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.measures import ideal_labels, match_by_id
from pytest_rageval.scores.near_duplicates import shingles


def _labels(documents: list[Document], *gold: Gold) -> list[int]:
    return GoldMatch(Ranking.of("q", documents), gold).labels


def _match(documents: list[Document], *gold: Gold, share: float = DEFAULT_MATCH_SHARE) -> GoldMatch:
    return GoldMatch(Ranking.of("q", documents), gold, share)


def _cut(start: int, end: int) -> Document:
    return Document(f"{start} to {end}", span=Span("a.md", start, end))


def _gold(start: int, end: int, **fields: int) -> Gold:
    return Gold(source="a.md", start=start, end=end, **fields)


@pytest.mark.parametrize(
    ("document", "gold", "same"),
    [
        (Document("x", "a"), Gold(id="a"), True),
        (Document("x", "a"), Gold(id="a", text="another cut"), True),
        (Document("x", "a"), Gold(id="b", text="x"), False),
        (Document("x", "a"), Gold(text="x"), True),
        (Document("x"), Gold(id="a", text="x"), True),
        (Document(" The\n CAT "), Gold(text="the cat"), True),
        (Document("Straße"), Gold(text="STRASSE"), True),
        (Document("x"), Gold(text="x y"), False),
        (Document("x"), Gold(id="x"), False),
        (Document("x"), Gold(source="a.md", start=0, end=1), False),
    ],
)
def test_ids_decide_and_texts_where_one_has_no_id(document: Document, gold: Gold, *, same: bool) -> None:
    """Equal ids match; if one id is missing, texts match that are equal except for case and whitespace."""
    assert _labels([document], gold) == [int(same)]


def test_labels_are_grades_in_rank_order() -> None:
    documents = [Document("", name) for name in "xabc"]
    gold = (Gold("a", grade=1), Gold("b", grade=0), Gold("c", grade=3))
    assert _labels(documents, *gold) == [0, 1, 0, 3]


def test_a_gold_passage_is_credited_once() -> None:
    """Two documents with the gold text count once, at the better rank."""
    assert _labels([Document("x", "1"), Document("x", "2")], Gold(text="x")) == [1, 0]


def test_a_gold_passage_under_two_forms_of_its_id_is_credited_once() -> None:
    ranking = Ranking.of("?", [Document("x", "101"), Document("y", "7"), Document("z", "101.0")])
    assert match_by_id(ranking, [Gold(id="101", grade=2), Gold(id="7", grade=0)]) == ((0, 2),)


def test_an_empty_ranking_has_no_labels() -> None:
    assert _labels([], Gold("a")) == []


def test_the_ideal_is_the_grades_from_the_highest() -> None:
    """The ideal ranking has the positive grades in descending order."""
    gold = [Gold("a", grade=1), Gold("b", grade=0), Gold("c", grade=3), Gold("d", grade=2)]
    assert ideal_labels(gold) == [3, 2, 1]


def test_ids_are_matched_alike_beside_passages_without_one() -> None:
    """If all gold passages have ids, a fast path computes the same labels as the general path."""
    rng = random.Random(0)
    for _ in range(300):
        documents = tuple(Document("", rng.choice("abcdef")) for _ in range(rng.randint(0, 6)))
        gold = [Gold(rng.choice("abcdefg"), grade=rng.randint(0, 3)) for _ in range(rng.randint(0, 4))]
        if len({passage.id for passage in gold}) == len(gold):
            ranking = Ranking("q", documents)
            assert (
                GoldMatch(ranking, gold).labels == GoldMatch(ranking, [*gold, Gold(text="elsewhere")]).labels
            )


@pytest.mark.parametrize(
    ("chunks", "share", "labels"),
    [
        ([(0, 100), (100, 200)], 0.5, [0, 1]),
        ([(0, 150), (150, 300)], 0.5, [1, 0]),
        ([(0, 149), (149, 300)], 0.5, [0, 1]),
        ([(0, 149), (300, 400), (149, 151)], 0.5, [0, 0, 1]),
        ([(0, 1000)], 1.0, [1]),
        ([(100, 120), (120, 140), (140, 160), (160, 180)], 0.5, [0, 0, 1, 0]),
        ([(100, 130), (110, 140), (100, 140)], 0.5, [0, 0, 0]),
        ([(100, 130), (170, 200), (100, 140)], 0.9, [0, 0, 0]),
        ([(100, 110)], 0.1, [1]),
        ([(90, 110), (105, 120)], 0.2, [0, 1]),
    ],
)
def test_a_passage_is_found_where_enough_of_it_is_there(chunks, share, labels):
    """A gold passage is found when one chunk or several chunks together cover the share; overlaps count once."""
    assert _match([_cut(*chunk) for chunk in chunks], _gold(100, 200), share=share).labels == labels


def test_a_chunk_with_several_gold_passages_counts_for_each() -> None:
    """A chunk with two gold passages has two labels, the higher grade first, and later labels move down."""
    gold = (_gold(0, 10), _gold(20, 30, grade=3), _gold(900, 910), _gold(5, 8, grade=0))
    match = _match([_cut(500, 600), _cut(0, 100), _cut(100, 200), _cut(900, 990)], *gold)
    assert (match.labels, match.surplus) == ([0, 3, 1, 0, 1], 1)
    assert match.positions == [(), (0, 1), (), (2,)]


@pytest.mark.parametrize(
    ("chunks", "positions"),
    [
        ([(0, 160), (120, 300), (160, 300)], [(0,), (0,), ()]),
        ([(100, 140), (300, 400), (140, 180), (180, 200)], [(0,), (), (0,), ()]),
        ([(100, 140), (300, 400)], [(), ()]),
        ([(100, 140), (100, 139), (139, 200)], [(0,), (), (0,)]),
    ],
)
def test_the_documents_of_a_passage_are_those_that_are_it_or_made_it_whole_enough(chunks, positions):
    """A document that adds no new characters is assigned only if it alone covers enough."""
    assert _match([_cut(*chunk) for chunk in chunks], _gold(100, 200)).positions == positions


def test_a_passage_that_comes_again_is_the_same_passage() -> None:
    match = _match([Document("x", "1"), Document("y", "2"), Document("x", "3")], Gold(text="x"))
    assert (match.labels, match.positions) == ([1, 0, 0], [(0,), (), (0,)])


WORDS = [f"w{n:02}" for n in range(40)]


def test_passages_found_by_overlap_are_counted_by_the_weakest_evidence_needed() -> None:
    text = " ".join(WORDS)
    half = Gold(source="b.md", start=0, end=120, text=text)
    documents = [
        Document("i", "a"),
        Document("Equal!"),
        _cut(0, 50),
        Document("z", span=Span("b.md", 0, 50)),
        Document(" ".join(WORDS[30:])),
    ]
    match = _match(documents, Gold("a"), Gold(text="equal"), _gold(0, 60), half)
    assert match.labels == [1, 1, 1, 0, 1]
    assert match.counts == {"matched_by_span": 1, "matched_by_text": 1}
    assert not _match(documents[:2], Gold("a"), Gold(text="equal")).counts
    assert not _match(documents[:1], Gold("a")).counts


@pytest.mark.parametrize(
    ("documents", "gold", "incomparable"),
    [
        ([Document("x", "a")], [Gold("b")], False),
        ([Document("x")], [Gold("b")], True),
        ([Document("x"), Document("y", "a")], [Gold("b")], False),
        ([Document("x", "a")], [Gold("b"), _gold(0, 9)], True),
        ([Document("x", "a")], [Gold("b"), _gold(0, 9, grade=0)], False),
        ([Document("x", "a"), _cut(50, 90)], [_gold(0, 9)], False),
        ([], [_gold(0, 9)], False),
    ],
)
def test_a_passage_that_cannot_be_matched_is_reported(documents, gold, *, incomparable):
    """A gold passage that cannot be compared with any document is incomparable, except if the ranking is empty."""
    assert _match(documents, *gold).incomparable is (gold[-1] if incomparable else None)


@pytest.mark.parametrize(
    ("sources", "labels", "counts"),
    [
        (["guide/index.md", "index.md"], [0, 1], {"matched_by_span": 1}),
        (["/srv/index.md", "/srv/a.md"], [1, 0], {"matched_by_span": 1, "by_end_of_path": 1}),
        (["/srv/index.md", "/srv/guide/index.md"], [0, 0], {"of_ambiguous_source": 1}),
        (["index2.md", "a.md"], [0, 0], {}),
    ],
)
def test_a_nested_file_of_the_same_name_is_another(sources, labels, counts):
    documents = [Document(f"{n}", span=Span(source, 0, 90)) for n, source in enumerate(sources)]
    match = _match(documents, Gold(source="index.md", start=10, end=50))
    assert (match.labels, match.counts) == (labels, counts)


def test_an_ambiguous_file_does_not_matter_elsewhere() -> None:
    documents = [Document(f"{n}", span=Span(f"{n}/a.md", 0, 90)) for n in range(2)]
    assert not _match(documents, Gold(source="a.md", start=100, end=150)).counts


def test_texts_are_compared_once_for_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def counted(text: str, length: int) -> frozenset[tuple[str, ...]]:
        compared.append(text)
        return shingles(text, length)

    monkeypatch.setattr(gold_matching, "shingles", counted)
    passages = [
        (f"The passage number {n} has the words {n} and {n + 1}.", Gold(text=f"Gold {n}."))
        for n in range(3000)
    ]
    for _ in range(2):
        for text, gold in passages:
            assert GoldMatch(Ranking("q", (Document(text),)), [gold]).labels == [0]
    assert len(compared) == len(passages)


def test_the_rank_of_each_gold_passage() -> None:
    ranking = Ranking("q", (Document("a", "d1"), Document("b", "d2")))
    gold = [Gold("d2"), Gold("d3"), Gold("d1", grade=0)]
    assert GoldMatch(ranking, gold).ranks == [2, None, None]


NFC, NFD = "caf\u00e9.md", "cafe\u0301.md"


@pytest.mark.parametrize(
    ("retrieved", "gold"), [(NFD, NFC), (NFC, NFD), ("7", "7.0"), ("7.0", "7"), ("7.0", "7.0"), (NFD, NFD)]
)
@pytest.mark.parametrize("others", [(), (Gold(text="another one"),)])
def test_ids_in_another_form_are_equal(retrieved: str, gold: str, others: tuple[Gold, ...]) -> None:
    """Unicode forms, and integers printed as floats, are equal, with and without passages that have no id."""
    documents = [Document("a", "x1.0"), Document("b", retrieved)]
    assert _labels(documents, Gold(gold), *others) == [0, 1]
    ranking = Ranking.of("q", documents)
    assert gold in ranking
    assert Document("c", gold) in ranking


def test_a_version_is_not_another_version() -> None:
    """Ids that only look like numbers differ as texts do."""
    documents = [Document("a", "1.1"), Document("b", "1.10"), Document("c", "v1")]
    assert _labels(documents, Gold("1.10")) == [0, 1, 0]
    assert _labels(documents, Gold("v1.0")) == [0, 0, 0]


@pytest.mark.parametrize("item", [7, 7.0, "7", " 7 "])
def test_an_id_of_any_type_is_looked_up_in_a_ranking(item: object) -> None:
    ranking = Ranking.of("q", [Document("a"), Document("b", "7")])
    assert item in ranking
    assert not any(other in ranking for other in (None, "", 8, 7.5, True, ["7"], "None"))
