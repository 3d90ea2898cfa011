"""Embeddings of texts: `encoder` computes embeddings, `store` stores them in an SQLite file."""
