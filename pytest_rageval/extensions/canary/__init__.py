"""Canary: were the generator and the judge those of the baseline? `--rageval canary=N` scores N questions again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option
from pytest_rageval.options.parsers import parse_count

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.reports.document import ScoreEntry
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun

DEFAULT_QUESTIONS: Final = 100


def parse_questions(text: str) -> int:
    return {"true": DEFAULT_QUESTIONS, "false": 0}[text] if text in {"true", "false"} else parse_count(text)


# fmt: off
CANARY: Final = Option(
    "canary", "N", parse_questions, 0,
    "score N questions of each test whose passages are those of the baseline again, with new replies; with true 100, "
    "or all where there are fewer. If their scores changed, in the test or in all tests so far, the comparison is an "
    "error",
)
# fmt: on
OPTIONS: Final = (CANARY,)


def contradictions(settings: "Settings") -> Iterator[str]:
    if not settings[CANARY]:
        return
    if "batch tier" in settings.effects:
        yield "--rageval-batch takes several runs, and --rageval canary=N sends all requests in each: leave one out."
    if settings.replay:
        yield "--rageval-replay sends no requests and --rageval canary=N needs new replies: leave one out."
    if "is merged" in settings.effects:
        yield (
            "--rageval canary=N compares with the baseline, which --rageval-shard leaves to the merge: leave one out, "
            "and run the canary in a job of its own."
        )


@hookimpl
def pytest_rageval_before_judge(
    test: "TestRun", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    """Treat the baseline of a score as missing if the models changed; the canary runs once per score."""
    if not _has_canary(test, threshold_input.threshold):
        return None
    from pytest_rageval.extensions.canary.canary import run_canary  # noqa: PLC0415 - few runs have one

    canaries = test.state.setdefault("canary", {})
    request = threshold_input.threshold.request
    if request not in canaries:
        canaries[request] = run_canary(test, request, threshold_input, test.session.settings[CANARY])
    canary = canaries[request]
    if canary is None or not canary.shifted:
        return None
    return threshold_input._replace(baseline=replace(threshold_input.baseline, missing=canary.reason()))


@hookimpl
def pytest_rageval_score_entry(test: "TestRun", threshold: "Threshold") -> Mapping[str, object]:
    if "canary" not in test.state:
        return {}

    canary = test.state["canary"].get(threshold.request)
    return {} if canary is None else {"canary": asdict(canary)}


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    """Warn if a server serves another model under the name that the baseline has."""
    served = test.served
    if not (served and any(result.comparison for result in test.judged)):
        return {}
    before = test.session.baseline.tests[test.marked.nodeid].get("served", {})
    changed = [
        f"{model} was served as {', '.join(then)} in the baseline and is as {', '.join(now)} now"
        for model, now in served.items()
        if (then := before.get(model)) and not {*then} & {*now}
    ]
    text = f"{'; '.join(changed)}: this may be the cause of a drop, which --rageval canary=20 tests"
    return {"warnings": [text]} if changed else {}


@hookimpl
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    is_plan = "lacks replies" in test.session.settings.effects
    if compared := [item for item in thresholds if is_plan and _has_canary(test, item)]:
        from pytest_rageval.extensions.canary.canary import plan_canaries  # noqa: PLC0415 - see above

        plan_canaries(test, thresholds, compared, test.session.settings[CANARY])
    return ()


def _has_canary(test: "TestRun", threshold: "Threshold") -> bool:
    return bool(test.session.settings[CANARY]) and threshold.uses_baseline


def _text(entry: "ScoreEntry") -> str:
    from pytest_rageval.lib.text import counted  # noqa: PLC0415 - every run of pytest imports this module

    canary = entry["canary"]
    found = canary.get("detectable")
    power = "no change would be found" if found is None else f"changes above about {found:.2f} are found"
    return (
        f"canary: {counted(canary['questions'], 'question')} with the same passages, "
        f"{canary['before']:.3f} in the baseline, {canary['now']:.3f} with new replies (p = {canary['p_value']:.2g}; "
        f"{power})"
    )


NOTES: Final = {"canary": ("reference", _text)}
