"""`rageval scores`: all built-in scores, with their range and what they need."""

import argparse
import json
from itertools import groupby
from typing import Any

from pytest_rageval.cli.output import say
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.evaluations.registry import SCORES
from pytest_rageval.evaluations.scoring import ScoreDef

__all__ = ["scores_command"]


def scores_command(options: argparse.Namespace) -> int:
    """Print a line for each score, or all of one."""
    if options.name is not None:
        score = _find(options.name)
        if options.json:
            say(json.dumps(_entry(score), indent=2, ensure_ascii=False))
        else:
            _describe(score)
    elif options.json:
        say(json.dumps([_entry(score) for score in SCORES.values()], indent=2, ensure_ascii=False))
    else:
        _list()
    return 0


def _find(name: str) -> ScoreDef:
    measure = name.partition("@")[0]
    score = SCORES.get(measure)
    if score is None:
        raise InputError(
            f"There is no score {measure!r}.{did_you_mean(measure, SCORES)}\n"
            "`rageval scores` lists the built-in scores; those that other plugins add are not listed."
        )
    return score


def _list() -> None:
    width = max(map(len, SCORES)) + len("@k")
    for family, scores in groupby(SCORES.values(), key=lambda score: score.family):
        say(family)
        for score in scores:
            say(f"  {f'{score.name}@k':{width}}  {_range(score)}  {', '.join(_needs(score)) or 'nothing'}")
        say("")
    say("Columns: score, range, needs. `rageval scores NAME` describes one. Other plugins may add scores.")


def _describe(score: ScoreDef) -> None:
    say(f"{score.name}@k ({score.family})")
    say(f"  {score.definition}")
    rows = {
        "range": _range(score),
        "needs": ", ".join(_needs(score)) or "nothing",
        "keywords": ", ".join(sorted(score.words)) or "none",
        "write": f'@pytest.mark.rageval_threshold("{score.name}@5", min=…)',
        "read": f"https://pytest-rageval.github.io/pytest-rageval/reference/scores.html ({score.family})",
    }
    for label, text in rows.items():
        say(f"  {label:8}  {text}")


def _needs(score: ScoreDef) -> list[str]:
    extra = [f"extra `{score.extra}`"] if score.extra else []
    return [*score.needs, *score.models, *extra]


def _range(score: ScoreDef) -> str:
    return "unknown" if score.scale is None else f"{score.scale[0]:g} to {score.scale[1]:g}"


def _entry(score: ScoreDef) -> dict[str, Any]:
    return {
        "name": score.name,
        "family": score.family,
        "definition": score.definition,
        "range": None if score.scale is None else list(score.scale),
        "needs": list(score.needs),
        "models": list(score.models),
        "extra": score.extra,
        "keywords": sorted(score.words),
    }
