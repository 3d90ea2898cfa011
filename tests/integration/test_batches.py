"""Runs in batches: the scores of a live run, and no request is asked live."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.batch_server import BatchServer
from tests.integration.conftest import Project
from tests.llm_server import clerk

GATE = """
@pytest.mark.rageval_threshold("llm_reteval@1", min=0.5)
@pytest.mark.rageval_threshold("answer.correct@2", min=0.5)
def test_gate(): pass
"""


@pytest.fixture
def server() -> Iterator[BatchServer]:
    """It answers as the scripted model of the other tests."""
    with BatchServer() as running:
        yield running


@pytest.fixture
def suite(project: Project, server: BatchServer) -> Project:
    """A project with a generator and a judge at the server, one of whose passages is not found."""
    project.use(server)  # type: ignore[arg-type]
    project.lose(2)
    project.test(GATE)
    return project


def _scores(project: Project, *arguments: str) -> tuple[pytest.RunResult, Any]:
    """A run, and what its report says of scores and questions."""
    run = project.run_process("--rageval-report=report.json", *arguments)
    report = json.loads((project.path / "report.json").read_text(encoding="utf-8"))
    return run, [test["scores"] for test in report["tests"]]


def test_one_command_has_the_scores_of_a_live_run(suite: Project, server: BatchServer) -> None:
    """Answers in a first stage, verdicts in a second one; the run itself asks nothing."""
    live, expected = _scores(suite, "--rageval-cache-dir=live")
    asked = len(server.live)
    server.live.clear()
    server.polls = 1
    run, found = _scores(suite, "--rageval-batch")
    assert found == expected
    assert run.ret == live.ret == 0
    assert not server.live
    assert len(server.asked) == asked
    assert len(server.batches) >= 2
    run.stdout.fnmatch_lines(
        [
            "rageval: stage 1: submitted batch-1 at http://127.0.0.1:*/v1, m1: * 0 of 16 requests answered, 0 failed",
            "rageval: collected batch-1 at *, m1: completed, 16 of 16 replies kept, price not known",
            "rageval: stage 2: submitted batch-2 *",
            "rageval: stage *: no reply is missing",
            "*0 live*",
        ]
    )
    again, found = _scores(suite)
    assert found == expected
    assert not server.live
