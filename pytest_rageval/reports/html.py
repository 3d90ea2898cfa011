"""The HTML report: one page with all scores and every lost question. All text is escaped."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring  # nosec B405 # writes, and parses nothing

from pytest_rageval.reports.document import ExampleEntry, ScoreEntry
from pytest_rageval.reports.questions import NOTHING, expected_text, lost_by_text, questions_text, score_text
from pytest_rageval.reports.results import models_text, sliced_name, usage_lines
from pytest_rageval.reports.systems import matrix_lines, ratings_lines
from pytest_rageval.reports.terminal import (
    BROKEN,
    NUMERIC,
    WIDE_HEAD,
    by_urgency,
    headline,
    marked,
    notes,
    test_name,
    warning_lines,
    wide_cells,
)

__all__ = ["Element", "Node", "element", "html_report", "page"]

Node = Element | str

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not have."""


def html_report(document: Mapping[str, Any]) -> str:
    """The document as a single page: no script, nothing from the network."""
    style = files("pytest_rageval.reports").joinpath("page.css").read_text(encoding="utf-8")
    return page(headline(document), style, _body(document))


def _body(document: Mapping[str, Any]) -> Iterator[Node]:
    yield element("h1", headline(document))
    yield element(
        "p",
        f"{document['started']}, {document['duration_s']:.1f} s, pytest-rageval {document['package']}; "
        f"{models_text(document)}",
        class_="about",
    )
    yield from (element("p", line, class_="warning") for line in warning_lines(document["tests"]))
    for test in by_urgency(document["tests"]):
        yield from _test(test)
    for title, lines in (
        ("Systems", matrix_lines(document["matrix"])),
        ("Ratings", ratings_lines(document["ratings"])),
    ):
        if lines:
            yield element("section", element("h2", title), element("pre", "\n".join(lines)))
    yield from (element("p", line, class_="about") for line in usage_lines(document["llm"]))


def _test(test: Mapping[str, Any]) -> Iterator[Node]:
    yield element(
        "h2", element("span", test["outcome"], class_=f"verdict {test['outcome']}"), test_name(test)
    )
    if test["scores"]:
        yield _table(WIDE_HEAD, map(_row, test["scores"]))
    lines = [line.strip() for line in notes(test)]
    if lines:
        yield element("ul", (element("li", line) for line in lines), class_="notes")
    for entry in test["scores"]:
        yield from _score(entry)
    if test.get("message"):
        failed = any(entry["verdict"] in BROKEN for entry in test["scores"])
        # A failed score says why the test failed; otherwise only the message does.
        yield _folded("as pytest says it", element("pre", test["message"]), unfolded=not failed)


def _table(head: Sequence[str], rows: Iterable[Element]) -> Element:
    """A table that scrolls in a narrow window."""
    names = (element("th", name, scope="col", class_=_side(name)) for name in head)
    table = element("table", element("thead", element("tr", names)), element("tbody", rows))
    return element("div", table, class_="wide")


def _row(entry: ScoreEntry) -> Element:
    *texts, verdict = wide_cells(entry)
    return element(
        "tr",
        (element("td", text, class_=_side(name)) for name, text in zip(WIDE_HEAD, texts, strict=False)),
        element("td", element("span", verdict, class_=f"verdict {entry['verdict'] or ''}")),
    )


def _side(name: str) -> str:
    return "number" if name in NUMERIC else "text"


def _score(entry: ScoreEntry) -> Iterator[Node]:
    """The reason of a verdict with its questions, and all examples."""
    name = sliced_name(entry)
    questions = entry.get("questions")
    if questions is not None:
        lost_by = f"; lost by: {lost_by_text(questions)}" if questions["lost_by"] else ""
        yield _folded(
            f"{marked(entry)} {name}: {questions_text(questions)}{lost_by}",
            element("p", entry["reason"] or ""),
            *map(_question, questions["listed"]),
            unfolded=entry["verdict"] in BROKEN,
        )
    elif entry["verdict"] not in {None, "pass"}:
        yield element("p", f"{marked(entry)} {name}: {entry['reason']}", class_="reason")
    if entry["examples"]:
        yield _folded(f"{name}: all examples ({len(entry['examples'])})", _examples(entry["examples"]))


