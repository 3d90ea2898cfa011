"""What came back from a model, and its form as text."""

import json
from dataclasses import asdict, dataclass

__all__ = ["Reply"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, as the server gave it.

    Attributes:
        text: the message's content; empty where the model said nothing or refused.
        model: as the server names it, often with a version that the request lacks.
        finish_reason: `"stop"`; `"length"` where the token limit cut the reply; or the server's word.
        tokens_in: tokens of the prompt, 0 where the server does not count.
        tokens_out: tokens of the reply, likewise.
    """

    text: str
    model: str = ""
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0

    def dumps(self, **before: str) -> str:
        """One line of JSON: what is given, then the fields by name."""
        record = {**before, **dict(sorted(asdict(self).items()))}
        line = json.dumps(record, ensure_ascii=False)
        try:
            line.encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair, as a reply that was cut may end in; JSON has a form for it.
            line = json.dumps(record)
        return line

    @classmethod
    def loads(cls, line: str) -> "Reply":
        """The inverse of `dumps`.

        Raises:
            ValueError: the text is no such reply; it says why.
        """
        record = json.loads(line)
        if not isinstance(record, dict):
            message = f"a reply is a JSON object, found {type(record).__name__}"
            raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
        kinds = {
            "text": str,
            "model": str,
            "finish_reason": str,
            "tokens_in": int,
            "tokens_out": int,
        }
        for name, kind in kinds.items():
            if not isinstance(record.get(name), kind):
                message = f"{name!r} is {record.get(name)!r}, expected {kind.__name__}"
                raise ValueError(message)  # noqa: TRY004
        return cls(**{name: record[name] for name in kinds})
