"""Features that the core can do without: `rageval extensions` says what each adds.

Everything about one of them is in its package here, whose docstring is a map of it.
"""