def _question(question: Mapping[str, Any]) -> Element:
    before = question.get("before", {})
    moved = f"{score_text(before['score'])} → " if before else ""
    return element(
        "article",
        element("h3", element("code", question["id"]), f" {moved}{score_text(question['score'])}"),
        element("p", question["question"], class_="question"),
        element(
            "dl",
            (
                part
                for name, value in _fields(question, before)
                for part in (element("dt", name), element("dd", value))
            ),
        ),
    )


def _fields(question: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Node]]]:
    """The fields of a question, each as its name and a line of nodes."""
    gold = question.get("gold", [])
    if "history" in question:
        yield "after", [" / ".join(question["history"])]
    if "filters" in question:
        yield "filters", [json.dumps(question["filters"], ensure_ascii=False)]
    if gold:
        yield "gold", _names(gold, gold)
    for name, show in (("retrieved", lambda labels: _names(labels, gold)), ("answer", lambda text: [text])):
        then, now = before.get(name), question.get(name)
        changed = None not in (then, now) and then != now
        if changed:
            yield f"{name} before", show(then)
        if now is not None:
            yield f"{name} now" if changed else name, show(now)
    for number, step in enumerate(question.get("steps", ()), 1):
        yield f"step {number}", [f"{step['query']}: ", *_names(step["retrieved"], gold)]
    for passage in question.get("passages", ()):
        answer = f": {passage['answer']}" if "answer" in passage else ""
        yield "label", [f"{passage['label']:.2g} ", element("code", passage["document"]), answer]
    if "expected" in question:
        yield question["expected"]["as"], [expected_text(question["expected"])]
    named = {"unscored": "unscored", "judge": "judge", "why": "remark", "lost by": "lost_by", "case": "case"}
    yield from ((name, [question[key]]) for name, key in named.items() if key in question)


def _names(labels: Sequence[str], gold: Sequence[str]) -> list[Node]:
    """Documents in their order, the gold ones marked."""
    if not labels:
        return [NOTHING]
    named = [element("mark" if label in gold else "code", label) for label in labels]
    return [node for label in named for node in (label, " ")][:-1]


def _examples(examples: Sequence[ExampleEntry]) -> Element:
    """The table of all examples, with a column for cases where there are any."""
    cases = any(example.get("case") for example in examples)
    return _table(
        ("example", "score", "case") if cases else ("example", "score"),
        (
            element(
                "tr",
                element("td", element("code", example["id"])),
                element("td", _value(example)),
                [element("td", example.get("case") or "")] if cases else [],
            )
            for example in examples
        ),
    )


def _value(example: ExampleEntry) -> str:
    if example["score"] is not None:
        return f"{example['score']:.3f}"
    if example.get("early_stop") == "not asked":
        return "not asked"
    unscored = example["unscored"]
    return f"unscored: {unscored}" if unscored is not None else f"undefined: {example.get('undefined')}"


def _folded(summary: str, *children: Node, unfolded: bool = False) -> Element:
    return element("details", element("summary", summary), *children, **({"open": ""} if unfolded else {}))


def element(tag: str, *children: Node | Iterable[Node], **attributes: str) -> Element:
    """An element with these children; an attribute loses its trailing underscore (`class_`).

    >>> tostring(element("p", "a < b ", element("b", "&"), class_="x"), encoding="unicode")
    '<p class="x">a &lt; b <b>&amp;</b></p>'
    """
    made = Element(tag, {name.rstrip("_").replace("_", "-"): _text(it) for name, it in attributes.items()})
    for child in children:
        for node in [child] if isinstance(child, str | Element) else child:
            _append(made, node)
    return made


def page(title: str, style: str, body: Iterable[Node]) -> str:
    """A page without scripts that loads nothing."""
    html = element("html", lang="en")
    head = SubElement(html, "head")
    head.append(element("meta", charset="utf-8"))
    # A second defence: should a text become markup, it can load and run nothing.
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
