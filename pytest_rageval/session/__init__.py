"""One test run: the resources that tests share, and the path of each test from markers to results.

`session` holds the resources and scores eval sets. `evaluated_test` takes one test from its thresholds to its
entry for the report; `calibration_gate` does so for bounds on the judge. `rules` has what verdicts need of any run:
`shards` keeps what a shard knows of a test, `joining` rules on the shards of a run together, by `plain_data` from
their reports. `written_files` updates baseline and cassette. `pipelines` reads eval sets and shares
pipelines among tests, `models` builds the default generator and judge, `plan_stubs` replaces results in a plan.
`batch_steps` runs pytest for the steps of a run in batches.
"""

from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import RunContext, Session

__all__ = ["Components", "RunContext", "Session"]
