"""One test run: the resources that tests share, and the path of each test from its markers to its results.

- `session`: the shared resources; scores an eval set. `pipelines`: reads eval sets, shares pipelines among tests.
- `evaluated_test`: takes one test from its thresholds to its entry in the report (`reported_test`).
  `calibration_gate` does this for bounds on the judge.
- `base`: what verdicts need of a run: settings, baseline, significance level.
- `default_components`: the default generator and judge.
- `battles`: the arena. `canary`, `early_stop`: the options of these names.
- `shards`: what a shard saves, and the merged run of `rageval merge`.
- `plan_stubs`: stand-ins for results in a plan. `batch_steps`: runs pytest for the stages of a run in batches.
- `written_files`: updates the baseline and the cassette. `shared_embeddings`: embeddings in a shared store.
"""

from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import RunContext, Session

__all__ = ["Components", "RunContext", "Session"]
