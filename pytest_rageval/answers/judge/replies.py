"""Parses a judge's reply: yes or no, a grade, a preference, a rating in JSON, or labels of nuggets.

A verdict must be at the beginning or the end of a reply, after a label, or in JSON. Other forms, such as "Here is my
verdict: no", are converted to these forms first. A reply without a verdict is unscored, and so is a reply with
different verdicts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pytest_rageval.answers.judge import MAX_GRADE, MIN_GRADE, PARTIAL_SUPPORT, Verdict
from pytest_rageval.answers.judge.reply_json import FoundObject, find_json, find_object
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import Nugget
from pytest_rageval.models.prompts import CRITERIA


def _rating_format(name: str, *grades: str) -> Mapping[str, object]:
    grade = {"type": "integer", "enum": list(range(MIN_GRADE, MAX_GRADE + 1))}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": name,
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"explanation": {"type": "string"}, **dict.fromkeys(grades, grade)},
                "required": ["explanation", *grades],
                "additionalProperties": False,
            },
        },
    }


RATING_FORMAT: Final = _rating_format("rating", "grade")
"""The parameter `response_format` of a rating. A server that supports it makes the model reply in this format."""

RATINGS_FORMAT: Final = _rating_format("ratings", *CRITERIA)
"""The same of the ratings by all criteria."""

_CLOSING: Final = " \t\r\n*_\"'`).!"
"""Characters that may follow a verdict at the end of a reply."""

_RATING_ELEMENT: Final = re.compile(r"<rating>[\s*_]*([012])[\s*_]*</rating>", re.IGNORECASE)
_RATING_TAG: Final = re.compile(r"</?\s*rating\b", re.IGNORECASE)
_LATEX: Final = re.compile(
    r"\\(?:boxed|text|textbf)\{([^{}]{0,40})\}|\${1,2}+([^$\n]{1,60})\${1,2}+|\\[(\[]([^\n]{1,60}?)\\[)\]]"
)
_EXPLANATION: Final = re.compile(
    r"\n[ \t*_#>]*+(?:explanation|reason|reasons|reasoning|rationale|justification)[ \t*_]*+(?::|\n)",
    re.IGNORECASE,
)
"""The heading of an explanation after a verdict."""

_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Characters without a width, and marks of direction."""

NEVER: Final = "(?!)"
"""A pattern that matches nothing."""


