"""The option `encoder` affects the answer measures and their fingerprints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_rageval.extensions.embeddings import ENCODER
from pytest_rageval.extensions.embeddings import encoder as encoders
from pytest_rageval.extensions.embeddings.encoder import PACKAGE
from tests.unit.run.test_measures_in_force import scored
from tests.unit.scores.test_fingerprint import found


def test_the_encoder_is_that_of_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requested_models = []

    class Same:
        fingerprint = "same@1"

        def sentences(self, texts: Sequence[str]) -> list[Any]:
            return [np.array([1.0], np.float32) for _ in texts]

    def shared(model: str | None = None) -> Same:
        requested_models.append(model)
        return Same()

    monkeypatch.setattr(encoders, "shared_encoder", shared)
    score, fingerprint = scored(tmp_path, "answer.cosine@1", encoder="mine@1")
    assert (score, fingerprint["encoder"]) == (1.0, "same@1")
    assert scored(tmp_path, "answer.correct@1", encoder="mine@1", comparator="cosine>=0.9")[0] == 1.0
    assert set(requested_models) == {"mine@1"}


def test_a_layer_is_a_number_from_1() -> None:
    assert ENCODER.parse("roberta-large@17") == "roberta-large@17"
    with pytest.raises(ValueError, match="a layer from 1, such as roberta-large@17"):
        ENCODER.parse("m@0")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("answer.cosine@5", {}),
        ("answer.bertscore_r@5", {}),
        ("llm_reteval@5", {"comparator": "judge or cosine>=0.8"}),
    ],
)
def test_a_measure_of_embeddings_depends_on_the_encoder(spec: str, words: dict[str, str]) -> None:
    """The fingerprint has the encoder's version, because another release may hold another model."""
    pytest.importorskip(PACKAGE)
    assert found(spec, **words)["encoder"].startswith("all-MiniLM-L6-v2 ")
