"""`load()`: from a file, a folder or records in Python to an eval set, whole or sampled."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.field_map import mapped
from pytest_rageval.evalsets.format import Format, format_of
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.evalsets.sampling import Draw, sampled
from pytest_rageval.model import EvalSet

__all__ = ["How", "find", "load", "load_records", "records_of"]


def find(
    what: str, source: str | Path, *, bases: Sequence[Path], there: Callable[[Path], bool] = Path.exists
) -> Path:
    """The whole path of a file or folder; a relative one is looked for under each of the bases in turn.

    Args:
        what: it is, for the error.
        source: the path as it was written.
        bases: folders.
        there: whether a path is what is looked for.

    Raises:
        InputError: it is under none of the bases.
    """
    candidates = [base / source for base in bases]
    for candidate in candidates:
        if there(candidate):
            return candidate.resolve()
    looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
    raise InputError(f"There is no {what} {str(source)!r}. Looked for:\n{looked}")


MISSING: Final = ("NAType", "NaTType")
"""The types of what pandas has in place of a missing value."""


def records_of(source: object) -> Callable[[], Iterator[tuple[str, Any]]] | None:
    """What gives the records of a source from the start, each with its place ("record 3").

    A Polars data frame gives its rows as dicts (`iter_rows`), a pandas data frame is zipped with its
    columns (`itertuples`), a list, a tuple and a Hugging Face `Dataset` are gone through. Missing
    values of a frame (NaN, NaT, NA) are left out, NumPy's are made Python's, and times are ISO texts.

    Returns:
        None where the source is none of these; an iterator is none, since it can be read once only.
    """
    rows = _rows(source)
    if rows is None:
        return None
    return lambda: ((f"record {number}", _plain_record(row)) for number, row in enumerate(rows(), 1))


def _rows(source: Any) -> Callable[[], Iterable[Any]] | None:
    if isinstance(source, type | str | bytes | Mapping):
        return None
    if hasattr(source, "iter_rows"):
        return lambda: source.iter_rows(named=True)
    if hasattr(source, "itertuples"):
        names = [str(name) for name in source.columns]
        return lambda: (
            dict(zip(names, row, strict=True)) for row in source.itertuples(index=False, name=None)
        )
    if isinstance(source, list | tuple) or hasattr(source, "column_names"):
        return lambda: iter(source)
    return None


def _plain_record(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    return {name: plain for name, value in row.items() if (plain := _plain(value)) is not None}


def _plain(value: Any) -> Any:
    """A cell's value as JSON has it, as far as it can be; None where it is missing."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value).__name__ in MISSING or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else value


@dataclass(frozen=True, slots=True)
class How:
    """How an eval set is read.

    Attributes:
        format: the name of one; None: by its shape.
        draw: the sample; None: all examples.
        options: the format's own.
    """

    format: str | None = None
    draw: Draw | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Mapping[str, Any]) -> "How":
        """From the words of a marker: `format`, `sample` with `seed` and `stratify`, the format's options.

        Raises:
            InputError: a word makes no sense.
        """
        options = dict(words)
        name, size = options.pop("format", None), options.pop("sample", None)
        drawing = {word: options.pop(word) for word in ("seed", "stratify") if word in options}
        if name is not None and not isinstance(name, str):
            message = f'format={name!r} is no name.\nWrite format="beir".'
            raise InputError(message)
        if size is None and drawing:
            verb = "says" if len(drawing) == 1 else "say"
            message = f"{' and '.join(drawing)} {verb} how a sample is drawn, and none is.\nAdd sample=200."
            raise InputError(message)
        return cls(name, None if size is None else Draw.parse(size, **drawing), options)


def load(
    path: Path | str, how: How | None = None, *, formats: Mapping[str, Format] = FORMATS, **words: Any
) -> EvalSet:
    """Read an eval set from a file or a folder.

    Args:
        path: where it is; a relative one starts from the current folder.
        how: format, sample and options; default: what the words say.
        formats: those there are, by name.
        words: those of the marker `rageval_evalset`, such as `format="beir"`, `sample=200`, `fields={…}`;
            without any: all of it, by its shape.

    Raises:
        InputError: the format is unknown, or the file cannot be used: file, line or record, what to do.
    """
    path, how = Path(path), how or How.parse(words)
    if not path.exists():
        message = f"The eval set {path} cannot be read: there is no such file."
        raise InputError(message)
    form = format_of(path, formats, how.format, how.options)
    return _made(lambda: form.records(path, how.options), how.draw, path.name)


def load_records(source: object, how: How | None = None) -> EvalSet | None:
    """An eval set from records in Python, or None where the source holds none (see `frames`).

    Args:
        source: a list of dicts, a pandas or Polars data frame, a Hugging Face `Dataset`.
        how: sample, and the option `fields` (see `field_map.mapped`).

    Raises:
        InputError: a record cannot be used, or another option than `fields` is there.
    """
    how = how or How()
    records = records_of(source)
    if records is None:
        return None
    unknown = [*(option for option in how.options if option != "fields"), *(["format"] if how.format else [])]
    if unknown:
        message = (
            f"Records in Python know no {', '.join(unknown)}. They know: fields, sample, seed, stratify."
        )
        raise InputError(message)
    fields = how.options.get("fields")
    if fields is None:
        return _made(records, how.draw, "records")
    return _made(lambda: mapped(records(), fields), how.draw, "records")


def _made(read: Callable[[], Iterator[tuple[str, Any]]], draw: Draw | None, name: str) -> EvalSet:
    return from_records(read(), name=name) if draw is None else sampled(read, draw, name=name)
