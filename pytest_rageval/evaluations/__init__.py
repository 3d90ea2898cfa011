"""Evaluations: one module per scoring method. Each computes one outcome per example.

- `registry`: finds a score by its name. A method's module defines its scores in `SCORES`.
- `scoring`: `ScoreDef`, the definition of a score, and how examples are scored.
- `pipeline`: `Pipeline`, which retrieves, generates and judges. All scores of a run share its results.
- `timing`: retrievals that are timed one after the other, for latency.
- `single_flight`: computes once what several scores need at the same time.
- Methods: `ranking` (recall, nDCG …), `llm_reteval`, `answer`, `passage_labels` (eRAG and others), `rel_prime`,
  `arena`, `judged`, `nuggets`, `sufficiency`, `retrieval` (calls, cost, latency).
- `label_agreement`, `calibration`: compare passage labels, and judges, with each other.
"""
