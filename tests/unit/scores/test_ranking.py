"""Ranking measures of the retrieved passages."""

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.ranking import Document, Span


@pytest.mark.parametrize(
    ("spec", "scores"),
    [
        ("recall@2", [1 / 2, 1.0, 0.0]),
        ("precision@2", [1 / 2, 1 / 2, 0.0]),
        ("precision@4", [2 / 4, 1 / 4, 0.0]),
        ("recall@4", [1.0, 1.0, 0.0]),
        ("mrr@4", [1.0, 1 / 2, 0.0]),
        ("map@4", [(1 + 2 / 3) / 2, 1 / 2, 0.0]),
        ("hit@1", [1.0, 0.0, 0.0]),
    ],
)
def test_a_worked_example(world, example, spec: str, scores: list[float]) -> None:
    """Three questions: gold at ranks 1 and 3, gold at rank 2, and nothing retrieved."""
    world.rankings = {"one": ["a", "x", "b", "y"], "two": ["x", "c"]}
    outcomes = world.evaluate(spec, example("one", "a", "b"), example("two", "c"), example("three", "d"))
    assert [outcome.value for outcome in outcomes] == pytest.approx(scores, abs=1e-15)


def test_examples_without_relevant_gold_are_unscored_and_not_asked(world, example) -> None:
    world.rankings = {"one": ["a"]}
    judged = Example("judged", "judged", gold=(Gold("a", grade=0),))
    outcomes = world.evaluate("recall@5", example("none"), example("one", "a"), judged)
    assert [(o.value, o.unscored) for o in outcomes] == [
        (None, "no gold passages"),
        (1.0, None),
        (None, "no gold passages"),
    ]
    assert world.asked == {("retrieve", "one", "5"): 1}


def test_the_evidence_is_the_ranking(world, example) -> None:
    world.rankings = {"one": ["a", "b"]}
    (outcome,) = world.evaluate("recall@1", example("one", "a"))
    assert outcome.evidence.ranking.documents == (Document("a"),)
    assert outcome.evidence.answer is None


def test_measures_at_one_cut_off_share_the_rankings(world, example) -> None:
    for spec in ("recall@5", "ndcg@5", "recall@5", "recall@1"):
        world.evaluate(spec, example("one", "a"), example("two", "b"))
    assert set(world.asked.values()) == {1}
    assert world.call_count("retrieve") == 4


def _chunk(start: int, end: int) -> Document:
    return Document(f"{start} to {end}", span=Span("a.md", start, end))


def _spans(question: str, *spans: tuple[int, int]) -> Example:
    return Example(question, question, gold=tuple(Gold(source="a.md", start=a, end=b) for a, b in spans))


@pytest.mark.parametrize(
    ("spec", "scores"),
    [
        # A chunk with two gold passages counts as two documents, so two of three documents are relevant.
        ("recall@2", [2 / 3, 1.0]),
        ("precision@2", [2 / 3, 1 / 2]),
        ("mrr@2", [1.0, 1 / 2]),
        ("map@2", [2 / 3, 1 / 2]),
        ("hit@2", [1.0, 1.0]),
        ("ndcg@2", [(1 + 1 / 1.5849625007) / (1 + 1 / 1.5849625007 + 1 / 2), 1 / 1.5849625007]),
        # The second passage is split into two chunks, and neither chunk covers half of the passage.
        ("recall@1", [2 / 3, 0.0]),
    ],
)
def test_gold_by_span_whatever_the_chunking(world, spec: str, scores: list[float]) -> None:
    world.rankings = {"long": [_chunk(0, 500), _chunk(900, 950)], "short": [_chunk(0, 40), _chunk(60, 100)]}
    examples = [_spans("long", (0, 99), (200, 300), (600, 700)), _spans("short", (0, 100))]
    outcomes = world.evaluate(spec, *examples)
    assert [outcome.value for outcome in outcomes] == pytest.approx(scores)
    assert outcomes[0].evidence.counts == {"matched_by_span": 2}


def test_what_the_text_alone_says_is_counted(world, example) -> None:
    """`matched_by_text` counts gold passages that are contained in a retrieved text, not those that are equal to it."""
    world.rankings = {"q": ["on a hot day a cat sat there", "the whole of it"]}
    (outcome,) = world.evaluate("recall@2", example("q", "On a hot day, a cat sat.", "The whole of it!"))
    assert (outcome.value, outcome.evidence.counts) == (1.0, {"matched_by_text": 1})


@pytest.mark.parametrize(
    ("gold", "wanted"),
    [(Gold(source="a.md", start=0, end=9), "a span"), (Gold("a"), "an id"), (Gold(text="?"), "words")],
)
def test_a_ranking_that_cannot_be_compared_with_gold_is_unscored(world, gold: Gold, wanted: str) -> None:
    world.rankings = {"q": ["one", "two"]}
    examples = [Example(question, question, gold=(gold,)) for question in ("q", "nothing")]
    outcomes = world.evaluate("recall@2", *examples)
    reason = f"no retrieved document has {wanted} to find the gold passage by"
    assert [(o.value, o.unscored) for o in outcomes] == [(None, reason), (0.0, None)]


