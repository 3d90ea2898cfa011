"""The gate: compares scores with thresholds and the baseline, and decides whether a test fails.

- `threshold`: the bounds of one marker.
- `judge`: `evaluate_thresholds` evaluates all thresholds of a test, with the following modules. Only `verdict` is
  loaded for thresholds that compare with nothing.
- `verdict`: the inputs and results of all thresholds; pass, fail, inconclusive or error; the bounds on a mean.
- `slices`: compares the slices of a threshold with the baseline and its anchor. `comparison`: pairs each score with its
  baseline, question by question.
- `drop_tests`: tests the drops jointly.
- `comparison_verdicts`: the bounds that compare. `sentences`: their reasons, as text.
"""
