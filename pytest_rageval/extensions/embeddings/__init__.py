"""Embeddings of texts, and what is computed from them.

- `encoder` computes embeddings; `store` stores them in an SQLite file, `shared_embeddings` in the reply store that
  machines share.
- `measures`: similarity of answers (BERTScore, cosine). `dense`: dense retrievers.
"""
