"""Traces of a real LangChain chain, as the LangSmith client writes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.extensions.traces.reading import read_traces

pytestmark = pytest.mark.slow


def written(run: Any) -> Iterator[bytes]:
    from langsmith.client import _dumps_json

    yield _dumps_json(run.model_dump()) + b"\n"
    for child in run.child_runs:
        yield from written(child)


def test_the_runs_of_a_chain_are_read(tmp_path: Path) -> None:
    pytest.importorskip("langsmith")
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document("Main Street.", id="d1"), Document(query, id="d2")]

    collector = RunCollectorCallbackHandler()
    chain = (
        RunnableLambda(lambda given: given["messages"][-1].content)
        | {"context": Retriever(), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{question}")])
        | FakeListChatModel(responses=["On Main Street."])
        | StrOutputParser()
    )
    messages = [HumanMessage("Hello"), AIMessage("Hi."), HumanMessage("Where is it?")]
    chain.invoke({"messages": messages}, config={"callbacks": [collector]})
    (run,) = collector.traced_runs
    (tmp_path / "runs.jsonl").write_bytes(b"".join(written(run)))
    traces = read_traces([tmp_path / "runs.jsonl"])
    (question,) = traces.questions
    assert question.record() == {
        "id": str(run.id),
        "question": "Where is it?",
        "history": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}],
        "answer_given": "On Main Street.",
        "retrieved": [{"id": "d1", "text": "Main Street."}, {"id": "d2", "text": "Where is it?"}],
    }
    assert not traces.notes
