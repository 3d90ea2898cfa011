"""ROUGE, BLEU and METEOR equal the packages that define them, on real and on random answers."""

import json
import random
import re
import string
from collections.abc import Sequence

import pytest
import sacrebleu

from pytest_rageval.answers.overlap import bleu, meteor, rouge1, rouge2, rouge_l

pytestmark = pytest.mark.slow

Pairs = Sequence[tuple[str, Sequence[str]]]


class NoWordNet:
    @staticmethod
    def synsets(word: str) -> list[object]:
        del word
        return []


@pytest.fixture(scope="module", params=["short", "long", "random"])
def pairs(data, request) -> Pairs:
    rng = random.Random(1)
    if request.param == "random":
        words = ["".join(rng.choices(string.printable, k=rng.randint(1, 6))) for _ in range(60)]
        texts = [" ".join(rng.choices(words, k=rng.randint(0, 25))) for _ in range(900)]
        return [(a, [b, c]) for a, b, c in zip(texts[::3], texts[1::3], texts[2::3], strict=True)]
    if request.param == "short":
        lines = (data("openqa_eval") / "NQ_DPR.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [
            (row["prediction"], row["answer"]) for row in rows if _ascii(row["prediction"], *row["answer"])
        ]
    file = data("rag_qa_arena") / "annotations_writing_with_citation.jsonl"
    texts = [json.loads(line)["answer"] for line in file.read_text(encoding="utf-8").splitlines()[:1500]]
    # Two halves of the same answer share many words.
    halves = [(text[: len(text) * 2 // 3], text[len(text) // 3 :]) for text in texts if _ascii(text)]
    return [(first[:600], [second[:600]]) for first, second in halves[:400]]


def _ascii(*texts: str) -> bool:
    return all(map(str.isascii, texts))


def test_rouge(pairs: Pairs) -> None:
    """ROUGE scores equal those of rouge_score with its own tokenizer, since all texts are ASCII."""
    # Import here: nltk takes a second, even if these tests are not selected.
    from rouge_score.rouge_scorer import RougeScorer

    assert len(pairs) >= 300
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for prediction, references in pairs:
        theirs = scorer.score_multi(references, prediction)
        ours = [measure(prediction, references) for measure in (rouge1, rouge2, rouge_l)]
        assert ours == [theirs[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")]


def test_bleu(pairs: Pairs) -> None:
    for prediction, references in pairs:
        scores = [sacrebleu.sentence_bleu(prediction, [reference]).score for reference in references]
        assert bleu(prediction, references) == min(1.0, max(scores) / 100)


def test_meteor(pairs: Pairs) -> None:
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import single_meteor_score

    def words(text: str) -> list[str]:
        return re.findall("[a-z0-9]+", text.lower())

    stemmer = PorterStemmer()
    for prediction, references in pairs:
        ours = words(prediction)
        scores = [
            single_meteor_score(words(r), ours, stemmer=stemmer, wordnet=NoWordNet()) for r in references
        ]
        assert meteor(prediction, references) == max(scores)


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        (
            "\u4ed6\u57282010\u5e74\u53bb\u4e86\u5317\u4eac\uff0c\u5f88\u597d\u3002",
            "\u4ed6\u57282011\u5e74\u53bb\u4e86\u5317\u4eac, \u5f88\u597d",
        ),
        (
            "\u5317\u4eac\u662f\u4e2d\u56fd\u7684\u9996\u90fd\u3002",
            "\u4e2d\u56fd\u7684\u9996\u90fd\u662f\u5317\u4eac\u3002",
        ),
        (
            "\u300a\u7ea2\u697c\u68a6\u300b\u7684\u4f5c\u8005\u662f\u66f9\u96ea\u82b9",
            "\u66f9\u96ea\u82b9\u5199\u4e86\u300a\u7ea2\u697c\u68a6\u300b",
        ),
        ("iPhone 15\u624b\u673a", "iPhone\u624b\u673a 15"),
    ],
)
def test_bleu_of_chinese(prediction: str, reference: str) -> None:
    theirs = sacrebleu.sentence_bleu(prediction, [reference], tokenize="zh").score
    assert bleu(prediction, [reference]) == pytest.approx(theirs / 100, abs=1e-12)
    assert theirs > 0
