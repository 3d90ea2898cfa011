"""`negatives` and `gold[].max_rank`: cases by hand, their errors, and a tenant leak in a run."""

import json
import re
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.evalsets import load
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.evalsets.records import check_evalset, example_from
from tests.foreign_plugins import WITHOUT
from tests.unit.scores.conftest import World

OLD = (
    "Tablets can be returned within fourteen days, with the label from your account and in the original box."
)
NEW = OLD.replace("fourteen", "thirty")
OURS = {"metadata": {"tenant": {"not": "{tenant}"}}}
EXPIRED = {"metadata": {"valid_to": {"before": "{today}"}}}


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    return World(loop)


def _of(name: str, text: str = "text", **metadata: object) -> Document:
    return Document(text, name, metadata=metadata)


def _found(world: World, *documents: Any) -> None:
    world.rankings["q"] = list(documents)
    world.run = world.make_pipeline()


def _example(*negatives: object, gold: object = ({"id": "g"},), **fields: object) -> Example:
    record = {"id": "q", "question": "q", "gold": list(gold), **fields}
    return example_from(
        record | ({"negatives": list(negatives)} if negatives else {}), place="e.jsonl line 1"
    )


ACME = {"metadata": {"tenant": "acme", "today": "2026-06-30"}}
RENEWED = _example({"text": OLD}, gold=({"text": NEW},))
SPAN = {"source": "b.md", "start": 0, "end": 9}
BY_SPAN = _example({"source": "a.md", "start": 10, "end": 80}, gold=(SPAN,))
TAGGED, DATED = _example(OURS, tags={"tenant": "7"}), _example(EXPIRED, **ACME)
BOTH = _example({"metadata": {"a": True, "b": {"after": 2}}})
STATES = _example({"metadata": {"state": ["draft", "deleted"]}})
CASES = {
    # The documents; the example; values of negatives.hit, negatives.above_gold and leak (None: no value).
    "by id": (["n", "g"], _example({"id": "n"}), 1, 1, None),
    "below the gold": (["g", "n"], _example({"id": "n"}), 1, 0, None),
    "no gold found": (["x", "n"], _example({"id": "n"}), 1, 1, None),
    "not retrieved": (["x", "g"], _example({"id": "n"}), 0, 0, None),
    "beyond k": (["g", "x", "y", "n"], _example({"id": "n"}), 0, 0, None),
    "nothing retrieved": ([], _example({"id": "n"}, OURS, **ACME), 0, 0, 0),
    "one of two": (["g", "n"], _example({"id": "m"}, {"id": "n"}), 1, 0, None),
    "another type of id": (["7"], _example({"id": 7}), 1, 1, None),
    "no gold at all": (["n"], _example({"id": "n"}, gold=()), 1, None, None),
    "no negatives": (["g"], _example(), None, None, None),
    "the old text": ([Document(OLD)], RENEWED, 1, 1, None),
    "the new text": ([Document(NEW)], RENEWED, 0, 0, None),
    "the old text in a long chunk": ([Document(f"A. {OLD} B.")], RENEWED, 1, 1, None),
    "by span": ([Document("…", span=Span("a.md", 0, 90))], BY_SPAN, 1, 1, None),
    "another tenant": ([_of("g", tenant="acme"), _of("x", tenant="globex")], _example(OURS, **ACME), 1, 0, 1),
    "the same tenant": ([_of("g", tenant="acme"), _of("x", tenant="acme")], _example(OURS, **ACME), 0, 0, 0),
    "one of its tenants": ([_of("g", tenant=["globex", "acme"])], _example(OURS, **ACME), 0, 0, 0),
    "a tenant of the tags, of another type": ([_of("g", tenant=7)], TAGGED, 0, 0, 0),
    "expired": ([_of("x", valid_to="2026-06-29T23:59:00Z"), _of("g", valid_to=None)], DATED, 1, 1, 1),
    "not yet expired": ([_of("g", valid_to="2026-06-30")], DATED, 0, 0, 0),
    "both conditions": (
        [_of("x", a=True, b=1), _of("y", a=False, b=9), _of("g", a=True, b=3)],
        BOTH,
        1,
        1,
        1,
    ),
    "one of several values": ([_of("g", state="draft")], STATES, 1, 1, 1),
    "a nested field": ([_of("g", acl={"group": "hr"})], _example({"metadata": {"acl.group": "hr"}}), 1, 1, 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases_by_hand(world: World, case: tuple[list[Any], Example, float, float, float]) -> None:
    documents, example, *values = case
    _found(world, *(_of(each) if isinstance(each, str) else each for each in documents))
    for name, value in zip(("negatives.hit", "negatives.above_gold", "leak"), values, strict=True):
        [outcome] = world.evaluate(f"{name}@3", example)
        assert outcome.value == value, (name, outcome)
        assert (outcome.undefined is None) == (value is not None)
        assert bool(outcome.evidence.remark) == bool(value)


def test_the_remark_says_what_is_where(world: World) -> None:
    _found(world, _of("g", tenant="acme"), _of("n", tenant="globex"))
    example = _example(OURS, {"id": "n", "why": "of 2019"}, **ACME)
    [outcome] = world.evaluate("negatives.hit@3", example)
    assert outcome.evidence.remark == "n at rank 2: of 2019; n at rank 2: tenant is 'globex'"


def test_a_document_that_cannot_be_judged_is_no_pass(world: World) -> None:
    _found(world, _of("g", tenant="acme"), _of("n"))
    [outcome] = world.evaluate("leak@3", _example(OURS, **ACME))
    assert (outcome.value, outcome.cause) == (None, "retriever")
    assert outcome.unscored == "a retrieved document has no tenant in its metadata, which a rule reads"
    _found(world, _of("g", valid_to="soon"))
    [outcome] = world.evaluate("leak@3", _example(EXPIRED, **ACME))
    assert (outcome.value, outcome.cause) == (None, "retriever")
    assert outcome.unscored.startswith("the valid_to 'soon' of a retrieved document is not comparable with")


def test_a_leak_is_one_whatever_cannot_be_judged(world: World) -> None:
    other, unlabelled, gold = _of("n", tenant="globex"), _of("m"), _of("g", tenant="acme")
    example = _example(OURS, {"source": "a.md", "start": 0, "end": 3}, **ACME)
    for documents in ([unlabelled, other, gold], [other, unlabelled, gold]):
        _found(world, *documents)
        values = [world.evaluate(f"{name}@3", example)[0].value for name in ("leak", "negatives.above_gold")]
        assert values == [1, 1]
    _found(world, unlabelled, gold, other)
    [outcome] = world.evaluate("negatives.above_gold@3", example)
    assert (outcome.value, outcome.cause) == (None, "retriever")


def test_a_rule_that_can_find_nothing_is_an_error(world: World) -> None:
    _found(world, _of("g", valid_until="2020-01-01"))
    with pytest.raises(InputError, match="no retrieved document has valid_to in its metadata"):
        world.evaluate("leak@3", _example(EXPIRED))
    _found(world, _of("g", valid_to=None))
    assert world.evaluate("leak@3", _example(EXPIRED))[0].value == 0


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (_example(OURS), "reads {tenant}, which the example's metadata, filters and tags lack"),
        (_example({"id": "g"}), "example q: g is among its gold and its negatives"),
    ],
)
def test_contradictions_of_a_record(world: World, example: Example, message: str) -> None:
    _found(world, _of("g", tenant="acme"))
    with pytest.raises(InputError, match=re.escape(message)):
        world.evaluate("negatives.hit@3", example)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"negatives": "n"}, "\"negatives\" is the text 'n', expected a list"),
        ({"negatives": ["n"]}, "\"negatives\"[0] is the text 'n', expected an object"),
        ({"negatives": [{}]}, '"negatives"[0] is neither a passage nor a rule'),
        ({"negatives": [{"id": "n", "metadata": {"a": 1}}]}, '"negatives"[0] is both a passage and a rule'),
        ({"negatives": [{"id": "n", "grade": 0}]}, '"negatives"[0] has unknown keys: grade'),
        ({"negatives": [{"source": "a.md"}]}, '"negatives"[0] has an incomplete or empty span'),
        ({"negatives": [{"metadata": {"a": {"nto": 1}}}]}, 'the rule on a has the operator "nto"'),
        *(
            ({"negatives": [{"metadata": {"a": none}}]}, "the rule on a has no value to compare with")
            for none in (None, [], ["b", None], {"not": None}, {"not": []})
        ),
        ({"negatives": [{"metadata": {"a": {}}}]}, "the rule on a has no condition"),
        ({"negatives": [{"metadata": {"a": {"before": "soon"}}}]}, "the rule on a has before 'soon'"),
        ({"negativs": []}, '"negativs" is no field, and resembles "negatives"'),
        ({"gold": [{"id": "g", "max_rank": 0}]}, '"gold"[0] "max_rank" is 0'),
        ({"gold": [{"id": "g", "max_rank": "two"}]}, '"gold"[0] "max_rank" is the text \'two\''),
        ({"gold": [{"id": "g", "maxrank": 2}]}, '"gold"[0] has unknown keys: maxrank'),
    ],
)
def test_a_mistake_in_a_record_is_an_error(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"e.jsonl line 1: {message}")):
        example_from({"id": "q", "question": "q", **fields}, place="e.jsonl line 1")


