"""Canonical comparison of short answers by rule, where no model judges: numbers, units, dates and names.

`states` is the entry point. `lexemes` cuts a text, `parsing` makes `words` and `figures` (`numbers`, `quantities`,
`dates`) of it, `questions` and `negation` read its sense, `names` and `phrases` find words of a reference in a
prediction, and `comparison` decides.
"""

from pytest_rageval.answers.canonical.comparison import is_long, states

__all__ = ["is_long", "states"]
