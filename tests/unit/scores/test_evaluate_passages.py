"""eRAG and the other annotators (containment, relevance, provenance), on numbers that a reader can check."""

import math

import pytest

from pytest_rageval.core.data import Document, Example, Gold, Span
from pytest_rageval.core.errors import CallableError, InputError, Unscored


def _world(world, example):
    """Script five passages; from the first or the fourth passage alone, the generator gives the right answer.

    The second passage contains the answer, but the generator does not find it there. The third passage is useless, and
    the generator abstains from the fifth passage.
    """
    world.rankings["q"] = ["one", "the answer is Ada", "three", "four", "five"]
    world.answers |= {
        "one": "Ada",
        "the answer is Ada": "Bob",
        "three": "Eve",
        "four": "Ada",
        "five": "no answer in the documents",
    }
    world.relevance |= {"the answer is Ada": 1.0, "three": 1.0}
    return example("q", "gold", answers=("Ada",))


DCG = 1 / math.log2(2) + 1 / math.log2(5)
"""The DCG of the labels 1, 0, 0, 1, 0."""


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("erag.p@5", 2 / 5),
        ("erag.p@1", 1.0),
        ("erag.p@10", 2 / 10),
        ("erag.recall@5", 1.0),
        # At a cut-off of 3 the fourth passage is not retrieved, and so not labelled.
        ("erag.recall@3", 1.0),
        ("erag.map@5", (1 / 1 + 2 / 4) / 2),
        ("erag.mrr@5", 1.0),
        ("erag.hit@5", 1.0),
        ("erag.ndcg@5", DCG / (1 / math.log2(2) + 1 / math.log2(3))),
        ("contains.p@5", 1 / 5),
        ("contains.mrr@5", 1 / 2),
        ("relevance.p@5", 2 / 5),
        ("relevance.map@5", (1 / 2 + 2 / 3) / 2),
    ],
)
def test_a_worked_example(world, example, spec, value):
    """The labels are 1 0 0 1 0 by eRAG, 0 1 0 0 0 by containment, and 0 1 1 0 0 by relevance."""
    (outcome,) = world.evaluate(spec, _world(world, example))
    assert outcome.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("part", "value", "of_all_gold"),
    [
        ("p", 2 / 5, 2 / 5),
        ("recall", 1.0, 2 / 3),
        ("map", (1 / 3 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 3),
        ("mrr", 1 / 3, 1 / 3),
        ("ndcg", (1 / 2 + 1 / math.log2(5)) / (1 + 1 / math.log2(3)), None),
        ("hit", 1.0, 1.0),
    ],
)
def test_provenance_is_normalised_within_the_retrieved(world, example, part, value, of_all_gold):
    """Provenance scores ignore gold passages that were not retrieved, unlike the ranking measures.

    The third and the fourth retrieved passage and one that was not retrieved are gold: the labels are 0 0 1 1 0.
    """
    _world(world, example)
    case = example("q", "three", "four", "missed")
    assert world.evaluate(f"provenance.{part}@5", case)[0].value == pytest.approx(value)
    if of_all_gold is not None:
        measure = "precision" if part == "p" else part
        assert world.evaluate(f"{measure}@5", case)[0].value == pytest.approx(of_all_gold)
    assert world.evaluate(f"provenance.{part}@5", example("q", "missed"))[0].value == 0.0
    (outcome,) = world.evaluate(f"provenance.{part}@5", example("q", answers=("Ada",)))
    assert (outcome.value, outcome.unscored) == (None, "no gold passages")


def test_a_part_of_a_gold_passage_that_is_found_is_positive(world):
    """Two chunks that together cover a gold span are both positive.

    A chunk is negative if its gold span is not covered.
    """
    spans = {"one": (0, 40), "two": (40, 100), "three": (200, 210)}
    world.rankings["q"] = [Document(name, span=Span("a.md", *span)) for name, span in spans.items()]
    gold = tuple(Gold(source="a.md", start=start, end=end) for start, end in [(0, 100), (200, 300)])
    (outcome,) = world.evaluate("provenance.p@3", Example("q", "q", gold=gold))
    assert outcome.evidence.labels == (1, 1, 0)


def test_a_graded_label_is_taken_as_it_is(world, example):
    """With token F1 as the label, P is the mean label, Hit the highest label, and NDCG uses the labels as gains."""
    case = _world(world, example)
    world.answers["one"] = "Ada Lovelace"
    labels = [2 / 3, 0, 0, 1, 0]
    assert world.evaluate("erag.p@5", case, label="f1")[0].value == pytest.approx(sum(labels) / 5)
    assert world.evaluate("erag.hit@5", case, label="f1")[0].value == 1.0
    gain = labels[0] / math.log2(2) + labels[3] / math.log2(5)
    ideal = 1 / math.log2(2) + labels[0] / math.log2(3)
    assert world.evaluate("erag.ndcg@5", case, label="f1")[0].value == pytest.approx(gain / ideal)
    assert world.evaluate("erag.map@5", case, label="f1>=0.6")[0].value == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("annotator", "labels", "alone"),
    [
        ("erag", (1, 0, 0, 1, 0), ("Ada", "Bob", "Eve", "Ada", "no answer in the documents")),
        ("contains", (0, 1, 0, 0, 0), ()),
        ("relevance", (0, 1, 1, 0, 0), ()),
        ("provenance", (0, 0, 0, 0, 0), ()),
    ],
)
def test_the_evidence_shows_the_labels(world, example, annotator, labels, alone):
    """The evidence has the labels in rank order, eRAG's answers, and the references if the annotator uses them."""
    (outcome,) = world.evaluate(f"{annotator}.p@5", _world(world, example))
    evidence = outcome.evidence
    assert (evidence.labels, evidence.answers_alone) == (labels, alone)
    expected = ("Ada",) if annotator in {"erag", "contains"} else ()
    assert (evidence.expected, evidence.expected_as) == (expected, "reference")


