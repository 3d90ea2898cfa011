"""A marked test without pytest, and a session in which it is evaluated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rageval.model import EvalSet, Example, Gold
from pytest_rageval.session import Components, Session
from pytest_rageval.session.evaluated_test import EvaluatedTest

NODEID = "test_it.py::test_gate"


@dataclass(frozen=True)
class Mark:
    """A marker: its name and its arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class FakeTest:
    """A test of `MarkedTest`'s form; its marks are in the order of the file."""

    root: Path
    marks: Sequence[Mark]
    nodeid: str = NODEID
    properties: list[tuple[str, float]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The test's file."""
        return self.root / "tests" / "test_it.py"

    def markers(self, name: str) -> list[Mark]:
        """The marks of this name, the closest first."""
        return [mark for mark in reversed(self.marks) if mark.name == name]

    def collected(self) -> set[str]:
        """The test alone."""
        return {self.nodeid}

    def record_property(self, name: str, value: float) -> None:
        """Record a number."""
        self.properties.append((name, value))


def evalset_of(n: int, **fields: Any) -> EvalSet:
    """Questions with one gold document each; every other one has the topic "odd"."""
    return EvalSet(
        "evals",
        tuple(
            Example(
                f"q{i}",
                f"question {i}",
                gold=(Gold(id=f"d{i}"),),
                tags={"topic": ["even", "odd"][i % 2]},
                **fields,
            )
            for i in range(n)
        ),
    )


def retriever(*lost: int) -> Callable[[str, int], list[dict[str, str]]]:
    """Finds the gold document of every question except those with these numbers."""

    def retrieve(query: str, _k: int) -> list[dict[str, str]]:
        number = int(query.split()[1])
        return [{"id": "other" if number in lost else f"d{number}", "text": "text"}]

    return retrieve


def threshold(spec: str = "recall@1", **words: Any) -> Mark:
    """The marker `rageval_threshold`."""
    return Mark("rageval_threshold", (spec,), words)


def marked(root: Path, *marks: Mark, n: int = 20) -> FakeTest:
    """A test of n questions with these marks."""
    return FakeTest(root, [Mark("rageval_evalset", (evalset_of(n),)), *marks])


def components(*lost: int) -> Components:
    """A retriever that loses some questions, with a generator and a judge of the user's own."""
    return Components(retriever(*lost), _generate, Judge())


def evaluated(
    session: Session, root: Path, *marks: Mark, lost: Sequence[int] = (), **words: Any
) -> EvaluatedTest:
    """A test of 20 questions with these marks, of a retriever that loses some."""
    return EvaluatedTest(session, components(*lost), marked(root, *marks), **words)


class Judge:
    """Says that every answer is right."""

    def compare(self, _question: str, _references: object, _prediction: str) -> bool:
        """True."""
        return True


def _generate(question: str, _passages: object) -> str:
    return f"answer to {question}"
