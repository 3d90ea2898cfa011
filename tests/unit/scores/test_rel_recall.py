"""Scores of the `rel_recall` and `rel` families, on numbers that a reader can check."""

import pytest

from pytest_rageval.core.errors import InputError, Planned, Unscored
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models.generator import adapt_generator
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.pipeline import Pipeline
from pytest_rageval.scores.rel_recall import pooled_notes

ADA, FISH, CYD, EVE = "Ada programs", "Eve sells fish", "Cyd and Dan program", "Eve programs"
SCORES = ("rel_recall.answer", "rel_recall.citation", "rel.answer", "rel.citation", "rel.citation_precision")


def _world(world, example):
    """Script the question "Who programs?": three passages are relevant, and two of them are in the prompt.

    Five answers are wanted. Ada, Cyd and Dan are in relevant passages of the prompt, Eve in another passage of the
    prompt, Fay in no passage; Gus is a wrong answer.
    """
    world.rankings["q"] = [ADA, FISH, CYD, EVE]
    world.cited[f"{ADA}|{FISH}|{CYD}"] = "Ada [2], Dan [3], Eve [2][3], Fay [7], Gus [0]"
    wanted = (("Ada", "Ada Lovelace"), ("Cyd",), ("Dan", "Daniel"), ("Eve",), ("Fay",))
    return example("q", ADA, CYD, EVE, answer_set=wanted)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        # The output lists two of Ada, Cyd and Dan, and four of the five wanted answers.
        ("rel_recall.answer@3", 2 / 3),
        ("rel.answer@3", 4 / 5),
        # Passages 1 and 3 are relevant, a third one was not retrieved; 2, 3 and two that do not exist are cited.
        ("rel_recall.citation@3", 1 / 2),
        ("rel.citation@3", 1 / 3),
        ("rel.citation_precision@3", 1 / 4),
        ("rel.coverage@3", 2 / 3),
    ],
)
def test_a_worked_example(world, example, spec, value):
    (outcome,) = world.evaluate(spec, _world(world, example))
    assert outcome.value == pytest.approx(value)


LABELLED = {
    # Ada, Eve, Cyd and Dan occur in the prompt; all four passages contain an answer; 2 and 3 are cited.
    "contains": (3 / 4, 2 / 3, 4 / 5, 2 / 4, 2 / 4, 3 / 4, 4 / 5),
    # The fourth passage is not labelled.
    "contains@3": (3 / 4, 2 / 3, 4 / 5, 2 / 3, 2 / 4, 3 / 3, 4 / 5),
    # The judge calls the gold passages relevant.
    "judge": (2 / 3, 1 / 2, 4 / 5, 1 / 3, 1 / 4, 2 / 3, 3 / 5),
    "judge@3": (2 / 3, 1 / 2, 4 / 5, 1 / 2, 1 / 4, 2 / 2, 3 / 5),
    # At least as many passages are labelled as the prompt has.
    "judge@1": (2 / 3, 1 / 2, 4 / 5, 1 / 2, 1 / 4, 2 / 2, 3 / 5),
}
ALL = (*SCORES, "rel.coverage", "rel.answer_coverage")


@pytest.mark.parametrize("relevant", LABELLED)
def test_passages_are_relevant_by_gold_by_an_answer_in_them_or_by_the_judge(world, example, relevant):
    """One prompt and output serve all definitions of relevance, and gold passages are ignored if labels are used."""
    wanted = _world(world, example).answer_set
    # A grade of at least 0.5 counts as relevant.
    world.relevance = {ADA: 1.0, FISH: 0.4, CYD: 0.5, EVE: 1.0}
    for case in (example("q", answer_set=wanted), example("q", FISH, answer_set=wanted)):
        values = [world.evaluate(f"{name}@3", case, relevant=relevant)[0].value for name in ALL]
        assert values == pytest.approx(LABELLED[relevant])
    assert world.call_count("cite") == 1


