"""TREC: topics and relevance judgements (qrels) in their usual forms."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import lines
from pytest_rageval.evalsets.format import Shape

__all__ = [
    "IDS",
    "Topic",
    "beside",
    "gold_by_id",
    "is_header",
    "questions_of",
    "read",
    "read_qrels",
    "read_topics",
    "recognises",
]

OF_BEIR: Final = 3
OF_TREC: Final = 4
MAX_DIGITS: Final = 9


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """By question: the grade of each judged document, in the file's order.

    A line is `topic iteration document grade`, or BEIR's `query-id corpus-id score`, which may have a
    header. Grades below 0 (spam, in web tracks) are read as 0: judged and not relevant. What is
    judged is held in memory.

    Raises:
        InputError: a line has another form, or a document is judged twice for a question.
    """
    judged: dict[str, dict[str, int]] = {}
    for number, line in lines(path):
        cells = line.split()
        if not cells or (number == 1 and len(cells) == OF_BEIR and not is_grade(cells[-1])):
            continue
        place = f"{path.name} line {number}"
        if len(cells) not in (OF_BEIR, OF_TREC) or not is_grade(cells[-1]):
            raise InputError(
                f"{place} is no judgement: {line.strip()[:60]!r}.\n"
                "Write topic, iteration, document and grade, an integer; or query-id, corpus-id, score."
            )
        documents = judged.setdefault(cells[0], {})
        if cells[-2] in documents:
            raise InputError(
                f"{place}: {cells[-2][:80]} is judged twice for {cells[0][:80]}.\nTake one of them out."
            )
        documents[cells[-2]] = max(int(cells[-1]), 0)
    return judged


def gold_by_id(documents: dict[str, int]) -> list[dict[str, Any]]:
    """The judgements of one question as gold passages."""
    return [{"id": document, "grade": grade} for document, grade in documents.items()]


def is_grade(cell: str) -> bool:
    """Whether a cell is an integer of a sensible size."""
    digits = cell[1:] if cell[:1] in "+-" else cell
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS


IDS: Final = "ids"
"""As the option `topics`: the ids stand for the questions."""

Topic = tuple[str, str, dict[str, str]]
"""Its place, its id, and its fields: `title`, and what else there is (`desc`, `narr`)."""

TAG: Final = re.compile(r"(?:^|(?<=>))[ \t]*<([a-zA-Z]+)>", re.MULTILINE)
LABEL: Final = re.compile(r"(?:Number|Topic|Description|Narrative)\s*:", re.IGNORECASE)
OF_IDS: Final = re.compile(
    r"(?:(?:q|query|question|topic)[ _-]?)?(?:id|number|num|no)[0-9]*|topic|#", re.IGNORECASE
)
OF_QUESTIONS: Final = re.compile(
    r"(?:query|question|topic|title|text|(?:query|question)[ _-]?text)[0-9]*", re.IGNORECASE
)
MAX_TOPIC: Final = 2**20


def read_topics(path: Path) -> Iterator[Topic]:
    """The topics of a file in one of two forms.

    TREC's: `<top>`, `<num>` and further tags, each up to its closing tag or the next one, `</top>`.
    A tag begins a line or follows another one; what else is in angle brackets is text, as a lone `<`
    is. Or a line of id, tab, question, which is the title.

    Raises:
        InputError: what is there has neither form.
    """
    numbered = ((number, line) for number, line in lines(path) if line.strip())
    first = next(numbered, None)
    if first is None:
        return
    if first[1].lstrip().startswith("<"):
        yield from _tagged(path.name, first, numbered)
    else:
        if not is_header(first[1]):
            yield _from_line(path.name, *first)
        for number, line in numbered:
            yield _from_line(path.name, number, line)


def is_header(line: str) -> bool:
    r"""Whether a line of two cells names its columns: both by words that are usual for them.

    Of the ids: `id`, `qid`, `query_id`, `topic number` and their like, `topic`; of the questions:
    `query`, `question`, `topic`, `title`, `text`; digits may follow either. Another header is a topic.

    >>> is_header("qid\tquery"), is_header("q17\tquery")
    (True, False)
    """
    identifier, tab, question = line.strip().partition("\t")
    return bool(tab and OF_IDS.fullmatch(identifier.strip()) and OF_QUESTIONS.fullmatch(question.strip()))


def questions_of(path: Path, topics: object) -> dict[str, str] | None:
    """What the option `topics` gives: the questions by id, or None where the ids stand for them.

    Args:
        path: of the eval set; a relative path starts from its folder.
        topics: the path of a file of topics, or "ids".

    Raises:
        InputError: it is neither.
    """
    if topics == IDS:
        return None
    found = beside(path, topics, "topics")
    return {identifier: fields["title"] for _, identifier, fields in read_topics(found) if "title" in fields}


def beside(path: Path, name: object, option: str) -> Path:
    """The file that an option names, from the folder of the eval set.

    Raises:
        InputError: the option is no path, or no file is there.
    """
    if not isinstance(name, str | Path):
        raise InputError(f"{option}={name!r} is no path.")
    found = (path if path.is_dir() else path.parent) / name
    if not found.is_file():
        raise InputError(f"{option}={str(name)!r}: there is no file {found}.")
    return found


def _from_line(name: str, number: int, line: str) -> Topic:
    identifier, tab, question = line.strip().partition("\t")
    if not tab:
        raise InputError(
            f"{name} line {number} is no topic: {line.strip()[:60]!r}.\nWrite an id, a tab, the question."
        )
    return f"{name} line {number}", identifier.strip(), {"title": question.strip()}


def _tagged(name: str, first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[Topic]:
    (began, line), text = first, ""
    while True:
        text += line
        if "</top>" in line.lower():
            yield _from_tags(f"{name} line {began}", text)
            began, text = 0, ""
        elif len(text) > MAX_TOPIC:
            break
        number, line = next(rest, (0, ""))
        if not number:
            break
        began = began or number
    # What surrounds the topics, as in a file with one root element, is none.
    if "<top>" in text.lower() or len(text) > MAX_TOPIC:
        raise InputError(
            f"{name} line {began}: a <top> is not closed within 1 MiB.\nEnd each topic with </top>."
        )


def _from_tags(place: str, text: str) -> Topic:
    # What stands before the first tag, then each tag with what follows it.
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
            raise InputError(f"{place}: topic {identifier} has no <{question}>. Found: {', '.join(fields)}.")
        record = _record(identifier, fields.pop(question), {} if judged is None else judged[identifier])
        yield place, record | fields
    if missing:
        raise InputError(
            f"{where.name} lacks {len(missing)} topics that were judged: {', '.join(sorted(missing)[:8])}.\n"
            "Are these the topics of these qrels?"
        )


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
        raise InputError(
            f"{path.name} holds judgements and no questions.\n"
            'Say where the topics are, topics="topics.txt"; or topics="ids": each question is its id.'
        )
    return (None if topics == IDS else beside(path, topics, "topics")), path


def _named(folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.lower().startswith(kind) and file.is_file())


def _only(folder: Path, kind: str) -> Path:
    found = _named(folder, kind)
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise InputError(f'{folder} has {len(found)} files {kind}*: {names}.\nName one: {kind}="…".')
    return found[0]
