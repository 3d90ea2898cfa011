"""The judge of answers and passages.

- `protocol`: the interface of a judge; `JudgeTask`, what it decides. `tasks`: the tasks of the comparators.
- `llm_judge`: asks a model. `replies` parses its replies, and `reply_json` the JSON in them.
- `user_judge`: calls the user's object.
"""