class _VerdictParser:
    """Parses the verdict of a reply if it is unambiguous.

    A reply may state its verdict in one of these forms:

    - at the beginning;
    - at the end after a label ("Verdict: no"), or, for the words of `last_line`, as the whole last line;
    - in a JSON object under a known key.

    If it uses none of them, the label may also be a sentence ("Here is my verdict: no"), a heading or a tag, and an
    explanation may follow the verdict. A reply that restates another verdict later ("Yes, …; but no, …") has none.

    Args:
        verdict: a pattern with the verdict as its group and the text that must follow it.
        labels: alternatives of a pattern: labels of a verdict, which are also keys of a JSON object.
        keys: further keys of a JSON object.
        values: the value of each verdict, in lower case.
        unlabelled: a pattern that must match before a verdict at the beginning that has no label.
        restated: a pattern with a verdict as its group, which is searched in the text after a verdict.
        last_line: words that are a verdict as the whole last line.
        single_words: whether a verdict may be the only word of a reply.
    """

    def __init__(  # noqa: PLR0913 - the attributes of a kind of verdict
        self,
        verdict: str,
        labels: str,
        keys: str,
        values: Mapping[str, float],
        *,
        unlabelled: str = "",
        restated: str = NEVER,
        last_line: str = "",
        single_words: bool = True,
    ) -> None:
        # Possessive quantifiers, so that matching takes linear time.
        lead = r"""[ \t*_\#>"'`(]*+"""
        label = rf"(?: (?:final[ ]|my[ ])? (?:{labels}) [ \t*_]*+ : {lead} )"
        flags = re.IGNORECASE | re.VERBOSE
        start = r"""[\s*_\#>"'`(]*+"""
        self._verdict_at_start = re.compile(rf"{start} {label}? {verdict}", flags)
        self._stated_at_start = re.compile(rf"{start} (?: {label} | {unlabelled} ) {verdict}", flags)
        # A label must begin a line or a sentence. Inside a sentence it may be part of a quotation. The end of a verdict
        # is only looked at, because the next label may begin after its full stop.
        self._labelled = re.compile(
            rf"""(?: ^ | [.!?][\"')]?\s ) {lead} {label}
            (?= {verdict}
            )""",
            flags | re.MULTILINE,
        )
        self._restated = re.compile(restated, flags)
        self._object_keys = {*labels.split("|"), *keys.split("|")}
        self._values = values
        self._last_line = frozenset(last_line.split())
        self._single_words = single_words
        self._informal_label = re.compile(
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
        self._closing_tag = re.compile(rf"</(?:{labels})>", re.IGNORECASE)
        self._formal_label = f"\n{labels.partition('|')[0]}: "

    def parse(self, reply: str) -> float | None:
        """Return the value of a reply's verdict; None if it states no verdict, or different ones."""
        text = _visible(reply)
        word = text.strip().removesuffix(".").lower()
        if self._single_words and word in self._values:
            return self._values[word]
        verdicts = self._find_verdicts(text) or self._find_in_other_forms(text)
        return verdicts.pop() if len(verdicts) == 1 else None

    def parse_object(self, found: FoundObject) -> set[float]:
        """Return the verdicts under the known keys; if there are any, also those of the text around the object."""
        verdicts = self._find_in_values(found.values)
        around = verdicts and self._values_of(self._restated.finditer(found.prose))
        return verdicts and verdicts | around | self._find_in_text(found.prose)

    def parse_value(self, value: object) -> set[float]:
        text = _verdict_text(value)
        match = self._verdict_at_start.match(text)
        return self._values_of([match, *self._restated.finditer(text, match.end(1))]) if match else set()

    def parse_explanation(self, reply: str) -> str:
        """Return the text of a reply, or of its JSON object, without the lines that contain only a verdict."""
        found = find_object(reply)
        texts = [reply] if found is None else [found.prose, *found.values.values()]
        lines = [line for text in texts if isinstance(text, str) for line in text.splitlines()]
        return " ".join(" ".join(line for line in lines if not self._is_only_verdict(line)).split())

    def _is_only_verdict(self, line: str) -> bool:
        match = self._verdict_at_start.match(line)
        return match is not None and not line[match.end(1) :].strip(_CLOSING)

    def _find_verdicts(self, text: str) -> set[float]:
        found = find_object(text)
        verdicts = (found and self.parse_object(found)) or self._find_in_text(text)
        if found is None and verdicts and "{" in text:
            # An object that might be a quotation is no verdict, but it may contradict one.
            objects = (found.value for found in find_json(text) if isinstance(found.value, dict))
            verdicts = verdicts.union(*(self._find_in_values(values) for values in objects))
        return verdicts

    def _find_in_text(self, text: str) -> set[float]:
        if "\\" in text or "$" in text:
            for _ in range(3):  # because LaTeX commands may be nested
                text = _LATEX.sub(r"\1\2\3", text)
        first, labelled = self._stated_at_start.match(text), list(self._labelled.finditer(text))
        last = self._stated_at_start.match(text.rstrip().rpartition("\n")[2]) if self._last_line else None
        if last and (last[1].lower() not in self._last_line or last.string[last.end(1) :].strip(_CLOSING)):
            last = None
        if not (first or last or (labelled and not text[labelled[-1].end(1) :].strip(_CLOSING))):
            return set()
        stated = [match for match in (first, *labelled, last) if match]
        # `last` alone has nothing after it.
        begin = next((match.end(1) for match in (first, *labelled) if match), len(text))
        return self._values_of([*stated, *self._restated.finditer(text, begin)])

    def _find_in_other_forms(self, text: str) -> set[float]:
        text, closing_tags = self._closing_tag.subn("\n", self._informal_label.sub(self._formal_label, text))
        if closing_tags > 1:
            return set()
        verdicts = self._find_verdicts(text)
        explanation = _EXPLANATION.search(text)
        if verdicts or explanation is None:
            return verdicts
        before = self._find_in_text(text[: explanation.start()])
        return before and before | self._values_of(self._labelled.finditer(text))

    def _find_in_values(self, values: Mapping[str, object]) -> set[float]:
        return {
            verdict
            for key, value in values.items()
            if key.strip().lower().replace(" ", "_") in self._object_keys
            for verdict in self.parse_value(value)
        }

    def _values_of(self, verdicts: Iterable[re.Match[str]]) -> set[float]:
        return {self._values[" ".join(match[1].lower().split())] for match in verdicts}


_YES_NO_VALUES: Final = {
    **dict.fromkeys(("yes", "true", "correct"), 1.0),
    **dict.fromkeys(("no", "false", "incorrect", "not correct"), 0.0),
}
_YES_NO_END: Final = r"""(?!-\w) [*_"'`)]*+  # perhaps in bold or in quotes, then
    (?: \s*$ | \s*[.,:;!(\u2013\u2014-] | [ \t]*\n | \s+because\b )  # its end, or a reason set apart"""
_YES_NO: Final = _VerdictParser(
    rf"(yes|no|true|false|correct|incorrect|not\s+correct) {_YES_NO_END}",
    "answer|verdict|judgment|judgement|decision|conclusion",
    "final_answer|final_verdict|correct|is_correct|right|relevant|is_relevant|sufficient|is_sufficient",
    _YES_NO_VALUES,
    # "True, but …" concedes a point, and "Correct: 1962" names the right answer.
    unlabelled=r"""(?! (?:true|correct) [*_"'`)]*+ \s*+ [,:;(\u2013\u2014-] )""",
    # After another colon, as in "Reference: yes", it is quoted.
    restated=r"""(?: ^ | [.,;!?()\n\u2013\u2014-] | (?:(?<=yes)|(?<=no)) :
        | \b(?:verdict|(?:my|final|overall)\ answer)\ is ) [ *_]{0,3}
        (?: (?:and|but|however|though|although|yet|still|also|actually|arguably|rather|or|wait|so|overall|then)
            [ ,]{1,2} ){0,3}
        [*_]{0,2} (yes|no|true|false|correct|incorrect|not\ correct) (?!-?\w) [*_"'`)]*+
        (?: \s*$ | \s*[.,:;!?(\u2013\u2014-] | [ \t]*\n )""",
    last_line="yes no",
)

_NUMBER_END: Final = r"""(?!-?\w)  # perhaps in bold, then
    # its end, or a reason set apart; "1. The" begins a list, and "4, 5" and "4-5" are two numbers.
    \.? [*_"'`)]* [.!]? (?: \s*$ | [ \t]*\n | \s*[,:;(\u2013\u2014-] (?!\s*\d) | \s+because\b )"""
_GRADE: Final = _VerdictParser(
    rf"([1-5]) (?:\.0++)? (?: \s*/\s*5 | \s+out\s+of\s+5 )? {_NUMBER_END}",
    "grade|score|rating|points",
    "final_grade|final_score",
    {str(grade): float(grade) for grade in range(MIN_GRADE, MAX_GRADE + 1)},
    restated=r"""\b (?: (?: grade|grading|score|scoring|rating|rate|rated|give|gives|given|deserves?|assign|award
        |actually|instead|rather|make\ (?:it|that) ) (?: [^\w.\n]{1,3} (?! \d )\w{1,12} ){0,4} | no|or|wait )
        [^\w.\n]{1,3} ([1-5]) (?! [\w%] | \.\d | -\w | \s+to\s | \s*\u2013\s*\d )""",
)
_PREFERENCE: Final = _VerdictParser(
    rf"(?:answer[ ])? ([012ab]|tie) (?:\.0++)? {_NUMBER_END}",
    "rating|verdict|preference|decision|winner|choice|better",
    "final_rating|better_answer",
    {"0": 0.0, "tie": 0.0, "1": 1.0, "a": 1.0, "2": 2.0, "b": 2.0},
    unlabelled=NEVER,
    single_words=False,
)


def parse_yes_no(reply: str) -> float:
    """Return 1.0 for a reply that states yes, 0.0 for one that states no; otherwise raise Unscored.

    >>> parse_yes_no("**Yes.**"), parse_yes_no("no, the year differs")
    (1.0, 0.0)
    """
    return _require_verdict(_YES_NO.parse(reply), "neither yes nor no", reply)


def parse_explained_yes_no(reply: str) -> Verdict:
    r"""Return the value of a reply (`parse_yes_no`) with its reasons on one line; otherwise raise Unscored.

    >>> parse_explained_yes_no("No passage names the year.\nVerdict: no")
    Verdict(value=0.0, explanation='No passage names the year.')
    """
    return Verdict(parse_yes_no(reply), _YES_NO.parse_explanation(reply))


def parse_grade(reply: str) -> float:
    """Return (grade - 1) / 4 for a reply that states an integer from 1 to 5, perhaps "of 5"; otherwise raise Unscored.

    >>> parse_grade("**4**"), parse_grade("3/5: the year is missing")
    (0.75, 0.5)
    """
    grade = _require_verdict(_GRADE.parse(reply), "not a grade from 1 to 5", reply)
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
        rating = float(element[1]) if element else None
    else:
        whole = _visible(reply).strip(_CLOSING)
        rating = float(whole) if whole in {"0", "1", "2"} else _PREFERENCE.parse(reply)
    return _require_verdict(rating, "not one rating of 0, 1 or 2 in a tag", reply)


def parse_explained_preference(reply: str) -> Verdict:
    """Return the preference of a reply (`parse_preference`) with its reasons on one line; otherwise raise Unscored.

    >>> parse_explained_preference("Answer 1 errs about the year. <rating>2</rating>")
    Verdict(value=2, explanation='Answer 1 errs about the year.')
    """
    explanation = _PREFERENCE.parse_explanation(_RATING_ELEMENT.sub("", reply))
    return Verdict(int(parse_preference(reply)), explanation)


def parse_rating(reply: str) -> Verdict:
    """Return the rating in the JSON object of a reply (`find_object`), with `grade` and `explanation`.

    The grade may be a number or a text, as in `parse_grade`. ValueError for any other reply: its message is sent to the
    model (`repair_prompt`), so it is part of request keys.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Verdict(value=4.0, explanation='The year is missing.')
    """
    found, values = _rating_object(reply)
    grades = _GRADE.parse_object(found)
    if not grades or ("grade" in values and not _GRADE.parse_value(values["grade"])):
        raise _no_grade("grade", values)
    if len(grades) > 1:
        raise ValueError("it has different grades")
    return Verdict(grades.pop(), _explanation(values))


def parse_ratings(reply: str) -> tuple[Verdict, ...]:
    """Return the ratings by all `CRITERIA` in the JSON object of a reply, which share its explanation.

    ValueError for any other reply, as of `parse_rating`.

    >>> grades = '"correctness": 4, "faithfulness": 5, "context_quality": 3'
    >>> [rating.value for rating in parse_ratings(f'{{"explanation": "Late.", {grades}}}')]
    [4.0, 5.0, 3.0]
    """
    _, values = _rating_object(reply)
    grades: list[float] = []
    for criterion in CRITERIA:
        grade = _GRADE.parse_value(values.get(criterion))
        if len(grade) != 1:
            raise _no_grade(criterion, values)
        grades += grade
    explanation = _explanation(values)
    return tuple(Verdict(grade, explanation) for grade in grades)


def _rating_object(reply: str) -> tuple[FoundObject, Mapping[str, object]]:
    found = find_object(_visible(reply))
    if found is None:
        raise ValueError("it is not a JSON object")
    return found, {name.strip().lower(): value for name, value in found.values.items()}


def _no_grade(key: str, values: Mapping[str, object]) -> ValueError:
    try:
        value = json.dumps(values.get(key))
    except RecursionError:
        value = "nested too deeply"
    return ValueError(f'"{key}" is {value[:20]}, and not a whole number from {MIN_GRADE} to {MAX_GRADE}')


def _explanation(values: Mapping[str, object]) -> str:
    explanation = values.get("explanation")
    if not isinstance(explanation, str) or not explanation.strip():
        raise ValueError('"explanation" is not a text')
    return " ".join(explanation.split())


SUPPORT_LABELS: Final[Mapping[str, float]] = {
    "support": 1.0,
    "partial_support": PARTIAL_SUPPORT,
    "not_support": 0.0,
}
"""By label of a nugget: how far a text supports it."""


def parse_support(reply: str) -> tuple[float, ...]:
    """Return the labels in the only list of labels of a reply; otherwise raise Unscored.

    >>> parse_support('["support", "not_support"]')
    (1.0, 0.0)
    """
    lists = {
        tuple(SUPPORT_LABELS[label] for label in labels)
        for found in find_json(_visible(reply))
        for labels in _lists_of_words(found.value)
        if labels and all(label in SUPPORT_LABELS for label in labels)
    }
    if len(lists) != 1:
        raise unreadable_reply("not one list of labels", reply)
    return lists.pop()


def _lists_of_words(value: object) -> Iterator[list[str]]:
    """Yield the lists in a JSON value that contain only words, in the spelling of a label."""
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        return
    if items is value and all(isinstance(item, str) for item in items):
        yield [item.strip().lower().replace(" ", "_") for item in items]
    for item in items:
        yield from _lists_of_words(item)


def parse_nuggets(reply: str) -> tuple[Nugget, ...]:
    """Return the nuggets of a reply whose only JSON value is a list of them; otherwise raise Unscored.

    An item is {"text": …, "vital": …}. Items of another form and repeated texts are left out. The list may also be the
    value of the key "nuggets" of an object. Text around the list is ignored.

    >>> parse_nuggets('[{"text": "Tulsa is the seat", "vital": true}]')
    (Nugget(text='Tulsa is the seat', vital=True),)
    """
    lists: dict[tuple[Nugget, ...], None] = {}
    for found in find_json(_visible(reply)):
        items = found.value.get("nuggets") if isinstance(found.value, dict) else found.value
        nuggets: dict[str, Nugget] = {}
        for item in items if isinstance(items, list) else ():
            text, vital = (item.get("text"), item.get("vital")) if isinstance(item, dict) else (None, None)
            if isinstance(text, str) and text.strip() and _verdict_text(vital).lower() in _YES_NO_VALUES:
                text = " ".join(text.split())
                nuggets.setdefault(text, Nugget(text, bool(_YES_NO_VALUES[_verdict_text(vital).lower()])))
        if nuggets:
            lists[tuple(nuggets.values())] = None
    if len(lists) != 1:
        raise unreadable_reply("not a list of nuggets", reply)
    return lists.popitem()[0]


def _visible(text: str) -> str:
    """Return a text without invisible characters, and with plain spaces in place of others."""
    return text if text.isascii() else _INVISIBLE.sub("", text).replace("\u00a0", " ").replace("\u202f", " ")


def unreadable_reply(problem: str, reply: str) -> Unscored:
    beginning = " ".join(reply.split())
    beginning = beginning if len(beginning) <= 60 else f"{beginning[:59]}…"  # noqa: PLR2004 - fits a line
    return Unscored(f"the judge's reply is {problem}: {beginning!r}")


def _require_verdict(verdict: float | None, problem: str, reply: str) -> float:
    if verdict is None:
        raise unreadable_reply(problem, reply)
    return verdict


def _verdict_text(value: object) -> str:
    """Return the value of a JSON object as the text of a verdict; empty if it cannot be a verdict."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int) else ""
