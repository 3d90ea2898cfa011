"""The formats of eval sets. Each format has a module with a function `read`, which is imported when it is called.

How a format is recognised is defined here, except for `beir` and `trec`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Format, Shape, is_json_by_topic
from pytest_rageval.evalsets.records import Records
from pytest_rageval.lib.lazy import Lazy

SHARED_MODULES: Final[Mapping[str, Collection[str]]] = {
    "open_qa": ("squad", "alce", "qampari", "lfrqa", "retrievalqa", "nq_open", "openqa"),
    "multi_hop": ("hotpotqa", "musique", "fanoutqa"),
    "ms_marco": ("ms_marco", "ms_marco_answers"),
    "kilt": ("kilt", "clapnq"),
    "llama_index": ("llama_index", "llama_index_pairs"),
}
"""Modules that read several formats, each with a function `read_NAME`; every other format has a module of its own."""


def _format(name: str, recognises: Callable[[Shape], bool], *, general: bool = False) -> Format:
    module = next((each for each, names in SHARED_MODULES.items() if name in names), None)
    place = (name, "read") if module is None else (module, f"read_{name}")
    return Format(name, recognises, Lazy(f"evalsets.formats.{place[0]}", place[1]), general)


@dataclass(frozen=True)
class Keys:
    """Recognises a format by the keys of its first record.

    Attributes:
        required: the keys that every record has, with spaces between them.
        any: keys of which a record has at least one; empty: none is needed.
        none: keys that tell that a record is of another format. `id` and `gold` are native.
        tables: whether the columns of a .csv or .tsv file count as keys.
    """

    required: str
    any: str = ""
    none: str = ""
    tables: bool = False

    def __call__(self, shape: Shape) -> bool:
        """Return True if a file has these keys."""
        if shape.folder or (shape.is_table and not self.tables):
            return False
        return (
            shape.names.issuperset(self.required.split())
            and (not self.any or not shape.names.isdisjoint(self.any.split()))
            and shape.names.isdisjoint(self.none.split())
        )


def _is_native(shape: Shape) -> bool:
    """JSON lines or a JSON array. If a record lacks a native field, reading it raises an error that names the field."""
    if shape.folder or shape.is_table:
        return False
    return shape.suffix in (".jsonl", ".ndjson", ".json") or shape.is_json


map_fields: Final = Lazy("evalsets.field_map", "map_fields")  # few eval sets need a field map


def _read_native(path: Path, *, fields: Mapping[str, str] | None = None) -> Records:
    """Yield the records of JSON lines, or of one array in a `.json` file; `fields` renames their fields."""
    records = json_records(path)
    return records if fields is None else map_fields(records, fields)


KILT_OUTPUT: Final = frozenset({"answer", "provenance", "meta", "score"})
"""The keys of an answer in KILT. Files of other data sets have its outer keys too, and others within."""


def _is_kilt(shape: Shape) -> bool:
    """Exports of traces have KILT's keys too, but the input is an object or the output is a text."""
    if not Keys("id input output", none="passages")(shape) or isinstance(shape.record["input"], Mapping):
        return False
    outputs = shape.record["output"]
    if not isinstance(outputs, list):
        return not isinstance(outputs, str)
    return all(isinstance(output, Mapping) and output.keys() <= KILT_OUTPUT for output in outputs)


def _is_alce(shape: Shape) -> bool:
    """Records of ALCE's data sets, or one of its prompt files."""
    is_data = Keys("question docs", any="answer answers qa_pairs claims")
    return is_data(shape) or shape.mentions("demos", "demo_prompt", "doc_prompt")


def is_golden(names: Collection[str]) -> bool:
    """Return True for the keys of a golden of DeepEval, in snake case or in camel case, without a key `question`."""
    own = {"retrievalcontext", "sourcefile", "additionalmetadata", "customcolumnkeyvalues", "expectedtools"}
    return (
        "input" in names
        and "question" not in names
        and any(str(name).replace("_", "").lower() in own for name in names)
    )


