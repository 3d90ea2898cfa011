"""The number of requests in the report does not depend on the cached replies."""

import sqlite3

from tests.integration.conftest import Project
from tests.llm_server import LLMServer

GATE = """
@pytest.mark.rageval_threshold("answer.correct@2", min=0.1)
@pytest.mark.rageval_threshold("answer.f1@2", min=0.0, draws=3)
@pytest.mark.rageval_threshold("llm_reteval@2", min=0.1, draws=4)
def test_gate(): pass
"""


def _llm(project: Project, *arguments: str) -> dict[str, int]:
    project.run("--rageval-report=report.json", *arguments)
    usage = project.read()["llm"]
    return {name: usage[name] for name in ("requests", "cached", "live", "failed")}


def test_half_of_the_replies_cached_is_the_same_number_of_requests(project: Project, llm: LLMServer) -> None:
    """Each reply counts as one request, although several scores use it, some before and some after it is cached."""
    project.use(llm)
    project.evalset(8)
    project.test(GATE)
    cold = _llm(project)
    total = cold["requests"]
    assert cold == {"requests": total, "cached": 0, "live": total, "failed": 0}
    assert _llm(project) == {"requests": total, "cached": total, "live": 0, "failed": 0}
    with sqlite3.connect(project.path / ".rageval_cache" / "replies.sqlite") as connection:
        deleted = connection.execute("DELETE FROM replies WHERE key < '8'").rowcount
    assert 0 < deleted < total
    half = {"requests": total, "cached": total - deleted, "live": deleted, "failed": 0}
    assert _llm(project) == half


def test_a_plan_without_a_cache_counts_no_reply_as_cached(project: Project, llm: LLMServer) -> None:
    project.use(llm)
    project.test(GATE)
    project.run("--rageval-plan", shows="        ≤ 52       0  ≤ 52 *")
    assert not llm.requests


def test_a_run_with_all_replies_cached_starts_no_thread_and_closes_the_store(
    project: Project, llm: LLMServer
) -> None:
    project.use(llm)
    names = '{thread.name for thread in threading.enumerate()} & {"rageval", "rageval-store"}'
    project.test(GATE.replace("pass", f"import threading; print(*{names})"))
    project.run("-rP", shows="rageval")
    project.run("-rP").stdout.no_fnmatch_line("rageval")
    assert [file.name for file in (project.path / ".rageval_cache").glob("replies*")] == ["replies.sqlite"]
