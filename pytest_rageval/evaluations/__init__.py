"""Evaluations: from examples to outcomes, one file a method."""
