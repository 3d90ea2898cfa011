"""Properties of the Rel' measures, for any prompt and output."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.scores.rel_prompt import RelPrime, RelPrompt
from pytest_rageval.scores.rel_recall import pooled_notes

NAMES = st.integers(0, 12)
SETS = st.sets(NAMES, max_size=8)


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a query: passages by name, citations by position, and answers by position."""
    wanted = draw(st.integers(0, 8))
    answers = st.sets(st.integers(0, wanted - 1)) if wanted else st.just(set[int]())
    available = draw(answers)
    return {
        "relevant": draw(SETS),
        "prompt": draw(st.lists(NAMES, max_size=8)),
        "cited": draw(st.lists(st.integers(1, 11), max_size=8)),
        "wanted": wanted,
        "available": available,
        "in_prompt": available | draw(answers),
        "listed": draw(answers),
    }


def rel_prime(query: Mapping[str, Any]) -> RelPrime:
    prompt = RelPrompt(
        Ranking("q", ()),
        frozenset(query["relevant"]),
        unknown_reason=None,
        passage_names=tuple((name,) for name in query["prompt"]),
        wanted=[("x",)] * query["wanted"],
        available_answers=frozenset(query["available"]),
        answers_in_prompt=frozenset(query["in_prompt"]),
        counts={},
        rel_is_known=True,
    )
    output = "Out" + "".join(f" [{position}]" for position in query["cited"])
    return prompt.compare(output, frozenset(query["listed"]))


def _recalls(found: RelPrime) -> list[float | None]:
    both = (found.answers, found.citations)
    return [
        share for side in both for share in (side.over_rel, side.over_rel_prime, side.coverage, side.beyond)
    ]


@given(query=queries())
def test_no_share_is_above_1(query) -> None:
    """All shares are between 0 and 1, despite answers from memory and invalid citations."""
    result = rel_prime(query)
    for share in [*_recalls(result), result.citation_precision]:
        assert share is None or 0 <= share <= 1


@given(query=queries())
def test_precision_is_the_same_over_rel_and_rel_prime(query) -> None:
    """Citation precision over Rel and over Rel' is the same, since cited passages are in the prompt."""
    positions = {position for position in query["cited"] if position <= len(query["prompt"])}
    out = {query["prompt"][position - 1] for position in positions}
    size = len(out) + len(set(query["cited"]) - positions)
    relevant, in_prompt = query["relevant"], set(query["prompt"])
    result = rel_prime(query)
    if result.citation_precision is None:
        assert not size
    else:
        assert result.citation_precision == len(out & relevant) / size
        assert result.citation_precision == len(out & (relevant & in_prompt)) / size


@given(query=queries())
def test_recall_over_rel_is_coverage_times_recall_over_rel_prime_and_what_is_beyond(query) -> None:
    result = rel_prime(query)
    for side in (result.answers, result.citations):
        if side.over_rel is not None:
            parts = (side.coverage or 0.0) * (side.over_rel_prime or 0.0) + (side.beyond or 0.0)
            assert side.over_rel == pytest.approx(parts, abs=1e-12)
    assert not result.citations.beyond


@given(query=queries())
def test_the_factorisation_holds_while_the_output_was_shown(query) -> None:
    """If Out ⊆ Rel', nothing is beyond Rel' or from memory, and the recall over Rel is a product."""
    query["listed"] &= query["available"]
    result = rel_prime(query)
    answers = result.answers
    assert result.parametric == 0
    if answers.over_rel_prime is not None and answers.coverage is not None:
        assert answers.over_rel == pytest.approx(answers.coverage * answers.over_rel_prime, abs=1e-12)
    else:
        assert not answers.over_rel


@given(query=queries(), data=st.data())
def test_duplicates_and_order_of_citations_change_nothing(query, data: st.DataObject) -> None:
    twice = data.draw(st.permutations(query["cited"] * 2))
    assert rel_prime({**query, "cited": twice}) == rel_prime(query)


@given(query=queries())
def test_a_passage_repeated_at_the_end_of_the_prompt_changes_nothing(query) -> None:
    prompt = query["prompt"]
    query["cited"] = [position for position in query["cited"] if position <= len(prompt)]
    assert rel_prime({**query, "prompt": [*prompt, *prompt]}) == rel_prime(query)


@given(query=queries())
def test_memory_and_hallucination_are_counted(query) -> None:
    """Right answers that no passage contains and citations of missing passages are counted once each."""
    result = rel_prime(query)
    assert result.parametric == len(query["listed"] - query["in_prompt"])
    assert result.hallucinated == len({n for n in query["cited"] if n > len(query["prompt"])})


@given(several=st.lists(queries(), min_size=1, max_size=5))
def test_the_factorisation_holds_for_pooled_sizes(several) -> None:
    results = [rel_prime(query) for query in several]
    for side in ([result.answers for result in results], [result.citations for result in results]):
        outcomes = [
            Outcome(
                Example(str(n), "?"),
                0.5,
                evidence=Evidence(
                    sizes={
                        "relevant": sizes.relevant,
                        "shown": sizes.available,
                        "found": sizes.found_available,
                        "beyond": sizes.found - sizes.found_available,
                    }
                ),
            )
            for n, sizes in enumerate(side)
        ]
        pooled = pooled_notes(Score("rel.answer@5", outcomes))["pooled"]
        assert pooled["questions"] == len(several)
        if relevant := sum(sizes.relevant for sizes in side):
            factors = (
                pooled["coverage"] * (pooled["recall_over_rel_prime"] or 0.0) + pooled["beyond"] / relevant
            )
            assert pooled["recall_over_rel"] == pytest.approx(factors, abs=1e-12)
            assert pooled["recall_over_rel"] == sum(sizes.found for sizes in side) / relevant
        else:
            assert pooled["recall_over_rel"] is pooled["coverage"] is None
