"""The commands of `rageval evalset` that check an eval set or make one.

- `check`, `anchor`, `generate`, `nuggets`: one command each.
- `reading`: the files of these commands. `quotes`: finds quotes in texts.
"""
