"""`rageval evalset check`: what is wrong with an eval set, and how small a drop it can show."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.cli.evalset_reading import read_evalset
from pytest_rageval.cli.findings import Finding, Kind, of_the_set
from pytest_rageval.cli.gold_check import of_the_gold
from pytest_rageval.cli.show import count, plain, say
from pytest_rageval.evalsets.corpus import is_of_files, read_corpus
from pytest_rageval.stats.power import POWER, detectable_drop_unpaired

__all__ = ["check"]

ALPHA: Final = 0.05
FIRST: Final = 5
"""Findings of a kind that are shown."""
NAMED: Final = 4
"""Examples of a finding that are named."""


def check(options: argparse.Namespace) -> int:
    """Look for what is wrong.

    Returns:
        0; 1 where errors were found.

    Raises:
        InputError: the eval set or the corpus cannot be used.
    """
    evalset, places = read_evalset(options.file, options.format, options.field, options.option)
    corpus = None if options.corpus is None else read_corpus(options.corpus)
    of_files = options.corpus is not None and is_of_files(options.corpus)
    gold = of_the_gold(evalset, corpus, of_files=of_files)
    kinds = [kind for kind in (*of_the_set(evalset), *gold) if kind.found]
    kinds.sort(key=lambda kind: not kind.error)
    drop = _smallest_drop(len(evalset))
    errors = any(kind.error for kind in kinds)
    if options.json:
        say(json.dumps(_report(evalset.name, places, kinds, drop), indent=2))
        return int(errors)
    for kind in kinds:
        say(f"{'error' if kind.error else 'note'}: {kind.title}: {len(kind.found):,}")
        for line in _lines(kind.found, places):
            say(f"  {plain(line)}")
    say(
        f"{plain(evalset.name)}: {count(len(evalset), 'example')}, "
        f"{count(sum(len(kind.found) for kind in kinds if kind.error), 'error')}, "
        f"{count(sum(len(kind.found) for kind in kinds if not kind.error), 'note')}"
        + ("" if options.corpus else "; gold passages were not looked up, without --corpus")
    )
    say(_power(drop, len(evalset)))
    return int(errors)


def _smallest_drop(n: int) -> float:
    """The drop that n examples show in 80% of runs: of a score of 0 or 1 each, half of them 1."""
    scores = [0.0, 1.0] * (n // 2) + [0.5] * (n % 2)
    drop = detectable_drop_unpaired(scores, alpha=ALPHA)
    return 1.0 if drop is None else drop


def _power(drop: float, n: int) -> str:
    assumed = (
        f"(a score of 0 or 1 on each, half of them 1 before; tested at {ALPHA:g}, the two runs independent; runs "
        "of similar retrievers agree on most examples and show smaller ones)"
    )
    if drop >= 1:
        return f"With {count(n, 'example')} no drop can be told from chance {assumed}"
    return f"A drop of {drop:.3f} or more shows in {POWER:.0%} of runs {assumed}"


def _lines(found: Sequence[Finding], places: Mapping[str, str]) -> Iterator[str]:
    for finding in found[:FIRST]:
        named = [f"{identifier} ({places[identifier]})" for identifier in finding.ids[:NAMED]]
        more = len(finding.ids) - len(named)
        yield f"{', '.join(named)}{f' and {more:,} more' if more else ''}: {finding.what}"
    if len(found) > FIRST:
        yield f"and {len(found) - FIRST:,} more (all with --json)"


def _report(name: str, places: Mapping[str, str], kinds: Sequence[Kind], drop: float) -> dict[str, Any]:
    return {
        "evalset": name,
        "examples": len(places),
        "findings": [
            {
                "kind": kind.name,
                "title": kind.title,
                "error": kind.error,
                "count": len(kind.found),
                "found": [
                    {
                        "ids": list(finding.ids),
                        "places": [places[identifier] for identifier in finding.ids],
                        "what": finding.what,
                    }
                    for finding in kind.found
                ],
            }
            for kind in kinds
        ],
        "detectable_drop": {"drop": drop, "power": POWER, "alpha": ALPHA, "mean": 0.5, "paired": False},
    }
