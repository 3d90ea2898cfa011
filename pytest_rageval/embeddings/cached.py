"""An encoder whose embeddings are kept on disk: each text is encoded once for all runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from pytest_rageval.embeddings.encoder import Encoder, RetrievalEncoder, Tokens, Vectors
from pytest_rageval.embeddings.store import EmbeddingStore
from pytest_rageval.fingerprint import digest

__all__ = ["CachedEncoder", "NamedEncoder"]

CHUNK: Final = 1024
"""So many texts are encoded before they are kept: what a killed run may lose, a minute of a slow machine."""


class NamedEncoder(Encoder, Protocol):
    """An encoder that can be told from others, in every process."""

    @property
    def fingerprint(self) -> str:
        """Differs where embeddings differ."""


class CachedEncoder:
    """An encoder with its embeddings of texts in a folder; those of tokens are not kept.

    Kept by the exact text and the encoder's fingerprint. Where all texts are
    known, the encoder is not asked, and no model is loaded.

    Args:
        encoder: such as a `SentenceEncoder`.
        directory: a cache folder, that of the replies or another; encoders and processes may share it.
    """

    def __init__(self, encoder: NamedEncoder, directory: Path | str) -> None:
        self._encoder = encoder
        self._store = EmbeddingStore(Path(directory))

    @property
    def fingerprint(self) -> str:
        """That of the encoder."""
        return self._encoder.fingerprint

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.TextEncoder`."""
        return self._kept([], self._encoder.sentences, texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.RetrievalEncoder`; of an encoder that is none, `sentences`."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._kept(["query"], self._encoder.queries, texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.RetrievalEncoder`; of an encoder that is none, `sentences`."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._kept(["passage"], self._encoder.passages, texts)

    def _kept(
        self, read_as: list[str], encode: Callable[[Sequence[str]], list[Vectors]], texts: Sequence[str]
    ) -> list[Vectors]:
        """What the file has, and what is encoded for it now."""
        keys = {text: digest([self.fingerprint, *read_as, text]) for text in texts}
        found = self._store.get_many(keys.values())
        # Texts of one length are encoded together: less padding.
        missing = sorted((text for text, key in keys.items() if key not in found), key=len)
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            encoded = zip(chunk, encode(chunk), strict=True)
            new = {keys[text]: vector for text, vector in encoded}
            self._store.put_many(new)
            found |= new
        return [found[keys[text]] for text in texts]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """See `pytest_rageval.embeddings.encoder.Encoder`."""
        return self._encoder.tokens(texts)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()