def test_the_judge_is_asked_about_the_prompt_and_for_rel_about_the_pool(world, example):
    case = _world(world, example)
    world.evaluate("relevance.p@3", case)
    for name in ALL:
        if name not in {"rel.citation", "rel.coverage"}:
            world.evaluate(f"{name}@3", case, relevant="judge")
    assert world.call_count("relevant") == 3
    world.evaluate("rel.coverage@3", case, relevant="judge")
    world.evaluate("rel.citation@3", case, relevant="judge")
    assert world.call_count("relevant") == 4


def test_labels_need_no_gold_passages_and_those_of_a_judge_no_answers(world, example):
    _world(world, example)
    world.relevance = {ADA: 1.0, EVE: 1.0}
    for name, value in (("rel.citation", 0.0), ("rel_recall.citation", 0.0), ("rel.coverage", 1 / 2)):
        assert world.evaluate(f"{name}@3", example("q"), relevant="judge")[0].value == value
        (outcome,) = world.evaluate(f"{name}@3", example("q", ADA), relevant="contains")
        assert (outcome.value, outcome.unscored) == (None, NO_ANSWERS)


@pytest.mark.parametrize(
    ("name", "undefined"),
    [
        ("rel.citation", "none of the first 20 retrieved passages is relevant"),
        ("rel.coverage", "none of the first 20 retrieved passages is relevant"),
        ("rel_recall.citation", "no relevant passage was in the prompt"),
        ("rel_recall.answer", "no relevant passage was in the prompt"),
    ],
)
def test_where_labels_find_nothing_there_is_nothing_to_recall(world, example, name, undefined):
    """Citation precision is 0, because every citation is wrong."""
    case = _world(world, example)
    (outcome,) = world.evaluate(f"{name}@3", case, relevant="judge")
    assert (outcome.value, outcome.undefined) == (None, undefined)
    assert not world.call_count("cite")
    assert world.evaluate("rel.citation_precision@3", case, relevant="judge")[0].value == 0.0


def test_a_plan_asks_on_where_a_verdict_is_not_there_yet(world, example):
    """A plan without the judge's verdicts counts the generator request too, because a passage may be relevant."""
    case = _world(world, example)

    async def relevant(_question, passage):
        world.asked["relevant", passage] += 1
        raise Planned("the judge is not called in a plan")

    world.relevant = relevant
    world.evaluate("rel_recall.citation@3", case, relevant="judge")
    assert (world.call_count("relevant"), world.call_count("cite")) == (3, 1)


def test_the_answers_have_coverage_and_pooled_factors(world, example):
    case, lost = _world(world, example), example("lost", ADA, answers=("Zoe",))
    world.rankings["lost"] = [ADA]
    world.cited[ADA] = "Zoe [1]"
    sizes = {"relevant": 5, "shown": 3, "found": 2, "beyond": 2}
    over_rel = world.evaluate("rel.answer@3", case, lost)
    assert [result.evidence.sizes for result in over_rel] == [
        sizes,
        {"relevant": 1, "shown": 0, "found": 0, "beyond": 1},
    ]
    pooled = pooled_notes(Score("rel.answer@3", over_rel))["pooled"]
    assert (pooled["questions"], pooled["coverage"]) == (2, 3 / 6)
    assert (pooled["recall_over_rel_prime"], pooled["recall_over_rel"]) == (2 / 3, 5 / 6)
    # If the prompt has no wanted answer, the generator is not called, so what it would list is unknown.
    over_rel_prime = world.evaluate("rel_recall.answer@3", case, lost)
    assert [result.evidence.sizes for result in over_rel_prime] == [sizes, {}]
    assert pooled_notes(Score("rel_recall.answer@3", over_rel_prime))["pooled"]["questions"] == 1
    coverage = world.evaluate("rel.answer_coverage@3", case, lost, example("none", ADA))
    assert [outcome.value for outcome in coverage] == [3 / 5, 0.0, None]
    assert coverage[2].unscored == NO_ANSWERS


