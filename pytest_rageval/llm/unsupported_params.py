"""Parameters that a server refuses: noticed from its error, remembered, and left out from then on."""

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["UnsupportedParams"]

OTHER_NAMES: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

ALSO_CALLED: Final = {
    "stop": ("stop_sequences", "stopSequences"),
    "response_format": ("json output", "json mode", "structured output", "structured outputs"),
}
"""What servers call a parameter where they pass it on to another protocol, besides its name in camel case."""

ESSENTIAL: Final = {"tools", "tool_choice"}
"""Without these the question would be another one; their refusal is an error."""

UNMISTAKABLE: Final = {"temperature", "logprobs", "seed"}

REPEATED: Final = {"input", "body", "ctx", "request"}

UNKNOWN: Final = re.compile(
    r"unsupported|(not|n't) support|not enabled|unavailable|deprecated|unknown|unrecogni[sz]ed"
    r"|extra[_ ](inputs|fields|forbidden)|not permitted|not allowed|unexpected|cannot find field"
    r"|only (the default|be set)",
    re.IGNORECASE,
)
"""How servers say that they do not take a parameter, as opposed to its value, which is for the user to mend."""

OUT_OF_RANGE: Final = re.compile(
    r"too (large|long|high|big|small|low)|at (most|least)\b|(less|greater|more) than|(valid|supported) range"
    r"|(above|below|exceeds?) (the )?(maximum|minimum)|maximum allowed|supported values are:[^.]*(,| and | or )",
    re.IGNORECASE,
)
"""How they say that they do take it, with another value."""

EXPECTED: Final = re.compile(r"expected one of\b[^\n]*", re.IGNORECASE)
"""What follows names all parameters but the refused one."""

INTRODUCED: Final = (
    r"(?:\b(?:argument|parameter|param|field|key|option|path|property)s?(?:[ ][\w ]{1,40}:)?[ ]|\#/)"
)
"""What stands before a name that is not quoted, and may be a word of English."""


class UnsupportedParams:
    """Of one model at one server, learned from its refusals."""

    def __init__(self) -> None:
        self._instead: dict[str, str | None] = {}

    def spoken(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Parameters as this model takes them.

        Returns:
            What to send, and the names that were left out, separated by spaces.
        """
        sent, without = {}, []
        for asked, value in parameters.items():
            name: str | None = asked
            while name is not None and name in self._instead:
                name = self._instead[name]
            if name is None:
                without.append(asked)
            else:
                sent[name] = value
        return sent, " ".join(without)

    def learn(self, sent: Mapping[str, Any], refusal: Mapping[str, Any]) -> bool:
        """Remember the parameter that a refusal (status 400 or 422) names.

        Args:
            sent: the parameters that were sent.
            refusal: the server's answer, parsed: whatever it is, the name is looked for in it.

        Returns:
            Whether one of them is named, so that asking again makes sense.
        """
        said = _said(refusal)
        text = EXPECTED.sub("", str(said))
        refused = UNKNOWN.search(text) and not OUT_OF_RANGE.search(text)
        name = _named(sent, said.get("param"), text) if refused else None
        if name is None:
            return False
        other = OTHER_NAMES.get(name)
        if other in self._instead:
            # Under neither name: without any limit a reply could cost more than was set aside for it.
            return False
        self._instead[name] = None if other in sent else other
        return True


def _said(refusal: Any) -> Any:
    """A refusal without what it repeats of the request, in which every parameter is named."""
    if isinstance(refusal, Mapping):
        return {name: _said(value) for name, value in refusal.items() if name not in REPEATED}
    return [_said(value) for value in refusal] if isinstance(refusal, list) else refusal


def _named(sent: Mapping[str, Any], param: object, text: str) -> str | None:
    """The parameter that a refusal is about; None where it names none that was sent.

    Args:
        sent: the parameters.
        param: the field of the refusal that is meant to name it.
        text: the whole refusal.
    """
    candidates = [name for name in sent if name not in ESSENTIAL]
    if isinstance(param, str) and param.partition(".")[0] in candidates:
        return param.partition(".")[0]
    called = {
        form: name for name in candidates for form in (name, _camel_case(name), *ALSO_CALLED.get(name, ()))
    }
    # As a bare word only where it is not also a word of English.
    bare = [form for form in called if not (form.isalpha() and form.islower()) or form in UNMISTAKABLE]
    for forms, before, after in (
        (called, r"""\\?["'`\[]""", r"""\\?["'`\]]"""),
        (called, INTRODUCED, r"\b"),
        (bare, r"\b", r"\b"),
    ):
        found = {
            match.start(): called[form]
            for form in forms
            if (match := re.search(f"{before}{re.escape(form)}{after}", text, re.IGNORECASE))
        }
        if found:
            # "Unsupported 'max_tokens', use 'max_completion_tokens'": what is refused comes first.
            return found[min(found)]
    return None


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
