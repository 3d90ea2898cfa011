"""Rankings whose documents are in a spool equal the rankings that were stored."""

import pickle
from dataclasses import dataclass

from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.lib.spool import Spool
from pytest_rageval.scores.rankings import spooled


def test_spooled_documents_do_not_change_later() -> None:
    metadata = {"page": 1}
    given = [Document("one", "a"), Document("two", "b", metadata=metadata)]
    kept = spooled(Ranking.of("?", given), Spool())
    metadata["page"] = 2
    assert [document.metadata for document in kept] == [{}, {"page": 1}]
    assert kept.ids == ("a", "b")


def test_documents_of_another_class_keep_their_attributes() -> None:
    @dataclass(frozen=True)
    class Page(Document):
        url: str = ""

    given = [Document("one", "a"), Page(" ", "b", url="https://b")]
    steps = (Ranking.of("first", given), Ranking.of("second", given[:1]))
    kept = spooled(Ranking.of("?", given, steps=steps), Spool())
    assert (kept.ids, kept.labels, kept.textless, len(kept)) == (("a", "b"), ["a", "b"], 1, 2)
    assert [*kept] == given
    assert kept[1] is given[1]
    assert kept.steps == steps
    assert kept == Ranking.of("?", given, steps=steps)


def test_spooled_documents_equal_the_tuple() -> None:
    """They compare, hash and pickle like the tuple that they replace."""
    given = (Document("one", "a", 0.5, {"page": 1}, Span("a.md", 0, 3), "c1"), Document(" ", None))
    spool = Spool()
    kept, again = (spooled(Ranking("?", given), spool).documents for _ in range(2))
    assert type(kept) is not tuple
    assert (kept, given) == (given, kept)
    assert kept == again
    assert kept != given[:1]
    assert (hash(kept), repr(kept)) == (hash(given), repr(given))
    assert (kept[0], kept[:1], [*kept]) == (given[0], given[:1], [*given])
    assert (kept.ids, kept.textless, kept.has_chunk_ids) == (("a", None), 1, True)
    assert pickle.loads(pickle.dumps(kept)) == given  # noqa: S301 - of this test
