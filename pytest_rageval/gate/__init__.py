"""The gate: thresholds, baselines, and the verdict that fails a test.

`threshold` reads a marker's bounds, `baseline` the file of earlier scores and `baseline_update` what an update
changes in it. `ruling.rule` decides on all thresholds of a test: `comparison` pairs each score with its baseline,
`drop_tests` tests the drops together, and `verdict` is pass, fail, inconclusive or error, with the reason.
"""