@pytest.mark.parametrize("part", ["recall", "map", "mrr"])
def test_a_measure_for_yes_and_no_refuses_grades_before_anything_is_asked(world, example, part):
    """A measure of binary labels raises InputError for a graded label, before any request is sent."""
    with pytest.raises(InputError, match="defined for labels of 0 and 1 only"):
        world.evaluate(f"erag.{part}@5", _world(world, example), label="f1")
    assert not world.call_count("generate")


def test_an_empty_ranking_is_0_and_stays_in_the_mean(world, example):
    """A question for which nothing was retrieved scores 0 and counts in the mean."""
    case = _world(world, example)
    outcomes = world.evaluate("erag.map@5", case, example("nothing", "gold", answers=("x",)))
    assert [outcome.value for outcome in outcomes] == [0.75, 0.0]


def test_a_passage_without_an_answer_leaves_its_example_unscored(world, example):
    """If the generator gives no answer for a passage, the example is unscored; so is an example without references."""
    case = _world(world, example)
    world.answers["three"] = Unscored("the generator's reply is empty")
    outcomes = world.evaluate("erag.p@5", case, example("bare", "gold"))
    assert [outcome.unscored for outcome in outcomes] == [
        "the generator's reply is empty",
        "no reference answers",
    ]


def test_a_changed_ranking_asks_only_about_passages_never_seen(world, example):
    """Labels are cached by question and passage: another k or measure sends no new request."""
    case = _world(world, example)
    world.evaluate("erag.p@5", case)
    assert world.call_count("generate") == 5
    world.evaluate("erag.p@3", case)
    world.evaluate("erag.ndcg@5", case)
    assert world.call_count("generate") == 5


@pytest.mark.parametrize("annotator", ["erag", "contains"])
def test_any_answer_of_a_set_makes_a_passage_useful(world, example, annotator):
    """A passage is useful if it yields any answer of the set.

    The first yields Ada, the third Bob, the second neither.
    """
    world.rankings["q"] = ["Ada", "Eve", "Bob"]
    case = example("q", "gold", answer_set=(("Ada",), ("Bob", "Robert")))
    assert world.evaluate(f"{annotator}.p@3", case)[0].value == pytest.approx(2 / 3)
    assert world.evaluate(f"{annotator}.map@3", case)[0].value == pytest.approx((1 + 2 / 3) / 2)


def test_the_answer_from_all_passages_still_needs_the_whole_set(world, example):
    """The answer from all passages is correct only if it has every answer of the set."""
    world.rankings["q"] = ["Ada"]
    case = example("q", "gold", answer_set=(("Ada",), ("Bob",)))
    (outcome,) = world.evaluate("answer.correct@1", case)
    assert (outcome.value, outcome.evidence.expected, outcome.evidence.expected_as) == (
        0.0,
        ("Ada", "Bob"),
        "wanted",
    )
    case = example("q", "gold", answer_set=(("Ada",), ("Countess", "Ada")))
    assert world.evaluate("answer.correct@1", case)[0].value == 1.0


def test_no_passage_is_searched_for_a_long_form_reference(world, example):
    """Containment leaves an example unscored if it has only a long-form reference.

    ERAG compares with that reference.
    """
    world.rankings["q"] = ["Ada was the first to program."]
    case = example("q", "gold", reference="Ada was the first to program.")
    (outcome,) = world.evaluate("contains.p@1", case)
    assert (outcome.value, outcome.unscored) == (None, "no reference answers")
    assert world.evaluate("erag.p@1", case)[0].value == 1.0


@pytest.mark.parametrize(("part", "value"), [("p", (0.7 + 0.2) / 2), ("hit", 0.7), ("ndcg", 1.0)])
def test_a_judge_that_grades_labels_as_it_grades(world, example, part, value):
    """The judge's graded verdicts are the labels, for measures that are defined for graded labels."""
    world.rankings["q"], world.verdicts = ["a", "b"], {"a": 0.7, "b": 0.2}
    assert world.evaluate(f"erag.{part}@2", example("q", answers=("x",)))[0].value == pytest.approx(value)


