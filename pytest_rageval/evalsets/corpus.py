"""Reads the corpus of an eval set, passage by passage: JSON lines, Parquet, BEIR, or a folder of text files."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.evalsets.files import PARQUET_SUFFIXES, json_records, not_utf8_error
from pytest_rageval.evalsets.formats import COMPRESSION_SUFFIXES
from pytest_rageval.evalsets.records import Check, check_records
from pytest_rageval.lib.foreign_values import id_key

TEXT_SUFFIXES: Final = (".md", ".markdown", ".mdx", ".rst", ".text", ".txt")

BEIR_SUFFIXES: Final = (
    ".jsonl",
    *(f".jsonl{packed}" for packed in COMPRESSION_SUFFIXES),
    *PARQUET_SUFFIXES,
)


def read_corpus(path: Path) -> Iterator[Document]:
    """Yield the passages of a corpus, which is one of

    - JSON lines (or an array in a `.json` file) of passages with `text` and `id`. `source` and `start` say from which
      file and offset a passage was cut; `end` is optional, by default `start` plus the text's length. The source of a
      passage without `source` is its id. A passage with `source` and without `start` has no span.
    - BEIR's `corpus.jsonl`, recognized by its key `_id`, or a folder with this file, or with the files
      `corpus/*.parquet` of Hugging Face. The text of a passage is its title and text, with a space between them.
    - AutoRAG's `corpus.parquet`, recognized by its columns `doc_id` and `contents`.
    - a folder of text and Markdown files. Each file is one passage; its id and source are its path relative to the
      folder. Offsets count characters as Python's `open` returns them. Hidden files are left out.
    """  # noqa: D415 - a list follows
    if not path.exists():
        raise InputError(f"The corpus {path} cannot be read: there is no such file or folder.")
    if is_folder_of_files(path):
        yield from _read_folder(path)
        return
    files = beir_files(path, "corpus") if path.is_dir() else [path]
    check = None
    for check, record in check_records(chain.from_iterable(map(json_records, files))):
        yield _parse_document(record, check)
    if check is None:
        raise InputError(f'{path.name} contains no passages.\nOne a line: {{"id": "doc-4", "text": "…"}}')


def texts_by_id(path: Path, wanted: Collection[str]) -> dict[str, str]:
    """Return the texts of some passages of a corpus that are not empty, by the `id_key` of their ids."""
    keys = set(map(id_key, wanted))
    documents = ((id_key(document.id or ""), document.text) for document in read_corpus(path))
    return {key: text for key, text in documents if text and key in keys}


def is_folder_of_files(path: Path) -> bool:
    """Return True if a corpus is a folder of text files, whose paths are the ids of the passages."""
    return path.is_dir() and not beir_files(path, "corpus")


def beir_files(folder: Path, name: str) -> list[Path]:
    """Return the files of one part of a BEIR folder: `corpus.jsonl`, also compressed or as Parquet, or `corpus/*`."""
    single = next((file for suffix in BEIR_SUFFIXES if (file := folder / f"{name}{suffix}").is_file()), None)
    if single is not None:
        return [single]
    return sorted(file for file in (folder / name).glob("*") if file.name.endswith(BEIR_SUFFIXES))


def beir_text(record: Mapping[str, object], check: Check) -> str:
    """Return title and text of a BEIR passage, joined by a space as BEIR does; empty if it has neither."""
    title, text = record.get("title") or "", record.get("text") or ""
    if not isinstance(title, str) or not isinstance(text, str):
        check.fail('"title" or "text" is not a text', "Give strings.")
    return f"{title} {text}".strip()


def _parse_document(record: Mapping[str, object], check: Check) -> Document:
    if "_id" in record:
        name, content = check.name(record["_id"], "_id"), beir_text(record, check)
        return Document(content, name, span=_whole_span(name, content))
    if "doc_id" in record and "contents" in record:
        name, content = check.name(record["doc_id"], "doc_id"), check.text(record["contents"], "contents")
        return Document(content, name, span=_whole_span(name, content))
    check.record(record, "text")
    text = check.text(record["text"], "text")
    identifier = None if record.get("id") is None else check.name(record["id"], "id")
    if record.get("source") is None:
        if identifier is None:
            check.fail('the passage has neither "id" nor "source"', 'Give it an "id".')
        return Document(text, identifier, span=_whole_span(identifier, text))
    source = check.text(record["source"], "source")
    if record.get("start") is None:
        return Document(text, identifier)
    start = check.natural(record["start"], "start")
    end = start + len(text) if record.get("end") is None else check.natural(record["end"], "end")
    if end <= start:
        check.fail(f'"end" is {end}, and "start" {start}', "Offsets are characters; the end is excluded.")
    return Document(text, identifier, span=Span(source, start, end))


def _whole_span(source: str, text: str) -> Span | None:
    return Span(source, 0, len(text)) if text else None


def _read_folder(folder: Path) -> Iterator[Document]:
    source = None
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.suffix.lower() in TEXT_SUFFIXES and not hidden and path.is_file():
            source = relative.as_posix()
            try:
                text = path.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise not_utf8_error(str(path), error) from None
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
            yield Document(text, source, span=_whole_span(source, text))
    if source is None:
        raise InputError(
            f"The folder {folder} contains no corpus: neither corpus.jsonl nor files that end in "
            f"{', '.join(TEXT_SUFFIXES)}."
        )
