"""`rageval evalset variants`, with a model on a local HTTP server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.evalsets import load
from tests.llm_server import LLMServer

RECORDS = [
    {"id": "q1", "question": "How do I reset my password?", "variants": ["forgot my password"]},
    {"id": "q2", "question": "Where are you?"},
]
REPLIES = {"reset": "Passwort\n vergessen, was tun?", "Where": "Wo sitzt ihr?"}

pytestmark = pytest.mark.slow


@pytest.fixture
def write(llm: LLMServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    llm.model = lambda prompt: next(
        reply if "Translate" in prompt else "forgot my password"
        for key, reply in REPLIES.items()
        if key in prompt
    )
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))

    words = ["evalset", "variants", "set.jsonl", "--out", "out.jsonl", "--model", "m", "--base-url"]
    return lambda *arguments: main([*words, llm.url, *arguments])


def test_questions_in_other_words_and_languages_are_added(write, llm, capsys):
    assert write("--as", "translate:de", "--as", "paraphrase") == 0
    out = capsys.readouterr().out
    assert out.startswith("out.jsonl: 3 variants for review, of 2 questions\n4 replies: 0 cached, 4 live")
    first, second = load("out.jsonl")
    # What the question has already is not added again.
    assert first.added["variants"] == ["forgot my password", "Passwort vergessen, was tun?"]
    assert second.added["variants"] == ["Wo sitzt ihr?", "forgot my password"]
    assert first.extra == second.extra == {"variants_reviewed": False}
    assert sum("into the language 'de'" in prompt for prompt in llm.prompts) == 2
    assert write("--as", "translate:de") == 2
    assert "out.jsonl exists already, nothing was written." in capsys.readouterr().err
    assert write("--as", "translate:de", "--force") == 0
    assert "2 replies: 2 cached, 0 live" in capsys.readouterr().out


def test_an_empty_reply_and_the_question_itself_are_no_variants(write, llm, capsys):
    llm.model = lambda prompt: "Where are you?" if "Where" in prompt else " "
    assert write("--as", "paraphrase") == 1
    out = capsys.readouterr().out
    assert out.startswith("No variants were written: out.jsonl was not written.\n")
    assert "1 × paraphrase: the reply is empty" in out
    assert "1 × paraphrase: the reply is the question itself" in out
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("how", ["translate", "translate:", "shorter"])
def test_another_way_is_refused(write, how, capsys):
    with pytest.raises(SystemExit):
        write("--as", how)
    assert f"'{how}' is not paraphrase, or translate:LANGUAGE such as translate:de" in capsys.readouterr().err
