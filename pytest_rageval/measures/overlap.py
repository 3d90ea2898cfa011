"""Which part of a gold passage a retrieved document holds, however the corpus was cut."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from pytest_rageval.measures.words import runs, words
from pytest_rageval.model import Document, Gold, Span

__all__ = ["Kind", "Overlap", "files_named", "normal_path", "overlap"]

RUN: Final = 8
"""Words in a row that two texts on one topic do not share by chance."""

Kind = Literal["id", "same text", "span", "text"]
"""What says so, the strongest first: the same id, equal words, offsets in one file, words in common."""

Part = tuple[float, float]


class Overlap(NamedTuple):
    """What a document holds of a gold passage.

    Attributes:
        parts: from where to where, as shares of the passage in [0, 1], in order and apart; none: nothing of it.
        by: what says so.
    """

    parts: tuple[Part, ...]
    by: Kind


WHOLE: Final[tuple[Part, ...]] = ((0.0, 1.0),)


def overlap(document: Document, passage: Gold, files: Collection[str] | None = None) -> Overlap | None:
    """The part of a gold passage that a document holds, by the best evidence that both allow.

    1. Both have a span: the span decides, ids and texts are not looked at. They
       overlap in the characters that both have, if they are in one file
       (`files_named`), and else in none. An id may mean another cut of the corpus
       since the passage was labelled; a place in a file does not.
    2. Both have an id: the whole passage where the ids are equal, else nothing.
    3. The passage has a text: the words of it that stand in the document too, in
       runs of at least 8 words, or of more than half of a passage shorter than 16:
       shorter ones are phrases. Words are compared without case and punctuation and
       count by their letters. This is the weakest evidence: a text may stand in
       several places, and where a chunk ends in a run too short it is not seen.

    Args:
        document: that may hold it.
        passage: that is looked for.
        files: that the passage's source names, of those among which the document was found
            (`files_named`); None: nothing is known of other files than the document's.

    Returns:
        None where they cannot be compared: the passage is given by what the document lacks.
    """
    here, there = document.span, passage.span
    if here is not None and there is not None:
        named = files_named(there.source, [here.source]) if files is None else files
        return Overlap(_by_span(here, there) if normal_path(here.source) in named else (), "span")
    if document.id is not None and passage.id is not None:
        return Overlap(WHOLE if document.id == passage.id else (), "id")
    if passage.text is None or not words(passage.text):
        return None
    if words(document.text) == words(passage.text):
        return Overlap(WHOLE, "same text")
    return Overlap(_by_text(document.text, passage.text), "text")


def files_named(source: str, among: Iterable[str]) -> frozenset[str]:
    """Which of some files a source names: the one that has just this name; without one, those whose path ends so.

    A loader names a file by its full path, an eval set by the path within the
    corpus, or the other way round: where no name is equal, either path may be the
    end of the other. Only whole steps count. Several files that end so are all
    given: nothing tells which of them is meant.

    Args:
        source: a path.
        among: paths of files, any number of times each.

    Returns:
        The files by their `normal_path`.

    >>> sorted(files_named("index.md", ["index.md", "guide/index.md"]))
    ['index.md']
    >>> sorted(files_named("guide/index.md", ["/srv/corpus/guide/index.md", "/srv/corpus/index.md"]))
    ['srv/corpus/guide/index.md']
    >>> sorted(files_named("handbook.md", ["old-handbook.md"]))
    []
    """
    wanted = normal_path(source)
    files = frozenset(map(normal_path, among))
    return (
        frozenset((wanted,))
        if wanted in files
        else frozenset(file for file in files if _ends(file, wanted) or _ends(wanted, file))
    )


@lru_cache(maxsize=4096)
def normal_path(source: str) -> str:
    """A path with its steps alone: on either slash, without "." and a root. Upper and lower case stay."""
    return "/".join(step for step in source.replace("\\", "/").split("/") if step not in ("", "."))


def _ends(path: str, end: str) -> bool:
    return path.endswith(f"/{end}")


def _by_span(here: Span, there: Span) -> tuple[Part, ...]:
    start, end = max(here.start, there.start), min(here.end, there.end)
    if start >= end:
        return ()
    length = there.end - there.start
    return (((start - there.start) / length, (end - there.start) / length),)


def _by_text(document: str, passage: str) -> tuple[Part, ...]:
    wanted = words(passage)
    run = min(RUN, len(wanted) // 2 + 1)
    there = runs(document, run)
    found: list[tuple[int, int]] = []
    for first in range(len(wanted) - run + 1):
        if wanted[first : first + run] not in there:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], first + run)
        else:
            found.append((first, first + run))
    if not found:
        return ()
    letters = [0, *accumulate(map(len, wanted))]
    return tuple((letters[start] / letters[-1], letters[end] / letters[-1]) for start, end in found)
