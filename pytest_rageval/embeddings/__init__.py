"""Embeddings of texts: `encoder` makes them, and `store` is the SQLite file that keeps them."""
