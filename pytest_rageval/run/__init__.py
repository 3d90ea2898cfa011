"""One test run: the resources that tests share, and the evaluation of each test from its markers to its results.

- `session`: the shared resources; computes the scores of eval sets. `base`: the part that a merge of shards has too:
  baseline, definitions of scores, significance level.
- `registry`: the scores by name, and what plugins register.
- `inputs`: reads eval sets, and shares pipelines among tests. `default_components`: the default generator and judge.
- `test`: evaluates the thresholds of one test. `report_entry`: builds its entry for the report. `stubs`: what a test
  receives in place of results, in a plan.
- `gate_check`: whether each test of the baseline was compared with it. `baseline_change`: another commit's baseline.
- `file_updates`: updates the baseline and the cassette.
- `console`: prints for the commands. `command_session`: settings and session of commands that use models.
  `plugin_stores`: the cache stores of plugins, for these commands.
"""
