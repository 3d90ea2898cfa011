"""Reports for the browser tests: of real runs in subprocesses, and of generated documents."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer
from tests.unit.reports.whole_document import whole_document

QUESTIONS = 300
"""Number of questions of the real run: more than the page lists at once."""

CONFTEST = """
import json, os
import pytest

LOST = os.environ.get("LOST", "").split()
GOOD = {passages!r}

def passage(name):
    return {{"id": name, "text": GOOD.replace("NAME", name).replace("NUMBER", name[4:])}}

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k, history=None, filters=None, metadata=None):
        wanted = query.split("item-")[1].split("?")[0]
        names = [f"doc-{{n}}" for n in (wanted, *"123456789") if n not in LOST]
        return [passage(name) for name in dict.fromkeys(names)][:k]
    return search
"""

TESTS = """
import pytest
pytestmark = pytest.mark.rageval_evalset("evals.jsonl")

@pytest.mark.rageval_threshold("recall@3", max_drop=0.001)
@pytest.mark.rageval_threshold("answer.correct@2", max_drop=0.001)
def test_gate(): pass

@pytest.mark.rageval_threshold("mrr@3", min=0.2)
def test_order(): pass
"""


def _run(folder: Path, server: LLMServer, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *WITHOUT, "-q", "--rootdir=.", *arguments],
        cwd=folder,
        env=os.environ | {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-secret"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr


def _write(folder: Path, records: list[dict[str, Any]], passage: str, tests: str, **ini: str) -> None:
    lines = "\n".join(map(json.dumps, records))
    (folder / "evals.jsonl").write_text(lines, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST.format(passages=passage), encoding="utf-8")
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    options = "\n".join(f"{name} = {value}" for name, value in ini.items())
    (folder / "pytest.ini").write_text(f"[pytest]\n{options}\n", encoding="utf-8")


def real_run(folder: Path) -> Path:
    """Return the page of a run in which three questions are lost and one is gained.

    `before.json`, `after.json` and `history.jsonl` are in the same folder.
    """
    records = [
        {
            "id": f"q{n}",
            "question": f"What is the code of item-{n}?",
            "answers": [f"c{n}x"],
            "gold": [{"id": f"doc-{n}"}],
            "tags": {"topic": "odd" if n % 2 else "even"},
        }
        for n in range(1, QUESTIONS + 1)
    ]
    _write(
        folder,
        records,
        "Of all things, item-NUMBER has the code cNUMBERx. See NAME.",
        TESTS,
        rageval_model="m1",
    )
    with LLMServer() as server:
        reports = ("--rageval=history=history.jsonl", "--rageval-report=before.json")
        _run(folder, server, "--rageval-update-baseline", *reports, LOST="40")
        reports = (
            "--rageval=history=history.jsonl",
            "--rageval-report=after.json",
            "--rageval-report=report.html",
        )
        _run(folder, server, *reports, LOST="20 30 299")
    return folder / "report.html"


JUDGED = """
import pytest
pytestmark = pytest.mark.rageval_evalset("evals.jsonl")

@pytest.mark.rageval_threshold("judged.correctness@2", max_drop=0.1, policy="half")
@pytest.mark.rageval_threshold("recall@3", max_drop=0.1)
def test_gate(): pass
"""


def planted_run(folder: Path, text: str) -> Path:
    """Return the page of a run with a text in every field of the eval set, passages, replies and names."""
    records = [
        {
            "id": f"q{n} {text}",
            "question": f"What is the code of item-{n}? {text}",
            "answers": [f"c{n}x {text}"],
            "reference": f"It is c{n}x. {text}",
            "gold": [{"id": f"doc-{n}", "text": f"c{n}x {text}"}, {"id": f"doc {text}", "group": text}],
            "tags": {f"topic {text}": f"{n} {text}", text: text},
            "history": [{"role": "user", "content": f"Hello {text}"}],
            "filters": {f"tenant {text}": text},
            "metadata": {f"date {text}": text},
            f"other {text}": text,
        }
        for n in range(1, 5)
    ]
    models = {
        "rageval_model": f"m {text}",
        "rageval_judge_model": f"judge {text}",
        "rageval_max_unscored": "1",
    }
    _write(folder, records, f"The code of NAME is cNUMBERx. {text}", JUDGED, **models)
    (folder / "pyproject.toml").write_text("[tool.rageval.policy.half]\nalpha = 0.5\n", encoding="utf-8")

    def model(prompt: str) -> str:
        if '"grade"' in prompt or "Rate how" in prompt:
            return json.dumps({"explanation": f"Because {text}", "grade": 1 if "lost" in prompt else 5})
        return f"lost {text}" if "item-2" in prompt.rsplit("uestion", 1)[-1] else f"c1x {text}"

    names = {
        "GITHUB_HEAD_REF": f"branch {text}",
        "GITHUB_SHA": f"a {text}",
        "CI_JOB_URL": f"https://x/{text}",
    }
    with LLMServer(model) as server:
        server.served = f"served {text}"
        _run(folder, server, "--rageval-update-baseline", **names)
        _run(folder, server, "--rageval-report=report.html", LOST="3", **names)
    return folder / "report.html"


def wide_document(questions: int, systems: int = 12) -> dict[str, Any]:
    """Return a run with a long list, long words and wide tables, which do not fit into a narrow window."""
    document = whole_document()
    (test,) = document["tests"]
    test["nodeid"] = f"tests/{'deep/' * 20}test_a.py::test_gate[{'x' * 200}]"
    kept = test["questions"][0]
    test["questions"] = [
        {**kept, "id": f"q{n}-{'y' * 60}", "question": f"How many {'z' * 200} {n}?"} for n in range(questions)
    ]
    test["questions"][-1]["retrieved"] = [{"document": "v" * 300, "text": "w" * 3000, "gold": True}]
    for entry in test["scores"]:
        entry["examples"] = [
            {**entry["examples"][n % 2], "id": each["id"], "answer": "a" * 500}
            for n, each in enumerate(test["questions"])
        ]
    (matrix,) = document["matrix"]
    matrix["scores"] = [f"score.of.many@{n}" for n in range(systems)]
    cell = matrix["rows"][0]["cells"][0]
    matrix["rows"] = [
        {"system": {"rageval_retriever": f"retriever-{n}-{'u' * 40}"}, "cells": [cell] * systems}
        for n in range(systems)
    ]
    return document
