"""Shards: the parts of a run that is split over several machines. `rageval merge` (`command`) joins their reports.

- `document`: the types of what the report of a shard contains of each test.
- `merge`: joins the reports and evaluates each test on the outcomes of all shards. `merged_session`: the objects that
  replace the session and the user's components for this evaluation.
"""
