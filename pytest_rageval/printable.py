"""Makes untrusted text safe to print on a terminal and in the log of a CI job."""

import re
from typing import Final

__all__ = ["one_line", "printable"]

STEERING: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""What a terminal obeys or cannot print: control characters, with which escape sequences and links begin, except
line feed and tab; line separators, changes of direction, surrogates."""

INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
)
"""Characters without width (Unicode: Default_Ignorable_Code_Point). The runners of GitHub and Azure ignore them:
they compare texts as .NET does."""

BLANK: Final = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""White space within a line that is not `STEERING`."""

LINE_COMMAND: Final = rf"(?m)^([{BLANK}{INVISIBLE}]*+):(?=[{INVISIBLE}]*+:)"
"""GitHub's commands such as `::add-mask::`, at the beginning of a line after white space."""

INNER_COMMAND: Final = rf"#(?=[{INVISIBLE}]*+#[\w{INVISIBLE}]*+\[)"
"""`##[group]` (GitHub, Azure), `##vso[` (Azure) and `##teamcity[`, anywhere in a line."""


def printable(text: str) -> str:
    r"""Escape what would control a terminal or a CI runner.

    Line feeds stay. Printable text is unchanged, and so is the meaning of JSON, which has the same escapes.

    >>> print(printable("\x1b[2Jdone\n  ::add-mask::a"))
    \u001b[2Jdone
      \u003a:add-mask::a
    """
    # Few texts have such signs, and the patterns take a millisecond to compile.
    if not text.isprintable():
        text = re.sub(STEERING, lambda found: f"\\u{ord(found[0]):04x}", text)
    if text.count(":") > 1:
        text = re.sub(LINE_COMMAND, r"\1\\u003a", text)
    return re.sub(INNER_COMMAND, r"\\u0023", text) if text.count("#") > 1 else text


def one_line(text: str) -> str:
    r"""Make a text printable in one line, as for a table cell: line feeds and tabs are escaped too."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))
