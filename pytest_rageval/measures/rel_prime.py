"""Rel'-recall: of what the generator could see, how much did it use?

Rel is what is relevant to a query, Rel' the part of it that was in the prompt, Out what the generator returned.
Recall over Rel blames the generator for what the retriever did not find; recall over Rel' does not. Both are computed
for passages (those cited) and for answers (those listed), and

    recall over Rel = coverage · recall over Rel' + beyond

shows the retriever's and the generator's part in the loss: coverage = |Rel'| / |Rel| is the retriever's share, and
beyond = |(Out ∩ Rel) - Rel'| / |Rel| is 0 as long as the generator uses only what it was shown.

Source: Garigliotti (2024), "On the Relevant Set of Contexts for Evaluating Retrieval-Augmented Generation Systems".
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

__all__ = ["Recall", "RelPrime", "rel_prime"]


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall over Rel and over Rel', from the sizes |Rel|, |Rel'|, |Out ∩ Rel| and |Out ∩ Rel'|.

    >>> recall = Recall(relevant=8, available=4, found=3, found_available=3)
    >>> recall.over_rel, recall.coverage, recall.over_rel_prime
    (0.375, 0.5, 0.75)
    """

    relevant: int
    available: int
    found: int
    found_available: int

    @property
    def over_rel(self) -> float | None:
        """`|Out ∩ Rel| / |Rel|`; None where Rel is empty."""
        return _share(self.found, self.relevant)

    @property
    def over_rel_prime(self) -> float | None:
        """`|Out ∩ Rel'| / |Rel'|`; None where Rel' is empty."""
        return _share(self.found_available, self.available)

    @property
    def coverage(self) -> float | None:
        """`|Rel'| / |Rel|`, the retriever's share; None where Rel is empty."""
        return _share(self.available, self.relevant)

    @property
    def beyond(self) -> float | None:
        """`|(Out ∩ Rel) - Rel'| / |Rel|`: found without being shown; None where Rel is empty."""
        return _share(self.found - self.found_available, self.relevant)


@dataclass(frozen=True, slots=True)
class RelPrime:
    """The result of one query.

    Attributes:
        answers: recall of the wanted answers.
        citations: recall of the relevant passages.
        citation_precision: `|Out ∩ Rel| / |Out|` of the cited passages. A hallucinated citation is one of Out that is
            not relevant. It is the same over Rel', since a relevant passage that is cited was in the prompt. None
            where nothing is cited.
        parametric: wanted answers listed that occur in no passage of the prompt: the model's memory.
        hallucinated: citations of no passage of the prompt.
    """

    answers: Recall
    citations: Recall
    citation_precision: float | None
    parametric: int
    hallucinated: int


def rel_prime(  # noqa: PLR0913 - six sets are what the method is about
    *,
    relevant: Collection[Hashable],
    prompt: Sequence[Hashable],
    cited: Collection[int],
    wanted: Collection[Hashable],
    shown: Collection[Hashable],
    listed: Collection[Hashable],
    seen: Collection[Hashable] | None = None,
) -> RelPrime:
    """Compare the output of a generator with its prompt; repeated elements count once everywhere.

    An answer occurs in a passage where one of its aliases does, as whole contiguous tokens in normal form:
    `answers.overlap.containment`.

    Args:
        relevant: the relevant passages of the query, by any names; Rel of passages.
        prompt: the names of the passages in the prompt, in the order shown.
        cited: the positions in the prompt that the answer cites, from 1. All others are hallucinated.
        wanted: the answers that are right, by any names; Rel of answers.
        shown: those of them that occur in a relevant passage of the prompt, or in any passage of it where relevant
            ones are not known; Rel' of answers.
        listed: those of them that the output lists.
        seen: those that occur in any passage of the prompt, relevant or not. None: those shown.

    Returns:
        Counts and shares; a share is None where it would divide by 0, and never above 1.

    >>> found = rel_prime(
    ...     relevant={"a", "b"}, prompt=["b", "x"], cited=[1, 2, 3],
    ...     wanted={"Ada", "Bob", "Eve"}, shown={"Ada", "Bob"}, listed={"Ada", "Eve"},
    ... )
    >>> found.answers.over_rel_prime, found.citations.over_rel_prime, found.parametric, found.hallucinated
    (0.5, 1.0, 1, 1)
    """
    rel_passages, rel_answers = set(relevant), set(wanted)
    in_prompt = dict(enumerate(prompt, start=1))
    cited_passages = {in_prompt[position] for position in cited if position in in_prompt}
    hallucinated = len({position for position in cited if position not in in_prompt})
    known = set(shown) if seen is None else set(seen) | set(shown)
    answers = _recall(rel_answers, set(shown), set(listed))
    citations = _recall(rel_passages, set(prompt), cited_passages)
    out = len(cited_passages) + hallucinated
    return RelPrime(
        answers=answers,
        citations=citations,
        citation_precision=_share(citations.found, out),
        parametric=len(set(listed) & rel_answers - known),
        hallucinated=hallucinated,
    )


def _recall(relevant: set[Hashable], shown: set[Hashable], out: set[Hashable]) -> Recall:
    found, available = out & relevant, shown & relevant
    return Recall(len(relevant), len(available), len(found), len(found & available))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
