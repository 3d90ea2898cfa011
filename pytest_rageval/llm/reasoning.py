"""Reasoning that a server leaves in the text of a reply, before the model's answer."""

import re
from typing import Final

from pytest_rageval.lazy import lazy_pattern

__all__ = ["without_reasoning"]

_TAGS: Final = "think|thinking|thought|reasoning|seed:think"
_BLANK: Final = lazy_pattern(r"\s*")
_OPENED: Final = lazy_pattern(rf"[<\[◁](?:{_TAGS})(?:\s[^<>]{{0,200}})?[>\]▷]", re.IGNORECASE)
_CLOSED: Final = lazy_pattern(rf"[<\[◁]/(?:{_TAGS})\s{{0,9}}[>\]▷]", re.IGNORECASE)
_QUOTES: Final = frozenset("\"'`“”‘’")

_CHANNEL: Final = lazy_pattern(
    r"(?: <\|start\|> \s* assistant \s* )? <\|channel\|> \s* (\w+) [^<]{0,200} "
    r"(?: <\|constrain\|> [^<]{0,200} )? <\|message\|>",
    re.VERBOSE,
)
"""The head of a message in gpt-oss's harmony format, with the name of its channel as the group."""

_ENDED: Final = lazy_pattern(r"<\|(?:end|return|call|start|channel)\|>")

_BARE_ANALYSIS: Final = lazy_pattern(r"\s*analysis(?=[A-Z])")
_BARE_FINAL: Final = "assistantfinal"
"""Heads of messages in the harmony format where the server has removed the special tokens."""


def without_reasoning(text: str) -> str:
    r"""Return a model's answer, where its server leaves the reasoning before it in the text.

    Reasoning is at the beginning, in tags such as `<think>`, in any case and perhaps with attributes, or in the
    channels of gpt-oss's harmony format. Where a prompt template has opened the tag, the text only closes it. A tag
    that is never closed leaves nothing: there is no answer.

    >>> without_reasoning("<think>\nThe year differs.\n</think>\n\nno"), without_reasoning("It differs.</think>no")
    ('no', 'no')
    >>> without_reasoning("<|channel|>analysis<|message|>Why?<|end|><|channel|>final<|message|>no<|return|>")
    'no'
    """
    # Most replies have no sign of it.
    if not ("<" in text or "[" in text or "\u25c1" in text or "analysis" in text):
        return text.strip()
    final = _final_message(text)
    if final is not None:
        return final.strip()
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        opened = _OPENED.match(text, blank.end() if blank else at)
        closed = _closing_tag(text, opened.end() if opened else at)
        if opened and not closed:
            return ""
        if not closed or (not opened and _OPENED.search(text, at, closed.start())):
            return text[at:].strip()
        at = closed.end()


def _closing_tag(text: str, at: int) -> re.Match[str] | None:
    """The first closing tag from here on that is not between quotes."""
    for found in _CLOSED.finditer(text, at):
        around = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        if not _QUOTES.issuperset(around):
            return found
    return None


def _final_message(text: str) -> str | None:
    """Return the final message of a reply in the harmony format, empty where it has none; None for other texts."""
    heads = list(_CHANNEL.finditer(text)) if text.lstrip().startswith("<|") else []
    if heads and not text[: heads[0].start()].strip():
        head = next((each for each in reversed(heads) if each[1].lower() == "final"), heads[-1])
        ended = _ENDED.search(text, head.end())
        if head[1].lower() == "final":
            return text[head.end() : ended.start() if ended else None]
        # Some servers remove only the header of the final message.
        return text[ended.end() :] if ended and ended[0] == "<|end|>" else ""
    if _BARE_ANALYSIS.match(text):
        return text.rpartition(_BARE_FINAL)[2] if _BARE_FINAL in text else ""
    return None
