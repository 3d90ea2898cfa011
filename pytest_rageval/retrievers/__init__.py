"""Retrievers: the user's own, adapted, and a built-in one."""
