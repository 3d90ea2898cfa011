"""The retriever's own k: how many documents it returns when it ships, where no test asks it for @k.

`--rageval k=own` measures the retriever so. In other runs a change of the number since the baseline is a warning.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option
from pytest_rageval.options.parsers import choice_parser

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun

NAME: Final = "own_k"

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
    from pytest_rageval.extensions.own_k.own_k import OwnKPlugin  # noqa: PLC0415 - few runs ask for the own k

    return (OwnKPlugin(),)


@hookimpl
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    """Record the number if the baseline has it or gets it, and the retriever does not declare it."""
    if test.record.own_k is None and any(threshold.uses_baseline for threshold in thresholds):
        from pytest_rageval.extensions.own_k.own_k import observe  # noqa: PLC0415 - many retrievers declare it

        observe(test)
    return ()


@hookimpl
def pytest_rageval_baseline_entry(test: "JudgedTest") -> Mapping[str, object]:
    if test.record.own_k is not None:
        return {NAME: test.record.own_k}
    observed = cast("Mapping[str, object]", test.record.added.get(NAME, {}))
    return observed if NAME in observed else {}


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    if not any(result.comparison for result in test.judged):
        return {}
    before: Any = test.session.baseline.tests[test.marked.nodeid].get(NAME)
    if before in {None, test.record.own_k}:
        return {}
    from pytest_rageval.extensions.own_k.own_k import change_text  # noqa: PLC0415 - few runs

    text = change_text(test, before, is_measured=test.session.settings[K] == "own")
    return {"warnings": [text]} if text else {}
