"""Examples and eval sets: their digests, what is relevant and wanted."""

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.core.evalset import EvalSet, Example, Gold, Nugget
from pytest_rageval.core.ranking import Document

A, B = Document("alpha", "a"), Document("beta", "b")


def test_passages_of_grade_0_are_not_relevant() -> None:
    gold = (Gold("a", grade=0), Gold("b"), Gold("c", grade=2))
    assert Example("1", "q", gold=gold).relevant == gold[1:]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, ()),
        ({"reference": "It is Reno, which …"}, ()),
        ({"answers": ("Reno", "Reno, NV")}, (("Reno", "Reno, NV"),)),
        ({"answers": ("Reno",), "answer_set": (("a",), ("b", "B"))}, (("a",), ("b", "B"))),
    ],
)
def test_short_answers_are_wanted_each_as_its_aliases(fields: dict[str, Any], wanted: object) -> None:
    assert Example("1", "q", **fields).wanted == wanted


def _set(**fields: Any) -> EvalSet:
    return EvalSet("s.jsonl", (Example(**({"id": "1", "question": "q"} | fields)),))


def test_the_digest_does_not_depend_on_the_order_of_keys_or_the_name() -> None:
    first = _set(tags={"a": 1, "b": 2}, extra={"x": {"p": 1, "q": 2}})
    second = _set(tags={"b": 2, "a": 1}, extra={"x": {"q": 2, "p": 1}})
    assert first.digest == second.digest
    assert first.digest == EvalSet("other.jsonl", first.examples).digest


@pytest.mark.parametrize(
    "change",
    [
        {"id": "2"},
        {"question": "Q"},
        {"answers": ("a",)},
        {"answer_set": (("a",),)},
        {"gold": (Gold("d"),)},
        {"gold": (Gold("d", grade=2),)},
        {"nuggets": (Nugget("a"),)},
        {"nuggets": (Nugget("a", vital=False),)},
        {"gold": (Gold(source="d", start=0, end=2),)},
        {"reference": "r"},
        {"tags": {"a": 1}},
        {"extra": {"a": 1}},
    ],
)
def test_the_digest_depends_on_every_field(change: dict[str, Any]) -> None:
    assert _set(**change).digest != _set().digest


def test_without_nuggets_digests_are_those_of_earlier_versions() -> None:
    example = Example("1", "q", ("a",), gold=(Gold("d"),), reference="r")
    assert example.digest == "5a122d65d46a"
    assert EvalSet("s", (example,)).digest.startswith("0aecb26279e36305")
    digests = {replace(example, nuggets=(Nugget("n", vital),)).digest for vital in (True, False)}
    assert len({example.digest, *digests}) == 3


def test_the_digest_depends_on_the_order_of_examples() -> None:
    one, two = Example("1", "q"), Example("2", "q")
    assert EvalSet("s", (one, two)).digest != EvalSet("s", (two, one)).digest


def test_an_eval_set_is_its_examples() -> None:
    examples = (Example("1", "q"), Example("2", "q"))
    evalset = EvalSet("s", examples)
    assert (len(evalset), tuple(evalset)) == (2, examples)


def test_a_value_of_one_example_is_not_one_of_all() -> None:
    """Examples share the mapping of what they do not have, and it cannot be filled."""
    one, other = Example("1", "Why?"), Example("2", "Why?")
    for fill in (lambda: one.metadata.update(a=1), lambda: one.tags.setdefault("a", 1)):
        with pytest.raises(TypeError, match="change a copy"):
            fill()
    with pytest.raises(TypeError, match="change a copy"):
        one.metadata["a"] = 1
    assert (other.metadata, dict(other.tags)) == ({}, {})
    assert json.dumps(one.metadata) == "{}"
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - of this test
    assert copy.deepcopy(one) == one
