"""Retrievers to compare the user's with.

- `llm_baselines`: HyDE, pseudo-relevance feedback, query rewriting and RAG-fusion, in which a model writes queries.
- `trec_run`: the rankings of another system, from a TREC run.
"""
