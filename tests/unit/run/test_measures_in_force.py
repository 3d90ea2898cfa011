"""Options affect the answer measures and their fingerprints."""

from pathlib import Path
from typing import Any

from pytest_rageval.answers.comparators import Measure
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session
from tests.unit.run.marked import components, evalset_of

EVALSET = evalset_of(2, answers=("answer to nothing",))


def scored(tmp_path: Path, spec: str, **settings: Any) -> tuple[float, dict[str, Any]]:
    session = Session(Settings(cache_dir=tmp_path, **settings))
    request = ScoreRequest(spec)
    score = session.evaluator.score(components(), EVALSET, [request])[request]
    fingerprint = session.dependencies(components(), request).fingerprint
    session.close()
    return float(score), fingerprint


def test_bleu_is_smoothed_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    smoothed, fingerprint = scored(tmp_path, "answer.bleu@1")
    plain, changed = scored(tmp_path, "answer.bleu@1", bleu_smoothing="none")
    assert smoothed > plain == 0
    assert (fingerprint.get("bleu smoothing"), changed["bleu smoothing"]) == (None, "none")
    assert "bleu smoothing" not in scored(tmp_path, "answer.f1@1", bleu_smoothing="none")[1]


def test_a_measure_of_another_plugin_may_depend_on_options(tmp_path: Path) -> None:
    """Its arguments and its part of the fingerprint come from the settings of the run, and its values are checked."""
    registry = Registry()
    measure = Measure(
        lambda _prediction, _references, *, value: value,
        arguments=lambda settings: {"value": settings.match_share},
        fingerprint=lambda settings: {"share": str(settings.match_share)},
    )
    registry.add_answer_measure("share", measure)
    session = Session(Settings(cache_dir=tmp_path, match_share=0.75), registry=registry)
    request = ScoreRequest("answer.share@1")
    assert float(session.evaluator.score(components(), EVALSET, [request])[request]) == 0.75
    assert session.dependencies(components(), request).fingerprint["share"] == "0.75"
    session.close()
