"""The options `encoder` and `bleu_smoothing` affect the answer measures and their fingerprints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_rageval.answers.comparators import Measure
from pytest_rageval.core.options import Settings
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.embeddings import encoder as encoders
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session
from tests.unit.run.marked import components, evalset_of

EVALSET = evalset_of(2, answers=("answer to nothing",))


def _scored(tmp_path: Path, spec: str, **settings: Any) -> tuple[float, dict[str, Any]]:
    session = Session(Settings(cache_dir=tmp_path, **settings))
    request = ScoreRequest(spec)
    score = session.score(components(), EVALSET, [request])[request]
    fingerprint = session.fingerprint(components(), request)
    session.close()
    return float(score), fingerprint


def test_bleu_is_smoothed_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    smoothed, fingerprint = _scored(tmp_path, "answer.bleu@1")
    plain, changed = _scored(tmp_path, "answer.bleu@1", bleu_smoothing="none")
    assert smoothed > plain == 0
    assert (fingerprint.get("bleu smoothing"), changed["bleu smoothing"]) == (None, "none")
    assert "bleu smoothing" not in _scored(tmp_path, "answer.f1@1", bleu_smoothing="none")[1]


def test_the_encoder_is_that_of_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and comparators use the encoder of the option, and the packaged one is not loaded."""
    requested_models = []

    class Same:
        fingerprint = "same@1"

        def sentences(self, texts: Sequence[str]) -> list[Any]:
            return [np.array([1.0], np.float32) for _ in texts]

    def shared(model: str | None = None) -> Same:
        requested_models.append(model)
        return Same()

    monkeypatch.setattr(encoders, "shared_encoder", shared)
    score, fingerprint = _scored(tmp_path, "answer.cosine@1", encoder="mine@1")
    assert (score, fingerprint["encoder"]) == (1.0, "same@1")
    assert _scored(tmp_path, "answer.correct@1", encoder="mine@1", comparator="cosine>=0.9")[0] == 1.0
    assert set(requested_models) == {"mine@1"}


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
    assert float(session.score(components(), EVALSET, [request])[request]) == 0.75
    assert session.fingerprint(components(), request)["share"] == "0.75"
    session.close()
