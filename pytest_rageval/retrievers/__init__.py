"""Retrievers: the user's own, adapted, and those of this package.

`retriever` calls the retriever under test, which `adapters` makes of every known shape, and `documents` reads what it
returns. `bm25`, `dense` and `llm_baselines` are baselines; `trec_run` replays a recorded run.
"""
