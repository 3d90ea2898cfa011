"""Stages of a retriever: their recall, and which of them lost a passage."""

import json
from collections.abc import Mapping

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document, Ranking, Retrieval, Stage
from pytest_rageval.extensions.stages.scores import losses, recall_rows
from tests.foreign_plugins import WITHOUT
from tests.unit.scores.conftest import World


def _ranking(names: str, k: int | None = None, query: str = "", **attributes: object) -> Ranking:
    return Ranking.of(query, [Document("", name) for name in names], k, **attributes)


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ({"bm25": "bcd", "dense": "efg"}, "never among the candidates"),
        ({"bm25": "bac", "rerank": "bc"}, "lost by rerank (rank 2 of 3 after bm25)"),
        ({"bm25": "bac", "dense": "xyz", "fusion": "bxc"}, "lost by fusion (rank 2 of 3 after bm25)"),
        ({"bm25": "bac", "dense": "xyz"}, "lost after bm25 (rank 2 of 3 after bm25)"),
        ({"bm25": "abcd", "rerank": "bcda"}, "lost by rerank: rank 1 of 4 after bm25, then rank 4"),
        ({"bm25": "bcdea", "rerank": "bcdae"}, "rank 4 of 5 after rerank, beyond the first 2"),
        ({"dense": "bcda"}, "rank 4 of 4 after dense, beyond the first 2"),
        ({"bm25": "bca", "dense": "xya", "fusion": "bxcya"}, "rank 5 of 5 after fusion, beyond the first 2"),
    ],
)
def test_where_a_passage_was_lost(stages: Mapping[str, str], text: str) -> None:
    ranking = _ranking("bc", 2, stages=[_ranking(names, query=name) for name, names in stages.items()])
    example = Example("q", "q", gold=(Gold("a"), Gold("b"), Gold("n", grade=0)))
    assert losses(ranking, example, 0.5) == [f"a: {text}"]
    assert losses(_ranking("ab", 2, stages=ranking.stages), example, 0.5) == []


class Staged(World):
    """A world whose retriever reports two stages."""

    def retrieve(self, question: str, k: int) -> object:
        stages = {"search": "abde", "rerank": "daeb"} if question == "q" else {"search": "aa", "rerank": "a"}
        parts = [Stage(name, [{"id": each} for each in names]) for name, names in stages.items()]
        return Retrieval(parts[-1].documents[:k], stages=parts)


def _evaluate(loop: BackgroundEventLoop, *gold: str) -> Outcome:
    [outcome] = Staged(loop).evaluate(
        "stages.recall@2", Example("q", "q", gold=tuple(Gold(name) for name in gold))
    )
    return outcome


def test_recall_by_stage(loop: BackgroundEventLoop) -> None:
    outcome = _evaluate(loop, "a", "b", "c")
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.evidence.beside == {
        "search": pytest.approx(2 / 3),
        "rerank": pytest.approx(2 / 3),
        "final": pytest.approx(1 / 3),
    }
    assert outcome.evidence.remark == (
        "b: lost by rerank: rank 2 of 4 after search, then rank 4; c: never among the candidates"
    )
    assert _evaluate(loop).unscored == "no gold passages"


def test_a_retriever_without_stages_is_no_pass(loop: BackgroundEventLoop) -> None:
    world = World(loop)
    world.rankings["q"] = ["one"]
    [outcome] = world.evaluate("stages.recall@2", Example("q", "q", gold=(Gold(text="one"),)))
    assert (outcome.value, outcome.cause) == (None, "retriever")
    assert str(outcome.unscored).startswith("the retriever reports no stages")