def test_pooled_factors_need_all_of_rel(world, example):
    """Labels of the prompt's passages do not tell how many others are relevant."""
    case = _world(world, example)
    (outcome,) = world.evaluate("rel_recall.citation@3", case, relevant="contains")
    assert not outcome.evidence.sizes
    (outcome,) = world.evaluate("rel.citation@3", case, relevant="contains")
    assert outcome.evidence.sizes == {"relevant": 4, "shown": 3, "found": 2}


def test_all_scores_share_one_answer_and_coverage_needs_none(world, example):
    case = _world(world, example)
    world.evaluate("rel.coverage@3", case)
    assert not world.call_count("cite")
    for name in SCORES:
        world.evaluate(f"{name}@3", case)
    assert (world.call_count("cite"), world.call_count("generate")) == (1, 0)


def test_both_recalls_of_citations_count_the_same_passages(world, example):
    """Both citation scores report the same sizes, also for a question whose recall over Rel' is undefined.

    Of 3 relevant passages, 2 are in the prompt and 1 is cited; the prompt of the other question has no relevant
    passage.
    """
    case = _world(world, example)
    world.rankings["lost"] = [FISH]
    for name in ("rel_recall.citation@3", "rel.citation@3"):
        sizes = [outcome.evidence.sizes for outcome in world.evaluate(name, case, example("lost", ADA))]
        assert sizes == [{"relevant": 3, "shown": 2, "found": 1}, {"relevant": 1, "shown": 0, "found": 0}]


def test_what_was_not_in_the_prompt_is_counted(world, example):
    """Fay is in no passage, [7] and [0] are no passages of the prompt."""
    case = _world(world, example)
    (outcome,) = world.evaluate("rel_recall.answer@3", case)
    assert outcome.evidence.counts == {"parametric_answers": 1, "hallucinated_citations": 2}
    assert Score("rel_recall.answer@3", [outcome, outcome]).counts == {
        "parametric_answers": 2,
        "hallucinated_citations": 4,
    }
    (outcome,) = world.evaluate("rel_recall.citation@3", case)
    assert outcome.evidence.counts == {"hallucinated_citations": 2}
    assert not world.evaluate("rel.coverage@3", case)[0].evidence.counts


def test_the_evidence_shows_prompt_answer_and_wanted(world, example):
    (outcome,) = world.evaluate("rel_recall.answer@3", _world(world, example))
    evidence = outcome.evidence
    assert [str(passage) for passage in evidence.ranking] == [ADA, FISH, CYD]
    assert evidence.answer.startswith("Ada [2]")
    assert (evidence.expected, evidence.expected_as) == (("Ada", "Cyd", "Dan", "Eve", "Fay"), "wanted")


def test_answers_are_aliases_of_one_wanted_answer(world, example):
    world.rankings["q"] = [ADA]
    world.cited[ADA] = "Countess Lovelace [1]"
    case = example("q", ADA, answers=("Ada", "Countess Lovelace"))
    assert world.evaluate("rel_recall.answer@1", case)[0].value == 1.0


def test_without_gold_passages_any_passage_shows_an_answer(world, example):
    """Without gold passages, an answer in any passage of the prompt counts: 3 of Ada, Cyd, Dan and Eve are listed."""
    wanted = _world(world, example).answer_set
    (outcome,) = world.evaluate("rel_recall.answer@3", example("q", answer_set=wanted))
    assert outcome.value == pytest.approx(3 / 4)
    assert outcome.evidence.counts["parametric_answers"] == 1


def test_an_abstention_gives_nothing_and_cites_nothing(world, example):
    case = _world(world, example)
    world.cited[f"{ADA}|{FISH}|{CYD}"] = "The passages [1][3] do not mention it."
    assert world.evaluate("rel_recall.answer@3", case)[0].value == 0.0
    assert world.evaluate("rel_recall.citation@3", case)[0].value == 0.0


