"""The gate: thresholds, baselines, and the verdict that fails a test.

`threshold` reads a marker's bounds, `baseline` the file of earlier scores and `baseline_update` what an update
changes in it, `comparison` pairs a score with its baseline and tests the drop, and `verdict.rule` decides:
pass, fail, inconclusive or error.
"""
