"""Summaries of requests, in the cache and the cassette: they explain a missing reply by the nearest one that is there.

A cassette is committed to git, and prompts may contain private text. So a summary has only a short hash of each part of
a prompt, unless `--rageval record_prompts=true` is set.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, TypedDict, cast

from pytest_rageval.lib.digests import digest, text_digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.models.messages import Request

RUN_FIELD: Final = "run"  # the field of a stored summary with the run that sent the request
HASH_DIGITS: Final = 12
MAX_SHOWN_LENGTH: Final = 60  # characters of JSON; longer parameters are hashed
MIN_SAME_WORDS: Final = 0.5  # of the words of two prompts; with fewer in common, they are different prompts

ALWAYS_HASHED: Final = {"extra_body", "metadata", "user", "safety_identifier"}
"""Parameters that are always hashed, because they may contain keys or names."""

QUESTION_WEIGHT: Final = 4.0  # of an equal question in `find_nearest`; other equal values have weight 1


class RequestSummary(TypedDict, total=False):
    """The description of a request in the cache and the cassette; long parameters and all parts are hashed."""

    base_url: str
    model: str
    api: str  # absent for chat completions
    parameters: dict[str, object]
    sample: int
    parts: dict[str, str]
    messages: list[Any]


def request_summary(request: Request, *, prompts: bool = False) -> RequestSummary:
    summary: RequestSummary = {
        "base_url": request.base_url,
        "model": request.model,
        "parameters": {
            name: _hash_if_long(name, value) for name, value in sorted(request.summary_parameters.items())
        },
        "sample": request.sample,
        "parts": {name: text_digest(text)[:HASH_DIGITS] for name, text in _parts(request).items()},
    }
    if request.api != "chat":
        summary["api"] = request.api
    if prompts:
        summary["messages"] = _to_json_types(request.messages)
    return summary


def describe_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters for a fingerprint, as texts, numbers or null; long values are hashed.

    >>> describe_parameters({"temperature": 0.5, "chat_template_kwargs": {"enable_thinking": False}})
    {'temperature': 0.5, 'chat_template_kwargs': '{"enable_thinking": false}'}
    """
    shown = {name: _hash_if_long(name, value) for name, value in parameters.items()}
    return {
        name: json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
        for name, value in shown.items()
    }


def read_summary(value: object) -> RequestSummary:
    if not isinstance(value, dict):
        return {}
    texts = all(isinstance(value.get(name, ""), str) for name in ("base_url", "model", "api"))
    objects = all(isinstance(value.get(name, {}), dict) for name in ("parameters", "parts"))
    if not (texts and objects):
        return {}
    return cast("RequestSummary", {name: field for name, field in value.items() if name != RUN_FIELD})


def find_nearest(request: RequestSummary, recorded: Iterable[RequestSummary]) -> RequestSummary | None:
    """Return the recorded summary with the most values in common; None if no summary shares a part of the prompt."""
    wanted = _flatten(request)

    def nearness(summary: RequestSummary) -> float:
        values = _flatten(summary)
        equal = [path for path, value in wanted.items() if values.get(path) == value]
        if not any(path[0] == "parts" for path in equal):
            return 0.0
        common = sum(QUESTION_WEIGHT if path[-1] == "question" else 1.0 for path in equal)
        # The second term breaks ties in favour of the summary with fewer other values.
        return common - 0.01 * len(wanted.keys() ^ values.keys())

    best = max(recorded, key=nearness, default=None)
    return best if best is not None and nearness(best) > 0 else None


def words_of(summary: RequestSummary) -> frozenset[str]:
    """Return the words of the prompt; none if the record has only its hashes."""
    return frozenset(word for text in _texts(summary).values() for word in text.split())


