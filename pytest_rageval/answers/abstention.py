"""Whether a generator declined to answer.

An abstention is about the text, as its subject or its place ("the passages do not say", "not given in the text"),
about the answer itself ("no information was found") or about the speaker ("I do not know"). A sentence on any other
subject is an answer, however negative: "batteries are not included in the box".
"""

import re
from functools import lru_cache
from typing import Final

from pytest_rageval.answers.citations import without_citations
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.prompts.templates import ABSTENTION

__all__ = ["abstains"]

_ADVERBS: Final = r"(?:\w+ly |even |yet |really )*"
_NOT: Final = rf"(?:not|n't|never) {_ADVERBS}"
_BE: Final = r"(?:is|are|was|were|has been|have been)"
_CANNOT: Final = r"(?:cannot|can't|can not|could not|couldn't)"

# The text that was read. Some names have other meanings too: a source may be one of light.
_ONLY_READ: Final = r"(?:passages?|contexts?|excerpts?|extracts?|snippets?|search results?)"
_READ: Final = rf"(?:{_ONLY_READ}|sources?|documents?|documentation|texts?|articles?|information|materials?)"
_SHOWN: Final = r"(?:provided|given|supplied|retrieved|available|above|following|present)"
_THE: Final = r"(?:the|these|this|those|that|any|any of the|any of these|your|all|all of the)"
_NONE: Final = r"(?:(?:none|neither) of (?:the|these|those)|neither|no)"
_NUMBERED: Final = r"(?: (?:[0-9]+|and|or|to))*"
_AFTER: Final = rf"(?: {_SHOWN}| you (?:have )?(?:provided|gave|given|shared)| i (?:have|was given))?"
_SUBJECT: Final = (
    rf"(?:(?:{_THE}|{_NONE}) (?:{_SHOWN} )?{_READ}{_NUMBERED}{_AFTER}|{_READ} [0-9]+{_NUMBERED})"
)
_ONLY_SUBJECT: Final = (
    rf"(?:(?:{_THE}|{_NONE}) (?:{_SHOWN} )?{_ONLY_READ}{_NUMBERED}{_AFTER}"
    rf"|{_THE} {_SHOWN} {_READ}{_NUMBERED}|{_ONLY_READ} [0-9]+{_NUMBERED})"
)
_SOURCE: Final = rf"(?:{_THE} )?(?:{_SHOWN} )?{_READ}{_NUMBERED}{_AFTER}"
_IN_SOURCE: Final = rf"(?:in|from|by|within|based on|given|according to) {_SOURCE}\b(?! of\b)"
_PLACES: Final = rf"{_THE} (?:{_SHOWN} )?{_READ}\b"

# A statement may end here.
_END: Final = r"\W*$"
_STOP: Final = rf"(?:{_END}| {_IN_SOURCE}|[,;] )"

# What is looked for in it.
_KINDS: Final = (
    r"(?:relevant|specific|such|direct|explicit|clear|definite|definitive|exact|further|additional|other)"
)
_KIND: Final = r"(?:answers?|information|info|mention|details?|data|evidence|indication|references?)"
_ANSWER: Final = rf"(?:{_KINDS} )*{_KIND}"
_ABOUT: Final = r"(?:about|regarding|concerning|as to|on)"
_WH: Final = r"(?:what|who|whom|whose|when|where|which|why|how|whether|if)"
_AN_ANSWER: Final = (
    rf"(?:(?:an?|any|the|this|that|enough|sufficient) )?{_ANSWER}"
    rf"(?:{_STOP}| (?:{_ABOUT}|to|that|of|for|here|{_WH}|{_SHOWN})\b)"
)
_SOUGHT: Final = rf"(?:{_AN_ANSWER}|(?:this|that|it|anything|{_WH})\b)"
_ENOUGH: Final = r"(?:not enough|n't enough|insufficient|inadequate|too little)"
_NOTHING: Final = rf"(?:no|nothing|{_ENOUGH})"
_FACTS: Final = r"(?:relevant )?(?:information|info|context|data|details?|evidence)"

