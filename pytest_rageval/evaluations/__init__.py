"""Evaluations: one module per scoring method. Each method computes one outcome per example.

- `registry`: the scores by name. The module of a method defines its scores in `SCORES`.
- `scoring`: `ScoreDef`, the definition of a score, and the functions that score examples.
- `pipeline`: `Pipeline`, which retrieves, generates and judges. All scores of a run share its results.
- `single_flight`: computes a result once, although several scores need it at the same time.
- Methods: `ranking` (recall, nDCG …), `llm_reteval`, `answer`, `passage_labels` (eRAG and others), `rel_prime`,
  `arena`, `judged`, `nuggets`, `sufficiency`, `retrieval` (calls, cost, latency).
- `label_agreement`: correlates passage labels with the quality of answers.
- `calibration`: the verdicts of a judge on items that people labelled.
"""
