"""TREC: topics with judgements (qrels)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.qrels import OF_TREC, gold_by_id, is_grade, read_qrels
from pytest_rageval.evalsets.shape import Shape
from pytest_rageval.evalsets.topics import IDS, beside, is_header, read_topics

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """A folder with topics and qrels, topics in tags or in lines of id and tab, or qrels."""
    if shape.folder:
        return bool(_named(shape.path, "topics")) and bool(_named(shape.path, "qrels"))
    return "<top>" in shape.head[:4096].lower() or _is_qrels(shape.line) or _is_topic(shape.line)


def _is_qrels(line: str) -> bool:
    cells = line.split()
    return len(cells) == OF_TREC and is_grade(cells[-1]) and line[:1] not in ("{", "[")


def _is_topic(line: str) -> bool:
    """Two cells, of which the first is an id: it has a digit. A header is a table's."""
    cells = line.split("\t")
    identified = len(cells) == 2 and any(map(str.isdigit, cells[0])) and " " not in cells[0].strip()  # noqa: PLR2004
    return identified and not is_header(line)


def read(
    path: Path, *, topics: str | None = None, qrels: str | None = None, question: str = "title"
) -> Iterator[tuple[str, Any]]:
    """Records from topics and qrels; as trec_eval does, only topics that were judged are taken.

    Args:
        path: of a folder with one file `topics*` and one `qrels*`, of topics, or of qrels.
        topics: where the topics are, from the folder; "ids": nowhere, and each question is its id,
            which a recorded run understands and a search engine does not.
        qrels: where the judgements are; topics without any are all taken, without gold.
        question: the tag that is the question: "title", "desc" or "narr"; the others are kept.

    Raises:
        InputError: a file is missing, has another form, or a judged topic is not among the topics.
    """
    where, judgements = _files(path, topics, qrels)
    judged = None if judgements is None else read_qrels(judgements)
    if where is None:
        for identifier, documents in (judged or {}).items():
            yield f"{path.name} topic {identifier}", _record(identifier, identifier, documents)
        return
    missing = set(judged or ())
    for place, identifier, fields in read_topics(where):
        if judged is not None and identifier not in judged:
            continue
        missing.discard(identifier)
        if question not in fields:
            message = f"{place}: topic {identifier} has no <{question}>. Found: {', '.join(fields)}."
            raise InputError(message)
        record = _record(identifier, fields.pop(question), {} if judged is None else judged[identifier])
        yield place, record | fields
    if missing:
        message = (
            f"{where.name} lacks {len(missing)} topics that were judged: {', '.join(sorted(missing)[:8])}.\n"
            "Are these the topics of these qrels?"
        )
        raise InputError(message)


def _record(identifier: str, question: str, documents: dict[str, int]) -> dict[str, Any]:
    return {"id": identifier, "question": question, "gold": gold_by_id(documents)}


def _files(path: Path, topics: str | None, qrels: str | None) -> tuple[Path | None, Path | None]:
    """Where the topics are (None: the ids stand for them), and the qrels (None: there are none)."""
    if path.is_dir():
        judgements = beside(path, qrels, "qrels") if qrels else _only(path, "qrels")
        if topics == IDS:
            return None, judgements
        return (beside(path, topics, "topics") if topics else _only(path, "topics")), judgements
    if not _is_qrels(Shape(path).line):
        return path, beside(path, qrels, "qrels") if qrels else None
    if topics is None:
        message = (
            f"{path.name} holds judgements and no questions.\n"
            'Say where the topics are, topics="topics.txt"; or topics="ids": each question is its id.'
        )
        raise InputError(message)
    return (None if topics == IDS else beside(path, topics, "topics")), path


def _named(folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.lower().startswith(kind) and file.is_file())


def _only(folder: Path, kind: str) -> Path:
    found = _named(folder, kind)
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        message = f'{folder} has {len(found)} files {kind}*: {names}.\nName one: {kind}="…".'
        raise InputError(message)
    return found[0]