NO_GOLD, NO_ANSWERS = "no gold passages", "no reference answers"
SPAN = "no retrieved document has a span to find the gold passage by"


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("rel_recall.answer", {}, NO_ANSWERS),
        ("rel.answer", {"reference": "Long."}, NO_ANSWERS),
        ("rel_recall.citation", {}, NO_GOLD),
        ("rel.citation", {}, NO_GOLD),
        ("rel.citation_precision", {}, NO_GOLD),
        ("rel.coverage", {}, NO_GOLD),
        ("rel.citation", {"gold": (Gold(source="a.txt", start=0, end=9),)}, SPAN),
    ],
)
def test_what_cannot_be_compared_is_unscored_and_asks_nothing(world, example, name, fields, reason):
    _world(world, example)
    (outcome,) = world.evaluate(f"{name}@3", Example("q", "q", **fields))
    assert (outcome.value, outcome.unscored) == (None, reason)
    assert not world.call_count("cite")


@pytest.mark.parametrize(
    ("part", "gold", "reason"),
    [
        ("answer", (EVE,), "no relevant passage was in the prompt"),
        ("answer", (ADA,), "no wanted answer occurs in a relevant passage of the prompt"),
        ("answer", (), "no wanted answer occurs in a passage of the prompt"),
        ("citation", (EVE,), "no relevant passage was in the prompt"),
    ],
)
def test_where_nothing_was_shown_recall_of_it_is_undefined(world, example, part, gold, reason):
    """The eval set is not at fault if the retriever misses everything."""
    _world(world, example)
    (outcome,) = world.evaluate(f"rel_recall.{part}@3", example("q", *gold, answers=("Fay",)))
    assert (outcome.value, outcome.unscored, outcome.undefined) == (None, None, reason)
    assert not world.call_count("cite")


def test_the_precision_of_no_citations_is_not_defined(world, example):
    case = _world(world, example)
    world.cited[f"{ADA}|{FISH}|{CYD}"] = "Ada, Cyd"
    (outcome,) = world.evaluate("rel.citation_precision@3", case)
    assert (outcome.value, outcome.unscored, outcome.undefined) == (None, None, "nothing was cited")
    assert world.evaluate("rel.citation@3", case)[0].value == 0.0


def test_a_relevant_passage_retrieved_twice_is_one(world, example):
    """A citation of a second copy of a relevant passage counts as a citation of the passage."""
    documents = [{"id": "a", "text": "Ada"}, {"id": "b", "text": "ada "}]
    world.rankings["q"] = documents
    world.cited["Ada|ada "] = "Ada [2]"
    case = example("q", "Ada", answers=("Ada",))
    assert world.evaluate("rel_recall.citation@2", case)[0].value == 1.0
    assert world.evaluate("rel.citation_precision@2", case)[0].value == 1.0


def test_a_random_order_is_that_of_question_and_seed(world):
    world.rankings = {question: [str(n) for n in range(20)] for question in ("q", "r")}

    def shown(question, order, seed=0):
        pipeline = world.make_pipeline(seed=seed)
        return [str(passage) for passage in world.loop.run(pipeline.prompt_ranking(question, 20, order))]

    assert shown("q", "rank") == world.rankings["q"]
    orders = [shown("q", "random"), shown("r", "random"), shown("q", "random", seed=1)]
    assert orders[0] == shown("q", "random")
    assert len(set(map(tuple, [*orders, shown("q", "rank")]))) == 4
    assert all(sorted(order) == sorted(world.rankings["q"]) for order in orders)


