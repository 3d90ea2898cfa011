"""How much of the relevant text in its prompt does the generator use? And how much did the retriever miss?

The generator lists all answers that it finds in the first k passages, each with citations such as `[1][3]`. *Rel* is
everything that is relevant, *Rel'* the part of it that was in the prompt. The scores `rel_recall` compare with Rel' and
concern only the generator. The scores `rel` compare with Rel. For each question `rel.citation` = `rel.coverage` ×
`rel_recall.citation`. For answers, `rel.answer` = `rel.answer_coverage` × `rel_recall.answer` + the share of wanted
answers that the generator listed though they are not in Rel'. The factors, pooled over the questions, are shown below
the scores.

If nothing relevant was in the prompt, `rel_recall` is *undefined*: the question is left out of the mean and counted. So
`rel` and `rel_recall` may be means over different questions. If a test has both, a note also shows the means over their
common questions.

The keyword `relevant` sets which passages are relevant:

- `"gold"` (default): gold passages; `"gold_grade>=2"`: those of this grade or a higher one. Without gold passages, all
  passages of the prompt may contain answers, and citations cannot be scored.
- `"contains"`: passages that a wanted answer occurs in; needs `answer_set` or `answers`.
- `"judge"`: passages that the judge calls relevant, as for `relevance.*`, whose requests it shares.

The last two label only retrieved passages. For `rel.citation` and `rel.coverage`, Rel consists of the relevant passages
among the first 100 that the retriever returns (`"contains"`), or the first 20 (`"judge"`, one request each).
`relevant="contains@50"` or `relevant="judge@10"` sets another depth. The passages of the prompt are always labelled:
with k = 3 `"judge@2"` labels three. If none of these is relevant, both scores are undefined. The other scores label
only the passages of the prompt.

Answers from the model's memory and citations of passages that do not exist are counted too. An item of the list counts
for a wanted answer if it equals one of its aliases; case, punctuation and articles are ignored. Any other item counts
if the comparison says that item and alias mean the same, in both directions. So "thirty minutes" counts for "half an
hour", and "Rocky II" does not count for "Rocky". The comparison is canonical, or that of the option `comparator` if it
sends no requests. A threshold may set another: `comparator="em"` accepts only equal items, as in the paper;
`comparator="judge"` sends a request for each item (a plan assumes as many items as wanted answers). At most 100 items
of an answer are compared.

`order="random"` shuffles the passages in the prompt, the same way for the same `seed`. The coverages, and all
other scores for which no generator reads several passages at once, accept the keyword too and do not change; a note
says so. So one grid of cut-offs and orders can be used for all of these scores.
"""

from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, Final, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import ListedAnswers, match_listed_answers, parse_citations
from pytest_rageval.answers.comparators import highest, lowest
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import NoGroundTruth, Undefined
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence, Outcome, Score
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.models.messages import is_placeholder
from pytest_rageval.scores.definition import (
    GOLD,
    MATCH_ITEMS,
    REFERENCES,
    Family,
    Scored,
    ScoreDef,
    WorkedExample,
    each_example,
)
from pytest_rageval.scores.pipeline import NO_REFERENCES, Evaluation, Pipeline, ResolvedScore
from pytest_rageval.scores.rel_prompt import (
    NO_RELEVANT,
    Recall,
    RelPrime,
    RelPrompt,
    prompt_with_relevant,
    rel_prompt,
)

MAX_NAMED_ITEMS = 5  # number of items without an equal reference that a remark names

MAX_COMPARED_ITEMS: Final = 100
"""The number of items of one answer that a comparator compares, of the items that equal no alias. A runaway output has
thousands of items."""


