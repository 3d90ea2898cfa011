"""The judge of short answers where no language model judges."""

from pytest_rageval.answers.canonical.comparison import is_long, states

__all__ = ["is_long", "states"]
