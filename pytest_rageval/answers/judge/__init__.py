"""The judge of answers and passages.

- `protocol`: the interface of a judge.
- `llm_judge`: asks a model. `replies` parses its replies, and `reply_json` the JSON in them.
- `user_judge`: calls the user's object.
"""
