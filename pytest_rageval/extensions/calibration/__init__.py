"""Agreement of the judge with human labels.

- `calibration`: judges the items that people labelled, and computes the agreement. `human_labels`: reads the labels.
- `gate`: evaluates the bounds of a test on its judge.
- `prediction_powered`: means from few human labels.
- `report`: the lines of the reports. `command`: `rageval judge`.
"""
