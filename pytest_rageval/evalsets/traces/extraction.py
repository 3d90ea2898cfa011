"""Extracts questions, answers and messages from the inputs and outputs that traces record.

An input or output is a text, JSON in a text, a list of messages, or an object with one of the usual keys. The forms of
messages are those of OpenAI (`role`, `content`), of the GenAI conventions (`role`, `parts`), of OpenInference
(`message.role`, `message.content`) and of LangChain (`type`, `content`, also within `kwargs` or `data`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["ExtractedQuestion", "decode_json", "extract_answer", "extract_question"]

QUESTION_KEYS: Final = (
    "question",
    "query",
    "user_input",
    "user_question",
    "input",
    "prompt",
    "message",
    "text",
)
ANSWER_KEYS: Final = (
    *("answer", "output", "result", "response", "reply", "output_text", "text", "content", "completion"),
    *("messages", "message", "generations", "choices", "kwargs", "data"),
)
HISTORY_KEYS: Final = ("chat_history", "history")
ROLES: Final = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "model"), "assistant"),
}
"""The role of a message ("user", "assistant") by its names in the tools.

Messages with other roles, such as system prompts and replies of tools, belong to the application and are ignored.
"""
MAX_DEPTH: Final = 6
"""Maximum number of nested levels in which a text is searched."""

Message = dict[str, str]


class ExtractedQuestion(NamedTuple):
    """A question and the messages before it; `text` is None if no question was found."""

    text: str | None
    history: tuple[Message, ...] = ()


def decode_json(value: Any) -> Any:
    """Parse a text that is a JSON object, list or string; return any other value unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def extract_question(value: Any, depth: int = MAX_DEPTH) -> ExtractedQuestion:
    """Return the question in an input: the last message of the user, or the text under a usual key."""
    value = decode_json(value)
    if isinstance(value, str):
        return ExtractedQuestion(_stripped_text(value))
    messages = list(_parse_messages(value))
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
    if last is not None:
        return ExtractedQuestion(messages[last]["content"], tuple(messages[:last]))
    if not isinstance(value, Mapping):
        return ExtractedQuestion(None)
    candidates = [decode_json(value[name]) for name in QUESTION_KEYS if name in value]
    question = next((text for candidate in candidates if (text := _stripped_text(candidate))), None)
    if question is None:
        inner = next((candidate for candidate in candidates if isinstance(candidate, Mapping | list)), None)
        if inner is not None:
            return extract_question(inner, depth - 1) if depth else ExtractedQuestion(None)
        texts = [text for item in value.values() if (text := _stripped_text(item))]
        question = texts[0] if len(texts) == 1 else None
    history: list[Any] = next((value[name] for name in HISTORY_KEYS if isinstance(value.get(name), list)), [])
    return ExtractedQuestion(question, tuple(_parse_messages(history)))


def extract_answer(value: Any, depth: int = MAX_DEPTH) -> str | None:
    """Return the answer in an output: the last message of the assistant, or the text under a usual key."""
    value = decode_json(value)
    if isinstance(value, str):
        return _stripped_text(value)
    replies = [message["content"] for message in _parse_messages(value) if message["role"] == "assistant"]
    if replies:
        return replies[-1]
    if not depth:
        return None
    if isinstance(value, list):
        return extract_answer(value[0], depth - 1) if value else None
    if not isinstance(value, Mapping):
        return None
    answers = (extract_answer(value[name], depth - 1) for name in ANSWER_KEYS if name in value)
    texts = [text for item in value.values() if (text := _stripped_text(item))]
    return next((answer for answer in answers if answer), texts[0] if len(texts) == 1 else None)


def _parse_messages(value: Any) -> Iterator[Message]:
    """Yield the messages of user and assistant that have a text."""
    if isinstance(value, Mapping):
        value = decode_json(value.get("messages"))
    items = value if isinstance(value, list) else []
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]  # LangChain records a batch, here of one conversation
    for item in items:
        message = _parse_message(item)
        if message is not None:
            yield message


def _parse_message(item: Any) -> Message | None:
    """Return role and text of a message; None if it has another role or no text."""
    if isinstance(item, Mapping):
        inner = next(
            (item[key] for key in ("message", "kwargs", "data") if isinstance(item.get(key), Mapping)), item
        )
        names = [source.get(key) for source in (inner, item) for key in ("role", "message.role", "type")]
        if isinstance(item.get("id"), list):
            names += item["id"][-1:]  # LangChain's path of a class, which ends with its name
        contents = (inner.get(key) for key in ("content", "message.content", "parts", "contents"))
        content = next((content for content in contents if content), None)
    elif isinstance(item, list) and len(item) == 2:  # noqa: PLR2004 - role and content
        names, content = item[:1], item[1]
    else:
        return None
    role, text = (
        next((ROLES[str(name)] for name in names if str(name) in ROLES), None),
        _content_text(content),
    )
    return None if role is None or text is None else {"role": role, "content": text}


def _content_text(content: Any) -> str | None:
    """Return the text of a message; of a message with several parts, the texts of all parts that have one."""
    if not isinstance(content, list):
        return _stripped_text(content)
    parts = [
        part if isinstance(part, str) else part.get("text", part.get("content"))
        for part in content
        if isinstance(part, str | Mapping)
    ]
    return _join_texts([text for part in parts if (text := _stripped_text(part))])


def _join_texts(texts: Sequence[str]) -> str | None:
    return "\n".join(texts) or None


def _stripped_text(value: Any) -> str | None:
    """Return a text without surrounding white space; None for a blank text and any other type."""
    return value.strip() or None if isinstance(value, str) else None
