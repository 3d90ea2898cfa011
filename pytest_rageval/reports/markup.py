"""HTML of elements: whatever a text holds, it stays text."""

import re
from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring  # nosec B405 # writes, and parses nothing

__all__ = ["Element", "Node", "element", "page"]

Node = Element | str

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not have."""


def element(tag: str, *children: Node | Iterable[Node], **attributes: str) -> Element:
    """An element of these children, in this order; an attribute's trailing underscore is left out (`class_`).

    >>> tostring(element("p", "a < b ", element("b", "&"), class_="x"), encoding="unicode")
    '<p class="x">a &lt; b <b>&amp;</b></p>'
    """
    made = Element(tag, {name.rstrip("_").replace("_", "-"): _text(it) for name, it in attributes.items()})
    for child in children:
        for node in [child] if isinstance(child, str | Element) else child:
            _append(made, node)
    return made


def page(title: str, style: str, body: Iterable[Node]) -> str:
    """A page that needs nothing from anywhere, and runs nothing."""
    html = element("html", lang="en")
    head = SubElement(html, "head")
    head.append(element("meta", charset="utf-8"))
    # Should a text get to be markup after all, it could load and run nothing.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head.append(element("meta", http_equiv="Content-Security-Policy", content=policy))
    head.append(element("meta", name="viewport", content="width=device-width, initial-scale=1"))
    head.append(element("title", title))
    head.append(element("style", style))
    html.append(element("body", body))
    return f"<!doctype html>\n{tostring(html, encoding='unicode', method='html')}\n"


def _append(parent: Element, node: Node) -> None:
    if isinstance(node, Element):
        parent.append(node)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + _text(node)
    else:
        parent.text = (parent.text or "") + _text(node)


def _text(text: str) -> str:
    return UNPRINTABLE.sub("\ufffd", text)
