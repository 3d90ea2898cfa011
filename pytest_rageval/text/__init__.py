"""Splitting text into words and characters, for every part that compares texts."""
