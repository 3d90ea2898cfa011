"""Support bot for Quillhaven tablets: finds handbook passages for a question."""

from support_bot.search import search

__all__ = ["search"]
