"""TREC: topics and relevance judgements (qrels) in their usual forms."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_members, lines
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Records

__all__ = ["is_by_topic", "numbers_by_topic", "questions_of", "read", "read_qrels", "recognises"]

IDS: Final = "ids"  # the option `topics` if the ids stand for the questions
BEIR_CELLS: Final = 3
TREC_CELLS: Final = 4
MAX_DIGITS: Final = 9
MAX_TOPIC: Final = 2**20

BY_TOPIC: Final = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*-?\d')
TAG: Final = re.compile(r"(?:^|(?<=>))[ \t]*<([a-zA-Z]+)>", re.MULTILINE)
LABEL: Final = re.compile(r"(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)
ID_HEADER: Final = re.compile(
    r"(?:(?:q|query|question|topic)[ _-]?)?(?:id|number|num|no)[0-9]*|topic|#", re.IGNORECASE
)
QUESTION_HEADER: Final = re.compile(
    r"(?:query|question|topic|title|text|(?:query|question)[ _-]?text)[0-9]*", re.IGNORECASE
)

Topic = tuple[str, str, dict[str, str]]
"""Place, id, and fields: `title`, and others such as `desc` and `narr`."""


def recognises(shape: Shape) -> bool:
    """A folder with topics and qrels, topics in tags or in lines of id and tab, or qrels, in lines or as JSON."""
    if shape.folder:
        return bool(_files_named(shape.path, "topics")) and bool(_files_named(shape.path, "qrels"))
    if shape.is_json:
        return _is_qrels(shape)
    return "<top>" in shape.head[:4096].lower() or _is_judgement(shape.line) or _is_topic(shape.line)


def _is_qrels(shape: Shape) -> bool:
    return is_by_topic(shape.head) if shape.is_json else _is_judgement(shape.line)


def is_by_topic(head: str) -> bool:
    """Whether a file begins as JSON of numbers by document by topic, as ranx and pytrec_eval have qrels and runs."""
    return BY_TOPIC.match(head) is not None


def _is_judgement(line: str) -> bool:
    cells = line.split()
    return len(cells) == TREC_CELLS and _is_grade(cells[-1]) and line[:1] not in ("{", "[")


def _is_topic(line: str) -> bool:
    identifier, tab, question = line.partition("\t")
    return (
        bool(tab)
        and "\t" not in question
        and any(map(str.isdigit, identifier))
        and " " not in identifier.strip()
        and not is_header(line)
    )


def read(
    path: Path, *, topics: str | None = None, qrels: str | None = None, question: str = "title"
) -> Records:
    """Records from topics and qrels; as in trec_eval, only topics with judgements.

    Args:
        path: of a folder with one file `topics*` and one `qrels*`, of topics, or of qrels.
        topics: the file of topics, relative to the folder; "ids": there is none, and each question is its
            id, which a recorded run understands and a search engine does not.
        qrels: the file of judgements; without any, all topics are taken, without gold.
        question: the tag that is the question: "title", "desc" or "narr"; the others are kept.
    """
    topics_file, qrels_file = _files(path, topics, qrels)
    judged = None if qrels_file is None else read_qrels(qrels_file)
    if topics_file is None:
        for identifier, documents in (judged or {}).items():
            yield f"{path.name} topic {identifier}", _record(identifier, identifier, documents)
        return
    missing = set(judged or ())
    for place, identifier, fields in read_topics(topics_file):
        if judged is not None and identifier not in judged:
            continue
        missing.discard(identifier)
        if question not in fields:
            raise InputError(f"{place}: topic {identifier} has no <{question}>. Found: {', '.join(fields)}.")
        documents = {} if judged is None else judged[identifier]
        yield place, _record(identifier, fields.pop(question), documents) | fields
    if missing:
        raise InputError(
            f"{topics_file.name} lacks {len(missing)} topics that were judged: {', '.join(sorted(missing)[:8])}.\n"
            "Are these the topics of these qrels?"
        )


def _record(identifier: str, question: str, documents: dict[str, int]) -> dict[str, Any]:
    gold = [{"id": document, "grade": grade} for document, grade in documents.items()]
    return {"id": identifier, "question": question, "gold": gold}


def _files(path: Path, topics: str | None, qrels: str | None) -> tuple[Path | None, Path | None]:
    """The files of topics (None: the ids stand for them) and of judgements (None: there are none)."""
    if path.is_dir():
        qrels_file = _option_file(path, qrels, "qrels") if qrels else _only_file(path, "qrels")
        if topics == IDS:
            return None, qrels_file
        return (_option_file(path, topics, "topics") if topics else _only_file(path, "topics")), qrels_file
    if not _is_qrels(Shape(path)):
        return path, _option_file(path, qrels, "qrels") if qrels else None
    if topics is None:
        raise InputError(
            f"{path.name} contains judgements and no questions.\n"
            'Say where the topics are, topics="topics.txt"; or topics="ids": each question is its id.'
        )
    return (None if topics == IDS else _option_file(path, topics, "topics")), path


def _files_named(folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.lower().startswith(kind) and file.is_file())


def _only_file(folder: Path, kind: str) -> Path:
    files = _files_named(folder, kind)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise InputError(f'{folder} has {len(files)} files {kind}*: {names}.\nName one: {kind}="…".')
    return files[0]


def _option_file(path: Path, name: object, option: str) -> Path:
    """The file that an option names, relative to the folder of the eval set."""
    if not isinstance(name, str | Path):
        raise InputError(f"{option}={name!r} is not a path.")
    file = (path if path.is_dir() else path.parent) / name
    if not file.is_file():
        raise InputError(f"{option}={str(name)!r}: there is no file {file}.")
    return file


def questions_of(path: Path, topics: object) -> dict[str, str] | None:
    """Return the questions by id in the file that the option `topics` names; None for "ids", which stand for them."""
    if topics == IDS:
        return None
    file = _option_file(path, topics, "topics")
    return {identifier: fields["title"] for _, identifier, fields in read_topics(file) if "title" in fields}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read the grades of the judged documents of each question, in the file's order.

    A line is `topic iteration document grade`, or BEIR's `query-id corpus-id score`, which may have a header; JSON is
    `{topic: {document: grade}}`, as ranx and pytrec_eval have it.
    Grades below 0 (spam, in web tracks) are read as 0: judged and not relevant.
    """
    judged: dict[str, dict[str, int]] = {}
    if is_by_topic(Shape(path).head):
        for place, topic, numbers in numbers_by_topic(path):
            whole = {document: number for document, number in numbers.items() if number == int(number)}
            if len(whole) < len(numbers):
                found = next(document for document in numbers if document not in whole)
                raise InputError(f"{place}: the grade of {found[:80]} is {numbers[found]}, no integer.")
            # The order of keys does not matter, and that of the gold passages does.
            judged[topic] = {document: max(int(numbers[document]), 0) for document in sorted(numbers)}
        return judged
    for number, line in lines(path):
        cells = line.split()
        if not cells or (number == 1 and len(cells) == BEIR_CELLS and not _is_grade(cells[-1])):
            continue
        place = f"{path.name} line {number}"
        if len(cells) not in (BEIR_CELLS, TREC_CELLS) or not _is_grade(cells[-1]):
            raise InputError(
                f"{place} is not a judgement: {line.strip()[:60]!r}.\n"
                "Write topic, iteration, document and grade, an integer; or query-id, corpus-id, score."
            )
        question, document, grade = cells[0], cells[-2], int(cells[-1])
        documents = judged.setdefault(question, {})
        if document in documents:
            raise InputError(
                f"{place}: {document[:80]} is judged twice for {question[:80]}.\nTake one of them out."
            )
        documents[document] = max(grade, 0)
    return judged


