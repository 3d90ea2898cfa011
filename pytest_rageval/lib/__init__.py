"""Helpers that know nothing of the rest of the package.

- Text: `plural`, `printable` (escapes texts for a terminal), `tokenize`, `digests`, `secret` (a text that is never
  printed).
- Files: `files`, `spool` (data that is read again only in part), `git`.
- Python: `lazy` (late imports and patterns), `foreign_values` (values of other libraries).
"""