# What a text does, and what is done with its content.
_SAYS: Final = (
    r"(?:(?:say|state|mention|specif|tell|indicate|answer|discuss|address|describe|explain|refer|name|identif"
    r"|reveal|clarif|elaborate|cover|list|speak)(?:y|s|es|ies)?)"
)
_HOLDS: Final = r"(?:contain|include|hold|give|provide|offer|supply|make)s?"
_SAID: Final = (
    r"(?:mentioned|stated|specified|provided|given|found|known|answered|determined|discussed|described|addressed"
    r"|indicated|made|clear|inferred|located)"
)
_GIVEN: Final = rf"(?:{_SAID}|included|available|present|contained|listed|named|shown)"
_OR_GIVEN: Final = rf"(?:{_GIVEN}(?: (?:or|and|nor) {_GIVEN})?)"
_WRITTEN: Final = r"(?:mentioned|stated|specified)(?: (?:or|nor) (?:mentioned|stated|specified|given))?"
_IS_NOT: Final = rf"(?:(?:{_BE} ?)?{_NOT}|{_CANNOT} be )"
_FAILS: Final = rf"(?:(?:do|does|did) ?{_NOT}|never |fails? to )"

# What the speaker is unable to do.
_I: Final = r"(?:i|we)"
_DO_NOT: Final = r"(?:do not|don't|did not|didn't)"
_UNABLE: Final = rf"(?:{_CANNOT}|(?: ?(?:am|are|was|were|'m|'re)) (?:unable to|not able to))(?: \w+ly)?"

_FORMS: Final = (
    # The passages do not mention the colour. None of the documents says so.
    rf"{_SUBJECT} (?:{_FAILS}|{_CANNOT} ){_SAYS}\b",
    rf"{_NONE} (?:{_SHOWN} )?{_READ}{_AFTER} {_ADVERBS}(?:{_SAYS}\b|(?:{_HOLDS}|have|has) {_SOUGHT})",
    rf"{_SUBJECT} {_FAILS}(?:{_HOLDS}|have) {_SOUGHT}",
    rf"{_ONLY_SUBJECT} {_FAILS}{_HOLDS}\b",
    rf"{_SUBJECT} {_ADVERBS}(?:{_HOLDS}|{_SAYS}|have|has) {_NOTHING}(?:{_STOP}| (?:{_ANSWER}|{_ABOUT})\b)",
    rf"{_SUBJECT} lacks? {_AN_ANSWER}",
    rf"{_SUBJECT} {_BE} (?:silent|{_NOT}(?:enough|sufficient|clear|relevant|related))\b",
    # The date is not given in the text. It is nowhere in the passages.
    rf"(?:[^.;,]* )?(?:{_BE} ?{_NOT}|{_CANNOT} be ){_OR_GIVEN}\b[^.;,]*? {_IN_SOURCE}",
    rf"(?:[^.;,]* )?{_BE} ?(?:{_NOT}|nowhere )in {_PLACES}",
    # Not stated in the passages.
    rf"(?:it {_BE} )?not {_ADVERBS}(?:{_SAID}{_END}|{_OR_GIVEN} {_IN_SOURCE})",
    # The answer is not provided. This information cannot be found. It is unknown.
    rf"(?:(?:the|this|that) )?(?:{_ANSWER}|question)(?: {_ABOUT} [^.;,]*)? {_IS_NOT}(?:{_SAID}|available){_STOP}",
    rf"(?:the|its|his|her|their) (?:[\w'-]+ ){{1,6}}?{_BE} ?{_NOT}{_WRITTEN}{_STOP}",
    rf"no (?:[\w'-]+ ){{1,6}}?{_BE} {_ADVERBS}{_WRITTEN}{_STOP}",
    rf"it {_BE} (?:not |im)possible to (?:determine|answer|say|tell|find)(?: {_SOUGHT}|[^.;,]* {_IN_SOURCE})",
    rf"(?:it|this|that|the answer) (?:{_BE}|remains) (?:unknown|unclear|unspecified|not known|not clear){_STOP}",
    # There is no information about this. No answer was found. Nothing in the passages says so.
    rf"there {_BE}(?: no| ?n't (?:any|an)| not any) {_ANSWER} (?:{_ABOUT}|of|to answer|{_OR_GIVEN}|here)\b",
    rf"(?:there {_BE} )?no (?:{_KINDS} )*(?:answer|information|info|mention|details?){_STOP}",
    rf"(?:there {_BE} )?no {_ANSWER} (?:[^.;,]*? )?(?:{_BE} )?{_OR_GIVEN}{_STOP}",
    rf"(?:there {_BE} )?no {_ANSWER} [^.;,]*?{_IN_SOURCE}",
    rf"(?:there {_BE} |{_I} (?:see|found|find) )?nothing (?:{_ABOUT} [^.;,]*)?{_IN_SOURCE}",
    rf"(?:there {_BE} ?|{_I} have )?{_ENOUGH} {_FACTS}(?: (?:to|{_ABOUT}|for|(?:{_BE} )?{_GIVEN})\b|{_STOP})",
    # I do not know. Sorry, I could not find an answer. I do not have enough information.
    rf"(?:{_I} )?{_DO_NOT} {_ADVERBS}know(?:{_STOP}| (?:the|an|any|this|that|it|of|{_WH})\b)",
    rf"(?:{_I} ?{_UNABLE}|unable to|{_CANNOT}) (?:say|tell|answer)(?:{_STOP}| (?:for|with|your)\b| {_SOUGHT})",
    rf"{_I} ?{_UNABLE} (?:determine\b|(?:provide|give|offer) {_AN_ANSWER})",
    rf"{_I} ?(?:{_UNABLE}|{_DO_NOT}) (?:find|see|locate|identify)(?: {_SOUGHT}|{_END}|[^.;,]* {_IN_SOURCE})",
    rf"{_I} ?(?:{_UNABLE}|{_DO_NOT}) have (?:{_AN_ANSWER}|access to|(?:enough|sufficient) {_FACTS})",
    rf"{_I}(?: am|'m| are|'re) (?:not (?:sure|certain|aware)|unsure|uncertain)\b",
    rf"{_I} have (?:no|insufficient) (?:idea|clue|knowledge|{_ANSWER}|{_FACTS})\b",
    rf"(?:unable to|{_CANNOT}) (?:determine\b|find {_SOUGHT})",
    # The whole answer is a word for "none".
    rf"(?:unknown|unanswerable|n/a|no idea|not sure|not enough){_END}",
    rf"{_CANNOT} be {_SAID}{_STOP}",
)

