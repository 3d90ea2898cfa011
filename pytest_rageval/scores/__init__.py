"""Scores: one module per scoring method. Each method computes one outcome per example.

- `definition`: `ScoreDef`, the definition of a score, and the functions that score examples.
- `pipeline`: `Pipeline`, which retrieves, generates and judges. All scores of a run share its results.
- `single_flight`: computes a result once, although several scores need it at the same time.
- Methods: `ranking` (recall, nDCG …), `llm_reteval`, `answer`, `passage_labels` (eRAG and others), `rel_recall`,
  `arena`, `judged`, `nuggets`, `sufficiency`, `retrieval_cost` (calls, cost, latency). The module of a method defines
  its scores in `SCORES`; `run.registry` finds them by name.
- `annotator_agreement`: correlates passage labels with the quality of answers.
- `measures`: ranking measures, and the computation of their inputs.
"""
