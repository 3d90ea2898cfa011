"""Conversations: the messages before a question, and a question that carries them."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

__all__ = ["ROLES", "Message", "QuestionWithHistory", "conversation_text", "history_of"]

Message = Mapping[str, str]
"""One message, with its `role` and its `content`."""

ROLES: Final = {"user": "User", "assistant": "Assistant", "system": "System"}
"""The usual roles, as prompts name them; others are named as they are."""


class QuestionWithHistory(str):
    """A question that follows a conversation: the text is the question alone, the messages are in `history`.

    Two are equal where both text and history are equal. It is equal to a plain text only where it has no history, so
    that results are kept apart by the conversation too. Without arguments it is the empty question.
    """

    __slots__ = ("history",)

    history: tuple[Message, ...]

    def __new__(cls, text: str = "", history: Iterable[Message] = ()) -> Self:
        """Make a question of its text and the messages before it."""
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
    """Return the messages before a question; empty for a plain text."""
    return question.history if isinstance(question, QuestionWithHistory) else ()


def conversation_text(history: Iterable[Message]) -> str:
    r"""Return messages as a prompt shows them, one a line.

    >>> conversation_text([{"role": "user", "content": "Do you\nship?"}, {"role": "assistant", "content": "Yes."}])
    'User: Do you ship?\nAssistant: Yes.'
    """
    return "\n".join(
        f"{ROLES.get(message['role'], message['role'])}: {' '.join(message['content'].split())}"
        for message in history
    )
