"""Compares answers by word overlap, rules, embeddings or an LLM judge.

- `comparators`: expressions such as "judge or em", which define how two answers are compared.
- `overlap`, `embedding`: measures of similarity (exact match, F1, ROUGE, BERTScore …).
- `canonical`: comparison by rules, without a model.
- `judge_protocol`: the interface of a judge. `llm_judge` asks a model, and `judge_replies` parses its replies;
  `user_judge` calls the user's object. `judge_json`: the JSON of a judge's reply.
- `citations`, `abstention`: the citations of an answer, and whether it is an abstention.
"""