def numbers_by_topic(path: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield place, topic and the numbers by document of JSON that `is_by_topic`; InputError for anything else in it."""
    known: set[str] = set()
    for topic, documents in json_members(path):
        place = f"{path.name} topic {topic[:80]}"
        if topic in known:
            raise InputError(f"{place} comes twice.\nTake one of them out.")
        known.add(topic)
        if not isinstance(documents, dict) or not all(
            type(each) in (int, float) for each in documents.values()
        ):
            raise InputError(f'{place} is not an object of numbers.\nWrite {{"{topic[:80]}": {{"d1": 1}}}}.')
        yield place, topic, documents


def _is_grade(cell: str) -> bool:
    digits = cell[1:] if cell[:1] in "+-" else cell
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS


def read_topics(path: Path) -> Iterator[Topic]:
    """Read the topics of a file: TREC's tags, or lines of id, tab, question, which is the title.

    Tags are `<top>`, `<num>` and further ones, each up to its closing tag or the next one, and `</top>`. A tag
    begins a line or follows another tag; other angle brackets are text.
    """
    first = True
    numbered = ((number, line) for number, line in lines(path) if line.strip())
    for number, line in numbered:
        if first and line.lstrip().startswith("<"):
            yield from _tagged_topics(path.name, chain([(number, line)], numbered))
            return
        if not (first and is_header(line)):
            identifier, tab, question = line.strip().partition("\t")
            if not tab:
                raise InputError(
                    f"{path.name} line {number} is not a topic: {line.strip()[:60]!r}.\n"
                    "Write an id, a tab, the question."
                )
            yield f"{path.name} line {number}", identifier.strip(), {"title": question.strip()}
        first = False


def is_header(line: str) -> bool:
    r"""Whether a line of two cells names its columns, both by usual names; another header is read as a topic.

    >>> is_header("qid\tquery"), is_header("q17\tquery")
    (True, False)
    """
    identifier, tab, question = line.strip().partition("\t")
    return bool(
        tab and ID_HEADER.fullmatch(identifier.strip()) and QUESTION_HEADER.fullmatch(question.strip())
    )


def _tagged_topics(name: str, numbered: Iterable[tuple[int, str]]) -> Iterator[Topic]:
    start, text = 0, ""
    for number, line in numbered:
        start, text = start or number, text + line
        if "</top>" in line.lower():
            yield _from_tags(f"{name} line {start}", text)
            start, text = 0, ""
        elif len(text) > MAX_TOPIC:
            break
    # Text around the topics, such as the tags of a root element, is ignored.
    if "<top>" in text.lower() or len(text) > MAX_TOPIC:
        raise InputError(
            f"{name} line {start}: a <top> is not closed within 1 MiB.\nEnd each topic with </top>."
        )


def _from_tags(place: str, text: str) -> Topic:
    _, *parts = TAG.split(text[max(text.lower().find("<top>"), 0) :])
    fields = {}
    for tag, rest in zip(parts[::2], parts[1::2], strict=True):
        content = re.split(f"</(?:{tag}|top)>", rest, maxsplit=1, flags=re.IGNORECASE)[0]
        fields[tag.lower()] = " ".join(LABEL.sub("", content, count=1).split())
    identifier = fields.pop("num", "")
    fields.pop("top", None)
    if not identifier or "<" in identifier:
        found = f"the <num> of the topic is {identifier[:60]!r}" if identifier else "the topic has no <num>"
        raise InputError(f"{place}: {found}.\nWrite <num> Number: 301 and <title> …, a line each.")
    return place, identifier, {tag: content for tag, content in fields.items() if content}
