"""The Markdown report for a pull request: a table, with lost questions folded below it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

from pytest_rageval.printable import printable
from pytest_rageval.reports.document import ScoreEntry
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

LONGEST: Final = 60_000  # characters of a report: GitHub takes a comment of 65,536, and other hosts more

# Parts of these, so that there is room for the lost questions, and of one folded block.
LONGEST_TABLE: Final = 30_000
LONGEST_WARNINGS: Final = 6_000
LONGEST_BLOCK: Final = 8_000
MORE: Final = "the HTML report shows them"


def markdown_report(document: Mapping[str, Any]) -> str:
    """The document in GitHub's Markdown: verdicts first, then scores, then lost questions, folded.

    Text of users, passages and models stands in code, where it is no markup, link or mention. What
    does not fit into a comment is left out, and counted.
    """
    warnings = [f"> {_code(line)}  \n" for line in warning_lines(document["tests"])]
    text = (
        f"### {headline(document)}\n\n"
        f"{_table(document['tests'])}\n"
        f"{_fitting(warnings, LONGEST_WARNINGS, 'warnings')}"
    )
    about = map(_code, [models_text(document), *usage_lines(document["llm"])])
    small = "".join(f"<sub>{line}</sub>  \n" for line in about)
    return printable(f"{text}{_fitting(_folded(document), LONGEST - len(text), 'sections')}\n{small}")


def _fitting(parts: Iterable[str], room: int, what: str) -> str:
    """The first parts, as many as fit, and the number of the others."""
    # As printed: it may be longer.
    parts = list(map(printable, parts))
    fitting = sum(size <= room for size in accumulate(map(len, parts)))
    left = len(parts) - fitting
    more = f"\n{left} more {what} do not go into a comment: see the report in HTML or JSON.\n" if left else ""
    return "".join([*parts[:fitting], more])


def _table(tests: Sequence[Mapping[str, Any]]) -> str:
    """The table of all scores, those of failed tests first; empty without tests."""
    head = ("", "test", *WIDE_HEAD)
    rule = ["---:" if name in NUMERIC else "---" for name in head]
    rows = _fitting(map(_row, _cells(tests)), LONGEST_TABLE, "scores")
    return f"{_row(head)}{_row(rule)}{rows}" if rows else ""


def _cells(tests: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for test in by_urgency(tests):
        # The name and the outcome of a test with several scores stand in its first row.
        name, mark = _cell(test["nodeid"]), MARKS[test["outcome"]]
        if not test["scores"]:
            yield mark, name, *["-"] * (len(WIDE_HEAD) - 1), test["outcome"]
        for entry in test["scores"]:
            score, *others = wide_cells(entry)
            yield mark, name, _cell(score), *others
            name = mark = ""


def _folded(document: Mapping[str, Any]) -> Iterator[str]:
    """The blocks below the table: messages, reasons with lost questions, notes, and comparisons of systems."""
    for test in by_urgency(document["tests"]):
        broken = [entry for entry in test["scores"] if entry["verdict"] in BROKEN]
        # The blocks of failed thresholds give the reasons.
        if test.get("message") and not broken:
            yield _details(f"{MARKS[test['outcome']]} {_named(test['nodeid'])}", test["message"].splitlines())
        for entry in test["scores"]:
            if entry in broken or "questions" in entry:
                # How many questions it lost is not known of every score.
                lost = f": {questions_text(entry['questions'])}" if "questions" in entry else ""
                name = f"{_named(test['nodeid'])} <br>{_named(sliced_name(entry))}{lost}"
                yield _details(f"{marked(entry)} {name}", _why(entry))
    all_notes = []
    for test in document["tests"]:
        lines = [line for note in notes(test) for line in wrapped(f"  {note}", 4)]
        all_notes += [test_name(test), *lines] if lines else []
    for name, lines in (
        ("Beside the scores", all_notes),
        ("Systems", matrix_lines(document["matrix"])),
        ("Ratings", ratings_lines(document["ratings"])),
    ):
        if lines:
            yield _details(name, lines)


def _why(entry: ScoreEntry) -> list[str]:
    """The reason of a score's verdict, and the questions behind it."""
    lines = [
        line for part in f"{sliced_name(entry)}: {entry['reason']}".splitlines() for line in wrapped(part, 2)
    ]
    questions = entry.get("questions")
    return lines if questions is None else [*lines, *question_lines(questions, more=MORE)]


def _named(text: str) -> str:
    """A name as code in HTML, where nothing is a link or a mention."""
    return f"<code>{escape(' '.join(text.split()))}</code>"


def _details(summary: str, lines: Sequence[str]) -> str:
    """Folded lines as on the terminal, cut where they are many."""
    text = "\n".join(lines)
    if len(text) > LONGEST_BLOCK:
        text = f"{text[:LONGEST_BLOCK].rpartition(chr(10))[0]}\n…"
    fence = "`" * max(3, 1 + _longest_run(text))
    # Markdown is not read in a summary, which is HTML.
    head = f"<details><summary>{summary}</summary>"
    return f"\n{head}\n\n{fence}text\n{text}\n{fence}\n\n</details>\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cell(text: str) -> str:
    """Code in a table: there a bar ends a cell even in code, and renderers differ on an escaped one.

    >>> _cell("a[x]"), _cell("a|b")
    ('`a[x]`', '<code>a&#124;b</code>')
    """
    if "|" not in text:
        return _code(text)
    line = re.sub(r"[^\w ]", lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))
    return f"<code>{line}</code>"


def _code(text: str) -> str:
    """Text as code, where nothing is markup, link or mention.

    >>> _code("a|b"), _code("a `b`"), _code("")
    ('`a|b`', '`` a `b` ``', '')
    """
    line = " ".join(text.split())
    fence = "`" * (1 + _longest_run(line))
    # Markdown strips one space at either end.
    inner = f" {line} " if "`" in line else line
    return f"{fence}{inner}{fence}" if line else ""


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall(r"`+", text)), default=0)
