"""How several texts stand in a prompt: a line each."""

from collections.abc import Sequence

__all__ = ["cited", "dashed"]


def cited(passages: Sequence[str]) -> str:
    """Passages, a line each, with the numbers by which they are cited."""
    return "\n".join(f"[{n}] {' '.join(p.split())}" for n, p in enumerate(passages, 1)) or "(none)"


def dashed(texts: Sequence[str]) -> str:
    """Texts, a line each."""
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)
