"""Canonical comparison: decide by rules whether a short answer states a reference, where no model judges.

Both are brought to one form of numbers, units, dates and names. `states` and, for several references, `states_any`
are the entry points.

- `words`: normalises a text and splits it into words.
- `numbers`, `quantities`, `dates`: read figures.
- `parsing`: makes words and figures of a text, and analyses the question.
- `phrases`: finds words of a reference in a prediction.
- `comparison`: decides, negation included.
"""

from pytest_rageval.answers.canonical.comparison import is_long, states, states_any

__all__ = ["is_long", "states", "states_any"]
