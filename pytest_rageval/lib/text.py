"""Text: numbers with a noun, and text that is safe to print.

- `counted`, `plural`, `singular`, `join_first`: text for messages.
- `printable`, `text_of`, `one_line`: untrusted text for a terminal or the log of a CI job, escaped and shortened.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final


def counted(number: int, noun: str) -> str:
    """Return a number and a noun, in the singular or plural.

    >>> counted(1, "reply"), counted(2, "reply"), counted(0, "day"), counted(2, "batch")
    ('1 reply', '2 replies', '0 days', '2 batches')
    """
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    if number == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeo":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def singular(noun: str) -> str:
    """Return the singular of a plural in -s; any other text is returned unchanged.

    >>> singular("ties"), singular("losses"), singular("hallucinated citations"), singular("no answer")
    ('tie', 'loss', 'hallucinated citation', 'no answer')
    """
    if noun.endswith(("ss", "us", "is")):
        return noun
    return noun[:-2] if noun.endswith("sses") else noun.removesuffix("s")


def join_first(names: Sequence[str], limit: int) -> str:
    """Return the first names of a list, separated by commas, with ", …" at the end if the list has more names.

    >>> join_first(["a", "b"], 2), join_first(["a", "b", "c"], 2)
    ('a, b', 'a, b, …')
    """
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def join_counted(names: Sequence[str], limit: int, noun: str = "") -> str:
    """Return the first names of a list, separated by commas, with the number of the others at the end.

    >>> join_counted(["a", "b", "c"], 2), join_counted(["a", "b", "c"], 1, " reasons")
    ('a, b, 1 more', 'a, 2 more reasons')
    """
    more = [f"{len(names) - limit} more{noun}"] if len(names) > limit else []
    return ", ".join([*names[:limit], *more])


MAX_TEXT: Final = 20_000  # characters of a message

CONTROL: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Characters that control a terminal or cannot be printed: control characters except line feed and tab (escape
sequences and terminal links begin with one), line separators, bidirectional formatting characters, surrogates."""

INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
)
"""Characters without width (Unicode: Default_Ignorable_Code_Point). The runners of GitHub and Azure ignore these
characters, because .NET ignores them in comparisons."""

SPACES: Final = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""White space within a line, except the characters in `CONTROL`."""

LINE_COMMAND: Final = rf"(?m)^([{SPACES}{INVISIBLE}]*+):(?=[{INVISIBLE}]*+:)"
"""A workflow command of GitHub such as `::add-mask::`, at the beginning of a line or after leading white space."""

INNER_COMMAND: Final = rf"#(?=[{INVISIBLE}]*+#[\w{INVISIBLE}]*+\[)"
"""A command that may be anywhere in a line: `##[group]` (GitHub, Azure), `##vso[` (Azure) or `##teamcity[`."""


def printable(text: str) -> str:
    r"""Escape the characters of a text that would control a terminal or a CI runner.

    Line feeds and printable text are unchanged. Escaped JSON keeps its meaning, since JSON has the same escapes.

    >>> print(printable("\x1b[2Jdone\n  ::add-mask::a"))
    \u001b[2Jdone
      \u003a:add-mask::a
    """
    # Few texts contain such characters, and compiling the patterns takes a millisecond.
    if not text.isprintable():
        text = re.sub(CONTROL, lambda match: f"\\u{ord(match[0]):04x}", text)
    if text.count(":") > 1:
        text = re.sub(LINE_COMMAND, r"\1\\u003a", text)
    return re.sub(INNER_COMMAND, r"\\u0023", text) if text.count("#") > 1 else text


def text_of(value: object, limit: int = MAX_TEXT) -> str:
    """Return `str(value)` of an object of the user's, cut to `limit` characters; if it raises, a text that says so.

    >>> text_of("x" * 1000, 3)
    'xxx… (the first 3 of 1,000 characters)'
    """
    try:
        # A method of a subclass of str may raise too.
        text = str.__str__(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises
        return f"({type(value).__name__}, whose __str__ raises {type(error).__name__})"
    return (
        text if len(text) <= limit else f"{text[:limit]}… (the first {limit:,} of {len(text):,} characters)"
    )


def one_line(text: str) -> str:
    """Return a text escaped for one line, such as a table cell: line feeds and tabs are escaped too."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON file as a dict; ValueError if a key occurs twice: it is unknown which one is right."""
    decoded = dict(pairs)
    if len(decoded) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f'"{twice:.40}" occurs twice in one object, as after a merge that kept both sides')
    return decoded


def parse_failure(error: ValueError | RecursionError) -> str:
    """Return why a text cannot be parsed. What a RecursionError says depends on the release of Python."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
