"""Parses a judge's reply: yes or no, a grade, a preference, a rating in JSON, or labels of nuggets.

A verdict must be at the beginning or the end of a reply, after a label, or in JSON. Other forms, such as "Here is my
verdict: no", are converted to these forms first. A reply without a verdict is unscored, and so is a reply with
different verdicts.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.answers.judge_protocol import (
    MAX_GRADE,
    MIN_GRADE,
    PARTIAL_SUPPORT,
    JudgeVerdict,
    Preference,
    Rating,
)
from pytest_rageval.datatypes import Nugget
from pytest_rageval.errors import Unscored
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.plural import counted

__all__ = [
    "RATING_FORMAT",
    "SUPPORT_LABELS",
    "json_object",
    "parse_explained_preference",
    "parse_explained_yes_no",
    "parse_grade",
    "parse_nuggets",
    "parse_preference",
    "parse_rating",
    "parse_support",
    "parse_yes_no",
    "unreadable_reply",
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
                "grade": {"type": "integer", "enum": list(range(MIN_GRADE, MAX_GRADE + 1))},
            },
            "required": ["explanation", "grade"],
            "additionalProperties": False,
        },
    },
}
"""The parameter `response_format` of a rating. A server that supports it makes the model reply in this format."""

CODE_FENCE: Final = "```"

_CLOSING: Final = " \t\r\n*_\"'`).!"
"""Characters that may follow a verdict at the end of a reply."""

_RATING_ELEMENT: Final = lazy_pattern(r"<rating>[\s*_]*([012])[\s*_]*</rating>", re.IGNORECASE)
_RATING_TAG: Final = lazy_pattern(r"</?\s*rating\b", re.IGNORECASE)
_LATEX_COMMAND: Final = lazy_pattern(r"\\(?:boxed|text|textbf)\{([^{}]{0,40})\}")
_EXPLANATION: Final = lazy_pattern(
    r"\n[ \t*_#>]*+(?:explanation|reason|reasons|reasoning|rationale|justification)[ \t*_]*+(?::|\n)",
    re.IGNORECASE,
)
"""The heading of an explanation after a verdict."""

_OBJECT_START: Final = lazy_pattern(r"(?:^|\n)[ \t]*+(?:\w++:[ \t]*+)?(\{)")


class _VerdictParser:
    """Parses the verdict of a reply if it is unambiguous.

    A reply may state its verdict in one of these forms:

    - at the beginning;
    - at the end after a label ("Verdict: no"), or, with `last_line`, as the whole last line;
    - in a JSON object under a known key.

    If it uses none of them, the label may also be a sentence ("Here is my verdict: no"), a heading or a tag, and an
    explanation may follow the verdict, or text may surround the JSON object.

    Args:
        verdict: a pattern with the verdict as its group and the text that must follow it.
        labels: alternatives of a pattern: labels of a verdict, which are also keys of a JSON object.
        keys: further keys of a JSON object.
        last_line: whether the last line may be a verdict without a label.
        single_words: words that are a verdict if the reply has no other word; without any, a verdict at the beginning
            needs a label.
    """

    def __init__(
        self, verdict: str, labels: str, keys: str, *, last_line: bool = False, single_words: str = ""
    ) -> None:
        # Possessive quantifiers, so that matching takes linear time.
        lead = r"""[ \t*_\#>"'`(]*+"""
        label = rf"(?: (?:final[ ]|my[ ])? (?:{labels}) [ \t*_]*+ : {lead} )"
        flags = re.IGNORECASE | re.VERBOSE
        start = r"""[\s*_\#>"'`(]*+"""
        self._verdict_at_start = lazy_pattern(rf"{start} {label}? {verdict}", flags)
        self._stated_at_start = (
            lazy_pattern(rf"{start} {label} {verdict}", flags) if not single_words else self._verdict_at_start
        )
        # A label must begin a line or a sentence. Inside a sentence it may be part of a quotation.
        self._labelled = lazy_pattern(
            rf"(?: ^ | [.!?][\"')]?\s ) {lead} {label} {verdict}", flags | re.MULTILINE
        )
        self._object_keys = {*labels.split("|"), *keys.split("|")}
        self._last_line = last_line
        self._single_words = frozenset(single_words.split())
        self._informal_label = lazy_pattern(
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
        self._closing_tag = lazy_pattern(rf"</(?:{labels})>", re.IGNORECASE)
        self._formal_label = f"\n{labels.partition('|')[0]}: "

    def parse(self, reply: str) -> str | None:
        """Return the verdict of a reply in lower case; None if it states no verdict, or different ones."""
        word = reply.strip().removesuffix(".").lower()
        if word in self._single_words:
            return word
        verdicts = self._find_verdicts(reply) or self._find_in_other_forms(reply)
        return verdicts.pop() if len(verdicts) == 1 else None

    def parse_explanation(self, reply: str) -> str:
        """Return the text of a reply, or of its JSON object, without the lines that contain only a verdict."""
        values = json_object(reply)
        texts = [reply] if values is None else [text for text in values.values() if isinstance(text, str)]
        lines = [line for text in texts for line in text.splitlines()]
        return " ".join(" ".join(line for line in lines if not self._is_only_verdict(line)).split())

    def _is_only_verdict(self, line: str) -> bool:
        match = self._verdict_at_start.match(line)
        return match is not None and not line[match.end(1) :].strip(_CLOSING)

    def _find_verdicts(self, reply: str) -> set[str]:
        matches = self._find_in_object(json_object(reply))
        first, labelled = self._stated_at_start.match(reply), list(self._labelled.finditer(reply))
        last = self._stated_at_start.match(reply.rstrip().rpartition("\n")[2]) if self._last_line else None
        if last is None or last.string[last.end(1) :].strip(_CLOSING):
            last = None
        if first or last or (labelled and not reply[labelled[-1].end(1) :].strip(_CLOSING)):
            matches += [first, *labelled, last]
        return _matched_words(matches)

    def _find_in_other_forms(self, reply: str) -> set[str]:
        """Return the verdicts of a reply that does not use the usual forms."""
        # Twice, because LaTeX commands may be nested.
        text = _LATEX_COMMAND.sub(r"\1", _LATEX_COMMAND.sub(r"\1", reply))
        text, closing_tags = self._closing_tag.subn("\n", self._informal_label.sub(self._formal_label, text))
        if closing_tags > 1:
            return set()
        verdicts = self._find_verdicts(text) | {
            match[1].lower() for match in self._find_in_object(_object_at_edge(text)) if match
        }
        explanation = _EXPLANATION.search(text)
        if verdicts or explanation is None:
            return verdicts
        before = self._find_verdicts(text[: explanation.start()])
        return before and before | _matched_words(self._labelled.finditer(text))

    def _find_in_object(self, values: Mapping[str, Any] | None) -> list[re.Match[str] | None]:
        return [
            self._verdict_at_start.match(_verdict_text(value))
            for key, value in (values or {}).items()
            if key.lower().replace(" ", "_") in self._object_keys
        ]


_YES_NO: Final = _VerdictParser(
    r"""(yes|no) (?!-\w) [*_"'`)]*      # the word, perhaps in bold or in quotes, then
    (?: \s*$ | \s*[.,:;!(\u2013\u2014-] | [ \t]*\n | \s+because\b )  # its end, or a reason set apart""",
    "answer|verdict|judgment|judgement|decision|conclusion",
    "final_answer|final_verdict|correct|is_correct|right|relevant|is_relevant|sufficient|is_sufficient",
    last_line=True,
    single_words="yes no",
)


def _matched_words(verdicts: Iterable[re.Match[str] | None]) -> set[str]:
    return {match[1].lower() for match in verdicts if match}


_AFTER_NUMBER: Final = r"""(?!-?\w)  # perhaps in bold, then
    # its end, or a reason set apart; "1. The" begins a list, and "4, 5" and "4-5" are two numbers.
    \.? [*_"'`)]* [.!]? (?: \s*$ | [ \t]*\n | \s*[,:;(\u2013\u2014-] (?!\s*\d) | \s+because\b )"""
_GRADE: Final = _VerdictParser(
    rf"([1-5]) (?: \s*/\s*5 | \s+out\s+of\s+5 )? {_AFTER_NUMBER}",
    "grade|score|rating|points",
    "final_grade|final_score",
    single_words="1 2 3 4 5",
)
_PREFERENCE: Final = _VerdictParser(
    rf"(?:answer[ ])? ([012ab]|tie) {_AFTER_NUMBER}",
    "rating|verdict|preference|decision|winner|choice|better",
    "final_rating|better_answer",
)
_PREFERENCE_VALUES: Final = {"0": 0.0, "tie": 0.0, "1": 1.0, "a": 1.0, "2": 2.0, "b": 2.0}


def parse_yes_no(reply: str) -> float:
    """Return 1.0 for a reply that states yes, 0.0 for one that states no; otherwise raise Unscored.

    >>> parse_yes_no("**Yes.**"), parse_yes_no("no, the year differs")
    (1.0, 0.0)
    """
    return 1.0 if _require_verdict(_YES_NO.parse(reply), "neither yes nor no", reply) == "yes" else 0.0


def parse_explained_yes_no(reply: str) -> JudgeVerdict:
    r"""Return the value of a reply (`parse_yes_no`) with its reasons on one line; otherwise raise Unscored.

    >>> parse_explained_yes_no("No passage names the year.\nVerdict: no")
    JudgeVerdict(value=0.0, explanation='No passage names the year.')
    """
    return JudgeVerdict(parse_yes_no(reply), _YES_NO.parse_explanation(reply))


def parse_grade(reply: str) -> float:
    """Return (grade - 1) / 4 for a reply that states an integer from 1 to 5, perhaps "of 5"; otherwise raise Unscored.

    >>> parse_grade("**4**"), parse_grade("3/5: the year is missing")
    (0.75, 0.5)
    """
    grade = int(_require_verdict(_GRADE.parse(reply), "not a grade from 1 to 5", reply))
    return (grade - MIN_GRADE) / (MAX_GRADE - MIN_GRADE)


def parse_preference(reply: str) -> float:
    """Return 0.0, 1.0 or 2.0 from the only rating tag of a reply; otherwise raise Unscored.

    Without a tag, the rating may be in a JSON object, after a label ("Rating: 2"), or the whole reply. Any other number
    is ignored, because reasons also mention "answer 1".

    >>> parse_preference("Answer 1 errs about the year. <rating>2</rating>")
    2.0
    """
    tags = len(_RATING_TAG.findall(reply))
    if tags:
        # Two tags are an opening and a closing one. More may be quoted from an answer, so the rating is ambiguous.
        element = _RATING_ELEMENT.search(reply) if tags == 2 else None  # noqa: PLR2004
        rating = element and element[1]
    else:
        whole = reply.strip(_CLOSING)
        rating = whole if whole in {"0", "1", "2"} else _PREFERENCE.parse(reply)
    return _PREFERENCE_VALUES[_require_verdict(rating, "not one rating of 0, 1 or 2 in a tag", reply)]


def parse_explained_preference(reply: str) -> Preference:
    """Return the preference of a reply (`parse_preference`) with its reasons on one line; otherwise raise Unscored.

    >>> parse_explained_preference("Answer 1 errs about the year. <rating>2</rating>")
    Preference(better=2, explanation='Answer 1 errs about the year.')
    """
    explanation = _PREFERENCE.parse_explanation(_RATING_ELEMENT.sub("", reply))
    return Preference(int(parse_preference(reply)), explanation)


def parse_rating(reply: str) -> Rating:
    """Return the rating of a reply that is a JSON object (`json_object`) with `grade` and `explanation`.

    Raises:
        ValueError: the reply is anything else. The message is sent to the model (`repair_prompt`), so it is part of
            request keys.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Rating(grade=4.0, explanation='The year is missing.')
    """
    values = json_object(reply)
    if values is None:
        raise ValueError("it is not a JSON object")
    grade, explanation = values.get("grade"), values.get("explanation")
    # Not `isinstance`, which accepts True as an int.
    if type(grade) is not int or not MIN_GRADE <= grade <= MAX_GRADE:
        raise ValueError(
            f'"grade" is {_to_json(grade)[:20]}, and not a whole number from {MIN_GRADE} to {MAX_GRADE}'
        )
    if not isinstance(explanation, str) or not explanation.strip():
        raise ValueError('"explanation" is not a text')
    return Rating(float(grade), " ".join(explanation.split()))


SUPPORT_LABELS: Final[Mapping[str, float]] = {
    "support": 1.0,
    "partial_support": PARTIAL_SUPPORT,
    "not_support": 0.0,
}
"""By label of a nugget: how far a text supports it."""

_LIST: Final = lazy_pattern(r"\[([^\[\]]*)\]")


def parse_support(reply: str, n: int) -> tuple[float, ...]:
    """Return the n labels in the only list of labels of a reply; otherwise raise Unscored.

    >>> parse_support('["support", "not_support"]', 2)
    (1.0, 0.0)
    """
    lists = {
        tuple(SUPPORT_LABELS[label] for label in labels)
        for labels in map(_split_labels, _LIST.findall(reply))
        if labels and all(label in SUPPORT_LABELS for label in labels)
    }
    if len(lists) != 1:
        raise unreadable_reply("not one list of labels", reply)
    (labels,) = lists
    if len(labels) != n:
        raise unreadable_reply(f"{counted(len(labels), 'label')} for {counted(n, 'nugget')}", reply)
    return labels


def _split_labels(inner: str) -> list[str]:
    """Return the items of a JSON or Python list of words; `inner` is its text between the brackets."""
    items = inner.removesuffix(",").split(",")
    return [item.strip(" \t\r\n\"'`").lower().replace(" ", "_") for item in items]


def parse_nuggets(reply: str) -> tuple[Nugget, ...]:
    """Return the nuggets of a reply that is a JSON list, perhaps in its only code block; otherwise raise Unscored.

    An item is {"text": …, "vital": …}. Items of another form and repeated texts are left out. The list may also be the
    value of the key "nuggets" of an object.

    >>> parse_nuggets('[{"text": "Tulsa is the seat", "vital": true}]')
    (Nugget(text='Tulsa is the seat', vital=True),)
    """
    value = _parse_json(reply)
    items = value.get("nuggets") if isinstance(value, dict) else value
    nuggets: dict[str, Nugget] = {}
    for item in items if isinstance(items, list) else ():
        text, vital = (item.get("text"), item.get("vital")) if isinstance(item, dict) else (None, None)
        if isinstance(text, str) and text.strip() and isinstance(vital, bool):
            text = " ".join(text.split())
            nuggets.setdefault(text, Nugget(text, vital))
    if not nuggets:
        raise unreadable_reply("not a list of nuggets", reply)
    return tuple(nuggets.values())


def json_object(reply: str) -> dict[str, Any] | None:
    r"""Return the JSON object of a reply, which may be in its only code block; None if there is none.

    >>> json_object('It is right.\n```json\n{"grade": 5}\n```')
    {'grade': 5}
    """
    value = _parse_json(reply)
    return value if isinstance(value, dict) else None


def _parse_json(reply: str) -> Any:
    """Return the JSON value of a reply, which may be in its only code block; None if there is none."""
    begin, end = reply.find(CODE_FENCE), reply.rfind(CODE_FENCE)
    language, newline, block = reply[begin + len(CODE_FENCE) : end].partition("\n")
    fenced = 0 <= begin < end and newline and language.strip().lower() in {"", "json"}
    try:
        return json.loads(block if fenced else reply, object_pairs_hook=_reject_repeated_names)
    except (ValueError, RecursionError):
        return None


def _object_at_edge(reply: str) -> dict[str, Any] | None:
    """Return the JSON object at the beginning or the end of a reply; None if there is none."""
    begin, end = _OBJECT_START.search(reply), reply.rfind("}") + 1
    if begin is None or (reply[: begin.start(1)].strip() and reply[end:].strip(_CLOSING)):
        return None
    return json_object(reply[begin.start(1) : end])


def unreadable_reply(problem: str, reply: str) -> Unscored:
    """Return the error for an unreadable reply, with the beginning of the reply."""
    beginning = " ".join(reply.split())
    beginning = beginning if len(beginning) <= 60 else f"{beginning[:59]}…"  # noqa: PLR2004 - fits a line
    return Unscored(f"the judge's reply is {problem}: {beginning!r}")


def _require_verdict(verdict: str | None, problem: str, reply: str) -> str:
    if verdict is None:
        raise unreadable_reply(problem, reply)
    return verdict


def _reject_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name occurs twice, so its value is ambiguous")
    return values


def _to_json(value: object) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "nested too deeply"


def _verdict_text(value: object) -> str:
    """Return the value of a JSON object as the text of a verdict; empty if it cannot be a verdict."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int) else ""
