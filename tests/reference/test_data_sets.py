"""Every available data set of questions loads with the number of examples that its notes state."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.evalsets import LoadOptions, load, write_jsonl
from pytest_rageval.evalsets.formats.data_sets import articles
from pytest_rageval.extensions.baseline_retrievers.trec_run import TrecRun

pytestmark = pytest.mark.slow

# Counts of examples, and of gold passages if any, as stated in the notes.
COUNTS: list[tuple[str, dict[str, Any], int, int | None]] = [
    ("alce/asqa_default.json", {}, 4, 0),
    ("alce/eli5_default.json", {}, 4, 0),
    ("alce/qampari_default.json", {}, 4, 0),
    ("alce/qampari_closedbook.json", {}, 4, 0),
    ("lost_in_the_middle/nq-open-oracle.jsonl.gz", {}, 2655, 2655),
    ("ms_marco_400/ms_marco_qna_dataset.csv", {}, 400, 353 + 2 * 42 + 3 * 2),
    ("ms_marco_eval/dev_as_references.json", {"topics": "ids"}, 10_047, 0),
    ("ms_marco_eval/dev_first_sentence_as_candidates.json", {"topics": "ids"}, 10_047, 0),
    ("ms_marco_eval/sample_references.json", {"topics": "ids"}, 5, 0),
    ("ms_marco_eval/same_answer_test_references.json", {"topics": "ids"}, 3, 0),
    ("openqa_eval/NQ301_text-davinci-003_zeroshot.jsonl", {}, 301, 0),
    ("openqa_eval/NQ301_text-davinci-003_fewshot-n64.jsonl", {}, 301, 0),
    ("openqa_eval/NQ_DPR.jsonl", {}, 3610, 0),
    ("openqa_eval/NQ_Contriever_FiD.jsonl", {}, 3610, 0),
    ("openqa_eval/NQ301_human.tsv", {"fields": {"id": "#", "question": "Question"}, "quote": ""}, 1490, 0),
    (
        "openqa_eval/NQ301_BEM.tsv",
        {"fields": {"id": "#", "question": "Question", "answers": "Gold answers"}, "separator": " | "},
        1490,
        0,
    ),
    ("rag_qa_arena/annotations_recreation_with_citation.jsonl", {}, 2090, None),
    ("rag_qa_arena/annotations_writing_with_citation.jsonl", {}, 2694, None),
    ("trec_eval/v10.0/qrels.test", {"topics": "ids"}, 3, 561),
    ("trec_eval/v10.0/qrels.rel_level", {"topics": "ids"}, 3, None),
    ("xquad_squad/xquad.en.json", {}, 1190, 1190),
]


@pytest.mark.parametrize(("name", "words", "count", "gold"), COUNTS, ids=[row[0] for row in COUNTS])
def test_it_loads_with_its_count_and_is_written_without_a_loss(  # noqa: PLR0913, PLR0917 - a row of the table
    data, tmp_path: Path, name: str, words: dict[str, Any], count: int, gold: int | None
) -> None:
    """The numbers of examples and gold passages are as stated, and writing and reading keeps the digest."""
    folder, _, file = name.partition("/")
    evalset = load(data(folder) / file, LoadOptions.parse(words))
    assert len(evalset) == count
    if gold is not None:
        assert sum(len(example.relevant) for example in evalset) == gold
    write_jsonl(evalset, tmp_path / "again.jsonl")
    assert load(tmp_path / "again.jsonl").digest == evalset.digest


def test_ms_marco_has_all_its_passages(data) -> None:
    """MS MARCO has 3,315 passages, 5 to 10 per question; three questions have no selected passage."""
    evalset = load(data("ms_marco_400") / "ms_marco_qna_dataset.csv")
    pools = [example.extra["passages"] for example in evalset]
    assert sum(map(len, pools)) == 3315
    assert {len(pool) for pool in pools} == set(range(5, 11))
    assert sum(not example.gold for example in evalset) == 3


def test_ms_marcos_answers_find_their_questions(data, tmp_path: Path) -> None:
    """The 400 questions of one file match the references of the other by id."""
    questions = load(data("ms_marco_400") / "ms_marco_qna_dataset.csv")
    queries = "".join(f"{example.id}\t{example.question}\n" for example in questions)
    (tmp_path / "queries.tsv").write_text(queries, encoding="utf-8")
    shutil.copy(data("ms_marco_eval") / "dev_as_references.json", tmp_path)
    evalset = load(tmp_path / "dev_as_references.json", LoadOptions.parse({"topics": "queries.tsv"}))
    assert {example.id: example.question for example in evalset} == {
        example.id: example.question for example in questions
    }


def test_lfrqas_tags_and_references(data) -> None:
    """Each question has its domain, its long answer and the ids of the documents that the answer cites."""
    path = data("rag_qa_arena") / "annotations_writing_with_citation.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for example, record in zip(load(path), records, strict=True):
        assert example.tags == {"domain": "writing"}
        assert example.reference == record["answer"]
        assert [gold.id for gold in example.gold] == [str(name) for name in record["gold_doc_ids"]]


def test_squads_spans_are_its_paragraphs_and_hold_its_answers(data) -> None:
    path = data("xquad_squad") / "xquad.en.json"
    texts = dict(articles(path))
    assert len(texts) == 48
    for example in load(path):
        (gold,) = example.gold
        assert gold.source is not None
        assert gold.text == texts[gold.source][gold.start : gold.end]
        (start,) = example.extra["answer_starts"]
        assert gold.text[start:].startswith(example.answers[0])


def test_a_recorded_run_scores_what_trec_eval_says(data) -> None:
    """Reciprocal rank, precision at 5 and the number retrieved equal trec_eval's output for each topic."""
    folder = data("trec_eval") / "v10.0"
    evalset = load(folder / "qrels.test", LoadOptions.parse({"topics": "ids"}))
    search = TrecRun(folder / "results.test", evalset)
    expected = {
        (topic, measure): value
        for line in (folder / "out.test.aq").read_text(encoding="utf-8").splitlines()
        for measure, topic, value in [line.split()]
    }
    for example in evalset:
        relevant = {gold.id for gold in example.relevant}
        found = [document.id in relevant for document in search(example.question, 1000)]
        assert f"{1 / (found.index(True) + 1):.4f}" == expected[example.id, "recip_rank"]
        assert f"{sum(found[:5]) / 5:.4f}" == expected[example.id, "P_5"]
        assert str(sum(found)) == expected[example.id, "num_rel_ret"]