_ANY_FORM: Final = lazy_pattern("|".join(_FORMS))

_WORDS: Final = lazy_pattern(
    r"n[o'](?:t|ne|thing|where)?\b|neither|never|fail|lack|silent|insufficient|inadequate|too little|impossible"
    r"|un(?:able|answerable|certain|clear|known|specified|sure)|n/a"
)
"""A text that any of the forms matches has one of these words; most answers have none."""

_LONGEST: Final = 400
"""Characters of a sentence that declines; runaway outputs have thousands."""

_APOLOGY: Final = lazy_pattern(
    r"(?:(?:(?:i am|i'm|we are|we're) )?(?:very )?sorry|unfortunately|(?:my )?apologies|i apologi[sz]e)\b\W*(?:but )?"
)
_FIRST_THE_SOURCE: Final = lazy_pattern(rf"((?:in|from|given|based on|according to) {_SOURCE}),? ")
_IS: Final = lazy_pattern(r"(?<=\bthere)'s\b|(?<=\bit)'s\b|(?<=\bthat)'s\b")
_BUT: Final = lazy_pattern(r"[,;] (?:but|however|although|though)\b")
_MARKUP: Final = str.maketrans("", "", '*_`"\u201c\u201d')


@lru_cache(maxsize=1 << 10)  # the scores of an example ask for the same few answers
def abstains(answer: str) -> bool:
    """Whether an answer declines, in the words that the prompt asks for or in usual English ones.

    The first sentence decides, apologies aside. One that continues with "but" is an answer, and so is a title ("I
    Don't Know How She Does It").

    >>> abstains("No answer in the documents."), abstains("Not before May")
    (True, False)
    """
    plain = " ".join(without_citations(answer).translate(_MARKUP).replace("\u2019", "'").split())
    lowered = plain.lower()
    if not _WORDS.search(lowered):
        return False
    if ABSTENTION in lowered:
        return True
    if _is_title(plain):
        return False
    lowered = _IS.sub(" is", lowered)
    apology = _APOLOGY.match(lowered)
    statement = lowered[apology.end() if apology else 0 :]
    first = re.split(r"(?<=[.!?]) ", statement, maxsplit=1)[0].rstrip(" .!")
    if len(first) > _LONGEST or _BUT.search(first):
        return False
    opening = _FIRST_THE_SOURCE.match(first)
    if opening:
        # "In the passages the colour is not given" is "the colour is not given in the passages".
        first = f"{first[opening.end() :]} {opening[1]}"
    return _ANY_FORM.match(first) is not None


def _is_title(text: str) -> bool:
    """Whether a text in the first person has several longer words, all capitalised."""
    longer = re.findall(r"[^\W\d_]{4,}", text)
    return text.startswith(("I ", "We ")) and len(longer) > 1 and all(word[0].isupper() for word in longer)
