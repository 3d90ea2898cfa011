"""Limits of pytest-timeout, which would end an evaluation while it is paid for."""

import os
from typing import Final

import pytest

from pytest_rageval.plugin.markers import EVALUATED

__all__ = ["timeout_lines", "timeout_problem"]

TIMEOUT: Final = (
    "rageval: timeout = {:g} s counts the evaluation too, which is the setup of the first test that needs a score: a "
    "run without kept replies may exceed it. Set timeout_func_only = true."
)


def timeout_lines(config: pytest.Config) -> list[str]:
    """A warning of pytest-timeout's limit for each test, unless it counts the function only."""
    if config.getini("timeout_func_only"):
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
    """Whether it is a time limit; pytest-timeout itself refuses what is no number."""
    try:
        return float(str(seconds)) > 0
    except ValueError:
        return False
