"""Compares the reports of two runs: `diff` finds the differences, `command` prints them, `page` writes them as HTML."""
