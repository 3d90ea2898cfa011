"""Stores of replies that machines or teams share.

- `redis`, `diskcache`: Redis or Valkey, and a folder of diskcache.
- `fallback`: uses the cache folder while a shared store does not answer.
- `entry_codec`: the text form of an entry, for key-value stores.
"""
