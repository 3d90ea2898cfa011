"""Parses a judge's reply: yes or no, a grade, a preference, a rating in JSON, or labels of nuggets.

A verdict is never searched for in the middle of a reply, and one that states none, or two, is unscored. Forms that
models use beside those that the prompts ask for, such as "Here is my verdict: no", are brought into these first.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.answers.judge_protocol import HIGHEST, LOWEST, PART, Preference, Rating, Verdict
from pytest_rageval.datatypes import Nugget
from pytest_rageval.errors import Unscored
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.plural import counted

__all__ = [
    "LABELS",
    "RATING_FORMAT",
    "json_object",
    "parse_grade",
    "parse_nuggets",
    "parse_preference",
    "parse_preferred",
    "parse_rating",
    "parse_reasoned",
    "parse_support",
    "parse_yes_no",
    "unread",
]

RATING_FORMAT: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {
        "name": "rating",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "explanation": {"type": "string"},
                "grade": {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))},
            },
            "required": ["explanation", "grade"],
            "additionalProperties": False,
        },
    },
}
"""The parameter `response_format`: a server that supports it constrains a model to write a rating."""

FENCE: Final = "```"

_CLOSING: Final = " \t\r\n*_\"'`).!"
"""Characters that may follow a verdict at the end of a reply."""

_PREFERENCE: Final = lazy_pattern(r"<rating>[\s*_]*([012])[\s*_]*</rating>", re.IGNORECASE)
_PREFERENCE_TAG: Final = lazy_pattern(r"</?\s*rating\b", re.IGNORECASE)
_WRAPPED: Final = lazy_pattern(r"\\(?:boxed|text|textbf)\{([^{}]{0,40})\}")  # as in LaTeX
_EXPLANATION: Final = lazy_pattern(
    r"\n[ \t*_#>]*+(?:explanation|reason|reasons|reasoning|rationale|justification)[ \t*_]*+(?::|\n)",
    re.IGNORECASE,
)
"""The head of an explanation that follows a verdict."""

_OBJECT: Final = lazy_pattern(r"(?:^|\n)[ \t]*+(?:\w++:[ \t]*+)?(\{)")


class _Wording:
    """How a reply states its verdict unambiguously.

    A reply states it at its beginning; or at its end, after a label ("Verdict: no"); or, where `alone`, as its whole
    last line; or it is a JSON object with the verdict under a known key. Only where it states none so, its label may
    also be a sentence ("Here is my verdict: no"), a heading or a tag, and an explanation or text around JSON may
    follow.

    `verdict` is a pattern with the verdict as its group, and what must follow it; `labels` are alternatives that
    may precede it, with a colon, and keys of a JSON object; `keys` are further ones. A reply that is only one of the
    words `bare` is a verdict; where there are none, a verdict at the beginning needs a label, too.
    """

    def __init__(self, verdict: str, labels: str, keys: str, *, alone: bool = False, bare: str = "") -> None:
        # Possessive, so that matching takes linear time.
        lead = r"""[ \t*_\#>"'`(]*+"""
        label = rf"(?: (?:final[ ]|my[ ])? (?:{labels}) [ \t*_]*+ : {lead} )"
        flags = re.IGNORECASE | re.VERBOSE
        start = r"""[\s*_\#>"'`(]*+"""
        self._value = lazy_pattern(rf"{start} {label}? {verdict}", flags)
        self._first = lazy_pattern(rf"{start} {label} {verdict}", flags) if not bare else self._value
        # At the beginning of a line or a sentence: what is quoted within one is not stated.
        self._labelled = lazy_pattern(
            rf"(?: ^ | [.!?][\"')]?\s ) {lead} {label} {verdict}", flags | re.MULTILINE
        )
        self._keys = {*labels.split("|"), *keys.split("|")}
        self._alone = alone
        self._bare = frozenset(bare.split())
        self._introduced = lazy_pattern(
            rf"""(?: \A\s*+ (?:(?:sure|certainly|of[ ]course|okay|ok|understood) [!,.]*+ \s++)? | \n | [.!?]\s )
            {lead} (?: (?:so|thus|therefore|hence|overall)[ ,]\s? )?
            (?: (?:here[ ]is|here['’]s|this[ ]is|below[ ]is)[ ](?:my|the)[ ](?:final[ ]|overall[ ])?
                (?:{labels}) [ \t*_]*+ :
            | (?: (?:the[ ])? (?:my[ ]|my[ ]final[ ]|final[ ]|overall[ ]) (?:{labels})
                | (?:the[ ])? (?:verdict|judgment|judgement|decision|conclusion) ) [ \t*_]++ is [ ]?:?
            | (?:final[ ]|my[ ])? (?:{labels}) [ \t*_]*+ (?: \n | [ ]?[=\u2013\u2014-] )
            | < (?:{labels}) > )
            \s*+""",
            flags,
        )
        self._closed = lazy_pattern(rf"</(?:{labels})>", re.IGNORECASE)
        self._label = f"\n{labels.partition('|')[0]}: "

    def stated(self, reply: str) -> str | None:
        """Return the one verdict of a reply, in lower case; None where it states none, or two."""
        word = reply.strip().removesuffix(".").lower()
        if word in self._bare:
            return word
        verdicts = self._verdicts(reply) or self._rephrased(reply)
        return verdicts.pop() if len(verdicts) == 1 else None

    def beside(self, reply: str) -> str:
        """Return the text of a reply, or of its JSON object, without the lines that contain only a verdict."""
        found = json_object(reply)
        texts = [reply] if found is None else [text for text in found.values() if isinstance(text, str)]
        lines = [line for text in texts for line in text.splitlines()]
        return " ".join(" ".join(line for line in lines if not self._is_whole(line)).split())

    def _is_whole(self, line: str) -> bool:
        found = self._value.match(line)
        return found is not None and not line[found.end(1) :].strip(_CLOSING)

    def _verdicts(self, reply: str) -> set[str]:
        stated = self._in_json(json_object(reply))
        first, labelled = self._first.match(reply), list(self._labelled.finditer(reply))
        last = self._first.match(reply.rstrip().rpartition("\n")[2]) if self._alone else None
        if last is None or last.string[last.end(1) :].strip(_CLOSING):
            last = None
        if first or last or (labelled and not reply[labelled[-1].end(1) :].strip(_CLOSING)):
            stated += [first, *labelled, last]
        return _words(stated)

    def _rephrased(self, reply: str) -> set[str]:
        """The verdicts of a reply that states none in the usual forms."""
        text = _WRAPPED.sub(r"\1", _WRAPPED.sub(r"\1", reply))
        text, closed = self._closed.subn("\n", self._introduced.sub(self._label, text))
        if closed > 1:
            return set()
        verdicts = self._verdicts(text) | {
            match[1].lower() for match in self._in_json(_object_beside_text(text)) if match
        }
        explanation = _EXPLANATION.search(text)
        if verdicts or explanation is None:
            return verdicts
        before = self._verdicts(text[: explanation.start()])
        return before and before | _words(self._labelled.finditer(text))

    def _in_json(self, found: Mapping[str, Any] | None) -> list[re.Match[str] | None]:
        values = [
            value for key, value in (found or {}).items() if key.lower().replace(" ", "_") in self._keys
        ]
        return [self._value.match(_as_text(value)) for value in values]


_YES_NO: Final = _Wording(
    r"""(yes|no) (?!-\w) [*_"'`)]*      # the word, perhaps in bold or in quotes, then
    (?: \s*$ | \s*[.,:;!(\u2013\u2014-] | [ \t]*\n | \s+because\b )  # its end, or a reason set apart""",
    "answer|verdict|judgment|judgement|decision|conclusion",
    "final_answer|final_verdict|correct|is_correct|right|relevant|is_relevant|sufficient|is_sufficient",
    alone=True,
    bare="yes no",
)


def _words(verdicts: Iterable[re.Match[str] | None]) -> set[str]:
    return {match[1].lower() for match in verdicts if match}


_NUMBER_ENDS: Final = r"""(?!-?\w)  # perhaps in bold, then
    # its end, or a reason set apart; "1. The" begins a list, and "4, 5" and "4-5" are two numbers.
    \.? [*_"'`)]* [.!]? (?: \s*$ | [ \t]*\n | \s*[,:;(\u2013\u2014-] (?!\s*\d) | \s+because\b )"""
_GRADE: Final = _Wording(
    rf"([1-5]) (?: \s*/\s*5 | \s+out\s+of\s+5 )? {_NUMBER_ENDS}",
    "grade|score|rating|points",
    "final_grade|final_score",
    bare="1 2 3 4 5",
)
_PREFERRED: Final = _Wording(
    rf"(?:answer[ ])? ([012ab]|tie) {_NUMBER_ENDS}",
    "rating|verdict|preference|decision|winner|choice|better",
    "final_rating|better_answer",
)
_PREFERENCES: Final = {"0": 0.0, "tie": 0.0, "1": 1.0, "a": 1.0, "2": 2.0, "b": 2.0}


def parse_yes_no(reply: str) -> float:
    """Return 1.0 for a reply that states yes, 0.0 for one that states no; otherwise raise Unscored.

    >>> parse_yes_no("**Yes.**"), parse_yes_no("no, the year differs")
    (1.0, 0.0)
    """
    return 1.0 if _verdict(_YES_NO.stated(reply), "neither yes nor no", reply) == "yes" else 0.0


def parse_reasoned(reply: str) -> Verdict:
    r"""Read a reply that states yes or no (`parse_yes_no`), with its reasons on one line; otherwise raise Unscored.

    >>> parse_reasoned("No passage names the year.\nVerdict: no")
    Verdict(value=0.0, explanation='No passage names the year.')
    """
    return Verdict(parse_yes_no(reply), _YES_NO.beside(reply))


def parse_grade(reply: str) -> float:
    """Return (grade - 1) / 4 for a reply that states an integer from 1 to 5, perhaps "of 5"; otherwise raise Unscored.

    >>> parse_grade("**4**"), parse_grade("3/5: the year is missing")
    (0.75, 0.5)
    """
    grade = int(_verdict(_GRADE.stated(reply), "not a grade from 1 to 5", reply))
    return (grade - LOWEST) / (HIGHEST - LOWEST)


def parse_preference(reply: str) -> float:
    """Return the 0.0, 1.0 or 2.0 in the only rating tag of a reply; otherwise raise Unscored.

    Without a tag it may be in a JSON object, after a label ("Rating: 2"), or the whole reply. Any other number is not a
    rating: reasons mention "answer 1", too.

    >>> parse_preference("Answer 1 errs about the year. <rating>2</rating>")
    2.0
    """
    tags = len(_PREFERENCE_TAG.findall(reply))
    if tags:
        # An opening and a closing one. Where the reply quotes a tag of an answer, the rating is ambiguous.
        rating = _PREFERENCE.search(reply) if tags == 2 else None  # noqa: PLR2004
        stated = rating and rating[1]
    else:
        whole = reply.strip(_CLOSING)
        stated = whole if whole in {"0", "1", "2"} else _PREFERRED.stated(reply)
    return _PREFERENCES[_verdict(stated, "not one rating of 0, 1 or 2 in a tag", reply)]


def parse_preferred(reply: str) -> Preference:
    """Read a preference (`parse_preference`) with its reasons on one line; otherwise raise Unscored.

    >>> parse_preferred("Answer 1 errs about the year. <rating>2</rating>")
    Preference(better=2, explanation='Answer 1 errs about the year.')
    """
    return Preference(int(parse_preference(reply)), _PREFERRED.beside(_PREFERENCE.sub("", reply)))


def parse_rating(reply: str) -> Rating:
    """Read a reply that is a JSON object (`json_object`) with `grade` and `explanation`.

    Raises:
        ValueError: it is anything else. The message is sent to the model (`repair_prompt`), so it is part of request
            keys.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Rating(grade=4.0, explanation='The year is missing.')
    """
    found = json_object(reply)
    if found is None:
        raise ValueError("it is not a JSON object")
    grade, explanation = found.get("grade"), found.get("explanation")
    # Exactly: True is an int to isinstance.
    if type(grade) is not int or not LOWEST <= grade <= HIGHEST:
        raise ValueError(
            f'"grade" is {_as_json(grade)[:20]}, and not a whole number from {LOWEST} to {HIGHEST}'
        )
    if not isinstance(explanation, str) or not explanation.strip():
        raise ValueError('"explanation" is not a text')
    return Rating(float(grade), " ".join(explanation.split()))


LABELS: Final[Mapping[str, float]] = {"support": 1.0, "partial_support": PART, "not_support": 0.0}
"""How much of a nugget a text supports, by label: all, a part, or nothing."""

_LIST: Final = lazy_pattern(r"\[([^\[\]]*)\]")


def parse_support(reply: str, n: int) -> tuple[float, ...]:
    """Return the labels in the only list of labels of a reply; otherwise, or if they are not n, raise Unscored.

    >>> parse_support('["support", "not_support"]', 2)
    (1.0, 0.0)
    """
    found = {
        tuple(LABELS[label] for label in labels)
        for labels in map(_listed_labels, _LIST.findall(reply))
        if labels and all(label in LABELS for label in labels)
    }
    if len(found) != 1:
        raise unread("not one list of labels", reply)
    (labels,) = found
    if len(labels) != n:
        raise unread(f"{counted(len(labels), 'label')} for {counted(n, 'nugget')}", reply)
    return labels


def _listed_labels(inner: str) -> list[str]:
    """The items of a JSON or Python list of words."""
    items = inner.removesuffix(",").split(",")
    return [item.strip(" \t\r\n\"'`").lower().replace(" ", "_") for item in items]


def parse_nuggets(reply: str) -> tuple[Nugget, ...]:
    """Read the JSON list of nuggets of a reply, or in its only code block; raise Unscored where it has none.

    An item is {"text": …, "vital": …}. Items of another form and repeated texts are left out. The list may
    also be the value of the key "nuggets" of an object.

    >>> parse_nuggets('[{"text": "Tulsa is the seat", "vital": true}]')
    (Nugget(text='Tulsa is the seat', vital=True),)
    """
    found = _json(reply)
    listed = found.get("nuggets") if isinstance(found, dict) else found
    nuggets: dict[str, Nugget] = {}
    for item in listed if isinstance(listed, list) else ():
        text, vital = (item.get("text"), item.get("vital")) if isinstance(item, dict) else (None, None)
        if isinstance(text, str) and text.strip() and isinstance(vital, bool):
            text = " ".join(text.split())
            nuggets.setdefault(text, Nugget(text, vital))
    if not nuggets:
        raise unread("not a list of nuggets", reply)
    return tuple(nuggets.values())


def json_object(reply: str) -> dict[str, Any] | None:
    r"""Return the JSON object that a reply is, or that its only code block holds; None where there is none.

    >>> json_object('It is right.\n```json\n{"grade": 5}\n```')
    {'grade': 5}
    """
    found = _json(reply)
    return found if isinstance(found, dict) else None


def _json(reply: str) -> Any:
    """The JSON value that a reply is, or that its only code block holds; None where there is none."""
    begin, end = reply.find(FENCE), reply.rfind(FENCE)
    language, newline, block = reply[begin + len(FENCE) : end].partition("\n")
    fenced = 0 <= begin < end and newline and language.strip().lower() in {"", "json"}
    try:
        return json.loads(block if fenced else reply, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None


def _object_beside_text(reply: str) -> dict[str, Any] | None:
    """Return the JSON object with which a reply begins or ends; None where there is none."""
    begin, end = _OBJECT.search(reply), reply.rfind("}") + 1
    if begin is None or (reply[: begin.start(1)].strip() and reply[end:].strip(_CLOSING)):
        return None
    return json_object(reply[begin.start(1) : end])


def unread(what: str, reply: str) -> Unscored:
    """Return the error for a reply that cannot be read, with its beginning."""
    shown = " ".join(reply.split())
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"  # noqa: PLR2004 - fits a line
    return Unscored(f"the judge's reply is {what}: {shown!r}")


def _verdict(stated: str | None, otherwise: str, reply: str) -> str:
    if stated is None:
        raise unread(otherwise, reply)
    return stated


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice, so its value is ambiguous")
    return found


def _as_json(value: object) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "nested too deeply"


def _as_text(value: object) -> str:
    """A value of a JSON object as a verdict is written; empty where it cannot be one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int) else ""
