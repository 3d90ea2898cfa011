"""What a generator is: from a question and passages to an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pytest_rageval.model import Document

__all__ = ["Generator"]


class Generator(Protocol):
    """What the evaluations ask for answers."""

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """An answer to the question from the passages, best first.

        Args:
            question: as in the eval set.
            passages: none, one or more.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """All answers that the passages hold, each with citations such as `[1][3]`.

        Args:
            question: as in the eval set.
            passages: in the order of the prompt, none, one or more; a citation is a position, from 1.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """A long answer to the question from the passages, best first: whole sentences, as complete as may be.

        Args:
            question: as in the eval set.
            passages: none, one or more.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """

    def identity(self, method: str) -> Mapping[str, Any]:
        """What the answers of a method, such as "cite", depend on, by name; the model itself is under the empty one."""
