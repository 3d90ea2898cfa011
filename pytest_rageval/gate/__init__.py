"""The gate: compares scores with thresholds and the baseline, and fails a test.

- `threshold`: the bounds of one marker.
- `baseline`: the baseline file. `baseline_update`: what an update changes in it.
- `threshold_results`: `evaluate_thresholds` decides on all thresholds of a test, with the next three.
- `comparison`: pairs each score with its baseline, question by question.
- `drops`: what is tested, and the result of its test. `drop_tests`: tests the drops jointly.
- `ratio`: tests the ratio of two latencies.
- `verdict`: pass, fail, inconclusive or error, with the reason.
"""
