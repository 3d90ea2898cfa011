"""What an example says is right: its reference answers and its gold passages."""

from typing import Final

from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.model import Document, Example

__all__ = ["NO_GOLD", "NO_REFERENCES", "expected_of", "gold_passages", "references_of"]

NO_REFERENCES: Final = "no reference answers"
NO_GOLD: Final = "no gold passages"
"""Why an example without them is unscored."""


def references_of(example: Example) -> tuple[str, ...]:
    """The alternatives, any one of which is right; empty where there are none, or several answers are wanted.

    One rule for all scores: an `answer_set` rules over `answers`, and these over the long-form
    `reference`. Whoever wants more than alternatives looks at `answer_set` where this is empty.
    """
    if example.answer_set:
        return ()
    return example.answers or ((example.reference,) if example.reference is not None else ())


def expected_of(example: Example) -> tuple[tuple[str, ...], str]:
    """What an answer is held against, as `Evidence` shows it: alternatives, or one alias of each that is wanted."""
    references = references_of(example)
    return (
        (references, "reference") if references else (tuple(one[0] for one in example.answer_set), "wanted")
    )


def gold_passages(example: Example) -> list[Document]:
    """The relevant gold passages, as the generator reads them.

    Raises:
        NoGroundTruth: there are none, or one of them has no text.
    """
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    passages = [Document(gold.text, gold.id) for gold in example.relevant if gold.text is not None]
    if len(passages) < len(example.relevant):
        reason = 'a gold passage has no "text" for the generator to read'
        raise NoGroundTruth(reason)
    return passages
