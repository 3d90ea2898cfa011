"""Statistics over the scores of examples: numbers in, numbers out.

- `intervals`, `bootstrap`: confidence intervals of means and quantiles.
- `paired_tests`: the gate's joint test of paired differences. It consists of `mcnemar` (scores of 0 and 1),
  `sign_flips` (all other scores) and `noninferiority` (does not assume symmetry). `mcnemar` also tests single questions
  over repeats.
- `suite`: one test of the questions of several tests. `sequential`: tests that are repeated as data arrives.
- `power`: the smallest drop that a test can detect.
- `systems`: the best of several systems, Bradley-Terry ratings. `agreement`: agreement of raters, correlations, overlap
  of rankings.

numpy and scipy are imported only if scores are not all 0 or 1.
"""