def test_citations_are_positions_in_the_order_of_the_prompt(world, example):
    world.rankings["q"] = texts = [*"abcdefgh"]
    case = example("q", "a", answers=("a",))
    shown = [str(passage) for passage in world.loop.run(world.run.prompt_ranking("q", 8, "random"))]
    world.cited["|".join(shown)] = f"a [{shown.index('a') + 1}]"
    world.cited["|".join(texts)] = f"a [{shown.index('a') + 1}]"
    (outcome,) = world.evaluate("rel_recall.citation@8", case, order="random")
    assert (outcome.value, [str(passage) for passage in outcome.evidence.ranking]) == (1.0, shown)
    assert world.evaluate("rel_recall.citation@8", case, order="rank")[0].value == 0.0
    assert world.call_count("cite") == 2


def test_a_score_whose_prompt_is_always_by_rank_refuses_the_word():
    with pytest.raises(
        InputError, match=r"'answer.correct@5' does not take order='random'. These scores do: rel_recall"
    ):
        resolve(ScoreRequest("answer.correct@5", order="random"))


def test_a_users_function_cites_by_its_own_prompt(world, example):
    """A user's generator function gets the passages in the order of the prompt, and its citations are counted."""

    def generate(_question, passages):
        return ", ".join(f"{passage.text.split()[0]} [{n}]" for n, passage in enumerate(passages, 1))

    generator = adapt_generator(generate, world.loop)
    world.run = Pipeline(adapt_retriever(world.retrieve, world.loop), generator, world)
    case = _world(world, example)
    # The output is: Ada [1], Eve [2], Cyd [3].
    values = [world.evaluate(f"{name}@3", case)[0].value for name in SCORES]
    assert values == pytest.approx([2 / 3, 1.0, 3 / 5, 2 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("output", "recall", "precision", "hallucinated"),
    [
        ("x [1]", 2 / 3, 1.0, 0),
        ("x [2]", 0.0, 0.0, 0),
        ("x [3]", 1 / 3, 1.0, 0),
        ("x [1][2][4]", 1.0, 3 / 4, 0),
        ("x [1][5]", 2 / 3, 2 / 3, 1),
        ("x [0]", 0.0, 0.0, 1),
    ],
)
def test_gold_by_span_whatever_the_chunking(world, output, recall, precision, hallucinated):
    """Chunk 1 holds two gold passages; chunks 3 and 4 are parts of one, which counts once."""
    spans = [(0, 300), (400, 500), (600, 640), (660, 700)]
    chunks = [Document(f"chunk {n}", span=Span("a.md", *span)) for n, span in enumerate(spans, 1)]
    world.rankings["q"] = chunks
    world.cited["|".join(chunk.text for chunk in chunks)] = output
    gold = tuple(Gold(source="docs/a.md", start=a, end=b) for a, b in [(0, 100), (150, 250), (600, 700)])
    case = Example("q", "q", gold=gold)
    for spec, value in (
        ("rel.citation@4", recall),
        ("rel_recall.citation@4", recall),
        ("rel.citation_precision@4", precision),
        ("rel.coverage@4", 1.0),
    ):
        (outcome,) = world.evaluate(spec, case)
        assert outcome.value == pytest.approx(value), spec
        assert outcome.evidence.counts["matched_by_span"] == 3
    (outcome,) = world.evaluate("rel.citation@4", case)
    assert outcome.evidence.counts["hallucinated_citations"] == hallucinated


TIMES = (("half an hour", "30 min"), ("2 days",), ("a week",))


def _times(world, example, said):
    """Script the question "How long?": three answers are wanted, and the only passage has all of them."""
    text = "It takes half an hour, 2 days or a week"
    world.rankings["q"] = [text]
    world.cited[text] = said
    return example("q", text, answer_set=TIMES)


@pytest.mark.parametrize(
    ("output", "words", "expected"),
    [
        # Items are compared in canonical form, so "30 minutes" equals "half an hour".
        ("30 minutes [1], two days [1]", {}, (2, "")),
        ("thirty minutes, half an hour, 30 min", {}, (1, "")),
        ("30 minutes, 3 days", {}, (1, "item '3 days' equals no reference")),
        # The words around the number and its unit do not matter; with another number it is another item.
        ("two days of work [1]", {}, (1, "")),
        ("three days of work [1]", {}, (0, "item 'three days of work' equals no reference")),
        # The comparator of the threshold decides instead: normalised equality, or token F1.
        ("30 minutes, 2 days", {"comparator": "em"}, (1, "item '30 minutes' equals no reference")),
        ("2 days at most, week", {"comparator": "f1>=0.6"}, (2, "")),
        ("2 days at most, week", {"comparator": "f1>=0.9"}, (1, "item '2 days at most' equals no reference")),
    ],
)
def test_an_item_is_compared_in_canonical_form_or_as_the_threshold_says(
    world, example, output, words, expected
):
    case = _times(world, example, output)
    for name in ("rel.answer", "rel_recall.answer"):
        (outcome,) = world.evaluate(f"{name}@1", case, **words)
        assert (3 * outcome.value, outcome.evidence.remark) == (pytest.approx(expected[0]), expected[1])
    assert not world.call_count("compare")


@pytest.mark.parametrize(("comparator", "listed"), [("em", 0), ("f1>=0.6", 1), ("judge", 1), ("f1>=0.9", 0)])
def test_the_comparator_of_the_run_counts_where_it_asks_no_judge(world, example, comparator, listed):
    """A judge would be called for each item; canonical forms are compared instead."""
    world.run = world.make_pipeline(comparator=comparator)
    (outcome,) = world.evaluate("rel.answer@1", _times(world, example, "2 days at most"))
    assert outcome.value == pytest.approx(listed / 3)
    assert not world.call_count("compare")


def test_a_judge_that_the_threshold_names_is_asked_about_what_equals_no_alias(world, example):
    case = _times(world, example, "2 days, seven days, a year")
    world.verdicts = {"seven days": 1.0, "a week": 1.0}
    (outcome,) = world.evaluate("rel.answer@1", case, comparator="judge")
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.evidence.remark == "item 'a year' equals no reference"
    # "a year": one call, with all aliases. "seven days": the same, one per answer, and one per alias in reverse.
    assert world.call_count("compare") == 1 + (1 + 3 + 4)


def test_where_the_judge_has_no_verdict_on_an_item_the_example_is_unscored(world, example):
    """If the judge gives no verdict on an item, the example is unscored, because the item may be a wanted answer."""
    world.verdicts = {"seven days": Unscored("the judge's reply cannot be read"), "a week": 1.0}
    (outcome,) = world.evaluate("rel.answer@1", _times(world, example, "seven days"), comparator="judge")
    assert (outcome.value, outcome.unscored) == (None, "the judge's reply cannot be read")


def test_an_abstention_lists_nothing_in_any_form(world, example):
    """An abstention scores 0 even if it contains a wanted answer."""
    case = _times(world, example, "The passages do not say whether it takes 30 minutes.")
    (outcome,) = world.evaluate("rel.answer@1", case, comparator="f1>=0.1")
    assert outcome.value == 0.0


def test_a_plan_counts_as_many_items_as_answers_are_wanted(world, example):
    case = _times(world, example, "⟪reply 0123456789abcdef⟫")
    items = {f"⟪reply 0123456789abcdef⟫ {n}" for n in range(3)}
    aliases = {alias for answer in TIMES for alias in answer}
    world.verdicts = dict.fromkeys(items | aliases, Planned("not sent"))
    world.evaluate("rel.answer@1", case, comparator="judge")
    assert world.call_count("compare") == 3 * (1 + 3 + 4)


def test_a_runaway_list_is_compared_in_time(world, example):
    """Only the first hundred items that equal no alias are compared."""
    items = [f"item {number}" for number in range(2000)]
    case = _times(world, example, ", ".join([*items, "30 minutes", "2 days"]))
    assert world.evaluate("rel.answer@1", case)[0].value == pytest.approx(1 / 3)
    world.evaluate("rel.answer@1", case, comparator="judge")
    assert world.call_count("compare") == 100
