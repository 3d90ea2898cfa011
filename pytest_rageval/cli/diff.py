"""`rageval diff`: the scores of two runs compared, question by question."""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.cli.output import count, plain, say, table
from pytest_rageval.errors import InputError
from pytest_rageval.evaluations.registry import SCORES
from pytest_rageval.files import refuse_special
from pytest_rageval.stats.drops import ROUNDING, Drops, joint_drop_test

__all__ = ["diff_command"]

SCHEMA: Final = 1
ALPHA: Final = 0.025  # of each of the two one-sided tests, so that the interval has 95%
SIMILARITIES: Final = 1e-6
"""Differences up to this are none for scores from embeddings, which differ that much between machines."""
MAX_IDS: Final = 5  # questions that are named in a line


class Key(NamedTuple):
    """What makes two scores of two runs the same one."""

    nodeid: str
    spec: str
    where: str
    settings: tuple[str, ...]

    @property
    def label(self) -> str:
        """As reports name a score, without its test."""
        return " ".join([self.spec, *self.settings, *([f"where {self.where}"] if self.where else [])])


@dataclass(frozen=True, slots=True)
class Side:
    """A score in one report: its mean, and by id the value of each question, None where it is unscored.

    `statistic` is what the mean is where it is none, such as "p95".
    """

    mean: float | None
    values: Mapping[str, float | None]
    statistic: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A score of both reports; `differences` are after less before, by id, of the questions scored in both."""

    key: Key
    before: Side
    after: Side
    differences: Mapping[str, float]
    tolerance: float
    largest: float

    @property
    def gained(self) -> list[str]:
        """Questions that score higher, those that changed most first."""
        return self._changed(1)

    @property
    def lost(self) -> list[str]:
        """Questions that score lower, likewise."""
        return self._changed(-1)

    def _changed(self, sign: int) -> list[str]:
        found = [identifier for identifier, d in self.differences.items() if sign * d > self.tolerance]
        return sorted(found, key=lambda identifier: -abs(self.differences[identifier]))

    @property
    def left_out(self) -> int:
        """Questions that only one report has, or that have no score in one of them."""
        return len(self.before.values.keys() | self.after.values.keys()) - len(self.differences)


def diff_command(options: argparse.Namespace) -> int:
    """Print the differences of two reports."""
    documents = [_read(path) for path in (options.before, options.after)]
    before, after = map(_sides, documents, (options.before, options.after))
    shared = [key for key in before if key in after]
    compared = [_compared(key, before[key], after[key]) for key in shared if not before[key].statistic]
    notes = [
        *(
            f"{plain(key.label)} of {plain(key.nodeid)} is left out: times are not comparable between machines and runs"
            for key in shared
            if before[key].statistic
        ),
        *_changed_settings(*documents),
        *_missing(before.keys() - after.keys(), options.before),
        *_missing(after.keys() - before.keys(), options.after),
    ]
    if options.json:
        say(json.dumps({"scores": [_entry(each) for each in compared], "notes": notes}, indent=2))
        return 0
    for nodeid in dict.fromkeys(each.key.nodeid for each in compared):
        say(plain(nodeid))
        for line in _lines([each for each in compared if each.key.nodeid == nodeid], options):
            say(f"  {line}")
        say("")
    if not compared:
        say(f"{plain(str(options.before))} and {plain(str(options.after))} have no score in common.")
    for note in notes:
        say(f"note: {note}")
    return 0


def _read(path: Path) -> Mapping[str, Any]:
    """Return a report; InputError if the file cannot be read, or is no report that this version knows."""
    remedy = f"Write one with: pytest --rageval-report {path.with_suffix('.json').name}"
    try:
        refuse_special(path)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The report {path} cannot be read: {error.strerror or error}.\n{remedy}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"The report {path} is not UTF-8: {error.reason}.\n{remedy}") from None
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"The report {path} is not JSON: {reason}.\n{remedy}") from None
    if not isinstance(document, dict) or not isinstance(document.get("tests"), list):
        raise InputError(f"{path} is no JSON report of pytest-rageval: it has no list `tests`.\n{remedy}")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"The report {path} has schema {document.get('schema')!r}; this version reads {SCHEMA}.\n{remedy}"
        )
    return document


def _sides(document: Mapping[str, Any], path: Path) -> dict[Key, Side]:
    """The scores of a report, of equal ones in a test the first; InputError if an entry has another form."""
    found: dict[Key, Side] = {}
    for number, test in enumerate(document["tests"]):
        place = f"tests[{number}]"
        try:
            for at, score in enumerate(test["scores"]):
                place = f"tests[{number}].scores[{at}]"
                key, side = _side(test["nodeid"], score)
                found.setdefault(key, side)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            message = f"{path} is no JSON report of pytest-rageval: {place}: {what}."
            raise InputError(f"{message}\nWrite it again with: pytest --rageval-report {path.name}") from None
    return found


def _side(nodeid: object, score: Mapping[str, Any]) -> tuple[Key, Side]:
    where = ", ".join(f"{name}={value!r}" for name, value in sorted(score["where"].items()))
    settings = tuple(
        f"{word}={score[word]}" for word in ("comparator", "label", "order") if score.get(word) is not None
    )
    if not isinstance(nodeid, str) or not isinstance(score["spec"], str):
        raise TypeError("nodeid and spec must be strings")
    values = {str(example["id"]): _number(example["score"]) for example in score["examples"]}
    return Key(nodeid, score["spec"], where, settings), Side(
        _number(score["mean"]), values, score.get("statistic")
    )


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a score must be a number or null, found {value!r}")
    return float(value)


def _compared(key: Key, before: Side, after: Side) -> Difference:
    differences = {
        identifier: now - then
        for identifier, then in before.values.items()
        if then is not None and (now := after.values.get(identifier)) is not None
    }
    score = SCORES.get(key.spec.partition("@")[0])
    scale = None if score is None else score.scale
    largest = 1.0 if scale is None or not isfinite(scale[1]) else scale[1] - scale[0]
    largest = max(largest, *map(abs, differences.values()), 0.0)
    tolerance = SIMILARITIES if score is not None and score.extra == "dense" else ROUNDING
    return Difference(key, before, after, differences, tolerance, largest)


def _tested(each: Difference) -> tuple[float | None, list[float] | None, float | None]:
    """The mean difference, its 95% interval, and the p-value of the two-sided test; None without a question."""
    values = list(each.differences.values())
    if not values:
        return None, None, None
    rise, drop = (
        joint_drop_test(
            [Drops([sign * value for value in values], largest=each.largest, tolerance=each.tolerance)],
            alpha=ALPHA,
        ).scores[0]
        for sign in (1, -1)
    )
    return (
        math.fsum(values) / len(values),
        [rise.low, -drop.low],
        min(1.0, 2 * min(rise.p_value, drop.p_value)),
    )


def _lines(compared: Sequence[Difference], options: argparse.Namespace) -> Iterator[str]:
    head = ("score", "before", "after", "difference", "95% interval", "p-value", "n", "gained", "lost")
    rows = []
    for each in compared:
        difference, interval, p_value = _tested(each)
        bounds = "-" if interval is None else f"{interval[0]:+.3f} to {interval[1]:+.3f}"
        means = (_shown(each.before.mean), _shown(each.after.mean), _shown(difference, "+.3f"))
        counts = (str(len(questions)) for questions in (each.differences, each.gained, each.lost))
        rows.append((plain(each.key.label), *means, bounds, _shown(p_value, ".2g"), *counts))
    yield from table(head, rows).splitlines()
    for each in compared:
        for name, ids in (("gained", each.gained), ("lost", each.lost)):
            if ids:
                yield f"{name} in {plain(each.key.label)}: {_named(ids, everything=options.verbose)}"
        if each.left_out:
            yield (
                f"{plain(each.key.label)}: {count(each.left_out, 'question')} left out, which one of the runs lacks "
                "or could not score"
            )


def _shown(number: float | None, form: str = ".3f") -> str:
    return "-" if number is None else format(number, form)


def _named(ids: Sequence[str], *, everything: bool) -> str:
    shown = ids if everything else ids[:MAX_IDS]
    more = len(ids) - len(shown)
    return ", ".join(map(plain, shown)) + (f" and {more:,} more (-v shows them)" if more else "")


def _entry(each: Difference) -> dict[str, Any]:
    difference, interval, p_value = _tested(each)
    return {
        "nodeid": each.key.nodeid,
        "score": each.key.label,
        "before": each.before.mean,
        "after": each.after.mean,
        "difference": difference,
        "interval": interval,
        "p_value": p_value,
        "n": len(each.differences),
        "left_out": each.left_out,
        "gained": each.gained,
        "lost": each.lost,
    }


def _changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What differs besides the retriever."""
    then, now = ({**_mapping(each.get("settings")), **_evalsets(each)} for each in (before, after))
    for name in sorted(then.keys() & now.keys()):
        if then[name] != now[name]:
            yield f"{plain(name)} differs: {plain(str(then[name]))} before, {plain(str(now[name]))} after"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _evalsets(document: Mapping[str, Any]) -> dict[str, str]:
    """By test the digest of its eval set; questions are compared by id, whatever their text."""
    return {
        f"eval set of {test['nodeid']}": str(_mapping(test.get("evalset")).get("digest"))[:12]
        for test in document["tests"]
    }


def _missing(keys: Iterable[Key], path: Path) -> list[str]:
    return [f"only in {plain(str(path))}: {plain(key.label)} of {plain(key.nodeid)}" for key in sorted(keys)]
