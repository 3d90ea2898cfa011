"""Real vector stores and frameworks: what a retriever gives as it is, and with the recipe in the documentation."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.foreign_plugins import WITHOUT
from tests.postgres_server import PostgresServer

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "vector-stores.md"

UPDATE: Final = os.environ.get("RAGEVAL_DOCS") == "update"
"""Whether the table on the page is written, as the outputs of commands are by `tests/docs`."""

APPS: Final = Path(__file__).with_name("retriever_apps")

HANDBOOK: Final = APPS / "handbook.py"


@dataclass(frozen=True)
class Case:
    """A store or framework, and its application in `retriever_apps`.

    Attributes:
        title: the heading of its recipe.
        app: the name of the application's file.
        packages: the modules that the application needs.
        objects: expressions for what a user may return from the fixture as it is.
        search: an expression for a search whose results are not converted: the line in the errors.
        server: the fixture with the server that it needs.
    """

    title: str
    app: str
    packages: tuple[str, ...]
    objects: tuple[str, ...]
    search: str
    server: str | None = None


CASES: Final = (
    Case(
        "Chroma",
        "chroma",
        ("chromadb",),
        ("collection",),
        "lambda query, k: collection.query(query_texts=[query], n_results=k)",
    ),
    Case(
        "Qdrant",
        "qdrant",
        ("qdrant_client",),
        ("client",),
        'lambda query, k: client.query_points("passages", query=embed(query), limit=k)',
    ),
    Case(
        "LanceDB", "lancedb", ("lancedb",), ("table",), "lambda query, k: table.search(embed(query)).limit(k)"
    ),
    Case(
        "FAISS",
        "faiss",
        ("faiss",),
        ("index",),
        "lambda query, k: "
        "[passages[row] for row in index.search(np.array([embed(query)]), k)[1][0] if row >= 0]",
    ),
    Case(
        "Milvus",
        "milvus",
        ("pymilvus", "milvus_lite"),
        ("client",),
        'lambda query, k: client.search("passages", data=[embed(query)], limit=k, output_fields=["text"])',
    ),
    Case(
        "DuckDB",
        "duckdb",
        ("duckdb",),
        ("connection",),
        "lambda query, k: connection.execute(sql, (embed(query), k))",
    ),
    Case(
        "PostgreSQL with pgvector",
        "pgvector",
        ("pgvector", "psycopg"),
        ("connection",),
        "lambda query, k: connection.execute(sql, (embed(query), k))",
        "postgres",
    ),
    Case(
        "Tantivy",
        "tantivy",
        ("tantivy",),
        ("index",),
        "lambda query, k: [searcher.doc(hit) for _, hit in "
        'searcher.search(index.parse_query_lenient(query, ["text"])[0], k).hits]',
    ),
    Case(
        "bm25s",
        "bm25s",
        ("bm25s",),
        ("index",),
        "lambda query, k: index.retrieve(bm25s.tokenize(query), corpus=passages, k=k)",
    ),
    Case(
        "Elasticsearch",
        "elasticsearch",
        ("elasticsearch",),
        ("client",),
        'lambda query, k: client.search(index="passages", query={"match": {"text": query}}, size=k)',
    ),
    Case(
        "LangChain",
        "langchain",
        ("langchain_core", "langchain_chroma"),
        ("store.as_retriever()", "store", "Chroma.from_documents(documents, embedding)"),
        "store.similarity_search_with_score",
    ),
    Case(
        "LangChain without ids",
        "langchain_sources",
        ("langchain_core",),
        ("store.as_retriever()", "store"),
        "store.similarity_search_with_score",
    ),
    Case(
        "LlamaIndex",
        "llamaindex",
        ("llama_index",),
        ("index.as_retriever()", "index"),
        "lambda query, k: index.as_retriever(similarity_top_k=k).retrieve(query)",
    ),
    Case(
        "LlamaIndex from documents",
        "llamaindex_documents",
        ("llama_index",),
        ("index.as_retriever()", "index"),
        "lambda query, k: index.as_retriever(similarity_top_k=k).retrieve(query)",
    ),
    Case(
        "Haystack",
        "haystack",
        ("haystack",),
        ("pipeline", "InMemoryBM25Retriever(store)", "InMemoryEmbeddingRetriever(store)", "store"),
        'lambda query, k: pipeline.run({"embedder": {"text": query}, "retriever": {"top_k": k}})',
    ),
    Case("DSPy", "dspy", ("dspy",), ("retriever",), "lambda query, k: retriever(query)"),
    Case(
        "Semantic Kernel",
        "semantic_kernel",
        ("semantic_kernel",),
        ("collection.search", "collection"),
        "lambda query, k: collection.search(query, top=k)",
    ),
    Case(
        "Pydantic AI",
        "pydantic_ai",
        ("pydantic_ai",),
        ("search", "agent"),
        "lambda query, k: agent.run(query)",
    ),
)

QUESTIONS: Final = {
    "kb-1": "How many days do refunds take?",
    "kb-2": "Where are passwords reset?",
    "kb-3": "How long do parcels to Norway take?",
}
"""The questions by the id of their passage."""

TEST: Final = """
import my_app
import handbook
import pytest
from my_app import *