def is_test_case(names: Collection[str]) -> bool:
    """Return True for the keys of a test case of promptfoo, or the columns of a table of test cases."""
    return any(str(name).startswith("__expected") for name in names) or {"vars", "assert"} <= {*names}


def _is_nq_open(shape: Shape) -> bool:
    """Keys of NQ-open. A record with contexts (`ctxs`) and an id is native."""
    if Keys("question answers ctxs")(shape):
        return not shape.has("id")
    # Google's files have only these keys. A record with other keys may need a field map, as a native one.
    rated = {"def_correct_predictions", "answer_and_def_correct_predictions"} <= shape.record.keys()
    plain = shape.record.keys() == {"question", "answer"} or (rated and shape.has("question", "answer"))
    return plain and isinstance(shape.record["answer"], list)


def _is_ragas(shape: Shape) -> bool:
    """Samples of Ragas, and records of its releases before 0.2."""
    samples = Keys(
        "user_input",
        any="reference_contexts retrieved_contexts reference_context_ids reference response rubrics synthesizer_name",
        none="question",
        tables=True,
    )
    old = Keys("question contexts", any="ground_truth ground_truths", none="id gold", tables=True)
    return samples(shape) or old(shape)


LLAMA_INDEX_PAIRS: Final = re.compile(
    r'\s*\{\s*(?:"mode"\s*:\s*"\w*"\s*,\s*)?"(?:queries|corpus|relevant_docs)"\s*:\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*["\[])'
)
"""The beginning of an object of `queries`, `corpus` and `relevant_docs`, each an object, in any order."""

_is_beir: Final = Lazy("evalsets.formats.beir", "recognises")
_is_trec: Final = Lazy("evalsets.formats.trec", "recognises")

FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        Format("native", _is_native, _read_native, general=True),
        # A table has columns of any names, which a field map assigns to fields.
        _format("table", lambda shape: shape.is_table or shape.is_parquet, general=True),
        _format("beir", lambda shape: shape.folder and _is_beir(shape)),
        # The beginning of a JSON file is enough.
        _format(
            "trec", lambda shape: (not shape.is_json or is_json_by_topic(shape.head)) and _is_trec(shape)
        ),
        _format("ragas", _is_ragas),
        _format("deepeval", lambda shape: is_golden(shape.names)),
        _format("llama_index", Keys("query reference_contexts reference_answer", none="id question")),
        _format("llama_index_pairs", lambda shape: LLAMA_INDEX_PAIRS.match(shape.head) is not None),
        _format("autorag", Keys("qid query retrieval_gt generation_gt")),
        _format("promptfoo", lambda shape: is_test_case(shape.names)),
        _format("kilt", _is_kilt),
        _format("clapnq", Keys("id input passages output", none="question gold")),
        _format("alce", _is_alce),
        _format("qampari", Keys("qid question_text answer_list")),
        _format("ms_marco", Keys("passages query_id query", tables=True)),
        _format("ms_marco_answers", lambda shape: shape.record.keys() == {"query_id", "answers"}),
        _format("nq_open", _is_nq_open),
        _format("lfrqa", Keys("qid question answer gold_doc_ids")),
        _format("hotpotqa", Keys("question supporting_facts context", none="gold")),
        _format(
            "musique", Keys("id question paragraphs", any="question_decomposition answerable", none="gold")
        ),
        _format(
            "fanoutqa", Keys("id question categories", any="necessary_evidence decomposition", none="gold")
        ),
        _format("retrievalqa", Keys("question_id question ground_truth context", none="id gold")),
        _format("squad", lambda shape: shape.mentions("data", "paragraphs", "context", "qas")),
        # A record with an id is native, and is read with a field map.
        _format("openqa", Keys("question answer prediction", none="id")),
    )
}
"""The built-in formats, by the name that users write: `format="beir"`."""
