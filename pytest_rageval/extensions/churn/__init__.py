"""What did this change move? `rbo` and `churn` compare rankings with those of the baseline, and need no gold passages.

- `scores`: their definitions, and the comparison of a ranking with that of the baseline.
- `prefer`: `rageval prefer`, by which a judge says whether other passages are better.
"""

from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options.command import JUDGE_OPTIONS, Command, one_or_more, value

if TYPE_CHECKING:
    from pytest_rageval.core.outcome import Score
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest

NAMES: Final = ("rbo", "churn")
SCORES: Final = {"extensions.churn.scores": NAMES}

# fmt: off
COMMANDS: Final = (
    Command("prefer", "pytest_rageval.extensions.churn.prefer:prefer_command",
            "let a judge compare the passages of two runs, where they changed",
            "For each question whose passages differ between two JSON reports, the judge reads both lists in both "
            "orders, and says which serves an answer better. A preference that changes with the order is a tie. "
            "Neither gold passages nor answers are needed. Replies are cached as in tests.",
            (value("before", "BEFORE", "JSON report of the first run (pytest --rageval-report FILE.json)"),
             value("after", "AFTER", "JSON report of the second run"),
             value("--k", "K", "only the first K passages (default: all in the reports)",
                   one_or_more("a number of passages"), dest="first"),
             value("--test", "NODEID", "only this test, or tests whose node ids contain this text", str),
             *JUDGE_OPTIONS),
            "Exit status: 0; 1 if the passages of BEFORE are preferred more often, with p at most 0.05 in a one-sided "
            "sign test; 2 if something cannot be used.", place=4),
)
# fmt: on


@hookimpl
def pytest_rageval_evaluate_call(threshold: "Threshold") -> "Score | None":
    if threshold.spec.partition("@")[0] in NAMES and not threshold.has_bound:
        from pytest_rageval.core.errors import InputError  # noqa: PLC0415 - every run of pytest imports this module

        raise InputError(
            f"rageval.score({threshold.spec!r}) has no bound, and without one nothing is compared with the baseline.\n"
            f'Write it in a marker: rageval_threshold("rbo@5", max_drop=0.1).'
        )
    return None


@hookimpl
def pytest_rageval_before_judge(
    test: "JudgedTest", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    if threshold_input.threshold.spec.partition("@")[0] not in NAMES:
        return None
    from pytest_rageval.extensions.churn.scores import compared  # noqa: PLC0415 - see above

    return compared(test, threshold_input)
