"""Retrievers in other languages: at a URL, or in a program; and `rageval gate`, a test of one without a test file.

- `http`: `HTTPRetriever`. `program`: `CommandRetriever`. `messages`: what both share.
- `plugin`: the command, which runs pytest with a test that is in no file.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options.command import Command, switch, value

if TYPE_CHECKING:
    from pytest_rageval.run.judged import JudgedTest

# fmt: off
COMMANDS: Final = (
    Command("gate", "pytest_rageval.extensions.remote_retrievers.plugin:gate_command",
            "gate a retriever at a URL, or in a program, without a test file",
            "Runs pytest with one test, whose node id is EVALSET::gate: the same reports, baseline and exit status, "
            "with the settings and the conftest.py of this folder. Options of pytest follow after --.",
            (value("evalset", "EVALSET", "the eval set: a file or a folder in any known format"),
             value("--retriever", "PLACE",
                   "the retriever: a URL, such as http://localhost:8080/search, or the command of a program, such as "
                   "'node search.mjs'", str, required=True),
             value("--score", "SCORE",
                   "score to gate, such as recall@5; may be repeated, and each then has all bounds", str,
                   action="append", required=True),
             value("--min", "X", "the score must be at least X", float),
             value("--max", "X", "the score must be at most X", float),
             value("--max-drop", "X", "the score must not be proven to be more than X below the baseline", float),
             value("--max-lost", "N", "at most N questions may be lost against the baseline", int),
             value("--documents", "PATH",
                   "where the reply has the documents, such as hits[*].source (default: found by the usual names; of a "
                   "program: documents)", str),
             value("--id", "PATH", "where a document has its id (default: the usual names)", str, default=""),
             value("--text", "PATH", "where a document has its text (default: the usual names)", str, default=""),
             value("--body", "JSON",
                   'what is sent, with {query} and {k} (default: {"query": "{query}", "k": "{k}"})', str),
             value("--method", "METHOD", "the method of the request (default: POST)", str),
             value("--header", "NAME:VALUE",
                   "a header of the request, in which ${NAME} is an environment variable; may be repeated", str,
                   action="append", default=[]),
             value("--timeout", "SECONDS", "how long to wait for a reply (default: 30; of a program: 60)", float),
             switch("--update-baseline", "write the scores to the baseline instead of comparing them with it"),
             value("arguments", "ARGUMENT", "arguments of pytest, after --", str, nargs="*")),
            "Exit status: that of pytest, 0 if all bounds hold, 1 if one is violated; 2 if something cannot be used.",
            place=5),
)
# fmt: on


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    """Name what changed of a request since the baseline. It is no reason against the comparison: it may be the test."""
    changes: dict[str, None] = {}
    for result in test.judged:
        if not result.threshold.uses_baseline or test.session.settings.update_baseline:
            continue
        now = test.record.dependencies_of(result.threshold.request).fingerprint.get("retriever")
        if now is None:
            continue
        from pytest_rageval.extensions.remote_retrievers.messages import fingerprint_changes  # noqa: PLC0415 - few runs

        name, entry = result.threshold.name, test.session.baseline.tests.get(test.marked.nodeid)
        if entry is not None and name in entry["scores"]:
            before = entry["scores"][name]["fingerprint"].get("retriever")
            changes |= dict.fromkeys(fingerprint_changes(before, now) if before else ())
    return {"notes": [f"since the baseline: {change}" for change in changes]} if changes else {}
