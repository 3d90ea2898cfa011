"""HTML pages as single files: templates with all text escaped, style and script inline under a strict policy.

A template extends `base.html` and fills its blocks; `charts.html` has the macros of charts. The policy
of a page allows its own style and script, by their hashes, and nothing else: a page loads nothing, and a text that
became markup could run nothing. Templates therefore use no `style` and no `on…` attributes.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pytest_rageval.plural import plural
from pytest_rageval.reports.terminal import number_text

__all__ = ["environment", "render"]

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not have."""

LONGEST: Final = 400  # characters of a text that is cut
SMALLEST_P: Final = 0.0001  # smaller p-values are shown as "< 0.0001"


def render(template: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = (), **values: Any) -> str:
    """A page from a template of this folder.

    `styles` and `scripts` name files of this folder that the page has beside `base.css`. `values` are those that the
    template names; one that is missing is an error.
    """
    style = "".join(map(_source, ("base.css", *styles)))
    script = "".join(map(_source, scripts))
    own = {
        "page_style": Markup(style),  # noqa: S704 - from this folder
        "page_script": Markup(script),  # noqa: S704 - from this folder
        "page_policy": _policy(style, script),
    }
    return UNPRINTABLE.sub("\ufffd", environment().get_template(template).render(values, **own))


@cache
def environment() -> Environment:
    """The templates, in which every text is escaped, and a name that is not known is an error."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"cut": cut, "number": number, "p_value": p_value, "plural": plural, "signed": signed}
    return made


@cache
def _source(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """The content security policy: this style, this script, and nothing else."""
    parts = ["default-src 'none'", f"style-src {_hash(style)}"]
    if script:
        parts.append(f"script-src {_hash(script)}")
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode()}'"


def cut(text: str) -> str:
    """A text without what is beyond `LONGEST` characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def number(value: float | None) -> str:
    """Format a number as on the terminal; "-" for None.

    >>> number(0.5), number(0.00012), number(None)
    ('0.500', '0.00012', '-')
    """
    return "-" if value is None else number_text(value)


def p_value(value: float) -> str:
    """A p-value in words.

    >>> p_value(0.0123), p_value(0.0)
    ('p = 0.012', 'p < 0.0001')
    """
    return f"p = {value:.2g}" if value >= SMALLEST_P else f"p < {SMALLEST_P:.4f}"


def signed(value: float) -> str:
    """A change with its sign.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.250', '−0.250', '±0')
    """
    return f"{'−' if value < 0 else '+'}{number(abs(value))}" if value else "±0"
