"""bm25s: an index of word counts, beside the list of the passages."""

import bm25s

from handbook import PASSAGES

passages = [{"id": name, "text": text} for name, text in PASSAGES.items()]
index = bm25s.BM25()
index.index(bm25s.tokenize(list(PASSAGES.values()), show_progress=False), show_progress=False)
