"""What an example says is right: its reference answers and gold passages."""

from typing import Final

from pytest_rageval.core.data import Document, Example
from pytest_rageval.core.errors import NoGroundTruth

NO_REFERENCES: Final = "no reference answers"
"""The reason why an example without reference answers is unscored."""

NO_GOLD: Final = "no gold passages"
"""The reason why an example without gold passages is unscored."""


def references_of(example: Example) -> tuple[str, ...]:
    """Return the alternative reference answers; empty if there are none, or if the example has an answer set.

    An `answer_set` takes precedence over `answers`, and `answers` over the long-form `reference`.
    """
    if example.answer_set:
        return ()
    return example.answers or ((example.reference,) if example.reference is not None else ())


def expected_of(example: Example) -> tuple[tuple[str, ...], str]:
    """Return `expected` and `expected_as` of `Evidence`: the references, or one alias of each wanted answer."""
    if references := references_of(example):
        return references, "reference"
    return tuple(aliases[0] for aliases in example.answer_set), "wanted"


def gold_passages(example: Example) -> list[Document]:
    """Return the relevant gold passages as documents for the generator.

    Raises:
        NoGroundTruth: the example has no relevant gold passages, or one of them has no text.
    """
    relevant = example.relevant
    if not relevant:
        raise NoGroundTruth(NO_GOLD)
    passages = [Document(gold.text, gold.id) for gold in relevant if gold.text is not None]
    if len(passages) < len(relevant):
        raise NoGroundTruth('a gold passage has no "text" for the generator to read')
    return passages


def has_references(example: Example) -> bool:
    return bool(references_of(example) or example.answer_set)
