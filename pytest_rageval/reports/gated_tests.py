"""The gated tests of a run, which are those that the baseline lists: were they compared with it, and if not, why?"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.baseline import UPDATE_COMMAND
from pytest_rageval.baseline.entries import BaselineEntry
from pytest_rageval.baseline.update import ScoreChange
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.document import MissingTestEntry

DESELECTED: Final = "deselected, or the run ended before it"
NOT_COLLECTED: Final = "not collected: it was removed, renamed or left out"

MAX_CHANGES: Final = 12  # maximum number of changes of the baseline that are listed

REMEDY: Final = (
    "Run them. If one is meant to be missing, name it with --rageval allow_missing=NODEID, or in rageval_allow_missing "
    f"of the ini file. {UPDATE_COMMAND} removes what no longer exists from the baseline."
)


TESTMON_REMEDY: Final = (
    "pytest-testmon left them out: it sees changes of Python code, and not of data, an index or a model. Run the tests "
    "with thresholds without it: pytest --no-testmon"
)


@dataclass(frozen=True, slots=True)
class RanTests:
    compared: Mapping[str, Collection[str]]  # by test, the scores that were compared with the baseline
    prevented: Mapping[str, str]  # by test, module or folder: why it was not compared; empty if it failed
    collected: Collection[str]
    claims: Collection[str]  # the places that the run was to run in full; "" is the root directory


def gate_entry(
    tests: Mapping[str, BaselineEntry], ran: RanTests, *, required: bool, allowed: Collection[str]
) -> dict[str, object]:
    """Return the key `gate` of the report.

    A gated test is missing if the run selected it, or was to run all tests of a place where it is, and did not compare
    all of its scores. The other tests that were not compared are only counted, as `not_run`. Unless `required`, also
    the missing tests of a part of the tests are only counted. `allowed` has places whose tests may be missing.
    """
    places = [place.removeprefix("./").rstrip("/") for place in allowed]
    missing: list[MissingTestEntry] = []
    not_run = 0
    for nodeid in sorted(tests):
        if not (reason := _why_missing(nodeid, tests[nodeid]["scores"].keys(), ran)):
            continue
        selected = nodeid in ran.prevented or nodeid in ran.compared
        if (required and selected) or any(_is_under(nodeid, claim) for claim in ran.claims):
            is_allowed = any(_is_under(nodeid, place) for place in places)
            missing.append({"nodeid": nodeid, "reason": reason, "allowed": is_allowed})
        else:
            not_run += 1
    idle = [place for place in places if not any(_is_under(nodeid, place) for nodeid in tests)]
    return {
        "tests": len(tests),
        "required": required,
        "missing": missing,
        "not_run": not_run,
        **({"allowed_in_vain": idle} if idle and "" in ran.claims else {}),
    }


def failing_gates(gate: Mapping[str, Any]) -> int:
    return len(_missing(gate)) if gate.get("required") else 0


def missing_text(gate: Mapping[str, Any]) -> str:
    """Return how many gated tests are missing, such as "2 of 7 gated tests missing"; empty if none is."""
    missing = len(_missing(gate))
    return f"{missing} of {counted(gate['tests'], 'gated test')} missing" if missing else ""


def missing_lines(gate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the missing tests with their reasons, one line each, between a heading and the remedy."""
    if not (missing := _missing(gate)):
        return
    forbidden = ", which --rageval require_baseline=true forbids (the default under CI=true)"
    were = "was" if len(missing) == 1 else "were"
    yield (
        f"{len(missing)} of {counted(gate['tests'], 'gated test')} {were} not compared with the baseline"
        f"{forbidden if gate['required'] else ''}:"
    )
    yield from (f"  {test['nodeid']}: {test['reason']}" for test in missing)
    yield TESTMON_REMEDY if gate.get("left_out_by") else REMEDY


def remark_lines(gate: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is no error: which baseline it is, the tests that may be missing, and how many were not to run."""
    if ref := gate.get("ref"):
        yield f"compared with the baseline of {ref} (--rageval baseline_ref={ref})"
    if allowed := [test for test in gate.get("missing", ()) if test["allowed"]]:
        names = ", ".join(f"{test['nodeid']} ({test['reason']})" for test in allowed)
        are = "is" if len(allowed) == 1 else "are"
        yield f"{counted(len(allowed), 'gated test')} {are} missing, as rageval_allow_missing allows: {names}"
    if places := gate.get("allowed_in_vain"):
        yield f"rageval_allow_missing has no effect for {', '.join(places)}: the baseline has no such test"
    if count := gate.get("not_run"):
        yield f"{count} of {counted(gate['tests'], 'gated test')} {'was' if count == 1 else 'were'} not run"


def change_lines(gate: Mapping[str, Any]) -> Iterator[str]:
    change = gate.get("change")
    if not change:
        return
    if "unknown" in change:
        yield f"whether this branch changed the baseline is not known: {change['unknown']}"
        return
    place = f"{change['ref']} at {change['commit'][:7]}"
    if change.get("is_new"):
        yield f"the merge base has no such baseline ({place}): its scores are those of this branch"
        return
    yield f"the baseline differs from the merge base's ({place}):"
    scores = (ScoreChange(*(entry[name] for name in ScoreChange._fields)) for entry in change["scores"])
    lines = [*map(str, scores), *change["others"]]
    yield from (f"  {line}" for line in lines[:MAX_CHANGES])
    if len(lines) > MAX_CHANGES:
        yield f"  and {counted(len(lines) - MAX_CHANGES, 'change')} more, which the JSON report has"


def _missing(gate: Mapping[str, Any]) -> list[MissingTestEntry]:
    return [test for test in gate.get("missing", ()) if not test["allowed"]]


def _why_missing(nodeid: str, scores: Collection[str], ran: RanTests) -> str:
    """Return why not all of these scores of a test were compared; empty if they were, or if the test failed."""
    if nodeid not in ran.prevented and nodeid in ran.compared:
        others = sorted({*scores} - {*ran.compared[nodeid]})
        return f"no threshold compared {', '.join(others)}" if others else ""
    for place in (nodeid, *_collectors(nodeid)):
        if place in ran.prevented:
            return ran.prevented[place]
    return DESELECTED if nodeid in ran.collected else NOT_COLLECTED


def _collectors(nodeid: str) -> Iterator[str]:
    """Yield the node ids of the classes, the module and the folders of a test, the innermost first.

    >>> list(_collectors("a/test_b.py::TestC::test_d[e/f::g]"))
    ['a/test_b.py::TestC', 'a/test_b.py', 'a']
    """
    place = nodeid.partition("[")[0]
    for separator in ("::", "/"):
        while separator in place:
            place = place.rpartition(separator)[0]
            yield place


def _is_under(nodeid: str, place: str) -> bool:
    """Return True if a test is this test, or one of its variants, or in this class, module or folder.

    >>> [_is_under("a/test_b.py::test_c[d]", place) for place in ("", ".", "a", "a/test_b.py::test_c", "a/test", "c")]
    [True, True, True, True, False, False]
    """
    return place in {"", ".", nodeid} or nodeid.startswith((f"{place}/", f"{place}::", f"{place}["))
