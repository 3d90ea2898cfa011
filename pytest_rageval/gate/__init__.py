"""The gate: compares scores with thresholds and the baseline, and decides whether a test fails.

- `threshold`: the bounds of one marker.
- `baseline`: the baseline file. `baseline_update`: the changes that an update makes to it.
- `judge`: `evaluate_thresholds` evaluates all thresholds of a test, with the following modules. Only `results` and
  `verdict` are loaded for thresholds that compare with nothing.
- `results`: the input and the result of a threshold. `slices`: compares its slices with the baseline and its anchor.
- `comparison`: pairs each score with its baseline, question by question.
- `drop_types`: the input and the result of a test of a drop. `drop_tests`: tests the drops jointly.
- `ratio`: tests the ratio of two latencies. `suite`: tests all questions of the gated tests together.
- `verdict`: pass, fail, inconclusive or error; the bounds on a mean. `comparison_verdicts`: the bounds that compare.
  `sentences`: their reasons, as text.
"""
