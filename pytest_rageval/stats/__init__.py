"""Statistics over per-example scores: numbers in, numbers out.

`intervals` of means and shares; `paired` tests of a drop, their `power`, and `noninferiority`; `agreement` of raters
and votes, and correlations; `position_bias` of a judge; `prediction_powered` means from few labels; `bradley_terry`
ratings; `bootstrap` for the intervals. numpy and scipy are imported only where real numbers need them.
"""
