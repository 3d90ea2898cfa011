"""Stores of replies: a SQLite file in the cache folder, and stores that extensions and plugins add.

- `interface`: `ReplyStore`, the interface of a store. `fallback`: opens the store at a URL, and uses the cache folder
  while it does not answer.
- `sqlite`: the default store, and its claims. `sqlite_file`: its file.
"""
