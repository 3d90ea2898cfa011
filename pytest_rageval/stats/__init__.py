"""Statistics over per-example scores: numbers in, numbers out.

- `intervals`, `bootstrap`: confidence intervals of means. `prediction_powered`: means from few human labels.
- `drops`: the gate's joint test of paired differences. It consists of `mcnemar` (scores of 0 and 1), `sign_flips`
  (all others) and `noninferiority` (assumes no symmetry).
- `power`: the smallest drop that a test can detect. `sequential`: tests that look more than once.
- `systems`: the best of several systems, Bradley–Terry ratings. `agreement`: agreement of raters, correlations.

numpy and scipy are imported only where real-valued scores need them.
"""
