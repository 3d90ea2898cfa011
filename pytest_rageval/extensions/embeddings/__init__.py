"""Embeddings of texts, and what is computed from them.

- `encoder` computes embeddings, and similarities of answers from them (BERTScore, cosine). `dense`: dense retrievers.
- `store` stores embeddings in an SQLite file, or in the reply store that machines share.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import Option
from pytest_rageval.options.command import CacheFile

if TYPE_CHECKING:
    from pytest_rageval.answers.comparators import Measure
    from pytest_rageval.extensions.embeddings.encoder import CachedEncoder
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.run.session import Session


def _parse_encoder(text: str) -> str:
    _, at, layer = text.rpartition("@")
    if at and not (layer.isdecimal() and int(layer) >= 1):
        raise ValueError("expected a model, or one with a layer from 1, such as roberta-large@17")
    return text


# fmt: off
ENCODER: Final = Option[str | None](
    "encoder", "MODEL[@LAYER]", _parse_encoder, None,
    "model of sentence-transformers for answer.bertscore and answer.cosine, a name or a folder. BERTScore "
    "compares tokens of the layer, such as roberta-large@17. Default: the packaged model and its last layer",
    is_reported=True,
)
# fmt: on
OPTIONS: Final = (ENCODER,)

CACHE_FILES: Final = (
    CacheFile("embedding", "encode their texts again", "pytest_rageval.extensions.embeddings.store"),
)


def _arguments(settings: "Settings") -> dict[str, Any]:
    from pytest_rageval.extensions.embeddings.encoder import shared_encoder  # noqa: PLC0415 - few runs have one

    return {"encoder": shared_encoder(settings[ENCODER])}


def _fingerprint(settings: "Settings") -> dict[str, str]:
    return {"encoder": _arguments(settings)["encoder"].fingerprint}


def answer_measures() -> "Mapping[str, Measure]":
    from pytest_rageval.answers.comparators import Measure  # noqa: PLC0415 - few runs compare answers

    def measure(function: str, worked: float, definition: str) -> Measure:
        compute = Lazy("extensions.embeddings.encoder", function)
        by_encoder = (worked, "by the packaged encoder")
        return Measure(compute, definition, "dense", _arguments, _fingerprint, worked=by_encoder)

    f1 = "BERTScore, F1: each token is matched with the most similar token of the other text."
    cosine = "The cosine of the embeddings of answer and reference; negative values count as 0."
    precision = "BERTScore, precision: over the tokens of the answer."
    recall = "BERTScore, recall: over the tokens of the reference."
    return {
        "bertscore": measure("bertscore_f1", 0.8669, f1),
        "bertscore_p": measure("bertscore_precision", 0.801, precision),
        "bertscore_r": measure("bertscore_recall", 0.9445, recall),
        "cosine": measure("cosine", 0.8532, cosine),
    }


def rageval_encoder(_rageval_session: "Session") -> "CachedEncoder":
    """The packaged sentence encoder, for DenseRetriever. Each text is encoded once; the cache stores its embedding."""
    from pytest_rageval.extensions.embeddings.encoder import session_encoder  # noqa: PLC0415 - imports numpy

    return _rageval_session.resource(session_encoder)


FIXTURES: Final = (rageval_encoder,)