def test_the_fields_survive_a_file(tmp_path: Any) -> None:
    """They are part of the question's digest, and an `EvalSet` of the user's code is checked as a file is."""
    example = _example({"id": "n"}, gold=({"id": "g", "max_rank": 2},))
    path = tmp_path / "e.jsonl"
    write_jsonl(EvalSet("e", (example,)), path)
    [read] = load(path)
    assert read == example
    assert read.gold[0] == Gold("g", added={"max_rank": 2})
    assert len({each.digest for each in (example, _example(), _example({"id": "m"}))}) == 3
    assert check_evalset(EvalSet("own", (read,))).examples == (read,)
    [given] = load(path, negatives=[OURS])
    assert given.added == {"negatives": [{"id": "n"}, OURS]}


@pytest.mark.parametrize(
    ("ranks", "found", "value", "remark"),
    [
        ({"a": 1}, "ab", 1, ""),
        ({"a": 1}, "ba", 0, "a must be among the first 1, and is at rank 2"),
        ({"a": 2, "b": 2}, "ba", 1, ""),
        ({"a": 2, "b": 1}, "ca", 0, "b must be among the first 1, and is not among the first 3"),
        ({"a": None, "b": 2}, "cb", 1, ""),
        ({"a": None}, "a", None, ""),
    ],
)
def test_a_contract_is_kept_or_broken(world, ranks, found, value, remark):
    _found(world, *map(_of, found))
    example = _example(gold=[{"id": name, "max_rank": rank} for name, rank in ranks.items()])
    [outcome] = world.evaluate("contract@3", example)
    assert (outcome.value, outcome.evidence.remark) == (value, remark)
    assert (outcome.undefined is None) == (value is not None)


