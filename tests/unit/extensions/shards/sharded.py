"""Helpers that evaluate a test in shards without pytest, create the reports of the shards, and merge them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_rageval.baseline import Baseline
from pytest_rageval.extensions.shards.merge import MergedRun, MergedTestResult
from pytest_rageval.extensions.shards.record import Shard, shard_entry
from pytest_rageval.models.usage import Usage
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.failures import Room
from pytest_rageval.reports.settings import settings_entry
from pytest_rageval.run import FinishedRun
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from tests.unit.run.marked import NODEID, Mark, components, marked


def evaluated_in(
    settings: Settings,
    root: Path,
    marks: Sequence[Mark],
    parts: Components,
    *,
    explain: bool = False,
    **words: Any,
) -> tuple[list[str], list[str], dict[str, Any]]:
    session = Session(settings, **words)
    sharing = [NODEID] if any("max_drop" in mark.kwargs for mark in marks) else []
    room = partial(Room.of, 0, 0)
    test = TestRun(session, parts, marked(root, marks), sharing_alpha=sharing, room=room)
    problems = test.evaluate_markers()
    evaluation = problems, test.failures(), test.results(describe=True, explain=explain)
    session.close()
    return evaluation


def outcome_of(problems: Sequence[str], failures: Sequence[str]) -> dict[str, str]:
    if problems:
        return {"outcome": "error", "message": "\n\n".join([*dict.fromkeys(problems), *failures])}
    return {"outcome": "failed", "message": "\n\n".join(failures)} if failures else {"outcome": "passed"}


def without_updates(message: str) -> str:
    """Return the failure message without the command that accepts the drop, which differs between runs and merges."""
    return re.sub(r"accept this drop.*(\n  .*)?$", "accept this drop", message, flags=re.MULTILINE)


def shard_of(  # noqa: PLR0913 - what a shard is made of
    settings: Settings,
    root: Path,
    marks: Sequence[Mark],
    parts: Components,
    *,
    path: str = "",
    registry: Any = None,
    **changes: Any,
) -> Shard:
    problems, failures, results = evaluated_in(settings, root, marks, parts, registry=registry)
    run = FinishedRun(
        settings.replace(calibration=None),
        settings.baseline.parent,
        dict,
        collected=[NODEID],
        usage_of={NODEID: Usage()},
        claims=[""],
    )
    document = {
        "schema": 1,
        "package": "1",
        "started": "2026-01-01T00:00:00+00:00",
        "duration_s": 1.0,
        "settings": settings_entry(settings),
        "stopped": False,
        "tests": [{"nodeid": NODEID, **outcome_of(problems, failures), **results}],
        "shard": shard_entry(run) | changes,
    }
    name = "{}-{}.json".format(*settings.value_of("shard"))
    return Shard(path or name, json.loads(json.dumps(document)))


def shards_of(
    settings: Settings,
    root: Path,
    marks: Sequence[Mark],
    number: int,
    parts: Callable[[], Components] = components,
) -> list[Shard]:
    return [
        shard_of(settings.replace(shard=(index, number)), root, marks, parts())
        for index in range(1, number + 1)
    ]


def evaluate_merged(
    shards: Sequence[Shard], settings: Settings, root: Path, *, explain: bool = False
) -> MergedTestResult:
    run = MergedRun(shards)
    (test,) = run.tests
    return run.judge(test, BaseSession(settings, run.registry), root, explain=explain)


def write_baseline(
    settings: Settings, root: Path, marks: Sequence[Mark], parts: Components
) -> Mapping[str, Any]:
    _, _, results = evaluated_in(settings.replace(update_baseline=True), root, marks, parts)
    Baseline({NODEID: results["baseline"]}).write(settings.baseline)
    return results["baseline"]
