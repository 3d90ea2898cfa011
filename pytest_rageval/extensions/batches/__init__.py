"""Runs whose requests a server answers within a day.

- `batches`: the batches of a run, stored in the cache folder. `api`: the server's API for them.
- `plugin`: the hooks of a run in batches.
- `command`: `rageval batch`, and the steps of a run, as processes.
"""