@pytest.mark.parametrize("part", ["recall", "map", "mrr"])
def test_where_grades_have_no_meaning_the_message_names_what_has(world, example, part):
    """The error for graded verdicts names a label expression and measures that work."""
    world.rankings["q"], world.verdicts = ["a", "b"], {"a": 0.7, "b": 0.2}
    case = example("q", answers=("x",))
    with pytest.raises(InputError) as caught:
        world.evaluate(f"erag.{part}@2", case)
    assert 'label="judge>=0.5"' in str(caught.value)
    assert "p, hit or ndcg" in str(caught.value)
    assert world.evaluate(f"erag.{part}@2", case, label="judge>=0.5")[0].value == 1.0


@pytest.mark.parametrize("part", ["p", "recall", "map", "mrr", "ndcg", "hit"])
def test_a_grade_of_relevance_counts_from_half_on(world, example, part):
    """A passage is relevant from a grade of 0.5: of the grades 0.5 and 0.4, only the first counts."""
    world.rankings["q"], world.relevance = ["a", "b"], {"a": 0.5, "b": 0.4}
    (outcome,) = world.evaluate(f"relevance.{part}@2", example("q", answers=("x",)))
    assert outcome.value == (0.5 if part == "p" else 1.0)


def test_a_judge_that_cannot_say_what_is_relevant_is_named(loop):
    """The error for a judge without the method `relevant` names the missing method."""
    from pytest_rageval.answers.judge.user_judge import adapt_judge

    class Judge:
        def compare(self, *_):
            return True

    judge = adapt_judge(Judge(), loop)
    with pytest.raises(CallableError, match=r"lacks the method relevant\(question, passage\)"):
        loop.run(judge.relevant("q", "p"))


def _logistic(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("k", "total"),
    [
        # The generator answers from "one", which is not relevant.
        (1, -1 / 3),
        (2, -1 / 3 + 1),
        (3, -1 / 3 + 1 + 1),
        (4, -1 / 3 + 1 + 1 - 1 / 3),
        # The generator abstains from "five".
        (5, -1 / 3 + 1 + 1 - 1 / 3 + 0),
    ],
)
def test_udcg_by_hand(world, example, k, total):
    """Passages two and three are relevant; an example that has only a question is enough."""
    _world(world, example)
    (outcome,) = world.evaluate(f"udcg@{k}", example("q"))
    assert outcome.value == pytest.approx(_logistic(total / k), abs=1e-15)


def test_udcg_shows_what_helps_and_what_distracts(world, example):
    """The evidence has the label and the answer of each passage, and the numbers of useful and distracting passages."""
    (outcome,) = world.evaluate("udcg@5", _world(world, example))
    assert outcome.evidence.labels == (0, 1, 1, 0, 0)
    assert outcome.evidence.answers_alone == ("Ada", "Bob", "Eve", "Ada", "no answer in the documents")
    assert outcome.evidence.counts == {"useful": 2, "distracting": 2}


def test_udcg_of_a_relevant_passage_that_does_not_help_is_neutral(world, example):
    """A passage from which the generator abstains counts 0, relevant or not; an empty ranking scores 0."""
    world.rankings["q"] = ["mute"]
    world.answers["mute"] = "no answer in the documents"
    for relevant in (0.0, 1.0):
        world.relevance["mute"] = relevant
        world.run = world.make_pipeline()
        assert world.evaluate("udcg@1", example("q"))[0].value == 0.5
    assert world.evaluate("udcg@1", example("nothing"))[0].value == 0.0


def test_udcg_falls_when_a_distracting_passage_replaces_a_mute_one(world, example):
    """UDCG falls if a distracting passage replaces a neutral one, while `relevance.p` and `erag.p` stay the same."""
    world.rankings["q"] = ["good", "mute"]
    world.answers |= {"good": "Ada", "mute": "no answer in the documents"}
    world.relevance["good"] = 1.0
    case = example("q", answers=("Ada",))
    before = [world.evaluate(spec, case)[0].value for spec in ("udcg@2", "relevance.p@2", "erag.p@2")]
    world.rankings["q"], world.answers["loud"] = ["good", "loud"], "Bob"
    world.run = world.make_pipeline()
    after = [world.evaluate(spec, case)[0].value for spec in ("udcg@2", "relevance.p@2", "erag.p@2")]
    assert before[1:] == after[1:]
    assert before[0] > after[0]


def test_udcg_without_an_answer_or_a_verdict_is_unscored(world, example):
    """If the generator gives no answer for a passage, the example is unscored."""
    case = _world(world, example)
    world.answers["three"] = Unscored("the generator's reply is empty")
    (outcome,) = world.evaluate("udcg@5", case)
    assert (outcome.value, outcome.unscored) == (None, "the generator's reply is empty")


def test_udcg_shares_its_answers_with_erag_and_its_labels_with_relevance(world, example):
    """After eRAG and relevance scores of the same passages, UDCG sends no request."""
    case = _world(world, example)
    world.evaluate("erag.p@5", case)
    world.evaluate("relevance.p@5", case)
    calls = world.call_count("generate"), world.call_count("relevant")
    world.evaluate("udcg@5", case)
    assert calls == (world.call_count("generate"), world.call_count("relevant")) == (5, 5)
