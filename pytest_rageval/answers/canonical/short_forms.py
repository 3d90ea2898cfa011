"""Write out the abbreviations that a reader expands without thinking.

Only forms that everyone shares and that no rule derives stand here; other
initialisms are recognised by their letters (`initialisms`).
"""

import re

__all__ = ["written_out"]

_US = "united states"
_FORMS = (
    (r"u\. ?s\.(?: ?a\b\.?)?|\busa\b|(?<=\bthe )us\b|^us$|^us(?=[.,])", _US),
    (r"united states of america\b", _US),
    (r"u\. ?k\.|\buk\b", "united kingdom"),
    (r"u\. ?s\. ?s\. ?r\.|\bussr\b", "soviet union"),
    (r"u\. ?n\.|^un$|(?<=\bthe )un\b", "united nations"),
    (r"e\. ?u\.|\beu\b", "european union"),
    (r"ww ?(?:1|i)\b", "world war 1"),
    (r"ww ?(?:2|ii)\b", "world war 2"),
    (r"b\. ?c\.(?: ?e\b\.?)?|\bbce\b", "bc"),
    (r"a\. ?d\.|\bc\. ?e\.", "ad"),
    (r"co ?2\b", "carbon dioxide"),
    (r"h2o\b", "water"),
    (r"tv\b", "television"),
    (r"mph\b", "miles per hour"),
    (r"(?:kph|kmh|km/h)\b", "km per hour"),
    (r"st\.(?= [^\W\d])", "saint"),
    (r"mt\b\.?(?= [^\W\d])", "mount"),
    (r"vs\b\.?", "versus"),
    (r"per cent\b|pct\b", "percent"),
)
_ANY = re.compile(
    "|".join(
        rf"(?P<f{n}>{'' if form[0] == '(' else chr(92) + 'b'}{form})" for n, (form, _) in enumerate(_FORMS)
    )
)
_WRITTEN = tuple(written for _, written in _FORMS)


def written_out(text: str) -> str:
    """Replace common abbreviations in a folded text by the words they stand for.

    "us" is a country only where it cannot be the pronoun: alone, after "the",
    or with full stops.

    >>> written_out("the u.s.a."), written_out("in the uk"), written_out("tell us")
    ('the united states', 'in the united kingdom', 'tell us')
    >>> written_out("co2"), written_out("44 b.c.")
    ('carbon dioxide', '44 bc')
    """
    return _ANY.sub(lambda found: _WRITTEN[int((found.lastgroup or "f0")[1:])], text)
