"""Ranking measures and the computation of their inputs. The functions use neither models nor files.

- `ranking`: the measures for any kind of label, on arrays.
-
- `gold_matching`: finds the gold passages in a ranking.
- `rel_prime`: recall over the relevant items, and over those in the prompt.
- `near_duplicates`: finds near-duplicate passages and questions.
"""
