"""The formats of eval sets: one module each, imported only when it reads a file."""

from collections.abc import Callable, Mapping
from typing import Final

from pytest_rageval.evalsets.format import Format, Shape
from pytest_rageval.lazy import Lazy

__all__ = ["FORMATS"]


def _format(name: str, recognises: Callable[[Shape], bool], *, general: bool = False) -> Format:
    return Format(name, recognises, Lazy(f"evalsets.formats.{name}", "read"), general)


def _native(shape: Shape) -> bool:
    """JSON lines or an array; a record that is not native then gets an error that says what it lacks."""
    if shape.folder or shape.is_table:
        return False
    return shape.suffix in (".jsonl", ".ndjson", ".json") or shape.is_json


def _kilt(shape: Shape) -> bool:
    """By its keys; exports have them too, with an object as the input or a text as the output."""
    if not shape.has("id", "input", "output"):
        return False
    return not (isinstance(shape.record["input"], Mapping) or isinstance(shape.record["output"], str))


def _alce(shape: Shape) -> bool:
    """The data, or a prompt file."""
    answers = ("answer", "answers", "qa_pairs", "claims")
    is_data = shape.has("question", "docs") and any(map(shape.has, answers))
    return is_data or shape.mentions("demos", "demo_prompt", "doc_prompt")


def _ms_marco(shape: Shape) -> bool:
    """By its keys, or as a table by its columns."""
    keys = ("passages", "query_id", "query")
    columns = {cell.strip('" ') for cell in shape.line.replace("\t", ",").split(",")}
    return columns.issuperset(keys) if shape.is_table else shape.has(*keys)


def _nq_open(shape: Shape) -> bool:
    """By its keys; with an id and contexts it is native."""
    if shape.has("question", "answers", "ctxs"):
        return not shape.has("id")
    # Google's files have just these; other keys may need a field map.
    rated = {"def_correct_predictions", "answer_and_def_correct_predictions"} <= shape.record.keys()
    plain = shape.record.keys() == {"question", "answer"} or (rated and shape.has("question", "answer"))
    return plain and isinstance(shape.record["answer"], list)


def _hotpotqa(shape: Shape) -> bool:
    """By its keys; with gold passages it is native."""
    return shape.has("question", "supporting_facts", "context") and not shape.has("gold")


def _musique(shape: Shape) -> bool:
    known = shape.has("question_decomposition") or shape.has("answerable")
    return shape.has("id", "question", "paragraphs") and known and not shape.has("gold")


def _retrievalqa(shape: Shape) -> bool:
    """By its keys; with an id or gold passages it is native."""
    return shape.has("question_id", "question", "ground_truth", "context") and not (
        shape.has("id") or shape.has("gold")
    )


def _fanoutqa(shape: Shape) -> bool:
    known = shape.has("necessary_evidence") or shape.has("decomposition")
    return shape.has("id", "question", "categories") and known and not shape.has("gold")


_beir: Final = Lazy("evalsets.formats.beir", "recognises")
_trec: Final = Lazy("evalsets.formats.trec", "recognises")

FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        _format("native", _native, general=True),
        # The field map says what its columns are.
        _format("table", lambda shape: not shape.folder and shape.is_table, general=True),
        _format("beir", lambda shape: shape.folder and _beir(shape)),
        _format("trec", _trec),
        _format("kilt", _kilt),
        _format("alce", _alce),
        _format("qampari", lambda shape: shape.has("qid", "question_text", "answer_list")),
        _format("ms_marco", _ms_marco),
        _format("ms_marco_answers", lambda shape: shape.record.keys() == {"query_id", "answers"}),
        _format("nq_open", _nq_open),
        _format("lfrqa", lambda shape: shape.has("qid", "question", "answer", "gold_doc_ids")),
        _format("hotpotqa", _hotpotqa),
        _format("musique", _musique),
        _format("fanoutqa", _fanoutqa),
        _format("retrievalqa", _retrievalqa),
        _format("squad", lambda shape: shape.mentions("data", "paragraphs", "context", "qas")),
        # With an id it is native, with a field map.
        _format(
            "openqa", lambda shape: shape.has("question", "answer", "prediction") and not shape.has("id")
        ),
    )
}
"""By the name that users type."""
