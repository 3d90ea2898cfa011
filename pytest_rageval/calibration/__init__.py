"""Calibration of a judge by human labels.

`bounds` reads the marker's bounds on the agreement; `findings` measures the agreement (`Calibration`), rules on the
bounds (`rule_on`) and corrects the mean of a score.
"""
