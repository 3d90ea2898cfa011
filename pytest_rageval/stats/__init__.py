"""Statistics over per-example scores: numbers in, numbers out.

Means: `intervals`, by `bootstrap` where scores are graded, and `prediction_powered` from few labels. Paired
differences: `drops`, the gate's joint test, made of `mcnemar` (0/1 scores), `sign_flips` (all others) and
`noninferiority` (no symmetry assumed; also `strict`); its `power`; `sequential` tests that look more than once.
Systems and raters: `systems`, the best one and ratings; `agreement` of raters and votes, and correlations.
numpy and scipy are imported only where real numbers need them.
"""
