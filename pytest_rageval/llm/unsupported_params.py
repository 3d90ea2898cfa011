"""Parameters that a server refuses: recognised in its error, and left out from then on."""

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["UnsupportedParams"]

OTHER_NAMES: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

ALSO_CALLED: Final = {
    "stop": ("stop_sequences", "stopSequences"),
    "response_format": ("json output", "json mode", "structured output", "structured outputs"),
}
"""Other names of parameters in servers' errors, besides camel case."""

ESSENTIAL: Final = {"tools", "tool_choice"}
"""Parameters that are never left out: the request would mean something else."""

UNMISTAKABLE: Final = {"temperature", "logprobs", "seed"}
"""Plain words that in an error always mean the parameter."""

REPEATED: Final = {"input", "body", "ctx", "request"}
"""Fields of an error that repeat the request, in which every parameter is named."""

UNKNOWN: Final = re.compile(
    r"unsupported|(not|n't) support|not enabled|unavailable|deprecated|unknown|unrecogni[sz]ed"
    r"|extra[_ ](inputs|fields|forbidden)|not permitted|not allowed|unexpected|cannot find field"
    r"|only (the default|be set)",
    re.IGNORECASE,
)
"""Words for a parameter that is not supported; an unsupported value is for the user to correct."""

OUT_OF_RANGE: Final = re.compile(
    r"too (large|long|high|big|small|low)|at (most|least)\b|(less|greater|more) than|(valid|supported) range"
    r"|(above|below|exceeds?) (the )?(maximum|minimum)|maximum allowed|supported values are:[^.]*(,| and | or )",
    re.IGNORECASE,
)
"""Words for a supported parameter with a wrong value."""

EXPECTED: Final = re.compile(r"expected one of\b[^\n]*", re.IGNORECASE)
"""A list of all parameters but the refused one."""

INTRODUCED: Final = (
    r"(?:\b(?:argument|parameter|param|field|key|option|path|property)s?(?:[ ][\w ]{1,40}:)?[ ]|\#/)"
)
"""Words before a name without quotes, which may be an English word."""


class UnsupportedParams:
    """The unsupported parameters of one model at one server, learned from its refusals."""

    def __init__(self) -> None:
        self._replacements: dict[str, str | None] = {}

    def adapt(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the parameters to send, and the names that are left out, separated by spaces."""
        sent, without = {}, []
        for requested, value in parameters.items():
            name: str | None = requested
            while name is not None and name in self._replacements:
                name = self._replacements[name]
            if name is None:
                without.append(requested)
            else:
                sent[name] = value
        return sent, " ".join(without)

    def learn(self, sent: Mapping[str, Any], refusal: Mapping[str, Any]) -> bool:
        """Learn which parameter a refusal (status 400 or 422) names.

        Args:
            sent: the parameters that were sent.
            refusal: the server's answer, parsed; its form does not matter.

        Returns:
            Whether it names one that can be left out, so that a retry makes sense.
        """
        own = _without_repeated(refusal)
        text = EXPECTED.sub("", str(own))
        refused = UNKNOWN.search(text) and not OUT_OF_RANGE.search(text)
        name = _refused_name(sent, own.get("param"), text) if refused else None
        if name is None:
            return False
        other = OTHER_NAMES.get(name)
        if other in self._replacements:
            # Both names are refused. Without a token limit a reply could cost more than was reserved.
            return False
        self._replacements[name] = None if other in sent else other
        return True


def _without_repeated(refusal: Any) -> Any:
    if isinstance(refusal, Mapping):
        return {name: _without_repeated(value) for name, value in refusal.items() if name not in REPEATED}
    return [_without_repeated(value) for value in refusal] if isinstance(refusal, list) else refusal


def _refused_name(sent: Mapping[str, Any], param: object, text: str) -> str | None:
    """Return the sent parameter that a refusal names in its field `param` or its text; None for none."""
    candidates = [name for name in sent if name not in ESSENTIAL]
    if isinstance(param, str) and param.partition(".")[0] in candidates:
        return param.partition(".")[0]
    names = {
        form: name for name in candidates for form in (name, _camel_case(name), *ALSO_CALLED.get(name, ()))
    }
    # A bare word counts only where it is not also an English word.
    bare = [form for form in names if not (form.isalpha() and form.islower()) or form in UNMISTAKABLE]
    for forms, before, after in (
        (names, r"""\\?["'`\[]""", r"""\\?["'`\]]"""),
        (names, INTRODUCED, r"\b"),
        (bare, r"\b", r"\b"),
    ):
        found = {
            match.start(): names[form]
            for form in forms
            if (match := re.search(f"{before}{re.escape(form)}{after}", text, re.IGNORECASE))
        }
        if found:
            # "Unsupported 'max_tokens', use 'max_completion_tokens'": the refused one comes first.
            return found[min(found)]
    return None


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
