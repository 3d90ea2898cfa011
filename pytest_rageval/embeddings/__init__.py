"""Embeddings of texts: `encoder` computes them, `store` keeps them in an SQLite file."""
