"""A small valid file, or folder, of each eval-set format, for tests and fuzzing of the loaders."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("data") / "evalsets"


@dataclass(frozen=True)
class Files:
    """The files of an eval set.

    Attributes:
        format: the name of the format.
        contents: the contents of the files by name, relative to the folder.
        path: the name of the file that is loaded; empty to load the folder.
        ids: the ids of the examples.
        words: the options that are needed to load the eval set.
    """

    format: str
    contents: dict[str, bytes]
    path: str
    ids: tuple[str, ...]
    words: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        for name, content in self.contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / self.path


def zstd_compress() -> Callable[[bytes], bytes] | None:
    """Return a function that compresses by Zstandard, of the standard library or its backport; None without both."""
    for module in ("compression.zstd", "backports.zstd"):
        try:
            compress: Callable[[bytes], bytes] = import_module(module).compress
        except ModuleNotFoundError:
            continue
        return compress
    return None


def jsonl(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def _files(kind: str, names: str, *ids: str, path: str | None = None, **words: Any) -> Files:
    """Return files of `FOLDER`, of which the first is loaded unless `path` says otherwise."""
    contents = {name: (FOLDER / kind / name).read_bytes() for name in names.split()}
    return Files(kind, contents, next(iter(contents)) if path is None else path, ids, words)


TABLE_FIELDS = {
    "id": "number",
    "question": "query",
    "answers": "short",
    "gold.id": "doc",
    "tags.topic": "topic",
}
FILES = [
    _files("native", "support.jsonl", "q1", "2"),
    _files("native", "support.json", "a", "b"),
    _files("table", "support.csv", "1", "2", fields=TABLE_FIELDS, separator=" | "),
    _files("table", "support.tsv", "q1", "q2"),
    _files("beir", "queries.jsonl corpus.jsonl qrels/test.tsv", "1", path=""),
    _files("trec", "topics.txt qrels.txt", "301", "302", path=""),
    _files("trec", "dev.tsv qrels.txt", "301", "302", qrels="qrels.txt"),
    _files("trec", "qrels.test", "301", "302", topics="ids"),
    _files("deepeval", "goldens.json", "1"),
    _files("deepeval", "goldens.csv", "1"),
    _files("promptfoo", "tests.csv", "1", "2", "3", "4", fields={"gold.id": "doc"}),
    _files("promptfoo", "tests.jsonl", "1", "t2", ignore="llm-rubric, latency"),
    _files("kilt", "nq-dev.jsonl", "k1", "k2"),
    _files("alce", "asqa_eval.json", "a1", "a2"),
    _files("alce", "eli5_eval.json", "1", "2"),
    _files("asqa", "asqa_dev.jsonl", "-49", "50"),
    _files("alce", "prompt.json", "1"),
    _files("qampari", "dev.jsonl", "7__dev"),
    _files("ms_marco", "dev_v1.1.json", "9", "10"),
    _files("ms_marco", "marco.csv", "9"),
    _files("ms_marco_answers", "references.json queries.tsv", "9", "10", topics="queries.tsv"),
    _files("nq_open", "nq.jsonl", "1"),
    _files("nq_open", "NQ-open.dev.jsonl", "1", "2"),
    _files("lfrqa", "annotations.jsonl", "writing-search-test-5"),
    _files("squad", "dev-v1.1.json", "s1", "s2"),
    _files("openqa", "system.jsonl", "1"),
    _files("retrievalqa", "retrievalqa.jsonl", "realtimeqa_1"),
    _files("nq_open", "NQ-open.efficientqa.test.1.1.jsonl", "1"),
    _files("trec", "topics.txt qrels.json", "301", "302", path="qrels.json", topics="topics.txt"),
    _files("hotpotqa", "hotpot_dev_distractor_v1.json", "h1", "h2"),
    _files("hotpotqa", "hotpot_of_hugging_face.jsonl", "h1"),
    _files("musique", "musique_full_v1.0_dev.jsonl", "2hop__1_2", "2hop__1_2 (unanswerable)"),
    _files("fanoutqa", "fanout-final-dev.json", "f1", "f2", "f3", "f4"),
    _files("ragas", "testset.jsonl", "1", "2"),
    _files("ragas", "testset.csv", "1"),
    _files("llama_index", "rag_dataset.json", "1"),
    _files("llama_index_pairs", "pairs.json", "q1"),
    _files("autorag", "qa.jsonl", "a1"),
    _files("clapnq", "clapnq_dev.jsonl", "c1", "c2"),
]
GOLDEN: dict[str, Any] = json.loads((FOLDER / "deepeval" / "goldens.json").read_bytes())[0]
