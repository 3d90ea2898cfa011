"""The rows of the HTML report: the questions of an eval set with all their scores."""

from typing import Any
from weakref import finalize

import pytest

from pytest_rageval.lib.spool import Spool, SpooledList
from pytest_rageval.reports.html.question_rows import QuestionTable, documents_of


def _entry(examples: list[dict[str, Any]], spec: str = "recall@3", **keys: Any) -> dict[str, Any]:
    return {"spec": spec, "where": {}, "examples": examples, **keys}


def _test(nodeid: str, *scores: dict[str, Any], documents: str = "abc") -> dict[str, Any]:
    ids = dict.fromkeys(example["id"] for score in scores for example in score["examples"])
    retrieved = [{"document": name, "text": name} for name in documents]
    questions = [
        {"id": id_, "question": "Why?", "tags": {"topic": id_[0]}, "retrieved": retrieved} for id_ in ids
    ]
    return {"nodeid": nodeid, "evalset": {"name": "s.jsonl"}, "questions": questions, "scores": scores}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("is_one_test", [True, False])
def test_of_two_thresholds_on_a_score_either_may_compare(first: int, *, is_one_test: bool) -> None:
    example = {"id": "q1", "score": 0.0, "unscored": None}
    bounded = _entry([example])
    compared = _entry(
        [{**example, "before": 1.0, "before_retrieved": ["kb-1"]}], baseline={"worse": ["q1"], "better": []}
    )
    scores = [compared, bounded] if first else [bounded, compared]
    tests = (
        [_test("test_a", *scores)]
        if is_one_test
        else [_test(f"test_{n}", each) for n, each in enumerate(scores)]
    )
    [table] = QuestionTable.of_tests(tests)
    [row] = table.rows
    assert [(cell.text, cell.state) for cell in row.cells.values()] == [("1 → 0", "lost")]
    assert [details.before for details in row.read(table.columns)] == [[("kb-1", False)]]
    assert [column.name for column in table.columns] == ["recall@3"]


def test_tests_of_an_eval_set_share_the_row_of_a_question() -> None:
    """Rankings of which one is the beginning of the other are one; other rankings and scores are apart."""
    good, bad = {"id": "q1", "score": 1.0}, {"id": "q1", "score": 0.0}
    tests = [
        _test("t.py::test_one", _entry([good]), documents="ab"),
        _test("t.py::test_two", _entry([good], "hit@3"), documents="abc"),
        _test("t.py::test_two[bm25]", _entry([bad]), documents="xyz"),
    ]
    [table] = QuestionTable.of_tests(tests)
    [row] = table.rows
    assert [column.name for column in table.columns] == ["recall@3 test_one", "hit@3", "recall@3 bm25"]
    assert [cell.text for cell in row.cells.values()] == ["1", "1", "0"]
    assert [documents_of(each.entry) for each in row.read(table.columns)] == [
        [*"abc"],
        [*"xyz"],
    ]
    assert [len(each.tests) for each in row.variants] == [2, 1]


def test_questions_are_grouped_by_topic_and_sorted_by_loss() -> None:
    """The group with the most losses is first, and in it the question that lost most over all scores."""
    pairs = {"a1": (1, 1), "b1": (0.5, 0), "b2": (1, 0), "b3": (0, 1), "a2": (1, 0), "a3": (1, 1)}
    examples = [{"id": id_, "score": now, "before": then} for id_, (then, now) in pairs.items()]
    baseline = {"worse": ["b1", "b2", "a2"], "better": ["b3"]}
    [table] = QuestionTable.of_tests([_test("test_a", _entry(examples, baseline=baseline))])
    assert table.tag == "topic"
    assert [(name, [row.id for row in rows]) for name, rows in table.groups] == [
        ("b", ["b2", "b1", "b3"]),
        ("a", ["a2", "a1", "a3"]),
    ]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([{"kind": "x", "topic": "y"}, {"kind": "z", "topic": "z"}] * 2, "topic"),
        ([{"kind": "x"}, {"kind": "z"}] * 2, "kind"),
        ([{"kind": ["x", "y"]}, {"kind": "z"}] * 2, ""),
        ([{"serial": n} for n in range(9)], ""),
        ([{"kind": "x"}] * 4, ""),
    ],
)
def test_the_tag_with_few_values_groups_the_questions(tags: list[dict[str, Any]], expected: str) -> None:
    test = _test("test_a", _entry([{"id": f"q{n}", "score": 1.0} for n in range(len(tags))]))
    for question, own in zip(test["questions"], tags, strict=True):
        question["tags"] = own
    [table] = QuestionTable.of_tests([test])
    assert table.tag == expected


def test_the_passages_of_one_question_are_in_memory_at_a_time() -> None:
    spool, alive, most = Spool(), set[int](), 0

    class Entries(SpooledList[dict[str, Any]]):
        def _item(self, index: int) -> Any:
            nonlocal most
            entry = Entry(super()._item(index))
            alive.add(id(entry))
            finalize(entry, alive.discard, id(entry))
            most = max(most, len(alive))
            return entry

    class Entry(dict[str, Any]):
        pass

    places = [spool.put({"id": f"q{n}", "question": "Why?", "retrieved": []}) for n in range(9)]
    examples = [{"id": f"q{n}", "score": 1.0} for n in range(9)]
    test = {
        "nodeid": "test_a",
        "questions": Entries(spool, places),
        "scores": [_entry(examples)],
    }
    [table] = QuestionTable.of_tests([test])
    assert len(table.rows) == 9
    assert most <= 2
