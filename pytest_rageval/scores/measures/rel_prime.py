"""Recall of a generator's output over Rel, the relevant items of a query, and over Rel', those in its prompt.

Source: Garigliotti (2024), "On the Relevant Set of Contexts for Evaluating Retrieval-Augmented Generation Systems".
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall over Rel, the relevant items of a query, and over Rel', those in the prompt; Out is what was returned.

    Items are passages (Out are the cited passages) or answers (Out are the listed answers). `relevant` is |Rel|,
    `available` |Rel'|, `found` |Out ∩ Rel|, and `found_available` |Out ∩ Rel'|. The losses of the retriever and of the
    generator are separated by `over_rel = coverage · over_rel_prime + beyond`: coverage is the retriever's share, and
    beyond is 0 as long as the generator uses only the prompt. A share is None if its divisor is 0.

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
        """`|Out ∩ Rel| / |Rel|`."""
        return _share(self.found, self.relevant)

    @property
    def over_rel_prime(self) -> float | None:
        """`|Out ∩ Rel'| / |Rel'|`."""
        return _share(self.found_available, self.available)

    @property
    def coverage(self) -> float | None:
        """`|Rel'| / |Rel|`, the retriever's share."""
        return _share(self.available, self.relevant)

    @property
    def beyond(self) -> float | None:
        """`|(Out ∩ Rel) - Rel'| / |Rel|`, found although not in the prompt."""
        return _share(self.found - self.found_available, self.relevant)


@dataclass(frozen=True, slots=True)
class RelPrime:
    """The result of one query.

    Attributes:
        citation_precision: `|Out ∩ Rel| / |Out|` of the cited passages; None if no passage is cited. A hallucinated
            citation is in Out and not relevant. The precision over Rel' is the same, because a cited passage that is
            relevant was in the prompt.
        parametric: the number of wanted answers that the output lists and that occur in no passage of the prompt: they
            are from the model's memory.
        hallucinated: the number of citations that refer to no passage of the prompt.
    """

    answers: Recall
    citations: Recall
    citation_precision: float | None
    parametric: int
    hallucinated: int


def rel_prime(  # noqa: PLR0913 - the method compares six sets
    *,
    relevant: Collection[Hashable],
    prompt: Sequence[Hashable],
    cited: Collection[int],
    wanted: Collection[Hashable],
    available: Collection[Hashable],
    listed: Collection[Hashable],
    in_prompt: Collection[Hashable] | None = None,
) -> RelPrime:
    """Compare the output of a generator with its prompt. Repeated elements count once in every argument.

    An answer occurs in a passage if one of its aliases does, as whole contiguous tokens in normal form:
    `answers.overlap.containment`.

    Args:
        relevant: the relevant passages of the query, by any names: Rel of passages.
        prompt: the names of the passages in the prompt, in the order of the prompt.
        cited: the positions that the output cites, from 1. Positions that are not in the prompt are hallucinated.
        wanted: the right answers, by any names: Rel of answers.
        available: the wanted answers that occur in a relevant passage of the prompt or, if the relevant passages are
            not known, in any passage of the prompt: Rel' of answers.
        listed: the answers that the output lists.
        in_prompt: the wanted answers that occur in any passage of the prompt, relevant or not. None: `available`.

    Returns:
        Counts and shares. A share is at most 1, and None if its divisor is 0.

    >>> found = rel_prime(
    ...     relevant={"a", "b"}, prompt=["b", "x"], cited=[1, 2, 3],
    ...     wanted={"Ada", "Bob", "Eve"}, available={"Ada", "Bob"}, listed={"Ada", "Eve"},
    ... )
    >>> found.answers.over_rel_prime, found.citations.over_rel_prime, found.parametric, found.hallucinated
    (0.5, 1.0, 1, 1)
    """
    rel_passages, rel_answers = set(relevant), set(wanted)
    by_position = dict(enumerate(prompt, start=1))
    cited_passages = {by_position[position] for position in cited if position in by_position}
    hallucinated = len({position for position in cited if position not in by_position})
    from_prompt = set(available) if in_prompt is None else set(in_prompt) | set(available)
    answers = _recall(rel_answers, set(available), set(listed))
    citations = _recall(rel_passages, set(prompt), cited_passages)
    out = len(cited_passages) + hallucinated
    return RelPrime(
        answers=answers,
        citations=citations,
        citation_precision=_share(citations.found, out),
        parametric=len(set(listed) & rel_answers - from_prompt),
        hallucinated=hallucinated,
    )


def _recall(relevant: set[Hashable], in_prompt: set[Hashable], out: set[Hashable]) -> Recall:
    found, available = out & relevant, in_prompt & relevant
    return Recall(len(relevant), len(available), len(found), len(found & available))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
