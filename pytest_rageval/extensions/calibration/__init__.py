"""Calibration: how far the judge agrees with people, by the marker `rageval_calibration` and the option `calibration`.

- `calibration`: judges the items that people labelled, and computes the agreement. `human_labels`: reads the labels.
- `gate`: evaluates the bounds of a test on its judge, for the report.
- `corrections`: means from few human labels. `command`: `rageval judge`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import Option
from pytest_rageval.options.command import JSON, REPLY_OPTIONS, Command, Group, switch, value, value_parser

if TYPE_CHECKING:
    from pytest_rageval.core.outcome import Score
    from pytest_rageval.extensions.calibration.gate import CalibrationGate
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.gate.verdict import ThresholdResult
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun

# fmt: off
CALIBRATION: Final = Option[Path | None](
    "calibration", "FILE", Path, None,
    "file of answers labelled by people: reports also give answer.correct and llm_reteval corrected for the "
    "judge's errors. Or of passages labelled by people, for relevance.*",
)
# fmt: on
OPTIONS: Final = (CALIBRATION,)

_parse_votes: Final = value_parser(
    int, lambda votes: votes >= 1 and votes % 2 == 1, "an odd number of votes; an even one may be tied"
)

_parse_url: Final = value_parser(
    str, lambda url: url.startswith(("http://", "https://")), "a URL that begins with http:// or https://"
)

JUDGE: Final = Group(
    "judge",
    "measure how often a model as judge agrees with people, and draw what they label",
    "Measures a model as judge on answers that people labelled: `rageval judge LABELS` is `rageval judge measure "
    "LABELS`. Draws the answers to label.",
    "",
    default="measure",
)

# fmt: off
COMMANDS: Final = (
    Command("measure", "pytest_rageval.extensions.calibration.command:judge_command",
            "measure how often a model as judge agrees with people, and with itself",
            "The model judges answers that people labelled. The report gives its agreement with the labels, and the "
            "share of verdicts that change between votes, with the order of the texts, with the wording of the "
            "question, and if a text contains instructions to the judge.",
            (value("labels", "LABELS", "labelled answers or pairs, JSON lines"),
             value("--model", "NAME",
                   "name of the model at the server; several, with commas between them, vote, and each is measured too",
                   str, required=True),
             value("--base-url", "URL", "OpenAI-compatible server (default: OPENAI_BASE_URL, or OpenAI's own)",
                   _parse_url),
             value("--votes", "N",
                   "votes on each verdict, at temperature 0.5; the majority counts (default: 1, at temperature 0)",
                   _parse_votes, default=1),
             switch("--swap", "judge again with the references, or the two answers, in reverse order"),
             switch("--paraphrase", "judge again with a prompt in other words"),
             switch("--injections",
                    "judge built-in texts that contain instructions to the judge, and the same texts without "
                    "them; each with and without delimiters around the texts"),
             "judge_parameters", "max_tokens", "concurrency", "rpm", "tpm", "timeout", "retries", "patience", "flex",
             *REPLY_OPTIONS, "prompts",
             JSON),
            "Replies are cached, for runs of pytest too. The key is read from OPENAI_API_KEY. "
            "Exit status: 0; 2 if something cannot be used.", JUDGE, place=8,
            stands_for={"judge_model": "--model", "judge_base_url": "--base-url", "judge_votes": "--votes"}),
    Command("sample", "pytest_rageval.extensions.calibration.command:sample_command",
            "draw the answers that people are to label",
            "Writes a labels file of random answers of a report. Each line says how it was drawn, so that scores "
            "corrected by the labels are known to be valid. Labels that were chosen in another way, such as failures "
            "first, correct a score to a wrong number.",
            (value("report", "REPORT", "report of a run, JSON (pytest --rageval-report report.json)"),
             value("--count -n", "N", "number of answers (default: 100)",
                   value_parser(int, lambda count: count >= 1, "a whole number, at least 1"), default=100),
             value("--seed", "N", "seed of the draw (default: 0)", int, default=0),
             value("--test", "NODEID", "test (default: the first with such a score)", str, default=None),
             value("--score", "NAME", "score (default: the first with answers)", str, default=None),
             value("--output -o", "FILE", "file to write (default: labels.jsonl)", default=Path("labels.jsonl"))),
            "Exit status: 0; 2 if something cannot be used.", JUDGE, place=8),
)
# fmt: on

NAME: Final = "calibration"  # of this extension, in the state and in the record of a test
MARKER: Final = "rageval_calibration"
USAGE: Final = (
    f"{MARKER}(labels, *, min_kappa=None, min_accuracy=None, min_pearson=None, comparator=None): bounds on how far the "
    'judge agrees with the people of a labels file, such as rageval_calibration("labels.jsonl", min_kappa=0.6).'
)
MARKERS: Final = (USAGE,)
NOTES: Final = {"corrected": ("domains", Lazy("extensions.calibration.gate", "corrected_text"))}


@hookimpl
def pytest_rageval_before_test(test: "JudgedTest") -> Sequence[str]:
    """Compare the judge with the labels of the test's markers; in a shard, only ask the judge."""
    gate = _gate(test)
    return gate.evaluate() if gate else ()


@hookimpl
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    """Request the verdicts that correct these scores, where no result is reported yet; return errors."""
    gate, effects = _gate(test), test.session.settings.effects
    return gate.ask(thresholds) if gate and not effects.isdisjoint({"lacks replies", "is merged"}) else ()


@hookimpl
def pytest_rageval_score_entry(
    test: "JudgedTest", threshold: "Threshold", score: "Score | None", result: "ThresholdResult | None"
) -> Mapping[str, object]:
    """Add the mean that is corrected for the judge's errors; after an early stop there is no mean."""
    gate = _gate(test)
    if gate is None or (result is not None and result.stopped_early):
        return {}
    return gate.corrected_mean(score, threshold)


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    gate = _gate(test)
    return gate.results() if gate else {}


@hookimpl
def pytest_rageval_failures(test: "JudgedTest", limit: int | None) -> Sequence[str]:
    gate = _gate(test)
    return gate.failures(limit=limit) if gate else ()


def _gate(test: "JudgedTest") -> "CalibrationGate | None":
    settings = test.session.settings
    # Labelled items are not split into shards: the first shard judges all of them.
    is_calibrated = settings[CALIBRATION] or test.marked.markers(MARKER) or NAME in test.record.added
    index, _ = settings.value_of("shard") or (1, 1)
    if index > 1 or not is_calibrated:
        return None
    if NAME not in test.state:
        from pytest_rageval.extensions.calibration.gate import CalibrationGate  # noqa: PLC0415 - few tests have one

        test.state[NAME] = CalibrationGate(test, settings[CALIBRATION])
    gate: CalibrationGate = test.state[NAME]
    return gate
