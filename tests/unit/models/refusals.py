"""Refusals of parameters by real servers, from `tests/data/refusals.jsonl`."""

import json
from pathlib import Path
from typing import Any

import pytest

SENT: dict[str, Any] = {
    "temperature": 0.5,
    "max_tokens": 16,
    "stop": ["\n"],
    "seed": 7,
    "n": 1,
    "user": "me",
    "logprobs": True,
    "top_logprobs": 2,
    "logit_bias": {"5": 1},
    "presence_penalty": 0.1,
    "response_format": {"type": "json_object"},
    "reasoning_effort": "low",
    "top_p": 0.9,
}

FILE = Path(__file__).parents[2] / "data/refusals.jsonl"
ROWS = [json.loads(line) for line in FILE.read_bytes().splitlines()]


def refusals(kind: str) -> pytest.MarkDecorator:
    """Run a test for each refusal of a kind, with the body of the response and the name of the parameter."""
    rows = [row for row in ROWS if row["kind"] == kind]
    return pytest.mark.parametrize(
        ("refusal", "name"),
        [(row["body"], row["parameter"]) for row in rows],
        ids=[row["server"] for row in rows],
    )
