"""Written data is read back unchanged."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_rageval.core.evalset import RETRIEVER_CONTEXT, EvalSet, Example, Gold
from pytest_rageval.core.spec import Spec
from pytest_rageval.evalsets import load
from pytest_rageval.lib.foreign_values import as_identifier
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.messages import Reply, replace_surrogates
from pytest_rageval.models.stores.interface import Entry

UNICODE = st.text()
WITH_SURROGATES = st.text(st.characters())
WORDS = UNICODE.filter(str.strip)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | UNICODE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(UNICODE, inner, max_size=3),
    max_leaves=8,
)
SPANS = st.tuples(WORDS, st.integers(0, 99), st.integers(100, 999))
# White space around an id does not count, and a word such as "nan" is a missing id.
IDS = WORDS.filter(lambda text: as_identifier(text) == text)
GOLD = st.builds(
    lambda name, text, span, grade, group: Gold(name, text, *(span or (None, None, None)), grade, group),
    st.none() | IDS,
    st.none() | WORDS,
    st.none() | SPANS,
    st.integers(0, 3),
    st.none() | IDS,
).filter(lambda gold: gold.id is not None or gold.text is not None or gold.source is not None)
KNOWN = {"id", "question", "answers", "answer_set", "gold", "reference", "tags", *RETRIEVER_CONTEXT}
OBJECTS = st.dictionaries(UNICODE, JSON, max_size=2)
MESSAGES = st.builds(lambda role, content: {"role": role, "content": content}, UNICODE, UNICODE)
EXAMPLES = st.builds(
    Example,
    id=IDS,
    question=WORDS,
    answers=st.lists(WORDS, max_size=3).map(tuple),
    answer_set=st.lists(st.lists(WORDS, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    gold=st.lists(GOLD, max_size=1).map(tuple),
    reference=st.none() | WORDS,
    tags=OBJECTS,
    history=st.lists(MESSAGES, max_size=2).map(tuple),
    filters=OBJECTS,
    metadata=OBJECTS,
    extra=st.dictionaries(UNICODE.filter(lambda key: key not in KNOWN), JSON, max_size=2),
)


def _record(example: Example) -> dict[str, Any]:
    gold = [
        {name: getattr(g, name) for name in g.__dataclass_fields__ if name != "added"} for g in example.gold
    ]
    fields = {name: getattr(example, name) for name in KNOWN}
    given = {name: value for name, value in fields.items() if value or name not in RETRIEVER_CONTEXT}
    return {**example.extra, **given, "gold": gold}


@pytest.mark.slow
@given(
    examples=st.lists(EXAMPLES, min_size=1, max_size=4, unique_by=lambda example: example.id),
    ascii_only=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_an_eval_set_is_read_as_it_was_written(
    examples: list[Example], end: str, *, ascii_only: bool
) -> None:
    """An eval set is read back unchanged, however its JSON is escaped and its lines end."""
    text = "".join(json.dumps(_record(example), ensure_ascii=ascii_only) + end for example in examples)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_bytes(text.encode())
        loaded = load(path, format="native")
    written = EvalSet("s.jsonl", tuple(examples))
    assert loaded == written
    assert loaded.digest == written.digest


@pytest.mark.slow
@given(line=UNICODE | JSON.map(json.dumps) | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_a_line_that_is_no_example_is_an_error_with_its_place(line: str) -> None:
    from pytest_rageval.core.errors import InputError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_bytes(line.encode())
        with pytest.raises(InputError, match=r"^(s\.jsonl|The eval set .*s\.jsonl)"):
            load(path, format="native")


@given(text=WITH_SURROGATES)
@example(text="\ud83d")
def test_a_cassette_gives_back_every_text_or_its_well_formed_form(text: str) -> None:
    """A cassette replaces a lone surrogate by U+FFFD, as the reply that was used did."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.jsonl"
        write_cassette(path, [Entry("k", Reply(text))])
        assert read_cassette(path)["k"].reply == Reply(replace_surrogates(text))


@given(
    name=st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True),
    part=st.none() | st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]*", fullmatch=True),
    k=st.none() | st.integers(1, 10**6),
)
def test_a_score_name_is_read_as_it_is_written(name: str, part: str | None, k: int | None) -> None:
    spec = Spec(name, part, k)
    assert Spec.parse(str(spec)) == spec
