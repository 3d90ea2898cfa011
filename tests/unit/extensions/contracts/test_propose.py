"""`rageval evalset negatives`, with a judge on a local HTTP server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.evalsets import load
from tests.llm_server import LLMServer

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
def propose(llm: LLMServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    llm.model = lambda prompt: "No" if "fourteen" in prompt or "Tulsa" in prompt else "Yes"
    lines = [json.dumps({"id": name, "text": text}) for name, text in CORPUS.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))

    def run(records: list[dict[str, object]], *arguments: str) -> int:
        (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, records)))
        words = ["evalset", "negatives", "set.jsonl", "--corpus", "corpus.jsonl", "--out", "out.jsonl"]
        return main([*words, "--judge-model", "j", "--base-url", llm.url, *arguments])

    return run


def test_what_is_like_the_gold_and_does_not_answer_is_proposed(propose, llm, capsys):
    assert propose(RECORDS) == 0
    out = capsys.readouterr().out
    assert out.startswith("out.jsonl: 1 negative for review, of 2 passages like the gold\n2 replies: ")
    first, second = load("out.jsonl")
    assert first.added == {"negatives": [{"id": "old", "why": "proposed"}]}
    assert first.extra == {"negatives_reviewed": False}
    assert (second.added, second.extra) == ({}, {})
    assert not any("within thirty" in prompt for prompt in llm.prompts)


def test_nothing_is_proposed_twice_or_written_over(propose, capsys):
    known = RECORDS[0] | {"negatives": [{"id": "old"}]}
    assert propose([known]) == 1
    assert capsys.readouterr().out.startswith("No negatives were proposed, of 1 passage like the gold")
    assert propose(RECORDS) == 0
    assert propose(RECORDS) == 2
    assert "out.jsonl exists already, nothing was written." in capsys.readouterr().err
    assert propose(RECORDS, "--force", "--n", "1") == 0
    assert "of 1 passage like the gold" in capsys.readouterr().out
