"""Ranking measures, and the grammar of score names."""
