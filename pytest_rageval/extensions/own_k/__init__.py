"""The retriever's own k: `--rageval k=own` measures the retriever as it ships, and not as if it returned @k documents.

- `retriever`: calls a retriever without k.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.core.options import Option
from pytest_rageval.core.parsers import choice_parser
from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.core.settings import Settings
    from pytest_rageval.run.judged import JudgedTest

# fmt: off
K: Final = Option(
    "k", "cutoff|own", choice_parser("cutoff", "own"), "cutoff",
    "how many documents the retriever is asked for: as many as a score's cut-off @k; or its own number, as it ships. "
    "If that is smaller than the cut-off, the ranks beyond it are empty",
)
# fmt: on
OPTIONS: Final = (K,)


@hookimpl
def pytest_rageval_start(settings: "Settings") -> Sequence[object]:
    if settings[K] != "own":
        return ()
    from pytest_rageval.extensions.own_k.retriever import OwnKPlugin  # noqa: PLC0415 - few runs ask for the own k

    return (OwnKPlugin(),)


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, Any]:
    """Warn if the retriever was configured to return another number of documents in the baseline."""
    if not any(result.comparison for result in test.judged):
        return {}
    before, now = test.session.baseline.tests[test.marked.nodeid].get("own_k"), test.record.own_k
    if before in {None, now}:
        return {}
    warning = (
        f"the retriever was configured to return {before} documents in the baseline, and "
        f"{'no fixed number' if now is None else now} now. Scores do not show it where they ask for as many as their "
        "cut-off (@k); --rageval k=own measures it as it ships. If it is meant, write a new baseline"
    )
    return {"warnings": [warning]}
