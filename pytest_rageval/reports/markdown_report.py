"""The report for a pull request: a table in Markdown, with what was lost folded below it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from pytest_rageval.reports.entries import sliced_name
from pytest_rageval.reports.failure import question_lines
from pytest_rageval.reports.matrix import matrix_lines
from pytest_rageval.reports.ratings import ratings_lines
from pytest_rageval.reports.rows import NUMERIC, WIDE_HEAD, notes, test_name, wide_cells
from pytest_rageval.reports.summary import MARKS, headline, marked, told_tests
from pytest_rageval.reports.table import warning_lines
from pytest_rageval.reports.usage import usage_lines

__all__ = ["LONGEST", "markdown_report"]

LONGEST: Final = 60_000
"""Characters of a report: GitHub takes a comment of 65,536, and other hosts more."""

LONGEST_BLOCK: Final = 8_000
"""Characters that are shown of what a test says."""


def markdown_report(document: Mapping[str, Any]) -> str:
    """The document in GitHub's Markdown: verdicts first, then scores, then what was lost, folded.

    What users, passages and models wrote stands in code, where it is no markup, link or mention. What
    does not go into a comment is left out, and counted.
    """
    lines = [
        f"### {headline(document)}",
        "",
        *_table(document["tests"]),
        *(f"> {_code(line)}  " for line in warning_lines(document["tests"])),
        "",
    ]
    text = "\n".join(lines)
    folded = list(_folded(document))
    told = 0
    for block in folded:
        if len(text) + len(block) > LONGEST:
            break
        text += block
        told += 1
    if told < len(folded):
        text += f"\n{len(folded) - told} more sections do not go into a comment: see the report in HTML or JSON.\n"
    return text + "\n".join(["", *(f"<sub>{line}</sub>  " for line in _small(document)), ""])


def _table(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    head = ("", "test", *WIDE_HEAD)
    yield _row(head)
    yield _row(["---:" if name in NUMERIC else "---" for name in head])
    for test in told_tests(tests):
        # What a test with several scores is called, and how it ended, stands once.
        name, mark = _code(test["nodeid"]), MARKS[test["outcome"]]
        if not test["scores"]:
            yield _row([mark, name, *["-"] * (len(WIDE_HEAD) - 1), test["outcome"]])
        for entry in test["scores"]:
            score, *others = wide_cells(entry)
            yield _row([mark, name, _code(score), *others])
            name = mark = ""


def _folded(document: Mapping[str, Any]) -> Iterator[str]:
    """What stands below the table: of each test what it says, what was lost, and what is beside its scores."""
    for test in told_tests(document["tests"]):
        if test.get("message"):
            yield _details(f"{MARKS[test['outcome']]} {test['nodeid']}", test["message"].splitlines())
        for entry in test["scores"]:
            # A failure tells of its questions itself.
            if "questions" in entry and entry["verdict"] != "fail":
                told = [f"{sliced_name(entry)}: {entry['reason']}", *question_lines(entry["questions"])]
                yield _details(f"{marked(entry)} {sliced_name(entry)} in {test['nodeid']}", told)
    beside = [
        line
        for test in document["tests"]
        if (told := list(notes(test)))
        for line in (test_name(test), *(f"  {note}" for note in told))
    ]
    if beside:
        yield _details("Beside the scores", beside)
    for name, lines in (
        ("Systems", matrix_lines(document["matrix"])),
        ("Ratings", ratings_lines(document["ratings"])),
    ):
        if lines:
            yield _details(name, lines)


def _details(summary: str, lines: Sequence[str]) -> str:
    """Folded lines as they stand on the terminal, cut where they are many."""
    text = "\n".join(lines)
    if len(text) > LONGEST_BLOCK:
        text = f"{text[:LONGEST_BLOCK].rpartition(chr(10))[0]}\n…"
    fence = "`" * max(3, 1 + _longest_run(text))
    # The summary is HTML, in which Markdown is not read.
    head = f"<details><summary>{escape(summary)}</summary>"
    return f"\n{head}\n\n{fence}text\n{text}\n{fence}\n\n</details>\n"


def _small(document: Mapping[str, Any]) -> Iterator[str]:
    settings = document["settings"]
    models = f"generator {settings['generator'] or 'none named'}, judge {settings['judge']}"
    yield _code(f"{models}, compared by {settings['comparator']}")
    yield from map(_code, usage_lines(document["llm"]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    r"""Text of others as code, where nothing is markup, link or mention; a bar would end a cell of a table.

    >>> _code("a|b"), _code("a `b`"), _code("")
    ('`a\\|b`', '`` a `b` ``', '')
    """
    line = " ".join(text.split()).replace("|", r"\|")
    fence = "`" * (1 + _longest_run(line))
    # One space at either end is none of the code's.
    inner = f" {line} " if "`" in line else line
    return f"{fence}{inner}{fence}" if line else ""


def _longest_run(text: str) -> int:
    """Of backticks."""
    return max(map(len, re.findall(r"`+", text)), default=0)
