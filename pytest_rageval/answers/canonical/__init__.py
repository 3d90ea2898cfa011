"""Canonical comparison: decides by rules, without a model, whether a short answer matches a reference.

Numbers, units, dates and names of both are brought to one form. The entry point is `matches_any`.

- `words`: normalizes a text, splits it into lexemes and stems words.
- `quantities`, `dates`: parse figures.
- `parsing`: parses a text into words, figures and punctuation, and analyses the question.
- `phrases`: finds phrases of a reference in a prediction.
- `sentences`: compares with a reference that is a sentence; recognises negation and hedges.
- `comparison`: decides whether a prediction matches.
"""

from pytest_rageval.answers.canonical.comparison import is_long, matches_any

__all__ = ["is_long", "matches_any"]
