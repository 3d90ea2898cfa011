"""Shards: a run that is split over several machines, and merged by `rageval merge`.

- `record`: what a shard saves of each test. `plain_data`: examples and outcomes as JSON, and back.
- `merged_run`: rules on each test from the outcomes of all shards.
"""
