"""Helpers that create a marked test without pytest, its components, and its evaluation in a session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.run import MarkedTest
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun

NODEID = "test_it.py::test_gate"


@dataclass(frozen=True)
class Mark:
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def marked(
    root: Path, marks: Sequence[Mark], properties: list[tuple[str, float]] | None = None
) -> MarkedTest:
    recorded = [] if properties is None else properties
    return MarkedTest(
        nodeid=NODEID,
        path=root / "tests" / "test_it.py",
        root=root,
        markers=lambda name: [mark for mark in reversed(marks) if mark.name == name],
        collected=lambda: {NODEID},
        record_property=lambda name, value: recorded.append((name, value)),
    )


def evalset_of(n: int, **fields: Any) -> EvalSet:
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


EVALS = Mark("rageval_evalset", (evalset_of(20),))


def retriever(*lost: int) -> Callable[[str, int], list[dict[str, str]]]:
    def retrieve(query: str, _k: int) -> list[dict[str, str]]:
        number = int(query.split()[1])
        return [{"id": "other" if number in lost else f"d{number}", "text": "text"}]

    return retrieve


def threshold(spec: str = "recall@1", **words: Any) -> Mark:
    return Mark("rageval_threshold", (spec,), words)


def components(*lost: int) -> Components:
    return Components(retriever(*lost), _generate, Judge())


def evaluated(session: Session, root: Path, *marks: Mark, lost: Sequence[int] = (), **words: Any) -> TestRun:
    words.setdefault("sharing_alpha", [NODEID for mark in marks if "max_drop" in mark.kwargs])
    return TestRun(session, components(*lost), marked(root, [EVALS, *marks]), **words)


class Judge:
    def compare(self, _question: str, _references: object, _prediction: str) -> bool:
        return True


def _generate(question: str, _passages: object) -> str:
    return f"answer to {question}"
