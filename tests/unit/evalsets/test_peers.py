"""Data sets of other evaluation tools, as their own packages write them where these are installed, and Parquet."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.evalsets import FORMATS, LoadOptions, load
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.formats import find_format
from tests.evalset_files import FILES, jsonl


def _package(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        pytest.skip(f"{package} is not installed: its files are those in tests/evalset_files.py")


def _examples(form: str, path: str, folder: Path, **options: Any) -> tuple[Example, ...]:
    (files,) = [files for files in FILES if (files.format, files.path) == (form, path)]
    return load(files.write(folder), LoadOptions.parse({**files.words, **options})).examples


def _error(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, LoadOptions.parse(options))
    return str(caught.value)


def test_ragas(tmp_path: Path) -> None:
    first, second = _examples("ragas", "testset.jsonl", tmp_path)
    assert first == Example(
        "1",
        "Where is it made?",
        gold=(Gold(text="Made in Tulsa."), Gold(text="Tulsa is a city.")),
        reference="In Tulsa, a city.",
        tags={"persona_name": "Buyer", "synthesizer_name": "multi_hop_specific_query_synthesizer"},
    )
    assert second == Example("2", "Who made it?", gold=(Gold(text="Ann did."),), reference="Ann.")
    (of_table,) = _examples("ragas", "testset.csv", tmp_path)
    assert of_table.gold == (Gold(text="Made in Tulsa."), Gold(text="It's a city."))
    assert of_table.tags == {"persona_name": "Buyer", "synthesizer_name": "single"}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {
                "user_input": "Where?",
                "reference_contexts": ["Made in Tulsa.", "A city."],
                "reference_context_ids": ["d1", 2],
                "retrieved_contexts": ["Reno."],
                "response": "In Reno.",
            },
            {
                "gold": (Gold("d1", "Made in Tulsa."), Gold("2", "A city.")),
                "extra": {"retrieved": [{"text": "Reno."}], "answer_given": "In Reno."},
            },
        ),
        (
            {"user_input": "Where?", "reference_contexts": ["a", "b"], "reference_context_ids": ["d1"]},
            {"gold": (Gold("d1"),)},
        ),
        (
            {
                "user_input": [
                    {"content": "Hi", "type": "human"},
                    {"content": "Hello", "type": "ai"},
                    {"content": "", "type": "ai", "tool_calls": [{"name": "search"}]},
                    {"content": "Where?", "type": "human"},
                ],
                "reference": "In Tulsa.",
            },
            {
                "history": ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}),
                "reference": "In Tulsa.",
            },
        ),
        (
            {
                "question": "Where?",
                "contexts": ["Made in Tulsa."],
                "ground_truth": "In Tulsa.",
                "episode_done": True,
            },
            {
                "gold": (Gold(text="Made in Tulsa."),),
                "reference": "In Tulsa.",
                "extra": {"episode_done": True},
            },
        ),
        (
            {"question": "Where?", "contexts": ["Reno."], "answer": "Reno.", "ground_truths": ["In Tulsa."]},
            {"reference": "In Tulsa.", "extra": {"retrieved": [{"text": "Reno."}], "answer_given": "Reno."}},
        ),
    ],
    ids=[
        "texts and ids",
        "ids of other number",
        "conversation",
        "test set before 0.2",
        "evaluation before 0.2",
    ],
)
def test_what_ragas_has_else(record: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(jsonl(record))
    assert find_format(tmp_path / "r.jsonl", FORMATS).name == "ragas"
    assert load(tmp_path / "r.jsonl").examples == (Example("1", "Where?", **expected),)


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv"])
def test_what_an_application_retrieved_is_not_gold_without_its_answer(name: str, tmp_path: Path) -> None:
    """Before 0.2, `contexts` are gold in a test set, which has no answers; an answer may be empty."""
    records = [
        {"question": "Where?", "contexts": ["Reno."], "answer": answer, "ground_truth": "Tulsa."}
        for answer in ("Reno.", "")
    ]
    if name == "r.csv":
        pd.DataFrame(records).to_csv(tmp_path / name, index=False)
    else:
        (tmp_path / name).write_bytes(jsonl(*records))
    for example in load(tmp_path / name):
        assert (example.gold, example.extra["retrieved"]) == ((), [{"text": "Reno."}])


def test_llama_index(tmp_path: Path) -> None:
    (example,) = _examples("llama_index", "rag_dataset.json", tmp_path)
    assert (example.question, example.reference) == ("Where is it made?", "In Tulsa.")
    assert example.gold == (Gold(text="Made in Tulsa."), Gold(text="Tulsa is a city."))
    assert example.extra["query_by"] == {"model_name": "gpt-5", "type": "ai"}
    assert _examples("llama_index_pairs", "pairs.json", tmp_path) == (
        Example("q1", "Where?", gold=(Gold("d1", "Made in Tulsa."),)),
    )
    (tmp_path / "bad.json").write_text('{"queries": {}, "corpus": {}, "relevant_docs": {"q9": ["d1"]}}')
    assert "relevant_docs of queries that it lacks: q9" in _error(tmp_path / "bad.json")


def test_autorag(tmp_path: Path) -> None:
    """One passage of each inner list is needed: the passages of a list are a group."""
    (example,) = _examples("autorag", "qa.jsonl", tmp_path)
    assert example.gold == (Gold("d1", group="1"), Gold("d2", group="1"), Gold("d3"))
    assert example.answers == ("In Tulsa, by Ann.",)


def test_autorag_as_parquet_finds_its_corpus(tmp_path: Path) -> None:
    record = {"qid": "a1", "query": "Where?", "retrieval_gt": [["d1"]], "generation_gt": ["In Tulsa."]}
    pd.DataFrame([record]).to_parquet(tmp_path / "qa.parquet")
    passages = [{"doc_id": "d1", "contents": "Made in Tulsa.", "metadata": {"path": "a.md"}}]
    pd.DataFrame(passages).to_parquet(tmp_path / "corpus.parquet")
    assert load(tmp_path / "qa.parquet").examples == (
        Example("a1", "Where?", answers=("In Tulsa.",), gold=(Gold("d1", "Made in Tulsa."),)),
    )
    assert [document.text for document in read_corpus(tmp_path / "corpus.parquet")] == ["Made in Tulsa."]
    assert load(tmp_path / "qa.parquet", texts=False).examples[0].gold == (Gold("d1"),)


def test_clapnq_is_not_kilt(tmp_path: Path) -> None:
    """Its passages are gold, and its long answers references; nothing is dropped."""
    answered, unanswerable = _examples("clapnq", "clapnq_dev.jsonl", tmp_path)
    assert (answered.gold, answered.reference) == ((Gold(text="Made in Tulsa."),), "It is made in Tulsa.")
    assert answered.extra["output"][0]["selected_sentences"] == ["Made in Tulsa."]
    assert (unanswerable.gold, unanswerable.reference) == ((), None)
    # Another file with KILT's outer keys is not taken for KILT either.
    (tmp_path / "other.jsonl").write_bytes(
        jsonl({"id": "1", "input": "Q?", "output": [{"answer": "a", "docs": ["d"]}]})
    )
    assert find_format(tmp_path / "other.jsonl", FORMATS).name == "native"
    (kilt,) = load(tmp_path / "other.jsonl", format="kilt").examples
    assert kilt.extra["output"] == [{"answer": "a", "docs": ["d"]}]


@pytest.mark.parametrize("folder", ["qrels", "default", "data"])
def test_beir_as_parquet_in_the_folders_of_hugging_face(folder: str, tmp_path: Path) -> None:
    for name, rows in {
        "queries/queries-00000-of-00001": [{"_id": "1", "text": "Where?"}, {"_id": "2", "text": "Unjudged?"}],
        "corpus/corpus-00000-of-00002": [{"_id": "d1", "title": "Tulsa", "text": "Made there."}],
        "corpus/corpus-00001-of-00002": [{"_id": "d2", "title": "", "text": "Reno."}],
        f"{folder}/test-00000-of-00001": [
            {"query-id": "1", "corpus-id": "d1", "score": 1.0},
            {"query-id": "1", "corpus-id": "d2", "score": 0.0},
        ],
        f"{folder}/train-00000-of-00001": [{"query-id": "2", "corpus-id": "d2", "score": 1.0}],
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pd.DataFrame(rows).to_parquet(tmp_path / f"{name}.parquet")
    assert find_format(tmp_path, FORMATS).name == "beir"
    (example,) = load(tmp_path).examples
    assert example.gold == (Gold("d1", "Tulsa Made there."), Gold("d2", "Reno.", grade=0))
    assert [each.id for each in load(tmp_path, split="train")] == ["2"]


def test_judgements_of_beir_as_json_lines(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_bytes(jsonl({"_id": "1", "text": "Where?"}))
    (tmp_path / "qrels").mkdir()
    rows = [
        {"query-id": "1", "corpus-id": "d1", "score": 1.0},
        {"query-id": "1", "corpus-id": "d2", "score": -1},
    ]
    (tmp_path / "qrels" / "test.jsonl").write_bytes(jsonl(*rows))
    assert load(tmp_path).examples[0].gold == (Gold("d1"), Gold("d2", grade=0))
    (tmp_path / "qrels" / "test.jsonl").write_bytes(jsonl(rows[0], rows[0]))
    assert "test.jsonl line 2: d1 is judged twice" in _error(tmp_path)
    (tmp_path / "qrels" / "test.jsonl").write_bytes(jsonl({**rows[0], "score": 0.5}))
    assert '"score" is 0.5, expected an integer' in _error(tmp_path)


def test_judgements_of_beir_in_several_tables_are_joined(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_bytes(jsonl({"_id": "1", "text": "Where?"}))
    (tmp_path / "qrels").mkdir()
    for number, document in enumerate(("d1", "d2")):
        part = tmp_path / "qrels" / f"test-0000{number}-of-00002.tsv"
        part.write_text(f"query-id\tcorpus-id\tscore\n1\t{document}\t1\n", encoding="utf-8")
    # A judgement that is there twice is one, as where a repository has a second form of the file.
    second = tmp_path / "qrels" / "test-00002-of-00002.tsv"
    second.write_text("1\td1\t1\n", encoding="utf-8")
    assert load(tmp_path).examples[0].gold == (Gold("d1"), Gold("d2"))
    second.write_text("1\td1\t2\n", encoding="utf-8")
    assert "the grade of d1 for 1 is 2, and 1 in another file" in _error(tmp_path)


def test_parquet_is_read_as_each_format_and_as_a_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["q1"], "question": ["Where?"], "gold.id": [["d1", "d2"]], "answers": [None]})
    frame.to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").examples == (Example("q1", "Where?", gold=(Gold("d1"), Gold("d2"))),)
    (files,) = [files for files in FILES if files.path == "hotpot_of_hugging_face.jsonl"]
    pd.DataFrame([json.loads(files.contents[files.path])]).to_parquet(tmp_path / "hotpot.parquet")
    assert load(tmp_path / "hotpot.parquet").examples == load(files.write(tmp_path)).examples


def test_without_pyarrow_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    assert "t.parquet cannot be read as Parquet" in _error(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install pyarrow" in _error(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("q.xlsx", b"PK\x03\x04", "q.xlsx is a spreadsheet, which is not read.\nSave its sheet as CSV"),
        ("q.xls", b"\xd0\xcf\x11\xe0", "Save its sheet as CSV"),
        ("q.yaml", b"tests:\n  - vars: {}\n", "yaml.safe_load"),
        ("q.txt", "Wo?".encode("utf-16"), "Save it in UTF-8"),
        ("q.jsonl", '{"id": 1}'.encode("utf-16"), "UTF-16"),
        ("q.csv", "id,question\n".encode("utf-16"), "UTF-16"),
        ("q.csv", b"PK\x03\x04", "a ZIP archive"),
        ("q.pkl", b"\x80\x04", "a pickle"),
        ("q.pdf", b"%PDF-1.7", "a PDF"),
        ("q.bin", b"PAR1", "suffix .parquet"),
        ("q.db", b"SQLite format 3\0", "rows of a query"),
        ("q.jsonl.bz2", b"BZh9", "gzip"),
        ("folder/dataset_info.json", b"{}", "load_from_disk"),
    ],
)
def test_a_file_of_another_kind_names_its_remedy(name, content, words, tmp_path):
    folder, _, file = name.rpartition("/")
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    assert words in _error(tmp_path / (folder or file))


TABLES: list[tuple[Callable[[pd.DataFrame], bytes], str]] = [
    (lambda frame: frame.to_csv().encode(), "the index of pandas"),
    (lambda frame: b"sep=;\r\n" + frame.to_csv(index=False, sep=";").encode(), "sep= of Excel"),
    (lambda frame: b'"sep=;"\n' + frame.to_csv(index=False, sep=";").encode(), "sep= in quotes"),
    (lambda frame: frame.to_csv(index=False).encode() + b",,\r\n,,\r\n", "empty rows at the end"),
]


@pytest.mark.parametrize(("write", "_"), TABLES, ids=[name for _, name in TABLES])
def test_what_programs_add_to_a_table(write: Callable[[pd.DataFrame], bytes], _: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["q1", "q2"], "question": ["Where?", "Who?"], "gold.id": ["d1", "d2"]})
    (tmp_path / "t.csv").write_bytes(write(frame))
    assert load(tmp_path / "t.csv").examples == (
        Example("q1", "Where?", gold=(Gold("d1"),)),
        Example("q2", "Who?", gold=(Gold("d2"),)),
    )


def test_a_nameless_column_that_is_no_index_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",id,question\nfirst,q1,Where?\n")
    assert "t.csv line 2: the first column has no name, and 'first' is no number" in _error(
        tmp_path / "t.csv"
    )


def test_one_row_a_passage_is_one_example(tmp_path: Path) -> None:
    rows = "id,question,gold.id,gold.grade\nq1,Where?,d1,2\nq1,Where?,d2,1.0\nq2,Who?,d1,\n"
    (tmp_path / "t.csv").write_text(rows)
    assert load(tmp_path / "t.csv").examples == (
        Example("q1", "Where?", gold=(Gold("d1", grade=2), Gold("d2"))),
        Example("q2", "Who?", gold=(Gold("d1"),)),
    )
    assert load(tmp_path / "t.csv", sample=1).examples[0].gold


@pytest.mark.parametrize("row", ["q1,Who?,d2", "q1,Where?,d1", "q1,Where?,"])
def test_rows_that_differ_otherwise_or_not_at_all_are_no_passages_of_one_example(row, tmp_path):
    (tmp_path / "t.csv").write_text(f"id,question,gold.id\nq1,Where?,d1\n{row}\n")
    assert 't.csv line 3: the id "q1" is already that of' in _error(tmp_path / "t.csv")


def _ragas(folder: Path) -> tuple[list[Path], Example]:
    ragas = _package("ragas", "ragas")
    sample = ragas.SingleTurnSample(
        user_input="Where?",
        reference_contexts=["It's in Tulsa.", "b"],
        reference="In Tulsa.",
        response="Reno.",
    )
    files = [folder / "r.jsonl", folder / "r.csv"]
    ragas.EvaluationDataset(samples=[sample]).to_jsonl(files[0])
    ragas.EvaluationDataset(samples=[sample]).to_csv(files[1])
    gold = (Gold(text="It's in Tulsa."), Gold(text="b"))
    return files, Example("1", "Where?", gold=gold, reference="In Tulsa.", extra={"answer_given": "Reno."})


def _deepeval(folder: Path) -> tuple[list[Path], Example]:
    deepeval = _package("deepeval.dataset", "deepeval")
    golden = deepeval.Golden(input="Where?", expected_output="In Tulsa.", context=["It's in Tulsa.", "b"])
    for kind in ("json", "csv"):
        deepeval.EvaluationDataset(goldens=[golden]).save_as(file_type=kind, directory=str(folder))
    gold = (Gold(text="It's in Tulsa."), Gold(text="b"))
    return sorted(folder.iterdir()), Example("1", "Where?", gold=gold, reference="In Tulsa.")


def _llama_index(folder: Path) -> tuple[list[Path], Example]:
    llama = _package("llama_index.core.llama_dataset", "llama-index-core with llama_dataset")
    human = llama.CreatedBy(type=llama.CreatedByType.HUMAN)
    example = llama.LabelledRagDataExample(
        query="Where?",
        query_by=human,
        reference_contexts=["Made in Tulsa."],
        reference_answer="In Tulsa.",
        reference_answer_by=human,
    )
    llama.LabelledRagDataset(examples=[example]).save_json(str(folder / "rag.json"))
    by = {
        "query_by": {"model_name": "", "type": "human"},
        "reference_answer_by": {"model_name": "", "type": "human"},
    }
    gold = (Gold(text="Made in Tulsa."),)
    return [folder / "rag.json"], Example("1", "Where?", gold=gold, reference="In Tulsa.", extra=by)


def _llama_index_pairs(folder: Path) -> tuple[list[Path], Example]:
    evaluation = _package("llama_index.core.evaluation", "llama-index-core")
    if not hasattr(evaluation, "EmbeddingQAFinetuneDataset"):
        pytest.skip("this release of llama-index-core has no EmbeddingQAFinetuneDataset")
    pairs = evaluation.EmbeddingQAFinetuneDataset(
        queries={"q1": "Where?"}, corpus={"d1": "Made in Tulsa."}, relevant_docs={"q1": ["d1"]}
    )
    pairs.save_json(str(folder / "pairs.json"))
    return [folder / "pairs.json"], Example("q1", "Where?", gold=(Gold("d1", "Made in Tulsa."),))


@pytest.mark.parametrize("peer", [_ragas, _deepeval, _llama_index, _llama_index_pairs])
@pytest.mark.slow
def test_files_that_the_peers_wrote(peer, tmp_path):
    files, expected = peer(tmp_path)
    assert files
    for file in files:
        (example,) = load(file).examples
        assert example == expected, file
