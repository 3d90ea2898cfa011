"""The baseline of a run: a threshold's score in it, and at the end, what was compared."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_rageval.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.baseline.entries import BaselineExample, BaselineScore
from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.sampling import in_sample
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.anomalies import all_zero_hint
from pytest_rageval.reports.gated_tests import RanTests, gate_entry
from pytest_rageval.run import MarkedTest
from pytest_rageval.scores.definition import GOLD, ScoreDef
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

EMBEDDING_TOLERANCE: Final = 1e-6
"""Maximal difference of a score from embeddings between two machines, whose floating-point results differ."""


def read_baseline(settings: Settings) -> Baseline:
    """Return the file, or with `--rageval baseline_ref=REF` the file of that commit; raise InputError."""
    if settings.baseline_ref is None:
        return Baseline.read_for_comparison(settings.baseline, required="baseline" in settings.sources)
    return Baseline.read_at(settings.baseline, settings.baseline_ref)


def baseline_of(settings: Settings) -> Baseline:
    """Return the same as `read_baseline`; in an update, the old baseline.

    The latter is empty if the file cannot be read: the writer reports this error.
    """
    if "replaces the baseline" not in settings.effects:
        return read_baseline(settings)
    try:
        return Baseline.read(settings.baseline)
    except InputError:
        return Baseline()


def look_up_baseline(  # noqa: PLR0913 - what a comparison depends on
    settings: Settings,
    baseline: Baseline,
    test: MarkedTest,
    *,
    sample: float,
    threshold: Threshold,
    definition: ScoreDef,
    fingerprint: Mapping[str, object],
    received: Iterable[str],
) -> BaselineLookup:
    scale = definition.scale
    updating = "replaces the baseline" in settings.effects
    if baseline.path is None and not updating:
        _check_root(test, settings.baseline)
    before = None if updating else baseline.score(test.nodeid, threshold.name, scale)
    needs_anchor = updating or threshold.max_total_drop is not None
    is_missing = before is None and not updating
    context = set(received)
    if definition.asks:
        # Generator and judge read the history of a question.
        context.add("history")

    def restrict(score: BaselineScore | None) -> BaselineScore | None:
        return score and replace(score, context=context, examples=_sampled_examples(score, sample))

    missing, is_new = "", False
    if is_missing:
        missing, is_new = baseline.missing_reason(
            test.nodeid, threshold.name, test.collected(), repeated=test.repeated
        )
    return BaselineLookup(
        fingerprint,
        restrict(before),
        updating=updating,
        required=settings.require_baseline,
        missing="" if is_new else missing,
        new=missing if is_new else "",
        tolerance=EMBEDDING_TOLERANCE if "encoder" in fingerprint else SCORE_TOLERANCE,
        anchor=restrict(baseline.anchor_score(test.nodeid, threshold.name, scale)) if needs_anchor else None,
        pinning=settings.pin_baseline,
        max_removed=settings.max_removed,
        deterministic=definition.deterministic,
    )


def why_no_baseline(threshold_input: ThresholdInput, definition: ScoreDef) -> str:
    """Return why a score that is not compared yet cannot be compared with later; empty if it can.

    This is a score of rankings without any gold passage: a baseline of it would let every change pass.
    """
    score, baseline = threshold_input.score, threshold_input.baseline
    if baseline.before is not None or baseline.missing:
        return ""
    if definition.scale is None or GOLD not in definition.needs:
        return ""
    values = [outcome.value for outcome in score.outcomes if outcome.value is not None]
    low = definition.scale[0]
    if not values or max(values) > low + SCORE_TOLERANCE:
        return ""
    hint = all_zero_hint(score)
    return (
        f"every question scores {low:g}, so that nothing could be a drop, and this is no baseline."
        f"{f'{chr(10)}{hint[0].upper()}{hint[1:]}.' if hint else ''}"
    )


def _sampled_examples(score: BaselineScore, share: float) -> Mapping[str, BaselineExample]:
    if share >= 1:
        return score.examples
    examples = score.examples.items()
    return {name: example for name, example in examples if in_sample(name, share)}


def _check_root(test: MarkedTest, expected: Path) -> None:
    """Raise InputError if a folder above the test has a baseline: the root directory is probably wrong."""
    for folder in test.path.parents:
        if folder != expected.parent and (folder / expected.name).is_file():
            raise InputError(
                f"There is no baseline in {expected.parent}, the root directory, and there is one in {folder}.\n"
                "Run pytest with that root directory (--rootdir), or name the baseline with --rageval-baseline; "
                f"or write one here: {UPDATE_COMMAND}"
            )


def check_gate(settings: Settings, ran: RanTests, hook: Any, known: Baseline | None = None) -> dict[str, Any]:
    """Return the key `gate` of the report; empty without a baseline. `known` is the baseline, if it was read."""
    baseline, required = known or read_baseline(settings), settings.require_baseline
    if baseline.path is None:
        return {}
    gate = gate_entry(baseline.tests, ran, required=required, allowed=settings.allow_missing)
    if settings.baseline_ref is not None:
        return {**gate, "ref": settings.baseline_ref}
    for added in hook.pytest_rageval_gate_entry(settings=settings):
        gate |= added
    return gate
