"""Encoders for tests of dense retrieval, whose vectors are directions in the plane."""

from collections.abc import Sequence
from math import cos, radians, sin

import numpy as np

from pytest_rageval.extensions.embeddings.encoder import Vectors


class Planar:
    """An encoder: the vector of a text is the sum of the directions of its numbers, in degrees, with length 1.

    Other words are ignored. `asked` has the texts of each call.
    """

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        self.asked.append(list(texts))
        return [self._direction(text) for text in texts]

    def _direction(self, text: str) -> Vectors:
        angles = [radians(int(word)) for word in text.split() if word.isdecimal()]
        total = np.array([sum(map(cos, angles)), sum(map(sin, angles))])
        return (total / (np.linalg.norm(total) or 1)).astype(np.float32)


class Turned(Planar):
    """An encoder that rotates queries by 90 degrees and passages by 45 degrees."""

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        return self.sentences([f"{int(text) + 90}" for text in texts])

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        return self.sentences([f"{int(text) + 45}" for text in texts])
