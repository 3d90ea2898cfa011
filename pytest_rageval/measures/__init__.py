"""Ranking measures and what they rest on, and the grammar of score names (`spec`).

`ranking` defines the measures; `gold_matching` finds gold passages in a ranking, `passage_labels` scores eRAG's
labels, `rel_prime` computes Rel'-recall, `near_duplicates` compares passages and questions.
"""
