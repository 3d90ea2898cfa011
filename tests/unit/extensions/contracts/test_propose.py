"""`rageval evalset negatives`, with a judge on a local HTTP server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.evalsets import load
from tests.llm_server import LLMServer
from tests.unit.cli.folders import Done

CORPUS = {
    "new": "Tablets can be returned within thirty days of delivery.",
    "old": "Tablets could be returned within fourteen days of delivery.",
    "also": "Returned tablets: thirty days count from delivery, says the law.",
    "far": "Our seat is in Tulsa.",
}
RECORDS = [
    {"id": "q1", "question": "How long can I return a tablet?", "gold": [{"id": "new"}]},
    {"id": "q2", "question": "Where are you?", "gold": [{"id": "unknown"}]},
]

pytestmark = pytest.mark.slow


@pytest.fixture
def propose(llm: LLMServer, command: Callable[..., Done]) -> Callable[..., Done]:
    llm.model = lambda prompt: "No" if "fourteen" in prompt or "Tulsa" in prompt else "Yes"
    lines = [json.dumps({"id": name, "text": text}) for name, text in CORPUS.items()]
    Path("corpus.jsonl").write_text("\n".join(lines))

    def run(records: list[dict[str, object]], *arguments: str) -> Done:
        Path("set.jsonl").write_text("\n".join(map(json.dumps, records)))
        words = ("set.jsonl", "--corpus", "corpus.jsonl", "--out", "out.jsonl", "--judge-model", "j")
        return command("evalset", "negatives", *words, "--base-url", llm.url, *arguments)

    return run


def test_what_is_like_the_gold_and_does_not_answer_is_proposed(propose, llm):
    done = propose(RECORDS)
    assert done.status == 0
    assert done.out.startswith("out.jsonl: 1 negative for review, of 2 passages like the gold\n2 replies: ")
    first, second = load("out.jsonl")
    assert first.added == {"negatives": [{"id": "old", "why": "proposed"}]}
    assert first.extra == {"negatives_reviewed": False}
    assert (second.added, second.extra) == ({}, {})
    assert not any("within thirty" in prompt for prompt in llm.prompts)


def test_nothing_is_proposed_twice_or_written_over(propose):
    known = RECORDS[0] | {"negatives": [{"id": "old"}]}
    for records, arguments, status, text in (
        ([known], (), 1, "No negatives were proposed, of 1 passage like the gold"),
        (RECORDS, (), 0, "out.jsonl: 1 negative"),
        (RECORDS, (), 2, "out.jsonl exists already, nothing was written."),
        (RECORDS, ("--force", "--n", "1"), 0, "of 1 passage like the gold"),
    ):
        done = propose(records, *arguments)
        assert done.status == status
        assert text in done.out + done.err