def test_the_share_is_that_of_the_run(world) -> None:
    world.rankings = {"q": [_chunk(0, 60)]}
    values = []
    for share in (0.5, 0.6, 0.61):
        world.run.match_share = share
        values.append(world.evaluate("recall@1", _spans("q", (0, 100)))[0].value)
    assert values == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("gold", "retrieved", "expected"),
    [
        ([("a", None), ("b", None)], ["a", "x", "b"], 1.0),
        ([("a", None), ("b", None)], ["a", "x", "x2", "b"], 0.0),
        ([("a", "one"), ("a2", "one"), ("b", "two")], ["a2", "b"], 1.0),
        ([("a", "one"), ("a2", "one"), ("b", "two")], ["a", "a2"], 0.0),
        ([("a", "one"), ("b", None), ("c", None)], ["a", "b"], 0.0),
        ([("a", "one"), ("b", None)], ["b", "a"], 1.0),
    ],
)
def test_full_recall_wants_one_passage_of_each_group(world, gold, retrieved, expected):
    passages = [Gold(text=text, group=group) for text, group in gold]
    example = Example("q", "q", gold=(*passages, Gold(text="not relevant", grade=0, group="other")))
    world.rankings["q"] = retrieved
    [outcome] = world.evaluate("full_recall@3", example)
    assert outcome.value == expected


GRADED = tuple(Gold(f"d{grade}", grade=grade) for grade in range(4))


def _graded(world, spec: str, *ids: str, **keywords: str) -> float | None:
    world.retrieve = lambda _question, _k: [{"id": name, "text": ""} for name in ids]
    world.run = world.make_pipeline()
    (outcome,) = world.evaluate(spec, Example("q", "q", gold=GRADED), **keywords)
    return outcome.value


@pytest.mark.parametrize(
    ("spec", "keywords", "value"),
    [
        ("recall@3", {}, 2 / 3),
        ("recall@3", {"relevant": "gold_grade>=2"}, 1 / 2),
        ("precision@3", {"relevant": "gold_grade>=2"}, 1 / 3),
        ("mrr@3", {"relevant": "gold_grade>=3"}, 1 / 2),
        ("full_recall@3", {"relevant": "gold_grade>=3"}, 1.0),
        ("recall@3", {"relevant": "gold_grade>=4"}, None),
        ("judged@1", {}, 1.0),
        ("judged@4", {}, 3 / 4),
        ("condensed.mrr@3", {"relevant": "gold_grade>=3"}, 1 / 2),
        ("condensed.precision@2", {"relevant": "gold_grade>=3"}, 1 / 2),
    ],
)
def test_the_lowest_grade_of_a_relevant_passage(world, spec, keywords, value) -> None:
    """Passages of lower grades are not relevant; `judged` counts all grades, also 0."""
    ids = ("d1", "d3", "d0", "x") if "judged" in spec else ("d1", "d3", "d0")
    assert _graded(world, spec, *ids, **keywords) == value


def test_condensed_scores_leave_out_documents_without_a_judgement(world) -> None:
    """Documents that nobody judged do not take a rank."""
    ids = ("x", "y", "d3", "d0", "d1")
    assert _graded(world, "mrr@5", *ids) == 1 / 3
    assert _graded(world, "condensed.mrr@5", *ids) == 1.0
    assert _graded(world, "condensed.map@5", *ids) == pytest.approx((1 + 2 / 3) / 3)


@pytest.mark.parametrize("spec", ["recall@3", "judged@3", "condensed.recall@3"])
def test_documents_without_ids_are_not_taken_for_unjudged(world, spec: str) -> None:
    """If no document can be compared with a gold passage, nobody knows whether it was judged."""
    world.retrieve = lambda _question, _k: ["Some text."]
    world.run = world.make_pipeline()
    (outcome,) = world.evaluate(spec, Example("q", "q", gold=GRADED))
    assert (outcome.value, outcome.cause) == (None, "retriever")
    assert outcome.unscored == "no retrieved document has an id to find the gold passage by"


def test_another_rule_of_relevance_is_an_error(world) -> None:
    with pytest.raises(
        InputError, match=r"'recall@3' does not take relevant='judge'\. These scores do: rel_recall"
    ):
        _graded(world, "recall@3", "d1", relevant="judge")
    for name in ("ndcg", "ndcg.exp", "dcg", "judged", "condensed.ndcg"):
        with pytest.raises(InputError, match=f"'{name}@3' does not take relevant='gold_grade>=2'"):
            _graded(world, f"{name}@3", "d1", relevant="gold_grade>=2")
