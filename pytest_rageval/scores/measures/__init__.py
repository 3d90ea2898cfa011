"""Ranking measures and the computation of their inputs. The functions use neither models nor files.

- `ranking`: the measures for any kind of label, on arrays.
- `gold_measures`: the same measures for gold passages, without numpy.
- `gold_matching`: finds the gold passages in a ranking.
- `near_duplicates`: finds near-duplicate passages and questions.
"""
