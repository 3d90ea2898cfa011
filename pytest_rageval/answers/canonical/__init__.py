"""The judge of short answers where no language model judges."""

from pytest_rageval.answers.canonical.comparison import states

__all__ = ["states"]
