"""Compares the reports of two runs: `diff` finds the differences, `command` prints them and writes them as HTML."""

from typing import Final

from pytest_rageval.options.command import JSON, Command, value

# fmt: off
COMMANDS: Final = (
    Command("diff", "pytest_rageval.extensions.report_diff.command:diff_command",
            "compare the scores of two runs, or of two systems, from their JSON reports",
            "Prints for each score that both have: the two means, each over all questions of its run; the difference "
            "over the questions that both have, with its 95% interval and the p-value of a paired two-sided test; and "
            "how many questions got better, got worse and stayed the same. The p-values are not adjusted for the "
            "number of scores.",
            (value("before", "BEFORE", "JSON report of the first run (pytest --rageval-report FILE.json)"),
             value("after", "AFTER", "JSON report of the second run", nargs="?"),
             (("--system",), {"nargs": 2, "metavar": ("A", "B"), "help":
                "compare two systems of parametrized tests: both from one report, or A from the first and B from the "
                "second"}),
             value("--html", "FILE", "also write a page of all questions, with passages and answers of both"),
             (("-v", "--verbose"), {"action": "store_true", "help":
                "print all questions that changed, with passages and answers of both"}),
             JSON),
            "Exit status: 0, also if a score dropped; 2 if a file cannot be used.", place=4),
)
# fmt: on
