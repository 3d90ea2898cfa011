"""Takes an answer apart into statements, which are sentences or items of a list, each with its citations."""

import re
from typing import Final, NamedTuple

from pytest_rageval.answers.citations import Citations, parse_citations, without_citations

END: Final = re.compile(
    r"""
    \n+
    # The end of a sentence, perhaps with citations after it. A sentence does not begin with a small letter.
    | [.!?]["'”’)]* (?:\s*[\[【][^\[\]【】\n]*[\]】])* \s+ (?=[^\sa-z\[【])
    | [。！？] (?:\s*[\[【][^\[\]【】\n]*[\]】])*
    # What separates items, after a citation.
    | (?<=[\]】]) \s* (?:[,;、，；](?:\s+and\b)? | \band\b)
    """,
    re.VERBOSE,
)
NO_END: Final = re.compile(
    r"(?:\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|Prof|St|No|vs|approx|e\.g|i\.e|cf)|(?:^|\n)\s*\d{1,3})\Z"
)
"""What a point after it does not end: an initial, an abbreviation, or the number of an item."""
LONGEST: Final = 16  # characters before a point that are searched for them

BULLET: Final = re.compile(r"\A\s*(?:[-*•–]|\d{1,3}[.)])\s+")
SEPARATOR: Final = re.compile(r"[\s,;、，；]*(?<!\w)(?:and)?\s*\Z")


class Statement(NamedTuple):
    """A sentence or an item of a list, without its citations, and these."""

    text: str
    citations: Citations

    @property
    def cites_nothing(self) -> bool:
        return not (self.citations.positions or self.citations.hallucinated)


def statements(answer: str, passages: int) -> tuple[Statement, ...]:
    """Return the statements of an answer; `passages` is the number of passages in the prompt.

    A statement ends at the end of a sentence or a line, and after a citation that a comma, a semicolon or "and"
    follows. Citations after the point are those of the sentence before it. Text without a letter or a digit is no
    statement.

    >>> [(text, cited.positions) for text, cited in statements("Built in 1931 [1], by Dr. Orr. [2][3] It is red.", 3)]
    [('Built in 1931', (1,)), ('by Dr. Orr.', (2, 3)), ('It is red.', ())]
    """
    pieces, start = [], 0
    for end in END.finditer(answer):
        before = answer[max(start, end.start() - LONGEST) : end.start()]
        if not (end[0].startswith(".") and NO_END.search(before)):
            pieces.append(answer[start : end.end()])
            start = end.end()
    found = []
    for piece in (*pieces, answer[start:]):
        text = SEPARATOR.sub("", BULLET.sub("", without_citations(piece)))
        if any(map(str.isalnum, text)):
            found.append(Statement(text, parse_citations(piece, passages)))
    return tuple(found)
