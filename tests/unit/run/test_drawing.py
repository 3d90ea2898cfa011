"""Temperature and draws of the generator.

Request parameters for LLM-retEval and other scores, and the resulting scores.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from tests.llm_server import LLMServer
from tests.unit.run.marked import Mark, evalset_of, evaluated, threshold

EVALSET = EvalSet("evals", (Example("q", "item-1?", answers=("c1",), gold=(Gold(id="d", text="gold"),)),))
Run = Callable[..., Any]


@pytest.fixture
def score(llm: LLMServer, tmp_path: Path) -> Iterator[Run]:
    sessions = []

    def run(spec: str, words: dict[str, Any] | None = None, **settings: Any) -> tuple[Any, list[float]]:
        llm.requests.clear()
        session = Session(Settings(model="m", base_url=llm.url, cache_dir=tmp_path / "c", **settings))
        sessions.append(session)
        parts = Components(
            lambda query, k: [{"id": "d", "text": f"{query} has the code c1"}][:k],
            DefaultGenerator(session.models),
            DefaultJudge(session.models),
        )
        request = ScoreRequest(spec, **(words or {}))
        result = session.evaluator.score(parts, EVALSET, [request])[request]
        if isinstance(result, InputError):
            raise result
        run.fingerprint = session.dependencies(parts, request).fingerprint
        asked = [each for each in llm.requests if "to check" not in each["messages"][0]["content"]]
        return result, sorted(each["temperature"] for each in asked)

    yield run
    for each in sessions:
        each.close()


@pytest.mark.parametrize(
    ("settings", "rest", "reteval"),
    [
        ({}, [0.5], [0.5] * 4),
        ({"temperature": 0.0}, [0.0], [0.5] * 4),
        ({"llm_reteval_temperature": 0.9, "llm_reteval_draws": 1}, [0.5], [0.9] * 2),
        ({"draws": 2}, [0.5] * 2, [0.5] * 4),
        ({"parameters": {"temperature": 0.3}}, [0.3], [0.3] * 4),
        ({"parameters": {"temperature": 0.3}, "llm_reteval_temperature": None}, [0.3], [0.3] * 4),
    ],
)
def test_llm_reteval_and_the_rest_have_settings_of_their_own(score, tmp_path, settings, rest, reteval):
    assert score("answer.em@1", **settings)[1] == rest
    (tmp_path / "c").rename(tmp_path / "kept")
    assert score("llm_reteval@1", **settings)[1] == reteval


def test_a_threshold_names_its_own(score: Run) -> None:
    assert score("answer.em@1", {"temperature": 0.1, "draws": 3}, temperature=0.9)[1] == [0.1] * 3
    assert score.fingerprint["draws"] == 3
    assert score.fingerprint["generator temperature"] == 0.1
    # The threshold's temperature overrides the one in the user's parameters.
    assert score("answer.em@1", {"temperature": 0.2}, parameters={"temperature": 0.7})[1] == [0.2]
    assert score("rel_recall.answer@1", {"draws": 2})[1] == [0.5] * 2


def test_the_mean_of_the_draws_counts(score: Run, llm: LLMServer) -> None:
    replies = iter(["c1", "wrong", "wrong", "c1"])
    llm.model = lambda _prompt: next(replies)
    mean_score, _ = score("answer.em@1", draws=4, concurrency=1)
    assert float(mean_score) == 0.5
    assert mean_score.spread == pytest.approx((1 / 3) ** 0.5)
    # Each draw is cached, so no new request is sent.
    assert score("answer.em@1", draws=4)[1] == []


def test_draws_of_the_default_are_the_first_of_more(score: Run) -> None:
    """More draws reuse the cached replies of fewer draws, as with `--rageval-repeat`."""
    score("llm_reteval@1")
    assert score("llm_reteval@1", llm_reteval_draws=5)[1] == [0.5] * 2
    assert score("llm_reteval@1", llm_reteval_draws=2)[1] == []
    assert score.fingerprint["gold draws"] == 2
    score("answer.em@1")
    assert len(score("answer.em@1", draws=3)[1]) == 2
    assert "gold draws" not in score.fingerprint


def test_repeats_draw_new_samples(score: Run, llm: LLMServer) -> None:
    """Two repeats of two draws generate four answers; the judge is called again only in the second repeat."""
    llm.model = lambda prompt: "no" if "to check" in prompt else "another"
    assert len(score("answer.correct@1", draws=2, repeat=2)[1]) == 4
    checked = Counter("to check" in request["messages"][0]["content"] for request in llm.requests)
    assert checked[True] == 2


def test_ranking_measures_take_neither(score: Run) -> None:
    with pytest.raises(InputError, match=r"'recall@1' does not take draws=2\. These scores do: .*answer"):
        score("recall@1", {"draws": 2})
    assert score("recall@1", draws=3)[1] == []


def test_a_generator_of_the_user_takes_draws_and_no_temperature(tmp_path: Path) -> None:
    session = Session(Settings(cache_dir=tmp_path))
    wanted = Mark("rageval_evalset", (evalset_of(2, answers=("x",)),))
    test = evaluated(session, tmp_path, wanted, threshold("answer.em@1", min=0, temperature=0.5))
    (problem,) = test.evaluate_markers()
    assert problem.startswith(
        "answer.em@1: temperature=0.5 is for a model of this package, and rageval_generator"
    )
    test = evaluated(session, tmp_path, wanted, threshold("answer.em@1", min=0, draws=3))
    assert test.evaluate_markers() == []
    (entry,) = test.results()["scores"]
    assert (entry["draws"], entry["runs"]) == (3, 3)
    session.close()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"temperature": -1}, "temperature=-1 is not a number of at least 0."),
        ({"temperature": float("inf")}, "temperature=inf is not a number of at least 0."),
        ({"temperature": "hot"}, "temperature='hot' is not a number of at least 0."),
        ({"draws": 0}, "draws=0 is not a number of draws, such as draws=3."),
        ({"draws": True}, "draws=True is not a number of draws, such as draws=3."),
    ],
)
def test_wrong_words_are_errors(tmp_path: Path, words: dict[str, Any], problem: str) -> None:
    session = Session(Settings(cache_dir=tmp_path))
    test = evaluated(session, tmp_path, threshold("answer.em@1", min=0, **words))
    assert test.evaluate_markers() == [f"rageval_threshold('answer.em@1'): {problem}"]
    session.close()
