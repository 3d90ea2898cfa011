"""`rageval_application`: what it may return, and retriever and generator from it."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval import HTTPApplication, capture
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, QueryError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Document
from pytest_rageval.extensions.application.application import Application, application_of, read_parts
from pytest_rageval.extensions.application.capture import captured, record, recording
from pytest_rageval.retrievers import adapt_retriever
from tests.http_server import HTTPAnswer, HTTPRequest, HTTPServerThread

SOURCES = [{"id": "d1", "text": "One."}, {"id": "d2", "text": "Two."}]


@pytest.mark.parametrize(
    ("returned", "sources"),
    [
        ("In Tulsa.", None),
        (("In Tulsa.", SOURCES), SOURCES),
        ([SOURCES, "In Tulsa."], SOURCES),
        ({"answer": "In Tulsa.", "sources": SOURCES, "question": "Where?"}, SOURCES),
        ({"result": "In Tulsa.", "source_documents": SOURCES}, SOURCES),
        (SimpleNamespace(response="In Tulsa.", source_nodes=SOURCES), SOURCES),
        ({"answer": SimpleNamespace(content="In Tulsa."), "context": SOURCES}, SOURCES),
        (SimpleNamespace(content="In Tulsa."), None),
        ({"replies": 3, "output": ["In Tulsa."], "documents": []}, []),
    ],
)
def test_answer_and_sources_are_found(returned: object, sources: object) -> None:
    assert read_parts(returned, "ask") == ("In Tulsa.", sources)


@pytest.mark.parametrize("returned", [None, {"reply_code": 3}, (SOURCES, SOURCES), 4, {"answer": None}])
def test_no_answer_is_an_error(returned: object) -> None:
    with pytest.raises(CallableError, match="ask returned no answer that is known"):
        read_parts(returned, "ask")


def _retrieved(loop: BackgroundEventLoop, application: Application, question: str = "Where?") -> Any:
    return loop.run(adapt_retriever(application.retriever, loop).retrieve(question, 5))


ASKED: list[str] = []


def _sync(question: str) -> object:
    ASKED.append(question)
    return f"Answer to {question}", SOURCES


async def _async(question: str) -> object:
    return _sync(question)


@pytest.mark.parametrize("ask", [_sync, _async])
def test_each_question_is_asked_once_for_retriever_and_generator(loop: BackgroundEventLoop, ask: Any) -> None:
    application = application_of(ask)
    assert application_of(ask) is application
    retriever = adapt_retriever(application.retriever, loop)

    async def all_k() -> list[Any]:
        return list(await asyncio.gather(*(retriever.retrieve("Where?", k) for k in (5, 1))))

    ASKED.clear()
    ranking, cut = loop.run(all_k())
    assert (ranking.ids, cut.ids, ASKED) == (("d1", "d2"), ("d1",), ["Where?"])
    assert ranking.seconds == cut.seconds is not None
    generator: Any = application.generator
    for answer in (generator.generate, generator.explain):
        assert answer("Where?", list(ranking)) == "Answer to Where?"


def test_several_answers_cannot_be_drawn() -> None:
    generator: Any = Application(_sync).generator
    with pytest.raises(InputError, match="draws several answers"):
        generator.generate("Where?", [Document("One.")], sample=1)


def test_context_is_passed_to_parameters_of_its_name(loop: BackgroundEventLoop) -> None:
    def ask(question: str, *, history: Any = (), filter: Any = None) -> object:  # noqa: A002
        return f"{question} {[message['content'] for message in history]} {filter}", []

    application = Application(ask)
    retriever = adapt_retriever(application.retriever, loop)
    assert retriever.context_names == {"history", "filters"}
    history = ({"role": "user", "content": "Hi"},)
    loop.run(retriever.retrieve(Example("q1", "Where?", history=history, filters={"lang": "en"}), 5))
    assert application.answer_from("Where?", []) == "Where? ['Hi'] {'lang': 'en'}"


def test_no_sources_and_no_capture_is_an_error(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match=r"an answer and no sources.\nReturn \(answer, sources\)"):
        _retrieved(loop, Application(lambda _question: "In Tulsa."))


class _Store:
    def search(self, query: str, k: int = 2) -> list[dict[str, str]]:
        return [{"id": f"{query}{n}", "text": f"{query}{n}"} for n in range(k)]

    async def asearch(self, query: str) -> list[dict[str, str]]:
        return self.search(query)


def test_a_captured_search_gives_the_sources(loop: BackgroundEventLoop) -> None:
    """k, query rewriting and filters are those of the application: the last search counts, all are the steps."""
    store = _Store()

    def ask(question: str) -> str:
        store.search(question.lower(), k=3).clear()
        return f"{len(store.search('better', k=1))} found"

    with capture(store, "search"):
        application = Application(ask)
        ranking = _retrieved(loop, application, "WHERE?")
    assert ranking.ids == ("better0",)
    assert ranking.steps is not None
    assert [(step.query, len(step)) for step in ranking.steps] == [("where?", 3), ("better", 1)]
    assert application.answer_from("WHERE?", list(ranking)) == "1 found"
    assert "search" not in vars(store)


@pytest.mark.parametrize("owner", [_Store(), _Store])
def test_searches_of_concurrent_questions_are_kept_apart(loop: BackgroundEventLoop, owner: object) -> None:
    store = owner if isinstance(owner, _Store) else _Store()
    original = _Store.asearch

    async def ask(question: str) -> str:
        await store.asearch(question)
        return "answer"

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(retriever.retrieve(question, 1) for question in ("a", "b"))))

    with capture(owner, "asearch"):
        retriever = adapt_retriever(Application(ask).retriever, loop)
        assert [ranking.ids for ranking in loop.run(both())] == [("a0",), ("b0",)]
    assert _Store.asearch is original


def test_a_search_in_a_thread_without_context_is_known_only_alone() -> None:
    with ThreadPoolExecutor(1) as pool:
        with recording() as alone:
            pool.submit(record, "q", SOURCES).result()
        assert [step.query for step in alone.searches()] == ["q"]
        with recording(), recording() as other:
            pool.submit(record, "q", SOURCES).result()
    with pytest.raises(Unscored, match="whose it was is not known"):
        other.searches()
    record("q", SOURCES)  # outside of a question it is nobody's


@pytest.mark.parametrize(
    ("owner", "name"), [(_Store(), f"{__name__}._Store"), (_Store, f"{__name__}._Store"), (json, "json")]
)
def test_what_is_captured_is_named_as_the_user_names_it(owner: object, name: str) -> None:
    with pytest.raises(InputError, match=rf"^capture: {name}.serch is no function"), capture(owner, "serch"):
        pass
    with pytest.raises(InputError, match=r"no such framework. Did you mean langchain\?"), capture("langchan"):
        pass
    method = "loads" if owner is json else "search"
    with capture(owner, method):
        assert captured() == (f"{name}.{method}",)


class _Slotted:
    __slots__ = ()

    def search(self, query: str) -> list[dict[str, str]]:
        return [{"id": query, "text": query}]

    @staticmethod
    def static(query: str) -> list[dict[str, str]]:
        return [{"id": query, "text": query}]


@pytest.mark.parametrize("method", ["search", "static"])
def test_a_class_is_captured_where_its_objects_cannot_be(method: str) -> None:
    store, before = _Slotted(), vars(_Slotted)[method]
    if method == "search":
        with pytest.raises(InputError, match=r"capture\(_Slotted, 'search'\)"), capture(store, method):
            pass
    with capture(_Slotted, method), recording() as recorder:
        assert getattr(store, method)("q") == [{"id": "q", "text": "q"}]
    assert [step.query for step in recorder.searches()] == ["q"]
    assert vars(_Slotted)[method] is before


@pytest.mark.slow
def test_langchain(loop: BackgroundEventLoop) -> None:
    retrievers = pytest.importorskip("langchain_core.retrievers")
    documents = pytest.importorskip("langchain_core.documents")

    class Inner(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:  # noqa: ARG002
            return [documents.Document(id=f"{query}{n}", page_content=f"{query}{n}") for n in range(3)]

    class Outer(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            found: list[Any] = Inner().invoke(query, config={"callbacks": run_manager.get_child()})
            return found[:2]

    async def ask(question: str) -> str:
        await Outer().ainvoke(question)
        return "answer"

    with capture("langchain"):
        ranking = _retrieved(loop, Application(ask), "a")
    assert (ranking.ids, ranking.steps) == (("a0", "a1"), None)


@pytest.mark.slow
def test_llama_index(loop: BackgroundEventLoop) -> None:
    retrievers = pytest.importorskip("llama_index.core.retrievers")
    schema = pytest.importorskip("llama_index.core.schema")

    class Own(retrievers.BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            node = schema.TextNode(id_="n1", text=query_bundle.query_str)
            return [schema.NodeWithScore(node=node, score=1.0)]

    def ask(question: str) -> str:
        Own().retrieve(question)
        return "answer"

    with capture("llama_index"):
        assert _retrieved(loop, Application(ask)).ids == ("n1",)


@pytest.mark.slow
def test_haystack(loop: BackgroundEventLoop) -> None:
    haystack = pytest.importorskip("haystack")
    stores = pytest.importorskip("haystack.document_stores.in_memory")
    retrievers = pytest.importorskip("haystack.components.retrievers.in_memory")
    store = stores.InMemoryDocumentStore()
    store.write_documents([haystack.Document(id=name, content=f"a word {name}") for name in ("d1", "d2")])
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", retrievers.InMemoryBM25Retriever(store, top_k=1))

    def ask(question: str) -> str:
        pipeline.run({"search": {"query": question}})
        return "answer"

    with capture("haystack"):
        assert _retrieved(loop, Application(ask), "word d2").ids == ("d2",)


def test_opentelemetry(loop: BackgroundEventLoop) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    if not isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        with pytest.raises(InputError, match="no TracerProvider"), capture("opentelemetry"):
            pass
        trace.set_tracer_provider(sdk.TracerProvider())

    def ask(question: str) -> str:
        with trace.get_tracer("app").start_as_current_span("search") as span:
            span.set_attribute("openinference.span.kind", "RETRIEVER")
            span.set_attribute("input.value", question)
            span.set_attribute("retrieval.documents.0.document.id", "d1")
            span.set_attribute("retrieval.documents.0.document.content", "One.")
        return "answer"

    with capture("opentelemetry"):
        assert _retrieved(loop, Application(ask)).ids == ("d1",)


class _Application(HTTPServerThread):
    protocol = "HTTP/1.0"

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        body = json.loads(request.content)
        if request.headers["x-key"] != "secret" or body["q"] == "fail":
            return 500, {}, b"{}"
        return 200, {}, json.dumps({"answer": f"{body['q']} {body['user']}", "sources": SOURCES}).encode()


@pytest.fixture
def url() -> Iterator[str]:
    with _Application() as server:
        yield f"{server.origin}/ask?key=1"


def test_an_application_at_a_url(loop: BackgroundEventLoop, url: str) -> None:
    endpoint = HTTPApplication(url, question="q", body={"user": "ann"}, headers={"X-Key": "secret"})
    application = application_of(endpoint)
    retriever = adapt_retriever(application.retriever, loop)
    ranking = loop.run(retriever.retrieve("Where?", 5))
    assert application.answer_from("Where?", list(ranking)) == "Where? ann"
    with pytest.raises(QueryError, match="500"):
        loop.run(retriever.retrieve("fail", 5))
    assert "key" not in endpoint.fingerprint
    assert application_of(url) is application_of(url)


def test_another_value_is_an_error() -> None:
    with pytest.raises(CallableError, match="rageval_application is int, which cannot be called"):
        application_of(3)
