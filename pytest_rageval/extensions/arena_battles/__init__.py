"""Arena battles: `--rageval-arena-pairs` lets the systems of a parametrized test battle each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.run.test import TestRun

hookimpl = pluggy.HookimplMarker("pytest")

OPTIONS: Final = ("arena_pairs",)


@hookimpl(trylast=True)
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    """Let the systems of a test battle those of its siblings."""
    if not test.session.settings.arena_pairs:
        return ()
    from pytest_rageval.core.errors import RagevalError  # noqa: PLC0415 - few runs have battles
    from pytest_rageval.extensions.arena_battles.battles import battle  # noqa: PLC0415

    try:
        battle(test, thresholds)
    except RagevalError as error:
        return [f"The battles between systems: {error}"]
    return ()


@hookimpl
def pytest_rageval_test_entry(test: "TestRun") -> Mapping[str, Any]:
    """Add the battles; and a warning if the test has only one system."""
    if "arena_battles" not in test.state:
        return {}
    systems, battles = test.state["arena_battles"]
    entry: dict[str, Any] = {"battles": list(battles.values())}
    if len(systems) == 1:
        warning = (
            "--rageval-arena-pairs does nothing: this test has one system in the arena. Parametrize "
            "rageval_retriever or rageval_generator, or score it at several cut-offs"
        )
        entry["warnings"] = [warning]
    return entry
