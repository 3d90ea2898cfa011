"""HyDE, feedback, RAG-fusion and rewriting, with the real client connected to the scripted server."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.core.ranking import Document
from pytest_rageval.extensions.baseline_retrievers.llm_baselines import (
    FeedbackRetriever,
    FusionRetriever,
    HyDERetriever,
    RewriteRetriever,
)
from pytest_rageval.extensions.embeddings.dense import DenseRetriever
from pytest_rageval.models.api import LLM
from pytest_rageval.models.messages import REPLY_PLACEHOLDER
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, build_prompts
from tests.llm_server import Cut, Fault, LLMServer
from tests.unit.extensions.embeddings.planar import Planar, Turned

TECHNIQUES = [HyDERetriever, FeedbackRetriever, FusionRetriever, RewriteRetriever]
CORPUS = [Document(f"{angle}", f"d{angle}") for angle in range(0, 180, 10)]


class Recorded:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self._search = DenseRetriever(CORPUS, encoder=Planar())

    def __call__(self, query: str, k: int) -> list[Document]:
        self.asked.append((query, k))
        return self._search(query, k)


@pytest.fixture
def search() -> Recorded:
    return Recorded()


def _ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def _run(retriever: Callable[[str, int], object], query: str = "10", k: int = 2) -> list[Document]:
    result = asyncio.run(retriever(query, k))
    return list(getattr(result, "documents", result))


def test_hyde_searches_with_the_passage_alone(llm, ask, search):
    llm.model = lambda _: " perhaps 92\n"
    assert _ids(_run(HyDERetriever(search, ask()))) == ["d90", "d100"]
    assert search.asked == [("perhaps 92", 2)]
    (body,) = llm.requests
    assert llm.prompts == [DEFAULT_PROMPTS.hypothetical_passage("10")]
    assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.0, 96, ["\n\n"])
    _run(HyDERetriever(search, ask(), zero_shot=True, temperature=0.3))
    assert llm.prompts[1] == DEFAULT_PROMPTS.hypothetical_passage("10", worked=False)
    assert llm.requests[1]["temperature"] == 0.3


def test_what_hyde_writes_is_encoded_as_a_passage(llm: LLMServer, ask: Callable[..., LLM]) -> None:
    llm.model = lambda _: "42"
    search = DenseRetriever(CORPUS, encoder=Turned())
    assert _ids(search("42", 1)) == ["d90"]
    assert _ids(_run(HyDERetriever(search, ask()), k=1)) == ["d40"]


def test_feedback_joins_question_knowledge_and_first_passages(llm, ask, search):
    llm.model = lambda _: "I know 100"
    documents = _run(FeedbackRetriever(search, ask(), passages=2), "11", 3)
    assert search.asked == [("11", 2), ("11 [SEP] I know 100 [SEP] 10 [SEP] 20", 3)]
    assert _ids(documents) == _ids(DenseRetriever(CORPUS, encoder=Planar())("11 100 10 20", 3))


def test_rewriting_searches_with_the_better_query_and_answers_it(llm, ask, search):
    llm.model = lambda _: '1. "about 92"\nIt is nearer.'
    retrieval = asyncio.run(RewriteRetriever(search, ask(), passages=2, temperature=0.3)("11", 3))
    assert search.asked == [("11", 2), ("about 92", 3)]
    assert (_ids(retrieval.documents), retrieval.question) == (["d90", "d100", "d80"], "about 92")
    assert llm.prompts == [DEFAULT_PROMPTS.fill("better_query", "11", ["10", "20"])]
    assert llm.requests[0]["temperature"] == 0.3


def test_prompts_are_those_of_the_user(llm: LLMServer, ask: Callable[..., LLM], search: Recorded) -> None:
    client = ask()
    templates = {"hypothetical_passage": "H {question}", "search_queries": "S {n} {question}"}
    client.prompts = build_prompts({**templates, "better_query": "B {question} {passages}"}, "here")
    llm.model = lambda _: "30"
    for technique in (HyDERetriever, FusionRetriever, partial(RewriteRetriever, passages=1)):
        asyncio.run(technique(search, client)("11", 1))
    hyde, fusion, rewriting = llm.prompts
    assert (hyde, fusion) == ("H 11", "S 4 11")
    assert rewriting.startswith("B 11 <passages ")


def test_hyde_and_feedback_share_what_the_model_wrote(llm, ask, search):
    client = ask()
    _run(HyDERetriever(search, client))
    _run(FeedbackRetriever(search, client))
    assert len(llm.requests) == 1


def test_fusion_by_hand(llm: LLMServer, ask: Callable[..., LLM], search: Recorded) -> None:
    """By hand, with k = 60 and ranks from 1.

    question "11":  d10 d20 d0        d20: 1/62 + 1/61 + 1/63     d30: 1/62 + 1/61
    query "22":     d20 d30 d10       d10: 1/61 + 1/63            d40: 1/62
    query "33":     d30 d40 d20       d0:  1/63
    """
    llm.model = lambda _: " 22\n2. 33"
    documents = _run(FusionRetriever(search, ask(), n=2, depth=2), "11", 3)
    assert _ids(documents) == ["d20", "d30", "d10"]
    scores = [1 / 62 + 1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 61 + 1 / 63]
    assert [document.score for document in documents] == pytest.approx(scores, abs=1e-15)
    assert search.asked == [("11", 3), ("22", 3), ("33", 3)]


def test_fusion_asks_for_n_queries_that_differ(llm, ask, search):
    _run(FusionRetriever(search, ask(), n=3))
    assert llm.prompts == [DEFAULT_PROMPTS.search_queries("10", 3)]
    assert llm.requests[0]["temperature"] == 0.7


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        (" 20\n2. 30\n3. 40\n4. 50", ["20", "30", "40", "50"]),
        ("1. 20\n2) 30\n- 40\n* 50\n60", ["20", "30", "40", "50"]),
        ('Queries\n\n1. "20"\n\n2. “30”', ["20", "30"]),
        ("Here are 4 search queries:\n\n1. 20\n2. 30\n3. 40\n4. 50", ["20", "30", "40", "50"]),
        ("Sure! Some queries\n**1.** 20\n**2.** 30", ["20", "30"]),
        (" Here are queries:\n- 20\n- 30", ["20", "30"]),
        (" which is larger:", ["which is larger:"]),
        ("2024 was 20\n3.5 of 40", ["2024 was 20", "3.5 of 40"]),
        ("10\n10\n20\n20", ["20"]),
        ("...\n---\n20", ["20"]),
    ],
)
def test_queries_are_read_from_lines(llm, ask, search, reply, queries):
    llm.model = lambda _: reply
    _run(FusionRetriever(search, ask(), depth=7))
    assert search.asked == [(query, 7) for query in ["10", *queries]]


def test_the_first_of_more_are_those_of_fewer(llm, ask, search):
    llm.model = lambda _: "93\n2. 46\n3. 171"
    retriever = FusionRetriever(search, ask())
    whole = _run(retriever, "10", 18)
    assert [_run(retriever, "10", k) for k in (1, 3, 7)] == [whole[:k] for k in (1, 3, 7)]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_what_is_written_is_paid_once(llm, ask, search, technique):
    llm.model = lambda _: "93"
    rankings = [_run(technique(search, client), "10", k) for client in (ask(), ask()) for k in (3, 5)]
    rankings.append(_run(technique(search, ask("replay")), "10", 5))
    assert len(llm.requests) == 1
    assert rankings[0] == rankings[2]
    assert rankings[1] == rankings[3] == rankings[4]


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(
    "case",
    [
        (" \n", "the model wrote nothing to search with$"),
        (Cut(""), "wrote nothing to search with: the token limit was reached"),
        (Fault(400), "scripted fault"),
    ],
)
def test_a_question_for_which_nothing_is_written_is_unscored(llm, ask, search, technique, case):
    reply, reason = case
    llm.model = lambda _: reply
    with pytest.raises(Unscored, match=reason):
        _run(technique(search, ask()))


def test_no_query_in_the_lines_is_unscored(llm: LLMServer, ask: Callable[..., LLM], search: Recorded) -> None:
    llm.model = lambda _: "1. …\n2. …"
    with pytest.raises(Unscored, match=r"wrote no query to search with: '1\. …"):
        _run(FusionRetriever(search, ask()))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_plan_continues_with_documents_that_are_not_known_yet(llm, ask, search, technique):
    client = ask("plan")
    documents = _run(technique(search, client), "10", 3)
    assert not llm.requests
    assert len(documents) == 3
    assert all(REPLY_PLACEHOLDER.search(document.text) for document in documents)
    client.complete(f"Answer from {documents[0].text}", max_tokens=5)
    usage = client._gateway.usage
    assert (usage.live, usage.dependent) == (2, 1)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_plan_with_cached_replies_counts_exactly(llm, ask, search, technique):
    llm.model = lambda _: "93"
    assert _run(technique(search, ask("plan")), "10", 3) != _run(technique(search, ask()), "10", 3)
    assert _run(technique(search, ask("plan")), "10", 3) == _run(technique(search, ask()), "10", 3)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_any_sync_search_will_do(llm, ask, technique):
    llm.model = lambda _: "20"
    retriever = technique(lambda query, k: [{"id": 1, "text": f"{query}!"}][:k], ask(), max_tokens=None)
    assert _ids(_run(retriever, "10", 1)) == ["1"]
    columns = technique(lambda query, _k: {"ids": [[1]], "documents": [[query]]}, ask(), max_tokens=None)
    assert _ids(_run(columns, "10", 1)) == ["1"]
    assert "max_tokens" not in llm.requests[0]
    with pytest.raises(CallableError, match="has no text: int"):
        _run(technique(lambda *_: [7], ask()), "10", 1)


async def test_many_questions_are_asked_at_once(llm, ask, search):
    """The retrievers are async: at least 8 of 16 requests are in flight at once."""
    llm.model, llm.together = lambda _: "20", 8
    retriever = HyDERetriever(search, ask())
    await asyncio.gather(*(retriever(f"{n}", 1) for n in range(16)))
    assert llm.most_in_flight >= 8


@pytest.mark.parametrize(
    ("technique", "options", "message"),
    [
        (FusionRetriever, {"n": 0}, "n is 0"),
        (FusionRetriever, {"rrf_k": -1}, "fusion is -1"),
        (RewriteRetriever, {"passages": 0}, r"passages is 0: expected 1 or more"),
        # Slicing would take all but the last passages.
        (FeedbackRetriever, {"passages": -1}, "passages is -1"),
    ],
)
def test_numbers_that_make_no_search_are_errors_before_any_request(search, technique, options, message):
    with pytest.raises(InputError, match=message):
        technique(search, None, **options)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_search_may_be_async_and_take_k_in_its_way(llm, ask, technique):
    llm.model = lambda _: "20"

    async def found(_query: str, *, top_k: int) -> list[Document]:
        await asyncio.sleep(0)
        return CORPUS[: min(top_k, 3)]

    assert _ids(_run(technique(found, ask()))) == ["d0", "d10"]
    assert _ids(_run(technique(HyDERetriever(found, ask()), ask()))) == ["d0", "d10"]


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("search", [CORPUS, None, "bm25"])
def test_what_cannot_be_searched_with_is_refused(technique: Callable[..., object], search: object) -> None:
    with pytest.raises(InputError, match=f"to search with is {type(search).__name__}, which cannot be"):
        technique(search, None)


def test_a_search_that_returns_no_list_is_an_error(llm: LLMServer, ask: Callable[..., LLM]) -> None:
    llm.model = lambda _: "20"
    with pytest.raises(CallableError, match=r"The search returned NoneType\.\nReturn a list of documents"):
        _run(HyDERetriever(lambda _query, _k: None, ask()))
