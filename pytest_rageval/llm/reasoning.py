"""Removes the reasoning that some servers leave in the text of a reply, before the model's answer."""

import re
from typing import Final

from pytest_rageval.lazy import lazy_pattern

__all__ = ["without_reasoning"]

_TAGS: Final = "think|thinking|thought|reasoning|seed:think"
_BLANK: Final = lazy_pattern(r"\s*")
_OPENING_TAG: Final = lazy_pattern(rf"[<\[◁](?:{_TAGS})(?:\s[^<>]{{0,200}})?[>\]▷]", re.IGNORECASE)
_CLOSING_TAG: Final = lazy_pattern(rf"[<\[◁]/(?:{_TAGS})\s{{0,9}}[>\]▷]", re.IGNORECASE)
_QUOTES: Final = frozenset("\"'`“”‘’")

_CHANNEL_HEADER: Final = lazy_pattern(
    r"(?: <\|start\|> \s* assistant \s* )? <\|channel\|> \s* (\w+) [^<]{0,200} "
    r"(?: <\|constrain\|> [^<]{0,200} )? <\|message\|>",
    re.VERBOSE,
)
"""The header of a message in gpt-oss's harmony format; the group is the name of the channel."""

_MESSAGE_END: Final = lazy_pattern(r"<\|(?:end|return|call|start|channel)\|>")

_BARE_ANALYSIS: Final = lazy_pattern(r"\s*analysis(?=[A-Z])")
_BARE_FINAL: Final = "assistantfinal"
"""Headers of messages in the harmony format, if the server has removed the special tokens."""


def without_reasoning(text: str) -> str:
    r"""Return a model's answer without the reasoning before it in the text.

    Reasoning is at the beginning, in tags such as `<think>` (in upper or lower case, with or without attributes), or in
    the channels of gpt-oss's harmony format. If the prompt template has the opening tag, the text has only the closing
    tag. If a tag is never closed, there is no answer, and the result is empty.

    >>> without_reasoning("<think>\nThe year differs.\n</think>\n\nno"), without_reasoning("It differs.</think>no")
    ('no', 'no')
    >>> without_reasoning("<|channel|>analysis<|message|>Why?<|end|><|channel|>final<|message|>no<|return|>")
    'no'
    """
    # A fast path: most replies contain none of these.
    if not ("<" in text or "[" in text or "\u25c1" in text or "analysis" in text):
        return text.strip()
    final = _final_message(text)
    if final is not None:
        return final.strip()
    start = 0
    while True:
        blank = _BLANK.match(text, start)
        opening = _OPENING_TAG.match(text, blank.end() if blank else start)
        closing = _find_closing_tag(text, opening.end() if opening else start)
        if opening and not closing:
            return ""
        if not closing or (not opening and _OPENING_TAG.search(text, start, closing.start())):
            return text[start:].strip()
        start = closing.end()


def _find_closing_tag(text: str, start: int) -> re.Match[str] | None:
    """Return the first closing tag after `start` that is not between quotes."""
    for tag in _CLOSING_TAG.finditer(text, start):
        around = text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]
        if not _QUOTES.issuperset(around):
            return tag
    return None


def _final_message(text: str) -> str | None:
    """Return the final message of a text in the harmony format, "" if it has none; None for other texts."""
    headers = list(_CHANNEL_HEADER.finditer(text)) if text.lstrip().startswith("<|") else []
    if headers and not text[: headers[0].start()].strip():
        header = next((header for header in reversed(headers) if header[1].lower() == "final"), headers[-1])
        end = _MESSAGE_END.search(text, header.end())
        if header[1].lower() == "final":
            return text[header.end() : end.start() if end else None]
        # Some servers remove only the header of the final message.
        return text[end.end() :] if end and end[0] == "<|end|>" else ""
    if _BARE_ANALYSIS.match(text):
        return text.rpartition(_BARE_FINAL)[2] if _BARE_FINAL in text else ""
    return None
