"""Comparing answers: by their words, in canonical form, by embeddings, by a judge.

`comparators` reads expressions such as "judge or em". The measures are in `overlap` and `embedding`; rules without a
model in `canonical`. `judge_protocol` defines a judge: `llm_judge` is a model, whose replies `judge_replies` reads,
`user_judge` the user's object. `citations` and `abstention` read one answer.
"""
