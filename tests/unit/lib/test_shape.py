"""`check_shape`: data from files against types; `read_json`: the files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from pytest_rageval.baseline import Baseline
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.shape import check_fields, check_shape
from pytest_rageval.models.prompt_rendering import read_templates
from pytest_rageval.reports.document import Between, Count, Length, Share
from pytest_rageval.reports.reading import read_json

BOM = "\ufeff"


class Inner(TypedDict):
    n: Count
    state: NotRequired[Literal["on", "off"]]


class Outer(TypedDict, total=False):
    share: Share
    pair: Annotated[list[float], Length(2)]
    inner: list[Inner]
    names: dict[str, str | None]
    any: Any
    again: "Outer | None"


class Pair(NamedTuple):
    name: str
    value: float | None = None


@dataclass
class Thing:
    pairs: tuple[Pair, ...] = ()
    counts: Mapping[str, int] | None = None
    items: Sequence[str] = ()


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"share": 1, "pair": [0, 1.5], "later": object()},
        {"inner": [{"n": 0, "state": "on"}, {"n": 3}], "names": {"": None, "a": "b"}},
        {"again": {"again": None}, "any": [[{"deep": 1}]]},
    ],
)
def test_what_has_the_shape_is_accepted(value: dict[str, Any]) -> None:
    """Keys that a later version may have written are allowed, and an integer is a number."""
    check_shape(value, Outer)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (3, "it is 3, and must be an object"),
        ({"share": 1.5}, "share is 1.5, which is not from 0 to 1"),
        ({"share": True}, "share is True, and must be a finite number"),
        ({"share": float("nan")}, "share is nan, and must be a finite number"),
        ({"share": 10**400}, "share is 1000"),
        ({"pair": [1]}, "pair is [1], which has 1 items, and must have 2"),
        ({"inner": [{"n": 1}, {}]}, "inner[1] has no 'n'"),
        ({"inner": [{"n": 1.0}]}, "inner[0].n is 1.0, and must be a whole number"),
        ({"inner": [{"n": -1}]}, "inner[0].n is -1, which is below 0"),
        ({"inner": [{"n": 1, "state": []}]}, "inner[0].state is [], and must be 'on' or 'off'"),
        ({"inner": {"n": 1}}, "inner is {'n': 1}, and must be a list"),
        ({"names": {"a": 1}}, "names['a'] is 1, and must be a text, or null"),
        ({"again": {"again": {"share": "x"}}}, "again.again.share is 'x', and must be a finite number"),
        ({"any": _nested(70)}, "any nests more than 64 levels deep"),
    ],
)
def test_what_has_another_shape_is_named_with_its_place(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        check_shape(value, Outer)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"pairs": [Pair("a")]}, "Thing.pairs is [Pair(name='a', value=None)], and must be a list"),
        ({"pairs": (("a", 1),)}, "Thing.pairs[0] is ('a', 1), and must be of the type Pair"),
        ({"counts": {1: 1}}, "Thing.counts key 1 is 1, and must be a text"),
        ({"items": "text"}, "Thing.items is 'text', and must be a list"),
        ({"other": 1}, "Thing has no field 'other'"),
    ],
)
def test_fields_have_their_types(values: dict[str, Any], problem: str) -> None:
    """The fields of a restored object are checked as they are declared: a tuple is no list."""
    with pytest.raises(ValueError, match=r".") as caught:
        check_fields(Thing, values)
    assert str(caught.value) == problem
    check_fields(Thing, {"pairs": (Pair("a", 1),), "counts": {"a": 1}, "items": ["x"]})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "is not JSON: "),
        (b"[NaN]", "is not JSON: NaN is not a number"),
        (b"[-Infinity]", "is not JSON: -Infinity is not a number"),
        (b"[1e999]", "is not JSON: 1e999 is too large a number"),
        (b"[" + b"1" * 5000 + b"]", "is too large a number"),
        (b"[" * 100_000, "is not JSON: it is nested too deeply"),
        ("{}".encode("utf-16"), "is not UTF-8: "),
        (None, "cannot be read: No such file"),
    ],
)
def test_what_is_no_json_is_an_error(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json(path, "report", "Write it again.")
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"The report {path} ")
    assert str(caught.value).endswith("\nWrite it again.")


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(f'{BOM}{{"schema": 1, "tests": {{}}}}', encoding="utf-8")
    assert read_json(path, "report", "") == {"schema": 1, "tests": {}}
    assert Baseline.read(path).path == path
    path.write_text(f"{BOM}# no prompts\n", encoding="utf-8")
    assert read_templates(path) == {}


def test_between_is_open_above() -> None:
    assert not Between(1).problem(1e9)