def find_nearest_by_words(
    request: RequestSummary, recorded: Sequence[tuple[frozenset[str], RequestSummary]]
) -> RequestSummary | None:
    """Return the recorded summary with the most words in common, and then values; None if none is similar.

    None too if the parts are no messages: parts such as the question tell more than words do.
    """
    if not _texts(request).keys() >= request["parts"].keys():
        return None
    wanted, fields = words_of(request), _flatten(request)

    def nearness(entry: tuple[frozenset[str], RequestSummary]) -> tuple[float, int]:
        words, values = entry[0], _flatten(entry[1])
        share = len(wanted & words) / len(wanted | words) if words else 0.0
        return share, sum(values.get(path) == value for path, value in fields.items())

    best = max(recorded, key=nearness, default=None)
    return best[1] if best is not None and nearness(best)[0] >= MIN_SAME_WORDS else None


def describe_differences(request: RequestSummary, recorded: RequestSummary) -> list[str]:
    """Return how a request differs from a recorded one: "model: m1, now m2", "passage 2 (new)"; may be empty."""
    before, now = _flatten(recorded), _flatten(request)
    old_texts, new_texts = _texts(recorded), _texts(request)
    changes = []
    for path in now | before:
        old, new = before.get(path), now.get(path)
        if old == new:
            continue
        if path[0] == "parts":
            change = "gone" if new is None else "new" if old is None else "other text"
            if path[-1] in old_texts and path[-1] in new_texts:
                change = _changed_words(old_texts[path[-1]], new_texts[path[-1]]) or change
            changes.append(f"{path[-1]} ({change})")
        else:
            old, new = ("not given" if value is None else value for value in (old, new))
            changes.append(f"{path[-1]}: {old}, now {new}")
    return changes


def _parts(request: Request) -> Mapping[str, str]:
    if request.parts:
        return request.parts
    return {
        _name(n, message): json.dumps(_to_json_types(message), sort_keys=True)
        for n, message in enumerate(request.messages, 1)
    }


def _name(number: int, message: JsonObject) -> str:
    return f"message {number} ({message.get('role', '?')})"


def _texts(summary: RequestSummary) -> dict[str, str]:
    """Return the texts of the messages by the names of their parts; none if they are not recorded."""
    return {
        _name(n, message): message["content"]
        for n, message in enumerate(summary.get("messages", ()), 1)
        if isinstance(message, Mapping) and isinstance(message.get("content"), str)
    }


def _number_equal(first: Sequence[str], second: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _changed_words(old: str, new: str) -> str:
    """Return the words between the common beginning and end of two texts; empty if they are long."""
    before, now = old.split(), new.split()
    start = _number_equal(before, now)
    end = _number_equal(before[start:][::-1], now[start:][::-1])
    was, is_ = (" ".join(words[start : len(words) - end]) for words in (before, now))
    return f"{was!r}, now {is_!r}" if was != is_ and max(len(was), len(is_)) <= MAX_SHOWN_LENGTH else ""


def _flatten(summary: RequestSummary) -> dict[tuple[str, ...], Any]:
    """Return the values of a summary by path, such as `("parameters", "temperature")`."""
    fields = cast("Mapping[str, object]", summary)
    values: dict[tuple[str, ...], Any] = {
        (name,): fields[name] for name in ("model", "base_url", "api", "sample") if name in fields
    }
    for name in ("parameters", "parts"):
        inner = fields.get(name)
        if isinstance(inner, Mapping):
            values |= {(name, key): value for key, value in inner.items()}
    return values


def _hash_if_long(name: str, value: Any) -> Any:
    """Return a parameter, or its hash if it is long or may contain secrets."""
    value = _to_json_types(value)
    shown = len(json.dumps(value)) <= MAX_SHOWN_LENGTH and name not in ALWAYS_HASHED
    return value if shown else f"sha256:{digest(value)[:HASH_DIGITS]}"


def _to_json_types(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_json_types(item) for name, item in value.items()}
    return [_to_json_types(item) for item in value] if isinstance(value, list | tuple) else value
