"""Embeddings of texts.

`encoder` has the encoders: the protocols that retrievers and measures need, `SentenceEncoder` for models of
sentence-transformers, and `CachedEncoder`, which keeps embeddings on disk. `store` is the SQLite file of embeddings,
with its maintenance for `rageval cache`.
"""
