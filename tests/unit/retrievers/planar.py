"""An encoder for tests of retrieval: words are directions in the plane."""

from collections.abc import Sequence
from math import cos, radians, sin

import numpy as np

from pytest_rageval.embeddings.encoder import Vectors


class Planar:
    """A text is the direction of its numbers, read as degrees, added up; other words are nothing."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of length 1."""
        self.asked.append(list(texts))
        return [self._direction(text) for text in texts]

    def _direction(self, text: str) -> Vectors:
        angles = [radians(int(word)) for word in text.split() if word.isdecimal()]
        total = np.array([sum(map(cos, angles)), sum(map(sin, angles))])
        return (total / (np.linalg.norm(total) or 1)).astype(np.float32)


class Turned(Planar):
    """Reads questions otherwise than passages: each is turned, by 90 and by 45 degrees."""

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Of questions."""
        return self.sentences([f"{int(text) + 90}" for text in texts])

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """Of passages."""
        return self.sentences([f"{int(text) + 45}" for text in texts])
