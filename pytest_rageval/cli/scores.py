"""`rageval scores`: lists the built-in scores, with their range and what they require."""

import argparse
import json
import re
from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from typing import Final

from pytest_rageval.cli.console import echo
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.scores import SCORES
from pytest_rageval.scores.definition import ScoreDef

_IR_MEASURE: Final = re.compile(r"(\w+)(?:\(rel=(\d+)\))?(\([^()]*\))?(?:@(\d+))?", re.ASCII)
"""A name, perhaps a lowest grade, perhaps other arguments, perhaps a cut-off."""


def scores_command(options: argparse.Namespace) -> int:
    """Print a line for each score, or for each score of a group such as `arena`; or describe one score in detail."""
    if options.other is not None:
        _print_ir_measures(options)
        return 0
    name = (options.name or "").partition("@")[0]
    exact = SCORES.get(name)
    if exact is not None:
        if options.json:
            echo(json.dumps(_json_entry(exact), indent=2, ensure_ascii=False))
        else:
            _print_details(exact)
        group = [score for score in SCORES.values() if score.name.startswith(f"{name}.")]
        if group and not options.json:
            echo("")
            _print_list(group)
        return 0
    scores = [score for score in SCORES.values() if not name or score.name.startswith(f"{name}.")]
    if not scores:
        raise InputError(
            f"There is no score {name!r}.{did_you_mean(name, SCORES)}\n"
            "`rageval scores` lists the built-in scores; those that other plugins add are not listed."
        )
    if options.json:
        echo(json.dumps(list(map(_json_entry, scores)), indent=2, ensure_ascii=False))
    else:
        _print_list(scores)
    return 0


def _print_ir_measures(options: argparse.Namespace) -> None:
    """Print which score each name of ir_measures is, or the threshold for one name, such as "P(rel=2)@5"."""
    names = {score.ir_measures: _name(score) for score in SCORES.values() if score.ir_measures}
    if options.name is None:
        width = max(map(len, names))
        for theirs, ours in names.items():
            echo(f"{theirs:{width}}  {ours}")
        echo("")
        echo('With a lowest grade, such as P(rel=2)@5, write relevant="gold_grade>=2".')
        return
    match = _IR_MEASURE.fullmatch(options.name)
    if match is None:
        raise InputError(
            f"{options.name!r} is no measure of ir_measures.\nWrite one as nDCG@10 or P(rel=2)@5."
        )
    name, grade, arguments, k = match.groups()
    theirs = f"{name}{arguments or ''}"
    score = names.get(f"{theirs}@k") or names.get(theirs)
    if score is None:
        raise InputError(
            f"There is no score for {options.name}.{did_you_mean(f'{theirs}@k', names)}\n"
            "`rageval scores --from ir_measures` lists the measures that have one."
        )
    keyword = f', relevant="gold_grade>={grade}"' if grade not in {None, "1"} else ""
    echo(f'@pytest.mark.rageval_threshold("{score.replace("@k", f"@{k or 10}")}", min=…{keyword})')


def _print_list(scores: Sequence[ScoreDef]) -> None:
    width = max(len(_name(score)) for score in scores)
    for family, family_scores in groupby(scores, key=_family):
        echo(family)
        for score in family_scores:
            echo(f"  {_name(score):{width}}  {_range(score)}  {', '.join(_needs(score)) or 'nothing'}")
        echo("")
    echo("Columns: score, range, needs. `rageval scores NAME` describes one. Other plugins may add scores.")


def _print_details(score: ScoreDef) -> None:
    echo(f"{_name(score)} ({_family(score)})")
    echo(f"  {score.definition}")
    bound = "max" if score.is_cost else "min"
    rows = {
        "range": _range(score),
        "needs": ", ".join(_needs(score)) or "nothing",
        "keywords": ", ".join(sorted(score.keywords)) or "none",
        "write": f'@pytest.mark.rageval_threshold("{_name(score).replace("@k", "@5")}", {bound}=…)',
        "read": f"https://pytest-rageval.github.io/pytest-rageval/reference/scores.html ({_family(score)})",
    }
    for label, text in rows.items():
        echo(f"  {label:8}  {text}")


def _needs(score: ScoreDef) -> list[str]:
    extra = [f"extra `{score.extra}`"] if score.extra else []
    return [*score.needs, *score.models, *extra]


def _name(score: ScoreDef) -> str:
    """Return the name of a score, with "@k" if it requires a cut-off."""
    return f"{score.name}@k" if score.needs_k else score.name


def _family(score: ScoreDef) -> str:
    return score.family.title if score.family else ""


def _range(score: ScoreDef) -> str:
    if score.scale is None:
        return "unknown"
    low, high = score.scale
    return f"{low:g} to {high:g}" if isfinite(high) else f"{low:g} or more"


def _json_entry(score: ScoreDef) -> dict[str, object]:
    return {
        "name": score.name,
        "family": _family(score),
        "definition": score.definition,
        "range": None if score.scale is None else [end if isfinite(end) else None for end in score.scale],
        "needs": list(score.needs),
        "models": list(score.models),
        "extra": score.extra,
        "keywords": sorted(score.keywords),
        **({"ir_measures": score.ir_measures} if score.ir_measures else {}),
    }