@each_example
async def evaluate_answer_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """The wanted answers are those of the `answer_set`, or `answers` as one wanted answer.

    A wanted answer is in the prompt if it occurs in a relevant passage of the prompt or, if the gold passages are not
    known, in any passage. An item that equals no alias may count too: see `_add_equivalent_items`. Unscored: an example
    without wanted answers. `rel_recall` is undefined if the prompt has none of them; then no request is sent.
    """
    if not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await rel_prompt(pipeline, example, resolved)
    if resolved.spec.name == "rel_recall" and not prompt.available_answers:
        raise Undefined(prompt.no_answer_reason)
    answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
    items = match_listed_answers(answer, example.wanted)
    if items.matched or not abstains(answer):
        items = await _add_equivalent_items(pipeline, example, resolved, answer, items)
    result, evidence = _compare(prompt, answer, items)
    counts = {"parametric_answers": result.parametric, **evidence.counts}
    evidence = replace(
        evidence,
        expected=_first_aliases(example),
        expected_as="wanted",
        counts=counts,
        remark=_remark(items.unmatched),
        sizes=_sizes(result.answers),
    )
    return _recall_value(result.answers, resolved), evidence


@each_example
async def evaluate_citation_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> Scored | Outcome:
    """Unscored: an example whose relevant passages are not known.

    `rel_recall` is undefined if no relevant passage is in the prompt, `rel` if none of the labelled passages is
    relevant; in both cases no request is sent to the generator.
    """
    prompt = await prompt_with_relevant(pipeline, example, resolved)
    if resolved.spec.name == "rel_recall" and not prompt.available_passages:
        # The sizes count in the pooled shares: a passage that was not in the prompt cannot be cited.
        sizes = _sizes(Recall(len(prompt.relevant), 0, 0, 0)) if prompt.rel_is_known else {}
        return Outcome(example, None, undefined=NO_RELEVANT, evidence=Evidence(prompt.ranking, sizes=sizes))
    prompt.check_has_relevant(resolved)
    result, evidence = await _generate_and_compare(pipeline, example, resolved, prompt)
    sizes = _sizes(result.citations) if prompt.rel_is_known else {}
    return _recall_value(result.citations, resolved), replace(evidence, sizes=sizes)


