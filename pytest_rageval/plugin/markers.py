"""The markers, how tests are known by them, and that of pytest-timeout; every run imports this module."""

import os
from typing import Final

import pytest

__all__ = ["EVALUATED", "MARKERS", "is_ours", "timeout_lines", "timeout_problem", "unknown_mark"]

# Written out: the modules of `Threshold` and `Bounds`, which have the signatures, are needed for marked tests only.
MARKERS: Final = """
rageval_evalset(path, *, format=None, sample=None, seed=0, stratify=None, **options): the eval set that scores of this \
test are computed on, from the root directory or from the test file's folder; its format is known by its shape or \
named, options are the format's own.
rageval_threshold(spec, *, min=None, max=None, max_drop=None, max_total_drop=None, max_lost=None, max_ratio=None, \
where=None, by=None, alpha=0.05, burden='drop', strict=False, inconclusive=None, cluster=None, tolerance=0.0, \
comparator=None, label=None, order=None, temperature=None, draws=None, relevant=None): bounds on the mean of a score, \
such as rageval_threshold("recall@5", min=0.8, where={"topic": "billing"}).
rageval_calibration(labels, *, min_kappa=None, min_accuracy=None, min_pearson=None, comparator=None): bounds on how \
far the judge agrees with the people of a labels file, such as rageval_calibration("labels.jsonl", min_kappa=0.6).
"""

EVALUATED: Final = ("rageval_threshold", "rageval_calibration")
"""Markers whose tests are evaluated at setup; the body of such a test may be empty."""

TIMEOUT: Final = (
    "rageval: timeout = {:g} s counts the evaluation too, which is the setup of the first test that needs a score: a "
    "run without cached replies may exceed it. Set timeout_func_only = true."
)


def is_ours(item: pytest.Item) -> bool:
    """Whether a test has a fixture of this package, or a mark that looks like one of its markers."""
    fixtures = getattr(item, "fixturenames", ())
    return any(name.startswith("rageval") for name in fixtures) or any(
        mark.name.lower().startswith("rageval") for mark in item.iter_markers()
    )


def unknown_mark(item: pytest.Item) -> str:
    """An error about an unknown marker of an item; empty without one."""
    names = [mark.name for mark in item.iter_markers() if mark.name.lower().startswith("rageval")]
    if not names:
        return ""
    # The declared markers: ours, and those of the user with our prefix.
    known = {line.partition(":")[0].partition("(")[0].strip() for line in item.config.getini("markers")}
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return ""
    from pytest_rageval.errors import did_you_mean  # noqa: PLC0415 - most runs do not need it

    ours = sorted(name for name in known if name.startswith("rageval"))
    return (
        f"{item.nodeid} has the mark {unknown}, which does nothing.{did_you_mean(unknown, ours)}\n"
        f"There are: {', '.join(ours)}. One of your own is named under `markers` in pytest's configuration."
    )


def timeout_lines(config: pytest.Config) -> list[str]:
    """A warning of pytest-timeout's limit for each test, unless it counts the function only."""
    if not config.pluginmanager.hasplugin("timeout") or config.getini("timeout_func_only"):
        return []
    found = (
        config.getoption("timeout", None),
        os.environ.get("PYTEST_TIMEOUT"),
        config.getini("timeout"),
    )
    seconds = next((each for each in found if each not in {None, ""}), 0)
    return [TIMEOUT.format(float(seconds))] if _is_positive(seconds) else []


def timeout_problem(item: pytest.Item) -> str:
    """An error about a mark of pytest-timeout that counts the evaluation; empty without one."""
    mark = item.get_closest_marker("timeout")
    if mark is None or not item.config.pluginmanager.hasplugin("timeout"):
        return ""
    seconds = mark.kwargs.get("timeout", mark.args[0] if mark.args else 0)
    func_only = mark.kwargs.get("func_only")
    func_only = item.config.getini("timeout_func_only") if func_only is None else func_only
    if func_only or not _is_positive(seconds) or not any(map(item.get_closest_marker, EVALUATED)):
        return ""
    return (
        f"{item.nodeid} has the mark timeout, which counts the evaluation too: it is this test's setup, and would be "
        "ended while it is paid for.\n"
        f"Write @pytest.mark.timeout({seconds}, func_only=True), or set timeout_func_only = true in pytest's "
        "configuration."
    )


def _is_positive(seconds: object) -> bool:
    """Whether it is a time limit; pytest-timeout itself refuses anything but a number."""
    try:
        return float(str(seconds)) > 0
    except ValueError:
        return False
