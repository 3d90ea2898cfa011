"""History, filters and metadata of examples: how records store them, and how they change digests and questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.evalsets import load, load_records
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.evalsets.records import from_records

HISTORY = [{"role": "user", "content": "Do you ship?"}, {"role": "assistant", "content": "Yes."}]
RECORD = {
    "id": "q1",
    "question": "And in winter?",
    "answers": ["yes"],
    "gold": [{"id": "d", "grade": 2}],
    "tags": {"a": 1},
    "metadata": {"source": "chat", "n": [1, 2]},
    "history": HISTORY,
    "filters": {"tenant": "a"},
    "other": 1,
}
OTHER_FORMS = {"id": "q1", "question": "q", "metadata": "text", "history": ["hi"], "filters": None}


def _example(record: dict[str, Any]) -> Example:
    evalset = load_records([record])
    return evalset.examples[0]


def test_context_is_read_by_name() -> None:
    example = _example(RECORD)
    assert example.history == tuple(HISTORY)
    assert example.filters == {"tenant": "a"}
    assert example.metadata == {"source": "chat", "n": [1, 2]}
    assert example.extra == {"other": 1}


def test_other_data_under_these_names_is_preserved() -> None:
    """If these keys hold other data, as in older eval sets, the data is kept in `extra` and not interpreted."""
    example = _example({**OTHER_FORMS, "filters": {}})
    assert (example.history, example.filters, example.metadata) == ((), {}, {})
    assert example.extra == {"metadata": "text", "history": ["hi"], "filters": {}}


@pytest.mark.parametrize(
    ("record", "of_set", "of_question"),
    [
        (RECORD, "49f8defdd16d1b3a22546c0cba7c83d60362b877b124846adcbbcc6fbd29eee4", "0ecc75b90cf6"),
        (OTHER_FORMS, "259612bc4973c9ea20eb57b920ca6717515ffe680de1fe7912df867aa8f8aee6", "4496465984aa"),
    ],
)
def test_digests_are_those_of_versions_without_context(record, of_set, of_question):
    """Digests do not depend on the context, so baselines and reports of older eval sets stay valid."""
    evalset = from_records([("record 1", record)], name="records")
    assert evalset.digest == of_set
    assert evalset.examples[0].digest == of_question


def test_each_part_of_the_context_changes_the_digest_that_counts_it() -> None:
    example = _example(RECORD)
    digests = {example.digest_with_context({name}) for name in ("history", "filters", "metadata")}
    assert len(digests | {example.digest}) == 4
    bare = _example({"id": "q1", "question": "q"})
    assert bare.digest_with_context({"history", "filters", "metadata"}) == bare.digest


def test_context_survives_writing(tmp_path: Path) -> None:
    evalset = load_records([RECORD, {**OTHER_FORMS, "id": "q2"}])
    assert evalset is not None
    write_jsonl(evalset, tmp_path / "set.jsonl")
    assert load(tmp_path / "set.jsonl").examples == evalset.examples


def test_columns_of_a_table_are_filters(tmp_path: Path) -> None:
    """Columns `filters.NAME` of a table are filters, except empty cells; a history is JSON in a cell."""
    table = tmp_path / "set.csv"
    table.write_text(
        'id,question,filters.tenant,filters.lang,history,metadata\nq1,And?,a,en,"[{""role"": ""user"", '
        '""content"": ""Hi""}]",note\nq2,Why?,b,,[draft],\n',
        encoding="utf-8",
    )
    first, second = load(table)
    assert first.filters == {"tenant": "a", "lang": "en"}
    assert first.history == ({"role": "user", "content": "Hi"},)
    assert first.extra == {"metadata": "note"}
    assert second.filters == {"tenant": "b"}
    assert second.extra == {"history": "[draft]"}


def test_a_field_map_names_context(tmp_path: Path) -> None:
    row = {"id": "q1", "question": "And?", "chat": HISTORY, "shop": {"id": 7}}
    fields = {"history": "chat", "filters.shop": "shop.id"}
    (tmp_path / "set.jsonl").write_text(json.dumps(row), encoding="utf-8")
    [example] = load(tmp_path / "set.jsonl", fields=fields)
    assert (example.history, example.filters) == (tuple(HISTORY), {"shop": 7})


def test_a_question_in_a_conversation_is_another_question() -> None:
    question = _example(RECORD).full_question
    assert str(question) == "And in winter?"
    assert question != "And in winter?"
    assert len({question, _example(RECORD).full_question, "And in winter?", str(question)}) == 2
    assert _example({"id": "q1", "question": "q"}).full_question == "q"
