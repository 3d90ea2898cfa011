"""Compares answers by word overlap, rules, embeddings or an LLM judge.

- `comparators`: expressions such as "judge or em", which define how two answers are compared.
- `overlap`: measures of similarity (exact match, F1, ROUGE …). BERTScore is in `extensions.embeddings`.
- `canonical`: comparison by rules, without a model.
- `judge`: the judge, a model or the user's object.
- `citations`, `abstention`: the citations of an answer, and whether it is an abstention.
"""
