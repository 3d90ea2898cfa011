"""Renders Markdown as GitHub does: by cmark-gfm with its extensions, with HTML, and with hard line breaks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

EXTENSIONS = ["table", "autolink", "tagfilter", "strikethrough", "tasklist"]
VOID = frozenset({"br", "hr", "img", "wbr", "input"})
CODE = frozenset({"code", "pre"})


@dataclass
class Rendered(HTMLParser):
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)
    text: str = ""
    code: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    outside: str = ""
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        elif tag == "code":
            self.code.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, list(attrs))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        if "code" in self._open:
            self.code[-1] += data
        elif not CODE & set(self._open):
            self.text += data
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data
        if "details" not in self._open:
            self.outside += data


def rendered(markdown: str) -> Rendered:
    html = cmarkgfm.markdown_to_html_with_extensions(
        markdown, options=Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS, extensions=EXTENSIONS
    )
    page = Rendered()
    page.feed(html)
    page.close()
    page.unclosed += page._open
    return page
