"""Recognizes abstentions: answers in which a generator declines to answer.

The subject of an abstention is the source ("the passages do not say", "not given in the text"), the answer itself ("no
information was found") or the speaker ("I do not know"). A negative sentence about any other subject is an answer:
"batteries are not included in the box".
"""

import re
from functools import cache, lru_cache
from typing import Final

from pytest_rageval.answers.citations import without_citations
from pytest_rageval.models.prompts import ABSTENTION

_ADVERBS: Final = r"(?:\w+ly |even |yet |really )*"
_NOT: Final = rf"(?:not|n't|never) {_ADVERBS}"
_BE: Final = r"(?:is|are|was|were|has been|have been)"
_CANNOT: Final = r"(?:cannot|can't|can not|could not|couldn't)"

# The source: the passages that the generator was given. Clear nouns mean nothing else; "source" may be one of light.
_CLEAR_NOUN: Final = r"(?:passages?|contexts?|excerpts?|extracts?|snippets?|search results?)"
_NOUN: Final = rf"(?:{_CLEAR_NOUN}|sources?|documents?|documentation|texts?|articles?|information|materials?)"
_PROVIDED: Final = r"(?:provided|given|supplied|retrieved|available|above|following|present)"
_DETERMINER: Final = r"(?:the|these|this|those|that|any|any of the|any of these|your|all|all of the)"
_NO: Final = r"(?:(?:none|neither) of (?:the|these|those)|neither|no)"
_NUMBERS: Final = r"(?: (?:[0-9]+|and|or|to))*"
_PROVIDED_AFTER: Final = (
    rf"(?: {_PROVIDED}| you (?:have )?(?:provided|gave|given|shared)| i (?:have|was given))?"
)
_SUBJECT: Final = (
    rf"(?:(?:{_DETERMINER}|{_NO}) (?:{_PROVIDED} )?{_NOUN}{_NUMBERS}{_PROVIDED_AFTER}"
    rf"|{_NOUN} [0-9]+{_NUMBERS})"
)
_CLEAR_SUBJECT: Final = (
    rf"(?:(?:{_DETERMINER}|{_NO}) (?:{_PROVIDED} )?{_CLEAR_NOUN}{_NUMBERS}{_PROVIDED_AFTER}"
    rf"|{_DETERMINER} {_PROVIDED} {_NOUN}{_NUMBERS}|{_CLEAR_NOUN} [0-9]+{_NUMBERS})"
)
_SOURCE: Final = rf"(?:{_DETERMINER} )?(?:{_PROVIDED} )?{_NOUN}{_NUMBERS}{_PROVIDED_AFTER}"
_IN_SOURCE: Final = rf"(?:in|from|by|within|based on|given|according to) {_SOURCE}\b(?! of\b)"
_THE_SOURCE: Final = rf"{_DETERMINER} (?:{_PROVIDED} )?{_NOUN}\b"

# The end of a text, and of a statement.
_END: Final = r"\W*$"
_STOP: Final = rf"(?:{_END}| {_IN_SOURCE}|[,;] )"

# The answer that the source should contain.
_ADJECTIVE: Final = (
    r"(?:relevant|specific|such|direct|explicit|clear|definite|definitive|exact|further|additional|other)"
)
_ANSWER_NOUN: Final = r"(?:answers?|information|info|mention|details?|data|evidence|indication|references?)"
_ANSWER: Final = rf"(?:{_ADJECTIVE} )*{_ANSWER_NOUN}"
_ABOUT: Final = r"(?:about|regarding|concerning|as to|on)"
_QUESTION_WORD: Final = r"(?:what|who|whom|whose|when|where|which|why|how|whether|if)"
_AN_ANSWER: Final = (
    rf"(?:(?:an?|any|the|this|that|enough|sufficient) )?{_ANSWER}"
    rf"(?:{_STOP}| (?:{_ABOUT}|to|that|of|for|here|{_QUESTION_WORD}|{_PROVIDED})\b)"
)
_OBJECT: Final = rf"(?:{_AN_ANSWER}|(?:this|that|it|anything|{_QUESTION_WORD})\b)"
_NOT_ENOUGH: Final = r"(?:not enough|n't enough|insufficient|inadequate|too little)"
_NOTHING: Final = rf"(?:no|nothing|{_NOT_ENOUGH})"
_FACTS: Final = r"(?:relevant )?(?:information|info|context|data|details?|evidence)"

