"""Arena battles: `--rageval arena_pairs=N` lets the systems of a parametrized test battle each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option
from pytest_rageval.options.parsers import parse_count

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.run.test import TestRun

# fmt: off
ARENA_PAIRS: Final = Option(
    "arena_pairs", "N", parse_count, 0,
    "also compare the systems of a parametrized test with each other, for its arena.* scores: N comparisons on "
    "each eval set. Each pair of systems gets the same number; their questions are drawn by --rageval seed=N, "
    "equally many from each domain",
)
# fmt: on
OPTIONS: Final = (ARENA_PAIRS,)


def contradictions(settings: "Settings") -> Iterator[str]:
    if settings[ARENA_PAIRS] and "is merged" in settings.effects:
        yield (
            "--rageval arena_pairs=N needs the answers of all systems to all questions in one run, and --rageval-shard "
            "splits the questions: leave one out."
        )


@hookimpl(trylast=True)
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    if not test.session.settings[ARENA_PAIRS]:
        return ()
    from pytest_rageval.core.errors import RagevalError  # noqa: PLC0415 - few runs have battles
    from pytest_rageval.extensions.arena_battles.battles import battle  # noqa: PLC0415

    try:
        battle(test, thresholds)
    except RagevalError as error:
        return [f"The battles between systems: {error}"]
    return ()


@hookimpl
def pytest_rageval_test_entry(test: "TestRun") -> Mapping[str, object]:
    if "arena_battles" not in test.state:
        return {}
    systems, battles = test.state["arena_battles"]
    entry: dict[str, object] = {"battles": list(battles.values())}
    if len(systems) == 1:
        warning = (
            "--rageval arena_pairs=N does nothing: this test has one system in the arena. Parametrize "
            "rageval_retriever or rageval_generator, or score it at several cut-offs"
        )
        entry["warnings"] = [warning]
    return entry
