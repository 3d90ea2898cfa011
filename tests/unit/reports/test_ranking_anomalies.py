"""Counts of anomalies in rankings."""

from dataclasses import replace

import pytest

from pytest_rageval.core.errors import Cause, QueryError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.reports.anomalies import (
    ANOMALY_TEXTS,
    all_zero_hint,
    all_zero_reason,
    anomalies_entry,
    anomalies_text,
)

TEN = [f"8f2c{n}" for n in range(10)]
A, B, EMPTY = Document("a"), Document("b"), Document(" ", "c")


def _outcome(*documents: Document, k: int = 2) -> Outcome:
    return Outcome(Example("e", "q"), 1.0, evidence=Evidence(Ranking.of("q", documents, k)))


def test_nothing_odd_is_nothing_to_say() -> None:
    counts = anomalies_entry([_outcome(A, B), Outcome(Example("e", "q"), None, "no gold passages")])
    assert counts == {}
    assert anomalies_text(counts) == ""


def test_each_oddity_is_counted() -> None:
    causes: tuple[Cause, ...] = ("retriever", "run")
    retriever_failure, other_failure = (
        Outcome(Example("e", "q"), None, "raised", failed=QueryError("raised", cause=cause))
        for cause in causes
    )
    counts = anomalies_entry(
        [
            _outcome(A),
            _outcome(),
            _outcome(A, B, A, A, EMPTY),
            _outcome(EMPTY, EMPTY, B, A),
            retriever_failure,
            other_failure,
            _outcome(A, B),
        ]
    )
    assert counts == {
        "duplicates": 3,
        "without_text": 1,
        "short": 2,
        "cut": 2,
        "failed": 1,
        "failed_otherwise": 1,
    }
    assert [name for name in ANOMALY_TEXTS if name in counts] == list(counts)
    assert anomalies_text(counts) == (
        "3 duplicated documents counted once, 1 document without text, 2 rankings of fewer than k documents, "
        "2 rankings of more than k documents, cut, 1 question at which the retriever failed, "
        "1 question at which the generator, the judge or an added part failed"
    )


@pytest.mark.parametrize(
    ("own_k", "documents", "k", "expected"),
    [
        (10, (A, B), 1, {"own_k_kept": 1}),
        (1, (A, B), 2, {"own_k_raised": 1}),
        (2, (A, B), 2, {}),
        (2, (A,), 3, {"short": 1, "own_k_raised": 1}),
        (1, (A, B), 1, {"cut": 1}),
    ],
)
def test_what_became_of_the_retrievers_own_k(own_k, documents, k, expected):
    ranking = replace(Ranking.of("q", documents, k), own_k=own_k)
    assert anomalies_entry([Outcome(Example("e", "q"), 1.0, evidence=Evidence(ranking))]) == expected


def _matched(gold: Gold, *ids: str | None) -> list[Outcome]:
    return [
        Outcome(
            Example("e", "q", gold=(gold,)),
            0.0,
            evidence=Evidence(Ranking.of("q", [Document(f"t{n}", identifier)], 1)),
        )
        for n, identifier in enumerate(ids)
    ]


def test_ids_of_another_kind_are_reported() -> None:
    """If no retrieved id is that of any gold passage, the anomaly is reported: it would make every score 0."""
    counts = anomalies_entry(_matched(Gold(id="faq.md"), *TEN, None))
    assert counts == {"foreign_ids": 10}
    assert anomalies_text(counts) == (
        "no id in 10 rankings is that of any gold passage: are they ids of the same kind?"
    )


def test_the_ids_of_one_ranking_are_reported_except_in_a_slice() -> None:
    assert anomalies_entry(_matched(Gold(id="faq.md"), "a")) == {"foreign_ids": 1}
    assert anomalies_entry(_matched(Gold(id="faq.md"), *TEN[1:]), of_slice=True) == {}
    assert anomalies_entry(_matched(Gold(id="faq.md"), *TEN), of_slice=True) == {"foreign_ids": 10}


def test_the_hint_shows_the_most_similar_ids() -> None:
    outcomes = [*_matched(Gold(id="docs/kb-1"), "x-9", "kb-1"), *_matched(Gold(id="faq"), "x-7")]
    assert all_zero_hint(Score("recall@1", outcomes)) == (
        "no id in 3 rankings is that of any gold passage: are they ids of the same kind? "
        "Gold 'docs/kb-1', retrieved 'kb-1'"
    )
    assert all_zero_hint(Score("recall@1", _matched(Gold(id="a"), "a"))) == ""


def test_one_id_of_another_questions_passage_shows_that_the_ids_are_of_one_kind() -> None:
    outcomes = [*_matched(Gold(id="faq.md"), *TEN), *_matched(Gold(id=TEN[-1]), "z")]
    assert anomalies_entry(outcomes) == {}


def test_ids_that_are_returned_as_strings_are_named() -> None:
    """Strings that equal gold ids are reported, because strings are read as texts."""
    documents = [Document("doc-4"), Document("doc-7")]
    zero = Outcome(
        Example("e", "q", gold=(Gold(id="doc-7", text="Tulsa."),)),
        0.0,
        evidence=Evidence(Ranking.of("q", documents, 2)),
    )
    assert anomalies_entry([zero, zero]) == {"ids_as_texts": 2}
    assert all_zero_reason({"ids_as_texts": 2, "short": 1}) == (
        "2 rankings of texts that are ids of gold passages: a string is a text; return documents such as "
        '{"id": "doc-4", "text": "..."}'
    )
    with_an_id = replace(zero, evidence=Evidence(Ranking.of("q", [*documents, Document("t", "doc-9")], 3)))
    assert "ids_as_texts" not in anomalies_entry([zero, with_an_id])


@pytest.mark.parametrize(
    ("gold", "ids"),
    [
        (Gold(id="faq"), [*TEN, "faq"]),
        (Gold(id="faq"), [None] * 12),
        (Gold(text="t"), TEN),
        (Gold(id="faq", source="faq.md", start=0, end=9), TEN),
        (Gold(id="faq", grade=0), TEN),
    ],
    ids=["one is found", "no ids", "gold by text", "gold by span", "nothing relevant"],
)
def test_other_misses_are_no_oddity(gold: Gold, ids: list[str | None]) -> None:
    assert anomalies_entry(_matched(gold, *ids)) == {}
