"""Reads the baseline to compare with, and finds a threshold's score in it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.settings import Settings
from pytest_rageval.evalsets.sampling import in_sample
from pytest_rageval.gate.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.gate.comparison import BaselineExample, BaselineScore
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.run.record import TestRecord
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

read_baseline_at: Final = Lazy("run.baseline_change", "read_baseline_at")  # few runs name a commit

EMBEDDING_TOLERANCE: Final = 1e-6
"""Maximal difference of a score from embeddings between two machines, whose floating-point results differ."""


def read_baseline(settings: Settings) -> Baseline:
    """Return the baseline to compare with: the file, or with `--rageval baseline_ref=REF` the file of that commit.

    Raises:
        InputError: the file is not a baseline; or it is missing, and an option names it.
    """
    if settings.baseline_ref is None:
        return Baseline.read_for_comparison(settings.baseline, required="baseline" in settings.sources)
    baseline: Baseline = read_baseline_at(settings.baseline, settings.baseline_ref)
    return baseline


def baseline_of(settings: Settings) -> Baseline:
    """Return the same as `read_baseline`; in an update, the old baseline.

    The latter is empty if the file cannot be read: the writer reports this error.
    """
    if not settings.update_baseline:
        return read_baseline(settings)
    try:
        return Baseline.read(settings.baseline)
    except InputError:
        return Baseline()


def look_up_baseline(  # noqa: PLR0913 - what a comparison depends on
    settings: Settings,
    baseline: Baseline,
    test: MarkedTest,
    record: TestRecord,
    *,
    threshold: Threshold,
    definition: ScoreDef,
) -> BaselineLookup:
    """Return the baseline and the anchor of the score of a threshold that compares with them."""
    scale = definition.scale
    updating = bool(settings.update_baseline)
    if baseline.path is None and not updating:
        _check_root(test, settings.baseline)
    before = None if updating else baseline.score(test.nodeid, threshold.name, scale)
    needs_anchor = updating or threshold.max_total_drop is not None
    fingerprint = record.dependencies_of(threshold.request).fingerprint
    is_missing = before is None and not updating
    context = set(record.received)
    if definition.asks:
        # Generator and judge read the history of a question.
        context.add("history")

    def restrict(score: BaselineScore | None) -> BaselineScore | None:
        return score and replace(score, context=context, examples=_sampled_examples(score, settings.sample))

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


def _sampled_examples(score: BaselineScore, share: float) -> Mapping[str, BaselineExample]:
    """Return the examples of a baseline score that are in a sample of this share."""
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
