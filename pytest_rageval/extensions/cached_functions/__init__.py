"""Cached functions: `rageval.cached(function)` stores the results of functions of the user in the cache."""
