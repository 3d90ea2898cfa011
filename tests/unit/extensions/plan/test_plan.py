"""Plans of a test, evaluated without pytest."""

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pluggy
import pytest

from pytest_rageval import hookspecs
from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import CallableError, InputError, ReplyPending
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.extensions import installed
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.annotator_agreement import AgreementRequest
from tests.llm_server import LLMServer
from tests.unit.run.marked import EVALS, components, evalset_of, marked


def _generate(*_: object) -> str:
    raise AssertionError("called in a plan")


@pytest.mark.parametrize("plan", [True, False])
def test_in_a_plan_too_a_judge_with_a_wrong_signature_is_an_error(tmp_path: Path, *, plan: bool) -> None:
    session = Session(Settings(cache_dir=tmp_path / "cache", plan=plan))
    parts = replace(components(), judge=lambda _question, _prediction: True)
    with pytest.raises(CallableError, match=r"is called with three arguments: compare\("):
        session.pipelines.get(parts)
    session.close()


def test_a_cached_function_of_the_user_is_called_in_a_plan(tmp_path: Path) -> None:
    """Its results may be in the cache; a result that is not there counts as planned."""
    session = Session(Settings(cache_dir=tmp_path / "cache", plan=True))
    parts = replace(components(), generator=session.llm.cached(_generate, version="1"))
    evals = evalset_of(3, answers=("right",))
    session.evaluator.outcomes(parts, evals, [ScoreRequest("answer.correct@1")])
    judge_alone = "calls of rageval_judge, your own function: their requests are not counted"
    assert list(session.usage.remarks) == [judge_alone]
    session.close()


def _waits(_query: str, _k: int) -> NoReturn:
    raise ReplyPending


@pytest.mark.parametrize("extension", ["plan", "none"])
def test_a_test_goes_on_with_a_stub_where_an_extension_has_one(tmp_path: Path, extension: str) -> None:
    manager = pluggy.PluginManager("pytest")
    manager.add_hookspecs(hookspecs)
    if extension in installed():
        manager.register(installed()[extension])
    session = Session(Settings(cache_dir=tmp_path / "cache"), registry=Registry(manager.hook))
    test = TestRun(session, replace(components(), retriever=_waits), marked(tmp_path, [EVALS]))
    calls = [
        lambda: test.score("recall@1", {}) > 0.99,
        lambda: test.agreement(AgreementRequest(["gold"], ["ndcg"], [1], None)).best("gold", 1).rho > 0.99,
    ]
    for call in calls:
        if extension == "plan":
            assert call()
        else:
            with pytest.raises(ReplyPending):
                call()
    assert test.has_stubs == (extension == "plan")
    session.close()


def test_a_plan_counts_each_draw(llm: LLMServer, tmp_path: Path) -> None:
    example = Example("q", "item-1?", answers=("c1",), gold=(Gold(id="d", text="gold"),))
    evalset = EvalSet("evals", (example,))
    session = Session(
        Settings(model="m", base_url=llm.url, cache_dir=tmp_path, plan=True, llm_reteval_draws=5)
    )
    parts = Components(
        lambda query, _k: [{"id": "d", "text": query}],
        DefaultGenerator(session.models),
        DefaultJudge(session.models),
    )
    [runs] = session.evaluator.outcomes(parts, evalset, [ScoreRequest("answer.em@1", draws=3)]).values()
    assert isinstance(runs, list)
    assert session.usage.live == 3
    session.evaluator.outcomes(parts, evalset, [ScoreRequest("llm_reteval@1")])
    # Five answers from the gold passage, a verdict on the planned answer, and the calls of its triage.
    assert session.usage.live - 3 > 5
    assert not llm.requests
    session.close()


@pytest.mark.parametrize(
    ("options", "nothing"),
    [
        ({"record": "true", "cassette": "replies.jsonl"}, "is nothing for --rageval-record"),
        ({"update_baseline": "true"}, "are no scores for --rageval-update-baseline"),
    ],
)
def test_a_plan_writes_nothing(options: dict[str, str], nothing: str) -> None:
    here = Path("/project")
    with pytest.raises(InputError) as caught:
        resolve_options({"plan": "true", **options}, {}, {}, invoked_in=here, root=here)
    assert (
        str(caught.value) == f"--rageval-plan sends no requests, so there {nothing} to write: leave one out."
    )