# Verbs with the source as subject, and participles that say what happened to its content.
_STATES: Final = (
    r"(?:(?:say|state|mention|specif|tell|indicate|answer|discuss|address|describe|explain|refer|name|identif"
    r"|reveal|clarif|elaborate|cover|list|speak)(?:y|s|es|ies)?)"
)
_CONTAINS: Final = r"(?:contain|include|hold|give|provide|offer|supply|make)s?"
_STATED: Final = (
    r"(?:mentioned|stated|specified|provided|given|found|known|answered|determined|discussed|described|addressed"
    r"|indicated|made|clear|inferred|located)"
)
_GIVEN: Final = rf"(?:{_STATED}|included|available|present|contained|listed|named|shown)"
_GIVEN_OR_GIVEN: Final = rf"(?:{_GIVEN}(?: (?:or|and|nor) {_GIVEN})?)"
_MENTIONED: Final = r"(?:mentioned|stated|specified)(?: (?:or|nor) (?:mentioned|stated|specified|given))?"
_IS_NOT: Final = rf"(?:(?:{_BE} ?)?{_NOT}|{_CANNOT} be )"
_DOES_NOT: Final = rf"(?:(?:do|does|did) ?{_NOT}|never |fails? to )"

# The speaker, and the speaker's inability.
_I: Final = r"(?:i|we)"
_DO_NOT: Final = r"(?:do not|don't|did not|didn't)"
_UNABLE: Final = rf"(?:{_CANNOT}|(?: ?(?:am|are|was|were|'m|'re)) (?:unable to|not able to))(?: \w+ly)?"

_PATTERNS: Final = (
    # The passages do not mention the colour. None of the documents says so.
    rf"{_SUBJECT} (?:{_DOES_NOT}|{_CANNOT} ){_STATES}\b",
    rf"{_NO} (?:{_PROVIDED} )?{_NOUN}{_PROVIDED_AFTER} {_ADVERBS}(?:{_STATES}\b|(?:{_CONTAINS}|have|has) {_OBJECT})",
    rf"{_SUBJECT} {_DOES_NOT}(?:{_CONTAINS}|have) {_OBJECT}",
    rf"{_CLEAR_SUBJECT} {_DOES_NOT}{_CONTAINS}\b",
    rf"{_SUBJECT} {_ADVERBS}(?:{_CONTAINS}|{_STATES}|have|has) {_NOTHING}(?:{_STOP}| (?:{_ANSWER}|{_ABOUT})\b)",
    rf"{_SUBJECT} lacks? {_AN_ANSWER}",
    rf"{_SUBJECT} {_BE} (?:silent|{_NOT}(?:enough|sufficient|clear|relevant|related))\b",
    # The date is not given in the text. It is nowhere in the passages.
    rf"(?:[^.;,]* )?(?:{_BE} ?{_NOT}|{_CANNOT} be ){_GIVEN_OR_GIVEN}\b[^.;,]*? {_IN_SOURCE}",
    rf"(?:[^.;,]* )?{_BE} ?(?:{_NOT}|nowhere )in {_THE_SOURCE}",
    # Not stated in the passages.
    rf"(?:it {_BE} )?not {_ADVERBS}(?:{_STATED}{_END}|{_GIVEN_OR_GIVEN} {_IN_SOURCE})",
    # The answer is not provided. This information cannot be found. It is unknown.
    rf"(?:(?:the|this|that) )?(?:{_ANSWER}|question)(?: {_ABOUT} [^.;,]*)? {_IS_NOT}(?:{_STATED}|available){_STOP}",
    rf"(?:the|its|his|her|their) (?:[\w'-]+ ){{1,6}}?{_BE} ?{_NOT}{_MENTIONED}{_STOP}",
    rf"no (?:[\w'-]+ ){{1,6}}?{_BE} {_ADVERBS}{_MENTIONED}{_STOP}",
    rf"it {_BE} (?:not |im)possible to (?:determine|answer|say|tell|find)(?: {_OBJECT}|[^.;,]* {_IN_SOURCE})",
    rf"(?:it|this|that|the answer) (?:{_BE}|remains) (?:unknown|unclear|unspecified|not known|not clear){_STOP}",
    # There is no information about this. No answer was found. Nothing in the passages says so.
    rf"there {_BE}(?: no| ?n't (?:any|an)| not any) {_ANSWER} (?:{_ABOUT}|of|to answer|{_GIVEN_OR_GIVEN}|here)\b",
    rf"(?:there {_BE} )?no (?:{_ADJECTIVE} )*(?:answer|information|info|mention|details?){_STOP}",
    rf"(?:there {_BE} )?no {_ANSWER} (?:[^.;,]*? )?(?:{_BE} )?{_GIVEN_OR_GIVEN}{_STOP}",
    rf"(?:there {_BE} )?no {_ANSWER} [^.;,]*?{_IN_SOURCE}",
    rf"(?:there {_BE} |{_I} (?:see|found|find) )?nothing (?:{_ABOUT} [^.;,]*)?{_IN_SOURCE}",
    rf"(?:there {_BE} ?|{_I} have )?{_NOT_ENOUGH} {_FACTS}(?: (?:to|{_ABOUT}|for|(?:{_BE} )?{_GIVEN})\b|{_STOP})",
    # I do not know. Sorry, I could not find an answer. I do not have enough information.
    rf"(?:{_I} )?{_DO_NOT} {_ADVERBS}know(?:{_STOP}| (?:the|an|any|this|that|it|of|{_QUESTION_WORD})\b)",
    rf"(?:{_I} ?{_UNABLE}|unable to|{_CANNOT}) (?:say|tell|answer)(?:{_STOP}| (?:for|with|your)\b| {_OBJECT})",
    rf"{_I} ?{_UNABLE} (?:determine\b|(?:provide|give|offer) {_AN_ANSWER})",
    rf"{_I} ?(?:{_UNABLE}|{_DO_NOT}) (?:find|see|locate|identify)(?: {_OBJECT}|{_END}|[^.;,]* {_IN_SOURCE})",
    rf"{_I} ?(?:{_UNABLE}|{_DO_NOT}) have (?:{_AN_ANSWER}|access to|(?:enough|sufficient) {_FACTS})",
    rf"{_I}(?: am|'m| are|'re) (?:not (?:sure|certain|aware)|unsure|uncertain)\b",
    rf"{_I} have (?:no|insufficient) (?:idea|clue|knowledge|{_ANSWER}|{_FACTS})\b",
    rf"(?:unable to|{_CANNOT}) (?:determine\b|find {_OBJECT})",
    # The whole answer is a word for "none".
    rf"(?:unknown|unanswerable|n/a|no idea|not sure|not enough){_END}",
    rf"{_CANNOT} be {_STATED}{_STOP}",
)


