"""Evaluations: from examples to outcomes, one module for each method.

`registry.resolve` finds a score by its name; a method's module defines its scores as `SCORES` (`scoring.ScoreDef`).
`context.Pipeline` holds the rankings, answers and verdicts that the scores share. `label_agreement` and `calibration`
compare annotators and judges.
"""
