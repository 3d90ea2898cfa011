"""FAISS: an index of vectors, beside the list of the passages."""

import faiss
import numpy as np

from handbook import DIMENSIONS, PASSAGES, embed

passages = [{"id": name, "text": text} for name, text in PASSAGES.items()]
index = faiss.IndexFlatIP(DIMENSIONS)
index.add(np.array([embed(text) for text in PASSAGES.values()], dtype="float32"))