@pytest.fixture(scope="session")
def rageval_retriever():
    return {expression}

@pytest.mark.rageval_evalset("questions.jsonl")
@pytest.mark.rageval_threshold("recall@1", min=1.0)
def test_gate(rageval):
    for example in rageval.examples:
        for k in {sizes}:
            ranking = rageval.retrieve(example, k=k)
            assert 1 <= len(ranking) <= min(k, len(handbook.PASSAGES))
            assert {{each.id: each.text for each in ranking}}.items() <= handbook.PASSAGES.items()

def with_arrays():
    my_app.embed = handbook.embed_as_array
    return lambda query, k: retrieve(query, k)
"""
"""The test of one object: its documents have ids and texts. A recipe also works for a k above the size of the index."""

DEAR: Final = {"haystack", "llamaindex", "llamaindex_documents"}
"""Apps whose import takes seconds. `.ci/stores` runs all."""

RECIPE, WITH_ARRAYS = "retrieve", "with_arrays()"
"""Expressions for the recipe, and for the recipe with an `embed` that returns arrays of NumPy."""

ENVIRONMENT: Final = {
    "ANONYMIZED_TELEMETRY": "False",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""Variables that prevent connections to other machines."""

RECIPES: Final = re.compile(r"\n### (.+)\n[^#]*?```python\n(# my_app\.py, continued\n[^`]*)```")

TABLE: Final = re.compile(r"(?<=\n\|---\|---\|---\|---\|\n)(\|.*\n)+")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Yield a running server."""
    with PostgresServer() as server:
        yield server


def recipes() -> dict[str, str]:
    """Return the code of the recipes on the page, by their headings."""
    return dict(RECIPES.findall(PAGE.read_text(encoding="utf-8")))


def test_each_case_has_a_recipe_and_rows_in_the_table():
    """The page, and its table, have the cases in the order of this file."""
    titles = [case.title for case in CASES]
    assert list(recipes()) == titles
    assert list(rows()) == titles


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.app, marks=[pytest.mark.long] if case.app in DEAR else []) for case in CASES],
)
def test_a_retriever_as_it_is_and_with_its_recipe(case, pytester, request, monkeypatch):
    for name in case.packages:
        if find_spec(name) is None:
            pytest.skip(f"the package {name} is not installed")
    server_variables = request.getfixturevalue(case.server).env if case.server else {}
    for name, value in (ENVIRONMENT | server_variables).items():
        monkeypatch.setenv(name, value)
    recipe = recipes()[case.title]
    expressions = [*case.objects, case.search, RECIPE, *([WITH_ARRAYS] if "embed(" in recipe else [])]
    records = [{"id": name, "question": text, "gold": [{"id": name}]} for name, text in QUESTIONS.items()]
    pytester.makefile(".jsonl", questions="\n".join(map(json.dumps, records)))
    app = (APPS / f"{case.app}.py").read_text(encoding="utf-8")
    pytester.makepyfile(handbook=HANDBOOK.read_text(encoding="utf-8"), my_app=f"{app}\n\n{recipe}")
    for number, expression in enumerate(expressions):
        sizes = (2, 10) if expression in (RECIPE, WITH_ARRAYS) else (2,)
        pytester.makepyfile(**{f"test_{number}": TEST.format(expression=expression, sizes=sizes)})

    pytester.runpytest_subprocess(*WITHOUT, "-q", "--rageval-report=report.json")

    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    results = {
        name: result(test, case.search) for name, test in zip(expressions, report["tests"], strict=True)
    }
    assert results[RECIPE] == results.get(WITH_ARRAYS, "1.00") == "1.00"
    first, *others = case.objects
    link = f"[{case.title}](#{case.title.lower().replace(' ', '-')})"
    lines = [f"| {link} | `{first}`: {results[first]} | {results[case.search]} | {results[RECIPE]} |"]
    lines += [f"| | `{other}`: {results[other]} | | |" for other in others]
    if UPDATE:
        page = PAGE.read_text(encoding="utf-8")
        table = "\n".join((rows() | {case.title: "\n".join(lines)}).values())
        PAGE.write_text(TABLE.sub(lambda _: f"{table}\n", page), encoding="utf-8")
    assert rows()[case.title].splitlines() == lines


def result(test: dict[str, Any], search: str) -> str:
    """Return the score of a test, or "error".

    Raises:
        AssertionError: a wrong score; an error that does not say what to write; or it shows another line than `search`.
    """
    message = test.get("message", "")
    if test["outcome"] == "error":
        assert re.search(r"(?m)^(Return|To use it as)|has an id to find the gold passage by", message), (
            message
        )
        shown = re.search(r"lambda query, k: .*", message)
        assert shown is None or shown[0] == search
        return "error"
    assert test["outcome"] == "passed", message
    return f"{test['scores'][0]['mean']:.2f}"


def rows() -> dict[str, str]:
    """Return the rows of each case in the page's table, by its title."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    parts = re.split(r"(?m)^(?=\| \[(.+?)\])", table[0] if table else "")[1:]
    return {title: part.rstrip("\n") for title, part in zip(parts[::2], parts[1::2], strict=True)}
