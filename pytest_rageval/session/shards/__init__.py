"""Shards: the parts of a run that is split over several machines. `rageval merge` joins their reports.

- `record`: what the report of a shard contains of each test. `document`: its types. `serialization`: examples and
  outcomes as JSON, and back.
- `merged_run`: joins the reports and evaluates each test on the outcomes of all shards. `merged_session`: the objects
  that replace the session and the user's components for this evaluation.
"""
