"""Early stop: `--rageval early_stop=true` scores the questions in random order until the verdict on a drop is clear."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option, switch

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.reports.document import ScoreEntry
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import PartialScores, TestRun


def stops_early(settings: "Settings") -> bool:
    """Whether early stopping is in effect: not where replies cost nothing, or are averaged."""
    costs = not (settings.value_of("plan") or settings.replay or settings.value_of("batch"))
    return (
        settings[EARLY_STOP]
        and costs
        and not (settings.update_baseline or settings.repeat * settings.draws > 1)
    )


# fmt: off
EARLY_STOP: Final[Option[bool]] = switch(
    "early_stop",
    "for thresholds with max_drop alone: score the questions in random order until the verdict is clear, and "
    "skip those whose passages are those of the baseline. No effect with an update of the baseline, a plan, a "
    "replay or --rageval-repeat",
    effects=lambda settings: ("leaves out questions",) if stops_early(settings) else (),
    plan_note="--rageval early_stop=true may evaluate fewer questions: the plan counts all.",
)
# fmt: on
OPTIONS: Final = (EARLY_STOP,)


def contradictions(settings: "Settings") -> Iterator[str]:
    if settings[EARLY_STOP] and "is merged" in settings.effects:
        yield (
            "The option early_stop asks until the verdict on all questions is clear, and --rageval-shard has only some "
            "of them: leave one out (--rageval early_stop=false)."
        )


@hookimpl
def pytest_rageval_partial_scores(
    test: "TestRun", thresholds: "Sequence[Threshold]"
) -> "PartialScores | None":
    if not stops_early(test.session.settings):
        return None
    from pytest_rageval.extensions.early_stop.early_stop import EarlyScores  # noqa: PLC0415 - few runs stop early

    return EarlyScores.of(test, thresholds)


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    if not (test.record.lacks_fingerprint and any(result.early for result in test.judged)):
        return {}
    warning = (
        "--rageval early_stop=true evaluates questions with unchanged passages too: a change of your own "
        f"{' and '.join(test.record.own)} cannot be detected. Give it an attribute fingerprint, "
        "a text that you change with its code"
    )
    return {"warnings": [warning]}


def _text(entry: "ScoreEntry") -> str:
    """Return the counts: "stopped early: 63 of 600 changed questions evaluated (1,400 unchanged), drop about 0.051"."""
    early = entry["early_stop"]
    asked = f"{early['changed']:,} changed questions evaluated ({early['unchanged']:,} unchanged)"
    if early["verdict"] is None:
        return f"all {asked}"
    change = early["drop"]
    drop = "" if change is None else f", {'gain' if change < 0 else 'drop'} about {abs(change):.3f}"
    return f"stopped early: {early['asked']:,} of {asked}{drop}"


NOTES: Final = {"early_stop": ("undefined", _text)}
