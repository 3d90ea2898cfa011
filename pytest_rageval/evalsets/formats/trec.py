"""TREC: topics (questions) and relevance judgements (qrels), also in the forms of BEIR, MTEB, ranx and pytrec_eval."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.corpus import BEIR_SUFFIXES, beir_files, texts_by_id
from pytest_rageval.evalsets.files import json_members, json_records, read_lines
from pytest_rageval.evalsets.formats import Shape, is_json_by_topic
from pytest_rageval.evalsets.records import Records, check_records
from pytest_rageval.lib.foreign_values import as_identifier, id_key

TOPICS_ARE_IDS: Final = "ids"  # value of the option `topics`: the id of a topic is used as its question
BEIR_QRELS_CELLS: Final = 3
TREC_QRELS_CELLS: Final = 4
TOPIC_CELLS: Final = 2
GRADE: Final = re.compile(r"([+-]?[0-9]{1,9})(?:\.0*)?")  # data frames write integers as floats: 1.0
NUMBER: Final = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")
WHITE_SPACE: Final = re.compile(
    r"[ \n\r\f\v\x1c-\x1f]+"
)  # other spaces, outside of ASCII, may be part of an id
MAX_TOPIC_CHARACTERS: Final = 2**20

TAG: Final = re.compile(r"(?:^|(?<=>))[ \t]*<([a-zA-Z]+)>", re.MULTILINE)
TAG_LABEL: Final = re.compile(r"(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)
ID_HEADER: Final = re.compile(
    r"(?:(?:q|query|question|topic)[ _-]?)?(?:id|number|num|no)[0-9]*|topic|#", re.IGNORECASE
)
QUESTION_HEADER: Final = re.compile(
    r"(?:query|question|topic|title|text|(?:query|question)[ _-]?text)[0-9]*", re.IGNORECASE
)

Topic = tuple[str, str, dict[str, str]]
"""The place for messages, the id, and the fields by tag: `title`, `desc`, `narr`."""


def recognises_trec(shape: Shape) -> bool:
    """Return True for a folder with topics and qrels, or a file of qrels or of topics (tags, or id, tab, question)."""
    if shape.folder:
        return bool(_list_files(shape.path, "topics")) and bool(_list_files(shape.path, "qrels"))
    is_topics = "<top>" in shape.head[:4096].lower() or _is_topic_line(shape.line)
    return _is_qrels(shape) or (is_topics and not shape.is_json)


def _is_qrels(shape: Shape) -> bool:
    if shape.is_json:
        return is_json_by_topic(shape.head)
    cells = split_cells(shape.line)
    return len(cells) == TREC_QRELS_CELLS and GRADE.fullmatch(cells[-1]) is not None


def split_cells(line: str) -> list[str]:
    r"""Return the cells of a line: between tabs if it has a tab, since an id may have a space; else between spaces.

    >>> split_cells("q1\tAda Lovelace\t1\n"), split_cells("301 0  d1 1")
    (['q1', 'Ada Lovelace', '1'], ['301', '0', 'd1', '1'])
    """
    if "\t" in line:
        return [cell.strip() for cell in line.rstrip().split("\t")]
    return line.split() if line.isascii() else [cell for cell in WHITE_SPACE.split(line) if cell]


def _is_topic_line(line: str) -> bool:
    identifier, tab, question = line.partition("\t")
    return (
        bool(tab)
        and "\t" not in question
        and any(map(str.isdigit, identifier))
        and " " not in identifier.strip()
        and not is_header(line)
    )


def read_trec(
    path: Path, *, topics: str | None = None, qrels: str | None = None, question: str = "title"
) -> Records:
    """Yield records of the judged topics, or of all topics without judgements.

    `topics` and `qrels` name files beside `path` or in it; "ids" as `topics` takes each id as its question. `question`
    is the tag whose text is the question: "title", "desc" or "narr". The other tags are kept under `extra`.
    """
    topics_file, qrels_file = _find_files(path, topics, qrels)
    judged = None if qrels_file is None else read_qrels(qrels_file)
    if topics_file is None:
        for identifier, documents in (judged or {}).items():
            yield f"{path.name} topic {identifier}", _trec_record(identifier, identifier, documents)
        return
    missing = set(judged or ())
    for place, identifier, fields in read_topics(topics_file):
        if judged is not None and identifier not in judged:
            continue
        missing.discard(identifier)
        if question not in fields:
            raise InputError(f"{place}: topic {identifier} has no <{question}>. Found: {', '.join(fields)}.")
        documents = {} if judged is None else judged[identifier]
        yield place, _trec_record(identifier, fields.pop(question), documents) | fields
    if missing:
        raise InputError(
            f"{topics_file.name} lacks {len(missing)} topics that were judged: {', '.join(sorted(missing)[:8])}.\n"
            "Are these the topics of these qrels?"
        )


def _trec_record(identifier: str, question: str, documents: dict[str, int]) -> dict[str, object]:
    gold = [{"id": document, "grade": grade} for document, grade in documents.items()]
    return {"id": identifier, "question": question, "gold": gold}


def _find_files(path: Path, topics: str | None, qrels: str | None) -> tuple[Path | None, Path | None]:
    """Return the path of the topics (None: ids are the questions) and of the judgements (None: there are none)."""
    if path.is_dir():
        qrels_file = _option_file(path, qrels, "qrels") if qrels else _only_file(path, "qrels")
        if topics == TOPICS_ARE_IDS:
            return None, qrels_file
        return (_option_file(path, topics, "topics") if topics else _only_file(path, "topics")), qrels_file
    if not _is_qrels(Shape(path)):
        return path, _option_file(path, qrels, "qrels") if qrels else None
    if topics is None:
        raise InputError(
            f"{path.name} contains judgements and no questions.\n"
            'Say where the topics are, topics="topics.txt"; or topics="ids": each question is its id.'
        )
    return (None if topics == TOPICS_ARE_IDS else _option_file(path, topics, "topics")), path


def _list_files(folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.lower().startswith(kind) and file.is_file())


def _only_file(folder: Path, kind: str) -> Path:
    files = _list_files(folder, kind)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise InputError(f'{folder} has {len(files)} files {kind}*: {names}.\nName one: {kind}="…".')
    return files[0]


def _option_file(path: Path, name: object, option: str) -> Path:
    if not isinstance(name, str | Path):
        raise InputError(f"{option}={name!r} is not a path.")
    file = (path if path.is_dir() else path.parent) / name
    if not file.is_file():
        raise InputError(f"{option}={str(name)!r}: there is no file {file}.")
    return file


def read_questions(path: Path, topics: object) -> dict[str, str] | None:
    """Return the question of each id in the file that the option `topics` names; None for the value "ids"."""
    if topics == TOPICS_ARE_IDS:
        return None
    file = _option_file(path, topics, "topics")
    return {identifier: fields["title"] for _, identifier, fields in read_topics(file) if "title" in fields}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return the grade of each judged document, by topic, in the file's order.

    A line is `topic iteration document grade`, or BEIR's `query-id corpus-id score`, between tabs. JSON is `{topic:
    {document: grade}}`. Grades below 0 (spam, in web tracks) are read as 0: judged and not relevant.
    """
    judged: dict[str, dict[str, int]] = {}
    if is_json_by_topic(Shape(path).head):
        for place, topic, numbers in read_numbers_by_topic(path):
            whole = {document: number for document, number in numbers.items() if number == int(number)}
            if len(whole) < len(numbers):
                found = next(document for document in numbers if document not in whole)
                raise InputError(f"{place}: the grade of {found[:80]} is {numbers[found]}, no integer.")
            # JSON objects are unordered, but the order of gold passages matters: sort the ids.
            judged[topic] = {document: max(int(numbers[document]), 0) for document in sorted(numbers)}
        return judged
    width = 0
    for number, line in read_lines(path):
        if not line.strip():
            continue
        cells, place = split_cells(line), f"{path.name} line {number}"
        is_first, width = not width, width or len(cells)
        known_width = width == TREC_QRELS_CELLS or (width == BEIR_QRELS_CELLS and "\t" in line)
        if is_first and known_width and width == BEIR_QRELS_CELLS and not NUMBER.fullmatch(cells[-1]):
            continue  # the header
        grade = GRADE.fullmatch(cells[-1])
        are_ids = (
            known_width and len(cells) == width and None not in map(as_identifier, (cells[0], cells[-2]))
        )
        if grade is None or not are_ids:
            raise InputError(
                f"{place} is not a judgement: {line.strip()[:60]!r}.\n"
                "Write topic, iteration, document and grade, an integer, between spaces or tabs; or query-id, "
                "corpus-id and score between tabs. An id with a space needs tabs. All lines have the same number of "
                "cells."
            )
        question, document = cells[0], cells[-2]
        documents = judged.setdefault(question, {})
        if document in documents:
            raise InputError(
                f"{place}: {document[:80]} is judged twice for {question[:80]}.\nTake one of them out."
            )
        documents[document] = max(int(grade[1]), 0)
    return judged