def test_a_contract_needs_a_cutoff_that_shows_it(world: World) -> None:
    with pytest.raises(InputError, match=r"a has max_rank 5, and only 3 documents count.\nWrite contract@5"):
        world.evaluate("contract@3", _example(gold=[{"id": "a", "max_rank": 5}]))


CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        other = "globex" if "leak" in query else "acme"
        return [
            {"id": "g", "text": "ours", "metadata": {"tenant": "acme"}},
            {"id": "n", "text": "theirs", "metadata": {"tenant": other}},
        ][:k]
    return search
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset(
    "e.jsonl", negatives=[{"metadata": {"tenant": {"not": "{tenant}"}}, "why": "of another tenant"}]
)
@pytest.mark.rageval_threshold("recall@5", min=0.9)
@pytest.mark.rageval_threshold("leak@5", max=0)
def test_it():
    pass
"""


@pytest.mark.slow
def test_one_leak_of_a_hundred_is_red(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)

    def write(*questions: str) -> None:
        record = {"gold": [{"id": "g"}], "metadata": {"tenant": "acme"}}
        lines = [json.dumps({"id": f"q{n}", "question": text, **record}) for n, text in enumerate(questions)]
        pytester.path.joinpath("e.jsonl").write_text("\n".join(lines))

    write(*(f"fine {n}" for n in range(100)))
    assert pytester.runpytest_inprocess(*WITHOUT).ret == 0
    write(*(f"fine {n}" for n in range(99)), "a leak")
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == 1
    lines = ["leak@5: 0.010 is above the maximum 0*", "*q99*", "*n at rank 2: of another tenant*"]
    result.stdout.fnmatch_lines(lines)
    pytester.makepyfile(TEST.replace("negatives=", "negative="))
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*negative*"])
