"""What changed in the retrieved passages since the baseline, where no score of the test shows it: a warning."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.run.judged import JudgedTest

PASSAGES: Final = "passages"


@hookimpl
def pytest_rageval_baseline_entry(test: "JudgedTest") -> Mapping[str, object]:
    from pytest_rageval.extensions.silent_changes.changes import sample, texts_of  # noqa: PLC0415 - an update alone

    found = sample(texts_of(test.record))
    return {PASSAGES: found} if found else {}


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, Sequence[str]]:
    """Warn of what changed. A failure says the rest itself."""
    if not any(result.comparison for result in test.judged):
        return {}
    from pytest_rageval.extensions.silent_changes.changes import (  # noqa: PLC0415 - many tests have no baseline
        change_of_texts,
        changes_of_rankings,
        texts_of,
    )

    before: Any = test.session.baseline.tests[test.marked.nodeid].get(PASSAGES)
    texts = change_of_texts(before, texts_of(test.record)) if before else ""
    warnings = [texts] if texts else []
    if all(result.verdict.status != "fail" for result in test.judged):
        warnings += changes_of_rankings([result.comparison for result in test.judged if result.comparison])
    return {"warnings": warnings} if warnings else {}
