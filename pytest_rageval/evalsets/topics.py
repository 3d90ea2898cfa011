"""Questions with their ids and nothing else: TREC's topics, and tab-separated lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.streams import lines

__all__ = ["IDS", "Topic", "beside", "is_header", "questions_of", "read_topics"]

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
        message = f"{option}={name!r} is no path."
        raise InputError(message)
    found = (path if path.is_dir() else path.parent) / name
    if not found.is_file():
        message = f"{option}={str(name)!r}: there is no file {found}."
        raise InputError(message)
    return found


def _from_line(name: str, number: int, line: str) -> Topic:
    identifier, tab, question = line.strip().partition("\t")
    if not tab:
        message = (
            f"{name} line {number} is no topic: {line.strip()[:60]!r}.\nWrite an id, a tab, the question."
        )
        raise InputError(message)
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
        message = f"{name} line {began}: a <top> is not closed within 1 MiB.\nEnd each topic with </top>."
        raise InputError(message)


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
        message = f"{place}: {found}.\nWrite <num> Number: 301 and <title> …, a line each."
        raise InputError(message)
    return place, identifier, {tag: content for tag, content in fields.items() if content}