def read_numbers_by_topic(path: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield for each topic its place, its id, and the number of each document."""
    known: set[str] = set()
    for topic, documents in json_members(path):
        place = f"{path.name} topic {topic[:80]}"
        if id_key(topic) in known:
            raise InputError(f"{place} occurs twice.\nRemove one of them.")
        known.add(id_key(topic))
        if not isinstance(documents, dict) or not {int, float}.issuperset(map(type, documents.values())):
            raise InputError(f'{place} is not an object of numbers.\nWrite {{"{topic[:80]}": {{"d1": 1}}}}.')
        yield place, topic, documents


def read_topics(path: Path) -> Iterator[Topic]:
    """Yield the topics of a file with TREC's tags, or with lines of id, tab, question; the question becomes `title`.

    The text of a tag ends at its closing tag or at the next tag. A tag is at the beginning of a line or follows another
    tag; other angle brackets are text.
    """
    first = True
    numbered = ((number, line) for number, line in read_lines(path) if line.strip())
    for number, line in numbered:
        if first and line.lstrip().startswith("<"):
            yield from _read_tagged_topics(path.name, chain([(number, line)], numbered))
            return
        if not (first and is_header(line)):
            cells = line.rstrip().split("\t")
            if len(cells) != TOPIC_CELLS:
                raise InputError(
                    f"{path.name} line {number} is not a topic: {line.strip()[:60]!r}.\n"
                    "Write an id, a tab, the question, without another tab. A table with more columns is named .tsv, "
                    "and its first line names the columns."
                )
            identifier, question = map(str.strip, cells)
            yield f"{path.name} line {number}", identifier, {"title": question}
        first = False


def is_header(line: str) -> bool:
    r"""Return True if a line has two cells, both with usual names of columns; any other header is read as a topic.

    >>> is_header("qid\tquery"), is_header("q17\tquery")
    (True, False)
    """
    identifier, tab, question = line.strip().partition("\t")
    return bool(
        tab and ID_HEADER.fullmatch(identifier.strip()) and QUESTION_HEADER.fullmatch(question.strip())
    )


def _read_tagged_topics(name: str, numbered: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    start, text = 0, ""
    for number, line in numbered:
        start, text = start or number, text + line
        if "</top>" in line.lower():
            yield _parse_tagged_topic(f"{name} line {start}", text)
            start, text = 0, ""
        elif len(text) > MAX_TOPIC_CHARACTERS:
            break
    # Text outside of topics, such as the tags of a root element, is ignored.
    if "<top>" in text.lower() or len(text) > MAX_TOPIC_CHARACTERS:
        raise InputError(
            f"{name} line {start}: a <top> is not closed within 1 MiB.\nEnd each topic with </top>."
        )


def _parse_tagged_topic(place: str, text: str) -> Topic:
    _, *parts = TAG.split(text[max(text.lower().find("<top>"), 0) :])
    fields = {}
    for tag, rest in zip(parts[::2], parts[1::2], strict=True):
        content = re.split(f"</(?:{tag}|top)>", rest, maxsplit=1, flags=re.IGNORECASE)[0]
        fields[tag.lower()] = " ".join(TAG_LABEL.sub("", content, count=1).split())
    identifier = fields.pop("num", "")
    fields.pop("top", None)
    if not identifier or "<" in identifier:
        found = f"the <num> of the topic is {identifier[:60]!r}" if identifier else "the topic has no <num>"
        raise InputError(f"{place}: {found}.\nWrite <num> Number: 301 and <title> …, a line each.")
    return place, identifier, {tag: content for tag, content in fields.items() if content}


QRELS_FOLDERS: Final = ("qrels", "default", "data")
"""Folders with the judgements: of BEIR, and of MTEB on Hugging Face."""

SPLIT: Final = re.compile(r"(?P<split>.+?)(?:-\d{5}-of-\d{5})?\.")


def recognises_beir(shape: Shape) -> bool:
    return shape.folder and bool(beir_files(shape.path, "queries"))


def read_beir(path: Path, *, split: str | None = None, texts: bool = True) -> Records:
    """Yield records of the queries that have judgements in a split; the corpus is not held in memory.

    In place of each file there may be a folder of this name with files of JSON lines or Parquet. The text of a gold
    passage is title and text, with a space between them.
    """
    queries = beir_files(path, "queries")
    if not queries:
        raise InputError(
            f"{path} has no queries.jsonl.\nA BEIR folder has queries.jsonl, corpus.jsonl and qrels/."
        )
    qrels = _qrels_files(path, split)
    judged = _read_judgements(qrels)
    known: dict[str, str] = {}
    if texts and beir_files(path, "corpus"):
        known = texts_by_id(path, {document for grades in judged.values() for document in grades})
    for check, record in check_records(chain.from_iterable(map(json_records, queries)), "text"):
        key = "_id" if "_id" in record else "id"
        check.record(record, key)
        identifier = check.name(record.pop(key), key)
        if identifier not in judged:
            continue
        grades = judged.pop(identifier).items()
        record |= {
            "id": identifier,
            "question": check.text(record.pop("text"), "text"),
            "gold": [{"id": name, "text": known.get(id_key(name)), "grade": grade} for name, grade in grades],
        }
        yield check.place, record
    if judged:
        raise InputError(
            f"{queries[0].name} lacks {len(judged)} queries that {qrels[0].name} judges: "
            f"{', '.join(sorted(judged)[:8])}.\nAre these the queries of these qrels?"
        )


def _qrels_files(path: Path, split: str | None) -> list[Path]:
    folder = next((path / name for name in QRELS_FOLDERS if (path / name).is_dir()), path / QRELS_FOLDERS[0])
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*")):
        is_read = ".tsv" in file.suffixes or file.name.endswith(BEIR_SUFFIXES)
        if is_read and (matched := SPLIT.match(file.name)):
            files.setdefault(matched["split"], []).append(file)
    if split is None and (len(files) == 1 or "test" in files):
        return files.get("test") or next(iter(files.values()))
    if split not in files:
        name = "" if split is None else f" {split!r}"
        raise InputError(
            f"{folder} has no such split{name}. There are: {', '.join(files) or 'none'}.\n"
            'Name one: split="…".'
        )
    return files[split]


def _read_judgements(files: Iterable[Path]) -> dict[str, dict[str, int]]:
    """Return the grade of each judged document, by query, from tables (see `read_qrels`), JSON lines or Parquet."""
    judged: dict[str, dict[str, int]] = {}
    for file in files:
        if ".tsv" in file.suffixes:
            for query, grades in read_qrels(file).items():
                # Some folders have the same judgements as JSON lines, which are read first.
                documents = judged.setdefault(query, {})
                for other in (name for name in grades if documents.get(name, grades[name]) != grades[name]):
                    raise InputError(
                        f"{file.name}: the grade of {other[:80]} for {query[:80]} is {grades[other]}, and "
                        f"{documents[other]} in another file of this split.\nTake one of them out."
                    )
                documents |= grades
            continue
        for check, row in check_records(json_records(file), "query-id", "corpus-id", "score"):
            documents = judged.setdefault(check.name(row["query-id"], "query-id"), {})
            document = check.name(row["corpus-id"], "corpus-id")
            if document in documents:
                check.fail(f"{document[:80]} is judged twice for this query", "Take one of them out.")
            score = row["score"]
            is_negative = type(score) in (int, float) and score < 0
            documents[document] = check.natural(0 if is_negative else score, "score")
    return judged
