"""Helpers that know nothing of the rest of the package.

- Text: `text` (for messages, safe to print), `normal_forms`, `digests`, `secret` (a text that is never printed).
- Files: `files`, `cache_folder`, `shape` (JSON, checked against types), `spool` (data read again only in part), `git`.
- Python: `lazy` (late imports and patterns), `foreign_values` (values of other libraries).
"""
