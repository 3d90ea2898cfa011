"""`rageval scores`: the list of all scores, and the requirements of a score."""

import json
import re

import pytest

from pytest_rageval.cli import main
from pytest_rageval.scores import SCORES


def test_every_score_has_one_line_in_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"(?m)^  ([\w.]+)(?:@k)? ", out) == list(SCORES)
    assert re.search(r"(?m)^  retrieval.calls +0 or more  nothing$", out)
    families = [line for line in out.splitlines() if line and not line.startswith("  ")][:-1]
    assert families == list(dict.fromkeys(score.family.title for score in SCORES.values()))
    assert re.search(r"(?m)^  recall@k +0 to 1  gold passages$", out)
    assert re.search(r"(?m)^  llm_reteval@k +0 to 1  gold passages with text, generator, judge$", out)
    assert re.search(r"(?m)^  answer.rougeL@k +0 to 1  reference answers, generator, extra `overlap`$", out)
    assert re.search(r"(?m)^  judged.faithfulness@k +1 to 5  generator, judge$", out)
    assert re.search(r"(?m)^  contains.hit@k +0 to 1  reference answers$", out)


def test_the_extra_is_the_one_whose_absence_is_an_error() -> None:
    for name, score in SCORES.items():
        measure = name.partition(".")[2]
        expected = {"bertscore": "dense", "cosine": "dense", "rouge": "overlap", "bleu": "overlap"}
        expected |= {"meteor": "overlap"}
        extras = {extra for begin, extra in expected.items() if measure.startswith(begin)}
        assert extras == ({score.extra} if score.extra else set()), name


@pytest.mark.parametrize("name", ["erag.ndcg", "erag.ndcg@3"])
def test_one_score_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("erag.ndcg@k (eRAG)\n  nDCG with the labels as gains.\n")
    assert "comparator, draws, label, temperature" in out
    assert '@pytest.mark.rageval_threshold("erag.ndcg@5", min=…)' in out


@pytest.mark.parametrize("name", ["arena", "arena@5", "answer"])
def test_scores_with_one_beginning_are_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [score for score in SCORES if score.startswith(f"{name.partition('@')[0]}.")]
    assert main(["scores", name]) == 0
    assert re.findall(r"(?m)^  ([\w.]+)(?:@k)? ", capsys.readouterr().out) == expected != []
    assert main(["scores", name, "--json"]) == 0
    assert [load["name"] for load in json.loads(capsys.readouterr().out)] == expected


def test_an_unknown_score_names_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", "recal@5"]) == 2
    err = capsys.readouterr().err
    assert "There is no score 'recal'. Did you mean recall?" in err
    assert "`rageval scores` lists" in err


def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in scores] == list(SCORES)
    assert main(["scores", "answer.bleu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "answer.bleu",
        "family": "Answers against references",
        "definition": SCORES["answer.bleu"].definition,
        "range": [0.0, 1.0],
        "needs": ["reference answers"],
        "models": ["generator"],
        "extra": "overlap",
        "keywords": ["draws", "temperature"],
    }


@pytest.mark.parametrize(
    ("measure", "threshold"),
    [
        ("nDCG@10", '"ndcg@10", min=…'),
        ("P(rel=2)@5", '"precision@5", min=…, relevant="gold_grade>=2"'),
        ("RR(judged_only=True)@3", '"condensed.mrr@3", min=…'),
        ("nDCG(dcg='exp-log2')@20", '"ndcg.exp@20", min=…'),
        ("AP", '"map@10", min=…'),
        ("SetP", '"set.precision@10", min=…'),
        ("Judged@5", '"judged@5", min=…'),
    ],
)
def test_a_measure_of_ir_measures_has_a_threshold(capsys, measure, threshold):
    """`--from ir_measures` prints the marker of our score, with the lowest grade as a keyword."""
    assert main(["scores", "--from", "ir_measures", measure]) == 0
    assert capsys.readouterr().out == f"@pytest.mark.rageval_threshold({threshold})\n"


def test_all_measures_of_ir_measures_are_listed(capsys):
    assert main(["scores", "--from", "ir_measures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["R@k", "recall@k"],
        ["P@k", "precision@k"],
        ["AP@k", "map@k"],
    ]
    assert ["nDCG(judged_only=True)@k", "condensed.ndcg@k"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("measure", "said"), [("ERR@10", "There is no score for ERR@10."), ("@", "is no measure of")]
)
def test_another_measure_is_an_error(capsys, measure, said):
    assert main(["scores", "--from", "ir_measures", measure]) == 2
    assert said in capsys.readouterr().err
