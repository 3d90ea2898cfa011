"""Canonical comparison of short answers by rule, where no model judges: numbers, units, dates and names.

`states` and, for several references, `states_any` are the entry points.

`words` folds and cuts a text, `parsing` makes words and figures (`numbers`, `quantities`, `dates`) of it and reads
questions, `phrases` finds words of a reference in a prediction, `assertion` tells whether they are asserted or only
mentioned, and `comparison` decides.
"""

from pytest_rageval.answers.canonical.comparison import is_long, states, states_any

__all__ = ["is_long", "states", "states_any"]
