"""What a request was made of, in hashes: kept beside its reply, so that a missing one can be explained.

A cassette goes into git, and prompts may hold what must not; of a prompt the
outline therefore has a short hash of each part, unless its text is asked for.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.fingerprint import digest
from pytest_rageval.llm.request import Request

__all__ = ["RUN", "difference", "nearest", "outline_of", "read_outline"]

HASH_DIGITS: Final = 12

RUN: Final = "run"
"""In the cache, beside what is known of a request: the run that asked."""

WEIGHTS: Final = {"question": 4.0}
"""How much it counts for nearness that a part is the same; 1 for what is not listed."""

LONG: Final = 60

HIDDEN: Final = {"extra_body", "metadata", "user", "safety_identifier"}
"""Parameters in which anything may stand, a key or a name too: of these there is only the hash."""


def outline_of(request: Request, *, prompts: bool = False) -> dict[str, Any]:
    """The outline of a request.

    Args:
        request: any.
        prompts: whether to add the messages in full.

    Returns:
        A JSON object: `base_url`, `model`, `parameters` (long ones as a hash), `sample`, `parts`
        (a hash by name), and `messages` where asked for.
    """
    outline: dict[str, Any] = {
        "base_url": request.base_url,
        "model": request.model,
        "parameters": {
            name: _short(value, hidden=name in HIDDEN) for name, value in sorted(request.parameters.items())
        },
        "sample": request.sample,
        "parts": {name: _hash(text) for name, text in _parts(request).items()},
    }
    if prompts:
        outline["messages"] = _plain(request.messages)
    return outline


def read_outline(found: object) -> Mapping[str, Any]:
    """An outline as it was read from a file; empty where it is none: it only explains, and must harm nobody."""
    if not isinstance(found, dict):
        return {}
    texts = all(isinstance(found.get(name, ""), str) for name in ("base_url", "model"))
    inner = all(isinstance(found.get(name, {}), dict) for name in ("parameters", "parts"))
    return {name: value for name, value in found.items() if name != RUN} if texts and inner else {}


def nearest(request: Mapping[str, Any], recorded: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The recorded outline that has most in common with a request's; None where none shares a part."""
    best, most = None, 0.0
    facts = _facts(request)
    for outline in recorded:
        theirs = _facts(outline)
        if not any(theirs.get(name) == value for name, value in facts.items() if name[0] == "parts"):
            continue
        common = sum(WEIGHTS.get(name[-1], 1.0) for name, value in facts.items() if theirs.get(name) == value)
        # Of two that agree in as much, the one with less that is different.
        nearness = common - 0.01 * len(facts.keys() ^ theirs.keys())
        if nearness > most:
            best, most = outline, nearness
    return best


def difference(request: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """What in a request is not as it was recorded: "model: m1, now m2", "passage 2"; may be empty."""
    before, now = _facts(recorded), _facts(request)
    changes = []
    for name in dict.fromkeys([*now, *before]):
        if before.get(name) == now.get(name):
            continue
        label = name[-1]
        if name[0] == "parts":
            gone, new = name not in now, name not in before
            changes.append(
                f"{label} ({'gone' if gone else 'new'})" if gone or new else f"{label} (other text)"
            )
        else:
            changes.append(f"{label}: {_said(before.get(name))}, now {_said(now.get(name))}")
    return changes


def _parts(request: Request) -> Mapping[str, str]:
    if request.parts:
        return request.parts
    return {
        f"message {n} ({message.get('role', '?')})": json.dumps(_plain(message), sort_keys=True)
        for n, message in enumerate(request.messages, 1)
    }


def _facts(outline: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """An outline as pairs: where it stands, and what."""
    facts: dict[tuple[str, ...], Any] = {}
    for name in ("model", "base_url", "sample"):
        if name in outline:
            facts[(name,)] = outline[name]
    for name in ("parameters", "parts"):
        inner = outline.get(name)
        if isinstance(inner, Mapping):
            facts.update({(name, str(key)): value for key, value in inner.items()})
    return facts


def _short(value: Any, *, hidden: bool) -> Any:
    value = _plain(value)
    return value if len(json.dumps(value)) <= LONG and not hidden else f"sha256:{digest(value)[:HASH_DIGITS]}"


def _plain(value: Any) -> Any:
    """JSON's own kinds in place of others that are read alike."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def _said(value: Any) -> str:
    return "not given" if value is None else str(value)
