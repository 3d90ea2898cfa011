"""The built-in BM25 retriever."""

import pytest

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.retrievers.bm25 import BM25Retriever, words

CORPUS = [
    {"id": "cat", "text": "The cat sat on the mat."},
    {"id": "dog", "text": "A dog ran home.", "metadata": {"page": 2}},
    {"id": "bird", "text": "Birds sing at dawn."},
]


def test_the_best_match_comes_first_with_its_score() -> None:
    best, second = BM25Retriever(CORPUS)("Whose DOG?", 2)
    assert (best.id, best.text, best.metadata) == ("dog", "A dog ran home.", {"page": 2})
    assert best.score is not None
    assert second.score is not None
    assert best.score > second.score


def test_equal_scores_keep_the_order_of_the_corpus() -> None:
    assert [document.id for document in BM25Retriever(CORPUS)("zebra", 3)] == ["cat", "dog", "bird"]
    assert [document.id for document in BM25Retriever(CORPUS)("", 1)] == ["cat"]


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 3), (10, 3)])
def test_at_most_k_documents_come_back(k: int, n: int) -> None:
    assert len(BM25Retriever(CORPUS)("cat", k)) == n


def test_corpora_of_strings_and_documents() -> None:
    search = BM25Retriever(["", "one fish", Document("two birds", "b")])
    assert search("birds", 1)[0].id == "b"


@pytest.mark.parametrize(("corpus", "n"), [([], 0), (["", "?!"], 2)])
def test_a_corpus_without_words_is_refused(corpus: list[str], n: int) -> None:
    with pytest.raises(InputError, match=f"BM25 needs passages with words, found {n} documents without any"):
        BM25Retriever(corpus)


def test_an_item_without_text_is_refused() -> None:
    with pytest.raises(CallableError, match="has no text: int"):
        BM25Retriever(["a", 7])


def test_stop_words_are_not_searched_for() -> None:
    corpus = ["what is it that the", "a tarn", "other words"]
    query = "What is it? That is a TARN."
    assert [document.text for document in BM25Retriever(corpus)(query, 1)] == [corpus[0]]
    for stop_words in ("english", ["what", "Is", "a", "it", "that the"]):
        best, *rest = BM25Retriever(corpus, stop_words=stop_words)(query, 3)
        assert best.text == "a tarn"
        assert [document.score for document in rest] == [0, 0]


def test_a_list_of_stop_words_is_english_or_your_own() -> None:
    with pytest.raises(InputError, match=r"stop_words='german': there is a list for \"english\""):
        BM25Retriever(["a"], stop_words="german")
    with pytest.raises(InputError, match="1 document without any"):
        BM25Retriever(["it is"], stop_words="english")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,!? ", []),
        ("The CAT sat.", ["the", "cat", "sat"]),
        ("kb-112, v2.0", ["kb", "112", "v2", "0"]),
        ("it’s don't", ["it", "s", "don", "t"]),
        ("Größe STRASSE Straße", ["grösse", "strasse", "strasse"]),
        ("ﬁve ｋｇ ①", ["five", "kg", "1"]),
        ("cafe\u0301", ["café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Привет, мир", ["привет", "мир"]),
        ("東京都 is 大", ["東", "京", "都", "is", "大"]),
        ("カタ", ["カ", "タ"]),
        ("snake_case", ["snake", "case"]),
        ("a\tb\u00a0c\nd", ["a", "b", "c", "d"]),
    ],
)
def test_words_of_many_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected
