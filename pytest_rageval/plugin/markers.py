"""The markers: their declarations, which tests use them, and errors about marks and fixtures that do not work.

Every run imports this module.
"""

import os
from typing import Any, Final

import pytest

from pytest_rageval.core.extensions import at_start

# The signatures are those of the functions that read the marks. They are written out, because importing those would
# slow down runs without marked tests.
MARKERS: Final = """
rageval_evalset(path, *, format=None, sample=None, seed=0, stratify=None, corpus=None, exclude_own_id=False, \
**options): the eval set that scores of this test are computed on; the path is relative to the root directory or to \
the folder of the test file, the format is detected unless it is named, and options are those of the format.
rageval_threshold(spec, *, min=None, max=None, max_drop=None, max_lost=None, max_ratio=None, where=None, by=None, \
policy='pr', comparator=None, label=None, order=None, temperature=None, draws=None, relevant=None): bounds on the mean \
of a score, such as rageval_threshold("recall@5", min=0.8, where={"topic": "billing"}).
"""

EVALUATED_MARKERS: Final = (
    "rageval_threshold",
    *(line.partition("(")[0] for module in at_start().values() for line in getattr(module, "MARKERS", ())),
)
"""The markers that cause an evaluation in the setup of the test, so that the body of the test may be empty."""

TIMEOUT_WARNING: Final = (
    "rageval: timeout = {:g} s counts the evaluation too, which is the setup of the first test that needs a score: a "
    "run without cached replies may exceed it. Set timeout_func_only = true."
)


def uses_plugin(item: pytest.Item) -> bool:
    """Return True if a test uses a fixture of this package, or has a mark that begins like its markers."""
    fixtures = getattr(item, "fixturenames", ())
    return any(name.startswith("rageval") for name in fixtures) or any(
        mark.name.lower().startswith("rageval") for mark in item.iter_markers()
    )


def unknown_marker_error(item: pytest.Item) -> str:
    """Return an error if a test has a mark that begins like the markers of this package and is unknown; else empty."""
    names = [mark.name for mark in item.iter_markers() if mark.name.lower().startswith("rageval")]
    if not names:
        return ""
    # The user may declare markers with the prefix of this package too.
    declared = {line.partition(":")[0].partition("(")[0].strip() for line in item.config.getini("markers")}
    unknown = next((name for name in names if name not in declared), None)
    if unknown is None:
        return ""
    from pytest_rageval.core.errors import did_you_mean  # noqa: PLC0415 - most runs do not need it

    known = sorted(name for name in declared if name.startswith("rageval"))
    return (
        f"{item.nodeid} has the mark {unknown}, which does nothing.{did_you_mean(unknown, known)}\n"
        f"There are: {', '.join(known)}. Declare a marker of your own under `markers` in pytest's configuration."
    )


def second_evalset_error(item: pytest.Item) -> str:
    """Return an error if a function or its module has the mark rageval_evalset twice; else empty.

    A mark of the function replaces one of its class or module. Of two on one of them, only one would be used.
    """
    for place in (getattr(item, "obj", None), getattr(item, "module", None)):
        marks = getattr(place, "pytestmark", ())
        marks = marks if isinstance(marks, list | tuple) else [marks]
        values = [mark.args for mark in marks if getattr(mark, "name", "") == "rageval_evalset"]
        if len(values) > 1:
            listed = " and ".join(", ".join(map(repr, args)) for args in values)
            return (
                f"{item.nodeid} has two marks rageval_evalset: {listed:.200}.\n"
                "A test has one eval set. Join the files, or parametrize the test: "
                "pytest.param(…, marks=pytest.mark.rageval_evalset(…))."
            )
    return ""


def timeout_warnings(config: pytest.Config) -> list[str]:
    """Return a warning if pytest-timeout has a limit for all tests that counts the setup; else none."""
    if not config.pluginmanager.hasplugin("timeout") or config.getini("timeout_func_only"):
        return []
    limits = (
        config.getoption("timeout", None),
        os.environ.get("PYTEST_TIMEOUT"),
        config.getini("timeout"),
    )
    seconds = next((limit for limit in limits if limit not in {None, ""}), 0)
    return [TIMEOUT_WARNING.format(float(seconds))] if _is_positive(seconds) else []


def timeout_mark_error(item: pytest.Item) -> str:
    """Return an error if a test has a mark of pytest-timeout whose limit counts the evaluation; else empty."""
    mark = item.get_closest_marker("timeout")
    if mark is None or not item.config.pluginmanager.hasplugin("timeout"):
        return ""
    seconds = mark.kwargs.get("timeout", mark.args[0] if mark.args else 0)
    func_only = mark.kwargs.get("func_only")
    func_only = item.config.getini("timeout_func_only") if func_only is None else func_only
    if func_only or not _is_positive(seconds) or not any(map(item.get_closest_marker, EVALUATED_MARKERS)):
        return ""
    return (
        f"{item.nodeid} has the mark timeout, which counts the evaluation too: it is this test's setup, and the "
        "timeout would interrupt it between paid requests.\n"
        f"Write @pytest.mark.timeout({seconds}, func_only=True), or set timeout_func_only = true in pytest's "
        "configuration."
    )


def _is_positive(seconds: object) -> bool:
    """Return True for a positive number. pytest-timeout itself reports anything that is not a number."""
    try:
        return float(str(seconds)) > 0
    except ValueError:
        return False


CALLS: Final = {
    "rageval_retriever": "(query, k) -> documents",
    "rageval_reference_retriever": "(query, k) -> documents",
    "rageval_generator": "(question, passages) -> str",
    "rageval_judge": "(question, references, prediction) -> verdict",
}
"""The functions that a user's fixtures return."""


def fixture_error(item: pytest.Item) -> str:
    """Return an error if a fixture of a test is written as the function that it has to return; else empty.

    pytest would say that there is no fixture `query`.
    """
    known: Any = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for name in CALLS.keys() & known.keys():
        unknown = [argument for argument in known[name][-1].argnames if argument not in known]
        if unknown and not {"query", "question"}.isdisjoint(unknown):
            return (
                f"The fixture {name} has the argument {unknown[0]}: the arguments of a fixture are other fixtures. "
                f"{_fixture_advice(name)}"
            )
    return ""


def async_fixture_error(name: str) -> str:
    """Return the error about a fixture that is an async function, and that no plugin of pytest awaits."""
    return f"The fixture {name} is an async function, which nothing awaits. {_fixture_advice(name)}"


def _fixture_advice(name: str) -> str:
    return (
        f"It returns the function that is called, {CALLS[name]}, which may be async:\n\n"
        f'    @pytest.fixture(scope="session")\n    def {name}():\n        return your_function'
    )
