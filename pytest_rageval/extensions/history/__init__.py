"""Scores over many runs.

- `history`: the file. `trend`: charts as text. `page`: charts as a page.
- `command`: `rageval history` and `rageval badge`.
"""
