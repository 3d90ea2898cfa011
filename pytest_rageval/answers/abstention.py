"""Whether a generator declined to answer."""

import re
from typing import Final

from pytest_rageval.prompts import ABSTENTION

__all__ = ["abstains"]

_NOT: Final = r" ?(?:not|n't) (?:\w+ ){0,2}"
_NOTHING: Final = r"(?:answer|information|info|mention|details?|data|evidence|indication)"
_SOURCE: Final = r"(?:documents?|passages?|context|excerpts?|texts?|information|sources?)"
_GIVEN: Final = r"(?:mentioned|stated|specified|provided|given|found|included|available|known)"
_GIVES: Final = r"(?:answer|contain|say|state|mention|specify|provide|include|hold|give|indicate)"
_FINDS: Final = r"(?:know|answer|determine|find|tell|say)"
_UNABLE: Final = r"(?:do not|don't|cannot|can't|could not|couldn't|am unable to|was unable to)"

_FORMS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        re.escape(ABSTENTION),
        # "There is no information about this in the documents."
        rf"\bno (?:relevant |specific |such )?{_NOTHING}\b.*\b(?:in|from|about|on|is|was|{_GIVEN})\b",
        # "The passages do not mention the colour."
        rf"\b{_SOURCE}\b.{{0,30}}\b(?:do|does|did){_NOT}{_GIVES}",
        # "The date is not given in the text."
        rf"\b(?:is|are|was|were){_NOT}{_GIVEN}\b.*\b(?:in|by|from) (?:the|these|this|any)\b",
        # "The answer is not in the passages."
        rf"\bnot in (?:the|these|any) {_SOURCE}\b",
        # "Sorry, I could not find an answer."
        rf"^(?:sorry\W+)?(?:i|we) {_UNABLE}(?: \w+){{0,2}} {_FINDS}\b",
        # The whole answer is a word for "none".
        rf"^(?:unknown|unanswerable|n/a|no answer|not (?:{_GIVEN}|enough information))\W*$",
        r"^cannot be (?:determined|answered)\W*$",
    )
)


def abstains(answer: str) -> bool:
    """Whether an answer says that there is none, in the words asked for or in usual ones.

    An answer that only contains such words beside a real one is not recognised
    reliably; the patterns look for whole statements.

    >>> abstains("No answer in the documents."), abstains("Not before May")
    (True, False)
    """
    lowered = " ".join(answer.lower().replace("\u2019", "'").split())
    return any(form.search(lowered) for form in _FORMS)
