"""The formats of eval sets. Each format has a module with a function `read`, which is imported when it is called.

How a format is recognised is defined here, except for `beir` and `trec`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from pytest_rageval.evalsets.format import Format, Shape
from pytest_rageval.lib.lazy import Lazy

SHARED_MODULES: Final[Mapping[str, Collection[str]]] = {
    "open_qa": ("squad", "alce", "qampari", "lfrqa", "retrievalqa", "nq_open", "openqa"),
    "multi_hop": ("hotpotqa", "musique", "fanoutqa"),
    "ms_marco": ("ms_marco", "ms_marco_answers"),
}
"""Modules that read several formats, each with a function `read_NAME`; every other format has a module of its own."""


def _format(name: str, recognises: Callable[[Shape], bool], *, general: bool = False) -> Format:
    module = next((each for each, names in SHARED_MODULES.items() if name in names), None)
    place = (name, "read") if module is None else (module, f"read_{name}")
    return Format(name, recognises, Lazy(f"evalsets.formats.{place[0]}", place[1]), general)


def _is_native(shape: Shape) -> bool:
    """JSON lines or a JSON array. If a record lacks a native field, reading it raises an error that names the field."""
    if shape.folder or shape.is_table:
        return False
    return shape.suffix in (".jsonl", ".ndjson", ".json") or shape.is_json


def _is_kilt(shape: Shape) -> bool:
    """Keys of KILT. Exports of traces have these keys too, but the input is an object or the output is a text."""
    if not shape.has("id", "input", "output"):
        return False
    return not (isinstance(shape.record["input"], Mapping) or isinstance(shape.record["output"], str))


def _is_alce(shape: Shape) -> bool:
    """Records of ALCE's data sets, or one of its prompt files."""
    answers = ("answer", "answers", "qa_pairs", "claims")
    is_data = shape.has("question", "docs") and any(map(shape.has, answers))
    return is_data or shape.mentions("demos", "demo_prompt", "doc_prompt")


def _is_ms_marco(shape: Shape) -> bool:
    """Keys of MS MARCO, or a table with columns of these names."""
    return {"passages", "query_id", "query"} <= shape.names


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
    if shape.has("question", "answers", "ctxs"):
        return not shape.has("id")
    # Google's files have only these keys. A record with other keys may need a field map, as a native one.
    rated = {"def_correct_predictions", "answer_and_def_correct_predictions"} <= shape.record.keys()
    plain = shape.record.keys() == {"question", "answer"} or (rated and shape.has("question", "answer"))
    return plain and isinstance(shape.record["answer"], list)


def _is_hotpotqa(shape: Shape) -> bool:
    """Keys of HotpotQA. A record with `gold` is native."""
    return shape.has("question", "supporting_facts", "context") and not shape.has("gold")


def _is_musique(shape: Shape) -> bool:
    known = shape.has("question_decomposition") or shape.has("answerable")
    return shape.has("id", "question", "paragraphs") and known and not shape.has("gold")


def _is_retrievalqa(shape: Shape) -> bool:
    """Keys of RetrievalQA. A record with `id` or `gold` is native."""
    return shape.has("question_id", "question", "ground_truth", "context") and not (
        shape.has("id") or shape.has("gold")
    )


def _is_fanoutqa(shape: Shape) -> bool:
    known = shape.has("necessary_evidence") or shape.has("decomposition")
    return shape.has("id", "question", "categories") and known and not shape.has("gold")


_is_beir: Final = Lazy("evalsets.formats.beir", "recognises")
_is_trec: Final = Lazy("evalsets.formats.trec", "recognises")

FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        _format("native", _is_native, general=True),
        # A table has columns of any names, which a field map assigns to fields.
        _format("table", lambda shape: not shape.folder and shape.is_table, general=True),
        _format("beir", lambda shape: shape.folder and _is_beir(shape)),
        _format("trec", _is_trec),
        _format("deepeval", lambda shape: is_golden(shape.names)),
        _format("promptfoo", lambda shape: is_test_case(shape.names)),
        _format("kilt", _is_kilt),
        _format("alce", _is_alce),
        _format("qampari", lambda shape: shape.has("qid", "question_text", "answer_list")),
        _format("ms_marco", _is_ms_marco),
        _format("ms_marco_answers", lambda shape: shape.record.keys() == {"query_id", "answers"}),
        _format("nq_open", _is_nq_open),
        _format("lfrqa", lambda shape: shape.has("qid", "question", "answer", "gold_doc_ids")),
        _format("hotpotqa", _is_hotpotqa),
        _format("musique", _is_musique),
        _format("fanoutqa", _is_fanoutqa),
        _format("retrievalqa", _is_retrievalqa),
        _format("squad", lambda shape: shape.mentions("data", "paragraphs", "context", "qas")),
        # A record with an id is native, and is read with a field map.
        _format(
            "openqa", lambda shape: shape.has("question", "answer", "prediction") and not shape.has("id")
        ),
    )
}
"""The built-in formats, by the name that users write: `format="beir"`."""
