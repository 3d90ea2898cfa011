"""Several contexts of the embedded model: each prompt is evaluated as in a single context."""

import asyncio
from contextlib import ExitStack

import pytest

from pytest_rageval.answers.comparators import CANONICAL_RULES
from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.providers.embedded import EmbeddedClient, EmbeddedServer, Weights
from pytest_rageval.lib.secret import Secret
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.models.messages import Request
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from tests.unit.models.scripted import Answer, ScriptedServer, completion

EXAMPLES = "Question: Who?\nAnswer: Ilse\n\nQuestion: "
QUESTIONS = [
    "How far?",
    "What now?",
    "Where to?",
    "Are they?",
    "How long?",
    "When?",
    "Why?",
    "Is it?",
    "Can I?",
]


def _request(question: str, examples: str = EXAMPLES) -> Request:
    message = {"role": "user", "content": f"{examples}{question}\nAnswer:"}
    return Request("embedded", "m", (message,), parts={"question": question})


def _asked(requests: list[Request], contexts: int) -> list[list[dict[str, object]]]:
    with ExitStack() as stack:
        slow = Answer(body=completion("fine"), delay_s=0.02)
        servers = [stack.enter_context(ScriptedServer(slow)) for _ in range(contexts)]

        async def addresses() -> list[str]:
            return [server.url for server in servers]

        async def main() -> None:
            client = EmbeddedClient(EmbeddedServer(Weights()), addresses, contexts=contexts, timeout_s=60)
            await asyncio.gather(*(client.complete(request, {}) for request in requests))
            await client.close()

        asyncio.run(main())
        return [server.requests for server in servers]


def _text(body: dict) -> str:
    return body["messages"][0]["content"]


def _common(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@pytest.mark.parametrize("contexts", [1, 2, 3])
def test_several_contexts_cache_what_one_context_would(contexts: int) -> None:
    """Each prompt has the same text in common with the context's previous prompt as in a single context."""
    requests = [_request(question) for question in QUESTIONS * 3]
    texts = [str(request.messages[0]["content"]) for request in requests]
    expected = sorted(
        (text, _common(before, text)) for before, text in zip(["", *texts], texts, strict=False)
    )
    evaluated = []
    for sent in _asked(requests, contexts):
        for before, body in zip([None, *sent], sent, strict=False):
            if "max_tokens" not in body:
                evaluated.append((_text(body), _common(_text(before) if before else "", _text(body))))
    assert sorted(evaluated) == expected


def test_all_contexts_are_used() -> None:
    """If the questions begin with different letters, both contexts get requests, with at most 3 additional prompts."""
    first, second = _asked([_request(question) for question in QUESTIONS], 2)
    completions = [[body for body in sent if "max_tokens" not in body] for sent in (first, second)]
    assert min(map(len, completions)) >= 3
    assert len(first) + len(second) <= len(QUESTIONS) + 3


def test_prompts_without_common_examples_stay_in_one_context() -> None:
    """Prompts without common examples use one context, because their common text depends on their order."""
    requests = [_request(question, f"Question {n}: ") for n, question in enumerate(QUESTIONS)]
    first, second = _asked([*requests, Request("embedded", "m", ({"role": "user", "content": "Hello"},))], 2)
    assert len(first) == len(QUESTIONS) + 1
    assert second == []


async def test_after_a_failure_a_context_is_evaluated_again() -> None:
    failing = ScriptedServer(Answer(500, {}), "fine")
    with failing:

        async def addresses() -> list[str]:
            return [failing.url]

        client = EmbeddedClient(EmbeddedServer(Weights()), addresses, contexts=1, timeout_s=60)
        with pytest.raises(Exception, match="500"):
            await client.complete(_request("How far?"), {})
        await client.complete(_request("What now?"), {})
        await client.close()
    failed_prompt, repeated_prompt, completed_prompt = map(_text, failing.requests)
    assert failed_prompt == repeated_prompt
    assert "What now?" in completed_prompt


def test_answers_are_compared_in_canonical_form() -> None:
    session = Session(Settings(model="embedded", api_key=Secret("sk-secret")))
    parts = Components(lambda _query, _k: [], DefaultGenerator(session.models), DefaultJudge(session.models))
    try:
        fingerprint = session.dependencies(parts, ScoreRequest("answer.correct@5")).fingerprint
    finally:
        session.close()
    assert fingerprint["judge"] == f"canonical comparison, rules {CANONICAL_RULES}"
    assert {"judge votes", "judge max_tokens"}.isdisjoint(fingerprint)
    assert fingerprint["generator"].endswith("at embedded:threads=1")