CONFTEST = """
import pytest
from pytest_rageval import Retrieval, Stage

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        found = [{"id": name, "text": name} for name in "abcdef"]
        ranked = found[::-1] if "lost" in query else found
        return Retrieval(ranked[:k], stages=[STAGES])
    return search
"""
STAGES = 'Stage("bm25", found), Stage("rerank", ranked)'
TEST = """
import pytest

@pytest.mark.rageval_evalset("e.jsonl")
@pytest.mark.rageval_threshold("recall@2", min=0.9)
@pytest.mark.rageval_threshold("stages.recall@2", min=0.9)
def test_it():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stages", "line"),
    [
        ('Stage("bm25", found), Stage("bm25", ranked)', "*returned two stages with the name 'bm25'*"),
        ("found", "*returned list as stage 1*"),
    ],
)
def test_what_is_no_stage_is_an_error(pytester: pytest.Pytester, stages: str, line: str) -> None:
    pytester.makeconftest(CONFTEST.replace("STAGES", stages))
    pytester.makepyfile(TEST)
    pytester.path.joinpath("e.jsonl").write_text('{"id": "q", "question": "fine", "gold": [{"id": "a"}]}')
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == 1
    result.stdout.fnmatch_lines([line])


@pytest.mark.slow
def test_reports_have_a_table_by_stage(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.replace("STAGES", 'Stage("bm25|<b>", found), Stage("rerank", ranked)'))
    pytester.makepyfile(TEST)
    records = [{"id": text, "question": text, "gold": [{"id": "a"}]} for text in ("fine", "lost")]
    pytester.path.joinpath("e.jsonl").write_text("\n".join(map(json.dumps, records)))
    names = ("r.md", "r.json", "r.html")
    result = pytester.runpytest_inprocess(*WITHOUT, "-v", *(f"--rageval-report={name}" for name in names))
    text, report, page = (pytester.path.joinpath(name).read_text(encoding="utf-8") for name in names)
    _, _, section = text.partition("<details><summary>Recall by stage</summary>\n\n")
    head, _, *rows = section.partition("\n\n</details>")[0].splitlines()
    assert head == "| test | score | stage | recall |"
    assert [row.split(" | ")[2:] for row in rows] == [
        ["<code>bm25&#124;&#60;b&#62;</code>", "<code>1&#46;000</code> |"],
        ["<code>rerank</code>", "<code>1&#46;000</code> |"],
        ["<code>final</code>", "<code>0&#46;500</code> |"],
    ]
    result.stdout.fnmatch_lines([
        "Recall by stage",
        "  test *score *stage *recall",
        "  *stages.recall@2  bm25|<b>  1.000",
        "  *stages.recall@2  rerank    1.000",
        "  *stages.recall@2  final     0.500",
    ], consecutive=True)  # fmt: skip
    assert '<h2 id="added-1">Recall by stage</h2>' in page
    assert "<td>bm25|&lt;b&gt;</td><td>1.000</td></tr><tr>" in page
    tests = json.loads(report)["tests"]
    assert tests[0]["scores"][1]["beside"] == {"bm25|<b>": 1.0, "rerank": 1.0, "final": 0.5}
    assert recall_rows([{"nodeid": "t", "scores": tests[0]["scores"][:1]}]) == []


CORPUS = """
@pytest.fixture(scope="session")
def rageval_corpus():
    return VALUE
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ('{"a", 7.0}', ["*why*x: not in the index; 7: never among the candidates"]),
        ('lambda name: name == "x"', ["*why*x: never among the candidates; 7: not in the index"]),
        ("lambda name: 1 / 0", ["*rageval_corpus raised for 'x': ZeroDivisionError*"]),
        ("open", ["*rageval_corpus raised for 'x': FileNotFoundError*"]),
        ("7", ["*rageval_corpus is int.", "*Return the ids of the passages in the index, as a set*"]),
        ("'ab'", ["*rageval_corpus is str."]),
        ("(n for n in [])", ["*rageval_corpus is generator."]),
        ("__import__('asyncio').sleep", ["*rageval_corpus is an async function."]),
        ("[{}]", ["*rageval_corpus contains a dict*", "*Return ids alone, not passages."]),
    ],
)
def test_a_passage_that_is_not_in_the_index(pytester: pytest.Pytester, value: str, lines: list[str]) -> None:
    pytester.makeconftest(CONFTEST.replace("STAGES", STAGES) + CORPUS.replace("VALUE", value))
    pytester.makepyfile(TEST)
    record = {"id": "q", "question": "q", "gold": [{"id": "x"}, {"id": "7"}]}
    pytester.path.joinpath("e.jsonl").write_text(json.dumps(record))
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == 1
    result.stdout.fnmatch_lines(lines)


def test_the_index_says_nothing_of_a_passage_without_an_id() -> None:
    ranking = _ranking("bc", 2, stages=[_ranking("bc", query="bm25"), _ranking("bc", query="rerank")])
    example = Example("q", "q", gold=(Gold(text="some other text"), Gold("z")))
    assert losses(ranking, example, 0.5, lambda _: False) == [
        f"{example.gold[0].label}: never among the candidates",
        "z: not in the index",
    ]
