"""`rageval scores`: all built-in scores, with their range and what they need."""

import argparse
import json
from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from typing import Any

from pytest_rageval.cli.console import say
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.evaluations.registry import SCORES
from pytest_rageval.evaluations.scoring import ScoreDef

__all__ = ["scores_command"]


def scores_command(options: argparse.Namespace) -> int:
    """Print a line for each score, or for each whose name begins so; or all of one."""
    name = (options.name or "").partition("@")[0]
    found = SCORES.get(name)
    if found is not None:
        if options.json:
            say(json.dumps(_entry(found), indent=2, ensure_ascii=False))
        else:
            _describe(found)
        return 0
    scores = [each for each in SCORES.values() if not name or each.name.startswith(f"{name}.")]
    if not scores:
        raise InputError(
            f"There is no score {name!r}.{did_you_mean(name, SCORES)}\n"
            "`rageval scores` lists the built-in scores; those that other plugins add are not listed."
        )
    if options.json:
        say(json.dumps(list(map(_entry, scores)), indent=2, ensure_ascii=False))
    else:
        _list(scores)
    return 0


def _list(listed: Sequence[ScoreDef]) -> None:
    width = max(len(_name(score)) for score in listed)
    for family, scores in groupby(listed, key=lambda score: score.family):
        say(family)
        for score in scores:
            say(f"  {_name(score):{width}}  {_range(score)}  {', '.join(_needs(score)) or 'nothing'}")
        say("")
    say("Columns: score, range, needs. `rageval scores NAME` describes one. Other plugins may add scores.")


def _describe(score: ScoreDef) -> None:
    say(f"{_name(score)} ({score.family})")
    say(f"  {score.definition}")
    bound = "max" if score.is_cost else "min"
    rows = {
        "range": _range(score),
        "needs": ", ".join(_needs(score)) or "nothing",
        "keywords": ", ".join(sorted(score.keywords)) or "none",
        "write": f'@pytest.mark.rageval_threshold("{_name(score).replace("@k", "@5")}", {bound}=…)',
        "read": f"https://pytest-rageval.github.io/pytest-rageval/reference/scores.html ({score.family})",
    }
    for label, text in rows.items():
        say(f"  {label:8}  {text}")


def _needs(score: ScoreDef) -> list[str]:
    extra = [f"extra `{score.extra}`"] if score.extra else []
    return [*score.needs, *score.models, *extra]


def _name(score: ScoreDef) -> str:
    return f"{score.name}@k" if score.needs_k else score.name


def _range(score: ScoreDef) -> str:
    if score.scale is None:
        return "unknown"
    low, high = score.scale
    return f"{low:g} to {high:g}" if isfinite(high) else f"{low:g} or more"


def _entry(score: ScoreDef) -> dict[str, Any]:
    return {
        "name": score.name,
        "family": score.family,
        "definition": score.definition,
        "range": None if score.scale is None else [end if isfinite(end) else None for end in score.scale],
        "needs": list(score.needs),
        "models": list(score.models),
        "extra": score.extra,
        "keywords": sorted(score.keywords),
    }
