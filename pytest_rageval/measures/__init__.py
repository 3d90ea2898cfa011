"""Ranking measures and what they rest on.

`ranking` defines the measures and eRAG's; `gold_matching` finds gold passages in a ranking, `rel_prime` computes
Rel'-recall, `near_duplicates` compares passages and questions.
"""