@each_example
async def evaluate_citation_precision(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> Scored:
    """It is the same over Rel and over Rel'. A citation of a passage that is not in the prompt is not relevant.

    Unscored: an example whose relevant passages are not known.
    """
    prompt = await prompt_with_relevant(pipeline, example, resolved)
    result, evidence = await _generate_and_compare(pipeline, example, resolved, prompt)
    if result.citation_precision is None:
        raise Undefined("nothing was cited")
    return result.citation_precision, evidence


@each_example
async def evaluate_coverage(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: the relevant passages are not known. Undefined: none of the labelled passages is relevant."""
    prompt = await prompt_with_relevant(pipeline, example, resolved)
    prompt.check_has_relevant(resolved)
    return prompt.available_passages / len(prompt.relevant), Evidence(prompt.ranking, counts=prompt.counts)


@each_example
async def evaluate_answer_coverage(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example without wanted answers."""
    if not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await rel_prompt(pipeline, example, resolved)
    share = len(prompt.available_answers) / len(example.wanted)
    return share, Evidence(prompt.ranking, None, _first_aliases(example), "wanted", counts=prompt.counts)


async def _generate_and_compare(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, prompt: RelPrompt
) -> tuple[RelPrime, Evidence]:
    answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
    return _compare(prompt, answer, match_listed_answers(answer, example.wanted))


def _compare(prompt: RelPrompt, answer: str, items: ListedAnswers) -> tuple[RelPrime, Evidence]:
    result = prompt.compare(answer, items.matched)
    counts = {"hallucinated_citations": result.hallucinated, **prompt.counts}
    citations = parse_citations(answer, len(prompt.passage_names))
    remark = "" if citations.positions or citations.hallucinated else "cited nothing"
    return result, Evidence(prompt.ranking, answer, counts=counts, remark=remark)


def _item_comparator(pipeline: Pipeline, resolved: ResolvedScore) -> str:
    """Return the comparator of list items.

    A judge would be called for each pair of an item and a wanted answer, so it is used only if a threshold names it.
    """
    return pipeline.free_comparator() if resolved.comparator is None else resolved.comparator


async def _add_equivalent_items(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, answer: str, items: ListedAnswers
) -> ListedAnswers:
    """Return the items, in which an item that equals no alias counts for the wanted answers that say the same.

    The comparator must find that the item says what one of the aliases says, and that an alias says what the item says:
    "Rocky II" says "Rocky", but "Rocky" does not say "Rocky II". In a plan the answer is not known yet. It counts as
    one item per wanted answer.
    """
    comparator, question, wanted = _item_comparator(pipeline, resolved), example.full_question, example.wanted
    unequal = items.unmatched[:MAX_COMPARED_ITEMS]
    if is_placeholder(answer):
        unequal = tuple(f"{answer} {n}" for n in range(len(wanted)))

    async def says(aliases: Sequence[str], text: str) -> float:
        return float(await pipeline.compare(question, aliases, text, comparator) >= YES_THRESHOLD)

    def both_ways(item: str, aliases: Sequence[str]) -> Iterator[Awaitable[float]]:
        # Most items say none of the wanted answers. The first comparison, with all of them, finds that out at once.
        yield says([*chain.from_iterable(wanted)], item)
        yield says(aliases, item)
        yield highest(says([item], alias) for alias in aliases)

    pairs = list(product(unequal, enumerate(wanted)))
    verdicts = await gather_all(lowest(both_ways(item, aliases)) for item, (_, aliases) in pairs)
    choices = dict(items.candidates)
    for (item, (position, _)), verdict in zip(pairs, verdicts, strict=True):
        if verdict:
            choices[item] = (*choices.get(item, ()), position)
    return ListedAnswers(choices)


def _remark(items: Sequence[str]) -> str:
    if not items:
        return ""
    names = join_first(list(map(repr, items)), MAX_NAMED_ITEMS)
    return f"item {names} equals no reference" if len(items) == 1 else f"items {names} equal no reference"


def _first_aliases(example: Example) -> tuple[str, ...]:
    return tuple(aliases[0] for aliases in example.wanted)


def _sizes(recall: Recall) -> dict[str, int]:
    """Return `Evidence.sizes`: |Rel|, |Rel'|, |Out ∩ Rel'| and, if it is not 0, |(Out ∩ Rel) - Rel'| as "beyond"."""
    sizes = {"relevant": recall.relevant, "shown": recall.available, "found": recall.found_available}
    beyond = recall.found - recall.found_available
    return {**sizes, "beyond": beyond} if beyond else sizes


def _recall_value(recall: Recall, resolved: ResolvedScore) -> float:
    """Return the recall over Rel' or over Rel, by the family of the score; it must be defined."""
    return cast("float", recall.over_rel_prime if resolved.spec.name == "rel_recall" else recall.over_rel)


def pooled_notes(score: Score | None) -> dict[str, object]:
    """Return the report's key `pooled`: the sums of the sizes of the sets, and the shares of the sums.

    A share is None if it is undefined. `questions` is the number of questions in the sums. A question whose score is
    undefined, and for which no request was sent, may have no sizes.
    """
    # Compared with None, because a score of 0 is false.
    outcomes = () if score is None else score.outcomes
    known = [outcome.evidence.sizes for outcome in outcomes if outcome.evidence.sizes]
    if not known:
        return {}
    sizes: Counter[str] = Counter()
    for question_sizes in known:
        sizes.update(question_sizes)
    recall = Recall(sizes["relevant"], sizes["shown"], sizes["found"] + sizes["beyond"], sizes["found"])
    shares = {
        "coverage": recall.coverage,
        "recall_over_rel_prime": recall.over_rel_prime,
        "recall_over_rel": recall.over_rel,
    }
    return {"pooled": {"questions": len(known), **sizes, **shares}}


def pooled_text(entry: Mapping[str, Any]) -> str:
    """Return the losses of retriever and generator in a sentence, over all questions."""
    pooled = entry["pooled"]
    if not pooled["shown"]:
        return ""
    relevant, shown, found = (pooled[name] for name in ("relevant", "shown", "found"))
    beyond = pooled.get("beyond", 0)
    others = f" and {beyond} that it had not found" if beyond else ""
    questions = entry["n"] + entry["unscored"] + entry["undefined"]
    over = f"over {pooled['questions']} of {questions} questions " if pooled["questions"] < questions else ""
    return (
        f"{over}the retriever found {shown} of {counted(relevant, 'relevant item')}, the answers named {found} of "
        f"these {shown}{others}: recall over Rel {found + beyond}/{relevant} ({pooled['recall_over_rel']:.3f})"
    )


FAMILY: Final = Family(
    "Rel'-recall: answers and citations",
    __doc__,
    requests="1 answer with citations; with a judge as `comparator`, also its verdicts on the listed items; with "
    '`relevant="judge"`, 1 verdict for each passage of the prompt, or of the first 20',
    source="Garigliotti (2024). Answers are matched as in QAMPARI (Amouyal et al., 2023), and in canonical form.",
    example=WorkedExample(
        text='Three answers are wanted: Paris, Rome, Oslo. The gold passages are `a` ("Paris …") and `b` ("Rome …"). '
        "The retriever returns `a` and `c`, so that only `a` is in the prompt. The generator says "
        '"Paris [1], Oslo [2]".',
        k=2,
        record={
            "question": "Where are the offices?",
            "answer_set": [["Paris"], ["Rome"], ["Oslo"]],
            "gold": [{"id": "a"}, {"id": "b"}],
        },
        retrieved=("a", "c"),
        texts={"a": "Paris has an office.", "c": "The company was founded in 1999."},
        says={"a c": "Paris [1], Oslo [2]"},
    ),
)


def _score_def(  # noqa: PLR0913 - attributes of a score
    name: str,
    evaluate: Evaluation,
    asks: set[str],
    definition: str,
    worked: tuple[float, str],
    *,
    needs: str = GOLD,
    paired_score: str = "",
) -> ScoreDef:
    return ScoreDef(
        name,
        evaluate,
        asks,
        comparisons=lambda pipeline, resolved: {"comparator": _item_comparator(pipeline, resolved)},
        notes=pooled_notes,
        definition=definition,
        worked=worked,
        needs=(needs,),
        takes_relevant={"gold", "contains", "judge"},
        paired_score=paired_score,
    )


SCORES: Final = (
    _score_def(
        "rel_recall.answer",
        evaluate_answer_recall,
        {"cite", MATCH_ITEMS},
        "Of the wanted answers that occur in relevant passages of the prompt, the share that the generator lists.",
        (1.0, "only Paris is in Rel', and it is listed"),
        needs=REFERENCES,
        paired_score="rel.answer",
    ),
    _score_def(
        "rel_recall.citation",
        evaluate_citation_recall,
        {"cite"},
        "Of the relevant passages in the prompt, the share that is cited.",
        (1.0, "1 of 1"),
        paired_score="rel.citation",
    ),
    _score_def(
        "rel.answer",
        evaluate_answer_recall,
        {"cite", MATCH_ITEMS},
        "Of all wanted answers, the share that the generator lists.",
        (2 / 3, "2 of 3"),
        needs=REFERENCES,
    ),
    _score_def(
        "rel.citation",
        evaluate_citation_recall,
        {"cite"},
        "Of all relevant passages, the share that is cited.",
        (0.5, "1 of 2"),
    ),
    _score_def(
        "rel.citation_precision",
        evaluate_citation_precision,
        {"cite"},
        "Of the cited passages, the share that is relevant; undefined if no passage is cited.",
        (0.5, "`a` of `a` and `c`"),
    ),
    _score_def(
        "rel.coverage",
        evaluate_coverage,
        set(),
        "Of all relevant passages, the share in the prompt: the retriever's part. The generator is not called.",
        (0.5, "1 of 2"),
    ),
    _score_def(
        "rel.answer_coverage",
        evaluate_answer_coverage,
        set(),
        "Of all wanted answers, the share that occurs in relevant passages of the prompt: the retriever's part. The "
        "generator is not called.",
        (1 / 3, "Paris, of 3"),
        needs=REFERENCES,
    ),
)
