"""Renders HTML pages as single files from the templates of this folder.

`page` is the page of a report, `question_rows` the rows of its questions, `questions_html` writes them. `plots` has the
plots beside them.

A template extends `base.html` and fills its blocks. `charts.html` has the macros of charts. All texts are escaped.
Style and script are inline. The content security policy of a page allows only its own style and script, by their
hashes. Therefore a page loads no other files, and a text that became markup by mistake could not run a script. The
policy also forbids `style` and `on…` attributes, so that templates cannot use them.
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

from pytest_rageval.lib.text import plural
from pytest_rageval.reports.terminal import number_text

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not allow."""

MAX_CUT_LENGTH: Final = 400  # maximum number of characters of a text with the filter `cut`
MIN_P_VALUE: Final = 0.0001  # smaller p-values are shown as "p < 0.0001"


def render(
    template: str,
    *,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    server_script: str = "",
    **values: Any,
) -> str:
    """Render a page from a template, style sheets and scripts of this folder.

    `server_script` is one more script, of a page that its own server shows, which the script may call.
    """
    style = "".join(map(_source, ("base.css", *styles)))
    script = "".join(map(_source, scripts)) + server_script
    page_values = {
        "page_style": Markup(style),  # noqa: S704 - a file of this folder
        "page_script": Markup(script),  # noqa: S704 - a file of this folder
        "page_policy": _policy(style, script, connect=bool(server_script)),
    }
    return UNPRINTABLE.sub("\ufffd", environment().get_template(template).render(values, **page_values))


@cache
def environment() -> Environment:
    templates = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "cut": cut,
        "number": number,
        "p_value": p_value,
        "plural": plural,
        "signed": signed,
    }
    return templates


@cache
def _source(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str, *, connect: bool) -> str:
    """Return a content security policy that allows only this style and this script; with `connect` also its server."""
    parts = ["default-src 'none'", f"style-src {_hash(style)}"]
    if script:
        parts.append(f"script-src {_hash(script)}")
    if connect:
        parts.append("connect-src 'self'")
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode()}'"


def cut(text: str, length: int = MAX_CUT_LENGTH) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def number(value: float | None) -> str:
    """Format a number as on the terminal; "-" for None.

    >>> number(0.5), number(0.00012), number(None)
    ('0.500', '0.00012', '-')
    """
    return "-" if value is None else number_text(value)


def p_value(value: float) -> str:
    """Format a p-value.

    >>> p_value(0.0123), p_value(0.0)
    ('p = 0.012', 'p < 0.0001')
    """
    return f"p = {value:.2g}" if value >= MIN_P_VALUE else f"p < {MIN_P_VALUE:.4f}"


def signed(value: float) -> str:
    """Format a change with its sign.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.250', '−0.250', '±0')
    """
    return f"{'−' if value < 0 else '+'}{number(abs(value))}" if value else "±0"
