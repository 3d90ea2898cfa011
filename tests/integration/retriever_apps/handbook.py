"""Six passages with ids, and an embedding function without a model."""

import math
import re
import zlib

PASSAGES = {
    "kb-1": "Refunds take five working days.",
    "kb-2": "Passwords are reset on the sign-in page.",
    "kb-3": "Parcels to Norway take four days.",
    "kb-4": "Invoices are sent by mail each month.",
    "kb-5": "Gift cards never expire.",
    "kb-6": "The shop in Tulsa opens at nine.",
}

DIMENSIONS = 64


def embed(text):
    """Return the normalized counts of the words, each at a position that depends on the word alone."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector]


def embed_as_array(text):
    """Return the embedding as a NumPy array."""
    import numpy as np

    return np.array(embed(text))
