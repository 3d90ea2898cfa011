"""A user's typed conftest: the fixtures that users define, and the hook; it is checked and never run."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval import (
    LLM,
    BM25Retriever,
    CachedEncoder,
    DenseRetriever,
    Document,
    Evidence,
    Example,
    GatewayServer,
    Outcome,
    Registry,
    Retrieval,
    RetrieverFactory,
    Step,
)


@pytest.fixture(scope="session")
def rageval_retriever(
    rageval_llm: LLM, rageval_gateway: GatewayServer, rageval_encoder: CachedEncoder
) -> Callable[[str, int], Retrieval]:
    """An agent that searches twice, of which one search is dense."""
    sparse = BM25Retriever(["a text"])
    dense = DenseRetriever(["a text"], encoder=rageval_encoder)
    variables: Mapping[str, str] = rageval_gateway.variables()

    def search(query: str, k: int) -> Retrieval:
        better: str = rageval_llm.complete(f"Shorten: {query} {variables}").text
        steps = [Step(query, sparse(query, k)), Step(better, dense(better, k))]
        return Retrieval(steps[-1].documents, steps=steps)

    return search


@pytest.fixture(scope="session")
def rageval_reference_retriever() -> RetrieverFactory:
    """A retriever that is built where it runs."""
    return RetrieverFactory(BM25Retriever, ["a text"])


@pytest.fixture(scope="session")
def rageval_generator() -> Callable[[str, Sequence[Document]], Awaitable[str]]:
    async def generate(question: str, passages: Sequence[Document]) -> str:
        return passages[0].text if question else ""

    return generate


class Judge:
    def compare(self, question: str, references: Sequence[str], prediction: str) -> bool:
        return bool(question) and prediction in references


@pytest.fixture(scope="session")
def rageval_judge() -> Judge:
    return Judge()


def first_letter(prediction: str, references: Sequence[str]) -> float:
    return float(prediction[:1] == references[0][:1])


async def fill(run: Any, examples: Sequence[Example], resolved: Any) -> list[Outcome]:
    rankings = [await run.ranking(example, resolved.k) for example in examples]
    return [
        Outcome(example, len(ranking) / resolved.k, evidence=Evidence(ranking))
        for example, ranking in zip(examples, rankings, strict=True)
    ]


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield f"line {number}", {"id": f"q{number}", "question": line}


def to_text(report: Mapping[str, Any]) -> str:
    return str(report["tests"])


def pytest_rageval_register(registry: Registry) -> None:
    registry.add_answer_measure("first_letter", first_letter)
    registry.add_comparator("mine", Judge())
    registry.add_score("fill", fill, asks=(), scale=(0, 1))
    registry.add_format("lines", lambda shape: shape.suffix == ".lines", read_lines)
    registry.add_report(".txt", to_text)
