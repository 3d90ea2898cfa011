"""Questions, answers and messages in what traces record as inputs and outputs.

Both are a text, JSON in a text, a list of messages, or an object with one of the usual keys. Messages are those of
OpenAI (`role`, `content`), of the GenAI conventions (`role`, `parts`), of OpenInference (`message.role`,
`message.content`) and of LangChain (`type`, `content`, also within `kwargs` or `data`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["ExtractedQuestion", "answer_in", "asked_in", "unpacked"]

QUESTIONS: Final = ("question", "query", "user_input", "user_question", "input", "prompt", "message", "text")
ANSWERS: Final = (
    *("answer", "output", "result", "response", "reply", "output_text", "text", "content", "completion"),
    *("messages", "message", "generations", "choices", "kwargs", "data"),
)
HISTORY: Final = ("chat_history", "history")
ROLES: Final = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "model"), "assistant"),
}
"""The two sides of a conversation, by their names; system prompts and replies of tools belong to the application."""
DEPTH: Final = 6
"""Levels of objects within which a text is looked for."""

Message = dict[str, str]


class ExtractedQuestion(NamedTuple):
    """A question, or None where there is none, and the messages before it."""

    question: str | None
    history: tuple[Message, ...] = ()


def unpacked(value: Any) -> Any:
    """Return what a text holds as JSON: an object, a list or a text; any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def asked_in(value: Any, depth: int = DEPTH) -> ExtractedQuestion:
    """Find the question in an input: the last message of the user, or the text under a usual key."""
    value = unpacked(value)
    if isinstance(value, str):
        return ExtractedQuestion(_text(value))
    messages = list(_messages(value))
    last = max((i for i, each in enumerate(messages) if each["role"] == "user"), default=None)
    if last is not None:
        return ExtractedQuestion(messages[last]["content"], tuple(messages[:last]))
    if not isinstance(value, Mapping):
        return ExtractedQuestion(None)
    named = [unpacked(value[name]) for name in QUESTIONS if name in value]
    found = next((text for each in named if (text := _text(each))), None)
    if found is None:
        within = next((each for each in named if isinstance(each, Mapping | list)), None)
        if within is not None:
            return asked_in(within, depth - 1) if depth else ExtractedQuestion(None)
        texts = [text for each in value.values() if (text := _text(each))]
        found = texts[0] if len(texts) == 1 else None
    history: list[Any] = next((value[name] for name in HISTORY if isinstance(value.get(name), list)), [])
    return ExtractedQuestion(found, tuple(_messages(history)))


def answer_in(value: Any, depth: int = DEPTH) -> str | None:
    """Find the answer in an output: the last message of the assistant, or the text under a usual key."""
    value = unpacked(value)
    if isinstance(value, str):
        return _text(value)
    said = [each["content"] for each in _messages(value) if each["role"] == "assistant"]
    if said:
        return said[-1]
    if not depth:
        return None
    if isinstance(value, list):
        return answer_in(value[0], depth - 1) if value else None
    if not isinstance(value, Mapping):
        return None
    found = (answer_in(value[name], depth - 1) for name in ANSWERS if name in value)
    texts = [text for each in value.values() if (text := _text(each))]
    return next((text for text in found if text), texts[0] if len(texts) == 1 else None)


def _messages(value: Any) -> Iterator[Message]:
    """The messages of the two sides that have a text."""
    if isinstance(value, Mapping):
        value = unpacked(value.get("messages"))
    items = value if isinstance(value, list) else []
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]  # LangChain records a batch of one conversation.
    for item in items:
        message = _message(item)
        if message is not None:
            yield message


def _message(item: Any) -> Message | None:
    if isinstance(item, Mapping):
        inner = next(
            (item[key] for key in ("message", "kwargs", "data") if isinstance(item.get(key), Mapping)), item
        )
        names = [each.get(key) for each in (inner, item) for key in ("role", "message.role", "type")]
        if isinstance(item.get("id"), list):
            names += item["id"][-1:]  # the path of a class
        contents = (inner.get(key) for key in ("content", "message.content", "parts", "contents"))
        content = next((content for content in contents if content), None)
    elif isinstance(item, list) and len(item) == 2:  # noqa: PLR2004 - role and content
        names, content = item[:1], item[1]
    else:
        return None
    role, text = next((ROLES[str(name)] for name in names if str(name) in ROLES), None), _content(content)
    return None if role is None or text is None else {"role": role, "content": text}


def _content(content: Any) -> str | None:
    """The text of a message, whose parts may be of several media."""
    if not isinstance(content, list):
        return _text(content)
    parts = [
        part if isinstance(part, str) else part.get("text", part.get("content"))
        for part in content
        if isinstance(part, str | Mapping)
    ]
    return _joined([text for part in parts if (text := _text(part))])


def _joined(texts: Sequence[str]) -> str | None:
    return "\n".join(texts) or None


def _text(value: Any) -> str | None:
    """A text that is not blank, without white space around it."""
    return value.strip() or None if isinstance(value, str) else None
