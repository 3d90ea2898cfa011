"""The Markdown report for a pull request: a table, with lost questions folded below it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

from pytest_rageval.printable import printable
from pytest_rageval.reports.layout import wrapped
from pytest_rageval.reports.questions import question_lines, questions_text
from pytest_rageval.reports.results import models_text, sliced_name, usage_lines
from pytest_rageval.reports.systems import matrix_lines, ratings_lines
from pytest_rageval.reports.terminal import (
    BROKEN,
    MARKS,
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

__all__ = ["LONGEST", "markdown_report"]

LONGEST: Final = 60_000
"""Characters of a report: GitHub takes a comment of 65,536, and other hosts more."""

LONGEST_TABLE: Final = 30_000
LONGEST_WARNINGS: Final = 6_000
"""Of these, so that something is left for what was lost."""

LONGEST_BLOCK: Final = 8_000
"""Characters that are shown of what a test or a score says."""

MORE: Final = "the HTML report shows them"


def markdown_report(document: Mapping[str, Any]) -> str:
    """The document in GitHub's Markdown: verdicts first, then scores, then what was lost, folded.

    What users, passages and models wrote stands in code, where it is no markup, link or mention. What
    does not go into a comment is left out, and counted.
    """
    warnings = [f"> {_code(line)}  \n" for line in warning_lines(document["tests"])]
    text = (
        f"### {headline(document)}\n\n"
        f"{_table(document['tests'])}\n"
        f"{_fitting(warnings, LONGEST_WARNINGS, 'warnings')}"
    )
    small = "".join(f"<sub>{line}</sub>  \n" for line in _small(document))
    return printable(f"{text}{_fitting(_folded(document), LONGEST - len(text), 'sections')}\n{small}")


def _fitting(parts: Iterable[str], room: int, what: str) -> str:
    """The first parts, as many as have room, and how many have not."""
    # As printed: it may be longer.
    parts = list(map(printable, parts))
    told = sum(size <= room for size in accumulate(map(len, parts)))
    left = len(parts) - told
    more = f"\n{left} more {what} do not go into a comment: see the report in HTML or JSON.\n" if left else ""
    return "".join([*parts[:told], more])


def _table(tests: Sequence[Mapping[str, Any]]) -> str:
    """The table of all scores, of the tests that went wrong first; nothing where there is no test."""
    head = ("", "test", *WIDE_HEAD)
    rule = ["---:" if name in NUMERIC else "---" for name in head]
    rows = _fitting(map(_row, _cells(tests)), LONGEST_TABLE, "scores")
    return f"{_row(head)}{_row(rule)}{rows}" if rows else ""


def _cells(tests: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for test in by_urgency(tests):
        # What a test with several scores is called, and how it ended, stands once.
        name, mark = _cell(test["nodeid"]), MARKS[test["outcome"]]
        if not test["scores"]:
            yield mark, name, *["-"] * (len(WIDE_HEAD) - 1), test["outcome"]
        for entry in test["scores"]:
            score, *others = wide_cells(entry)
            yield mark, name, _cell(score), *others
            name = mark = ""


def _folded(document: Mapping[str, Any]) -> Iterator[str]:
    """What stands below the table: of each test what it says, what was lost, and what is beside its scores."""
    for test in by_urgency(document["tests"]):
        broken = [entry for entry in test["scores"] if entry["verdict"] in BROKEN]
        # Thresholds that broke say why themselves, whatever pytest was asked to show of it.
        if test.get("message") and not broken:
            yield _details(f"{MARKS[test['outcome']]} {_named(test['nodeid'])}", test["message"].splitlines())
        for entry in test["scores"]:
            if entry in broken or "questions" in entry:
                yield _details(f"{marked(entry)} {_named(test['nodeid'])} {_count(entry)}", _why(entry))
    beside = [
        line
        for test in document["tests"]
        if (told := list(notes(test)))
        for line in (test_name(test), *(line for note in told for line in wrapped(f"  {note}", 4)))
    ]
    if beside:
        yield _details("Beside the scores", beside)
    for name, lines in (
        ("Systems", matrix_lines(document["matrix"])),
        ("Ratings", ratings_lines(document["ratings"])),
    ):
        if lines:
            yield _details(name, lines)


def _why(entry: Mapping[str, Any]) -> list[str]:
    """The reason of a score's verdict, and the questions behind it."""
    lines = [
        line for part in f"{sliced_name(entry)}: {entry['reason']}".splitlines() for line in wrapped(part, 2)
    ]
    questions = entry.get("questions")
    return lines if questions is None else [*lines, *question_lines(questions, more=MORE)]


def _count(entry: Mapping[str, Any]) -> str:
    """The score, and how many questions it lost where that is known."""
    lost = f": {questions_text(entry['questions'])}" if "questions" in entry else ""
    return f"<br>{_named(sliced_name(entry))}{lost}"


def _named(text: str) -> str:
    """A name as code in HTML, as a summary is: there too nothing is a link or a mention."""
    return f"<code>{escape(' '.join(text.split()))}</code>"


def _details(summary: str, lines: Sequence[str]) -> str:
    """Folded lines as they stand on the terminal, cut where they are many."""
    text = "\n".join(lines)
    if len(text) > LONGEST_BLOCK:
        text = f"{text[:LONGEST_BLOCK].rpartition(chr(10))[0]}\n…"
    fence = "`" * max(3, 1 + _longest_run(text))
    # The summary is HTML, in which Markdown is not read.
    head = f"<details><summary>{summary}</summary>"
    return f"\n{head}\n\n{fence}text\n{text}\n{fence}\n\n</details>\n"


def _small(document: Mapping[str, Any]) -> Iterator[str]:
    yield _code(models_text(document))
    yield from map(_code, usage_lines(document["llm"]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    """Code in a table, where a bar ends a cell in code too, and backslashes before it are read in more than one way.

    >>> _cell("a[x]"), _cell("a|b")
    ('`a[x]`', '<code>a&#124;b</code>')
    """
    if "|" not in text:
        return _code(text)
    line = re.sub(r"[^\w ]", lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))
    return f"<code>{line}</code>"


def _code(text: str) -> str:
    """Text of others as code, where nothing is markup, link or mention.

    >>> _code("a|b"), _code("a `b`"), _code("")
    ('`a|b`', '`` a `b` ``', '')
    """
    line = " ".join(text.split())
    fence = "`" * (1 + _longest_run(line))
    # One space at either end is none of the code's.
    inner = f" {line} " if "`" in line else line
    return f"{fence}{inner}{fence}" if line else ""


def _longest_run(text: str) -> int:
    """Of backticks."""
    return max(map(len, re.findall(r"`+", text)), default=0)