@cache
def _any_pattern() -> re.Pattern[str]:
    # To compile it takes longer than all other patterns of a run together, and most runs need no match.
    return re.compile("|".join(_PATTERNS))


_NEGATIVE_WORD: Final = re.compile(
    r"n[o'](?:t|ne|thing|where)?\b|neither|never|fail|lack|silent|insufficient|inadequate|too little|impossible"
    r"|un(?:able|answerable|certain|clear|known|specified|sure)|n/a"
)
"""Every text that a pattern matches contains one of these words. Most answers do not, and need no further check."""

_MAX_SENTENCE_LENGTH: Final = 400
"""A longer sentence is not an abstention. The sentences of a runaway output have thousands of characters."""

_APOLOGY: Final = re.compile(
    r"(?:(?:(?:i am|i'm|we are|we're) )?(?:very )?sorry|unfortunately|(?:my )?apologies|i apologi[sz]e)\b\W*(?:but )?"
)
_SOURCE_FIRST: Final = re.compile(rf"((?:in|from|given|based on|according to) {_SOURCE}),? ")
_CONTRACTED_IS: Final = re.compile(r"(?<=\bthere)'s\b|(?<=\bit)'s\b|(?<=\bthat)'s\b")
_CONTINUES_WITH_BUT: Final = re.compile(r"[,;] (?:but|however|although|though)\b")
_MARKUP: Final = str.maketrans("", "", '*_`"\u201c\u201d')


@lru_cache(maxsize=1 << 10)  # several scores of an example check the same answer
def abstains(answer: str) -> bool:
    """Return True if an answer declines, in the words that the prompt asks for or in common English ones.

    The first sentence, without an apology before it, decides. A sentence that continues with "but" is an answer, and so
    is a title ("I Don't Know How She Does It").

    >>> abstains("No answer in the documents."), abstains("Not before May")
    (True, False)
    """
    text = " ".join(without_citations(answer).translate(_MARKUP).replace("\u2019", "'").split())
    lowered = text.lower()
    if not _NEGATIVE_WORD.search(lowered):
        return False
    if ABSTENTION in lowered:
        return True
    long_words = re.findall(r"[^\W\d_]{4,}", text)
    if (
        text.startswith(("I ", "We "))
        and len(long_words) > 1
        and all(word[0].isupper() for word in long_words)
    ):
        return False  # a title
    lowered = _CONTRACTED_IS.sub(" is", lowered)
    apology = _APOLOGY.match(lowered)
    statement = lowered[apology.end() if apology else 0 :]
    sentence = re.split(r"(?<=[.!?]) ", statement, maxsplit=1)[0].rstrip(" .!")
    if len(sentence) > _MAX_SENTENCE_LENGTH or _CONTINUES_WITH_BUT.search(sentence):
        return False
    source = _SOURCE_FIRST.match(sentence)
    if source:
        # "In the passages the colour is not given" becomes "the colour is not given in the passages".
        sentence = f"{sentence[source.end() :]} {source[1]}"
    return _any_pattern().match(sentence) is not None
