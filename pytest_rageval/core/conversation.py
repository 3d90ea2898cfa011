"""Conversations: the messages that precede a question, and a question that stores them."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

Message = Mapping[str, str]
"""One message: a mapping with the keys `role` and `content`."""

ROLE_LABELS: Final = {"user": "User", "assistant": "Assistant", "system": "System"}
"""Labels of the usual roles in prompts. Any other role is its own label."""


class QuestionWithHistory(str):
    """A question that follows a conversation: the text is the question alone, `history` has the earlier messages.

    Two objects are equal if both text and history are equal. An object equals a plain `str` only if its history is
    empty, so that results cached by question are also cached by conversation. Without arguments it is an empty
    question.
    """

    __slots__ = ("history",)

    history: tuple[Message, ...]

    def __new__(cls, text: str = "", history: Iterable[Message] = ()) -> Self:
        """Create a question from its text and the messages before it."""
        question = super().__new__(cls, text)
        question.history = tuple(history)
        return question

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and self.history == history_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), conversation_text(self.history)))

    def __getnewargs__(self) -> tuple[str, tuple[Message, ...]]:  # type: ignore[override]
        return str(self), self.history


def history_of(question: object) -> tuple[Message, ...]:
    """Return the messages before a question; an empty tuple for a plain `str`."""
    return question.history if isinstance(question, QuestionWithHistory) else ()


def conversation_text(history: Iterable[Message]) -> str:
    r"""Return messages as text for a prompt, one message per line.

    >>> conversation_text([{"role": "user", "content": "Do you\nship?"}, {"role": "assistant", "content": "Yes."}])
    'User: Do you ship?\nAssistant: Yes.'
    """
    return "\n".join(
        f"{ROLE_LABELS.get(message['role'], message['role'])}: {' '.join(message['content'].split())}"
        for message in history
    )
