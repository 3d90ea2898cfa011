"""Comparing answers: by their words, in canonical form, by a judge."""
