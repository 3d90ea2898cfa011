"""One test run: the resources that tests share, and the evaluation of each test from its markers to its results.

- `session`: the shared resources; computes the scores of eval sets. `base`: the part that a merge of shards has too:
  baseline, definitions of scores, significance level.
- `pipelines`: reads eval sets, and shares pipelines among tests. `default_components`: the default generator and judge.
- `evaluated_test`: evaluates the thresholds of one test. `calibration_gate`: evaluates its bounds on the judge.
  `report_entry`: builds its entry for the report.
- `battles`: arena battles between systems. `canary`, `early_stop`: the options of these names.
- `plan_stubs`: stubs for results in a plan. `batch_steps`: the steps of a run in batches, as processes.
- `shards`: the record of a shard, and the merged run of `rageval merge`.
- `gate_check`: whether each test of the baseline was compared with it. `baseline_change`: another commit's baseline.
- `file_updates`: updates the baseline and the cassette. `shared_embeddings`: embeddings in a shared store.
"""

from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import RunContext, Session

__all__ = ["Components", "RunContext", "Session"]
