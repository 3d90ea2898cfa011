"""`load()` and `load_records()`: a file, a folder or records in Python become an eval set, whole or sampled."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final, cast

from pytest_rageval.datatypes import EvalSet
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.format import Format, format_of
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.records import Records, from_records
from pytest_rageval.evalsets.sampling import SampleSpec, sampled
from pytest_rageval.files import refuse_special
from pytest_rageval.lazy import Lazy

__all__ = ["LoadOptions", "find", "forget", "load", "load_records"]

mapped: Final = Lazy("evalsets.field_map", "mapped")  # few sets have other names of fields

MISSING_TYPES: Final = ("NAType", "NaTType")  # types of pandas's missing values


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How an eval set is read: its format (None: recognized), the sample (None: all), the format's options."""

    format: str | None = None
    draw: SampleSpec | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, arguments: Mapping[str, Any]) -> "LoadOptions":
        """From a marker's arguments: `format`, `sample` with `seed` and `stratify`, the format's options."""
        options = dict(arguments)
        name, size = options.pop("format", None), options.pop("sample", None)
        drawing = {keyword: options.pop(keyword) for keyword in ("seed", "stratify") if keyword in options}
        if name is not None and not isinstance(name, str):
            raise InputError(f'format={name!r} is not a name.\nWrite format="beir".')
        if size is None and drawing:
            verb = "says" if len(drawing) == 1 else "say"
            raise InputError(
                f"{' and '.join(drawing)} {verb} how a sample is drawn, and none is.\nAdd sample=200."
            )
        return cls(name, None if size is None else SampleSpec.parse(size, **drawing), options)


def load(
    path: Path | str,
    how: LoadOptions | None = None,
    *,
    formats: Mapping[str, Format] = FORMATS,
    **keywords: Any,
) -> EvalSet:
    """Read an eval set from a file or a folder.

    Args:
        path: absolute, or relative to the current folder.
        how: format, sample and options; default: from `keywords`.
        formats: the known formats, by name.
        keywords: as of the marker `rageval_evalset`, such as `format="beir"`, `sample=200`.

    Raises:
        InputError: the format is unknown, or the file cannot be used.
    """
    path, how = Path(path), how or LoadOptions.parse(keywords)
    if not path.exists():
        raise InputError(f"The eval set {path} cannot be read: there is no such file.")
    form = format_of(path, formats, how.format, how.options)
    content = _digest(path) if form is FORMATS["native"] else None
    key = path.absolute(), content, repr(how)
    if content is not None and key in _LAST:
        return _LAST[key]
    evalset = _evalset(lambda: form.records(path, how.options), how.draw, path.name)
    if content is not None:
        _LAST.clear()
        _LAST[key] = evalset
    return evalset


_LAST: Final[dict[tuple[Path, bytes | None, str], EvalSet]] = {}
"""The set that was read last, by its content: a fixture often reads that of the tests, as for a recorded run."""


def forget() -> None:
    """Let go of that set."""
    _LAST.clear()


def _digest(path: Path) -> bytes | None:
    """What tells whether a file changed; None where it cannot be read."""
    try:
        refuse_special(path)
        with path.open("rb") as file:
            return file_digest(file, "sha256").digest()
    except OSError:
        return None


def load_records(source: object, how: LoadOptions | None = None) -> EvalSet | None:
    """Make an eval set of records in Python.

    Missing values (NaN, NaT, NA) are left out, NumPy values become Python's, and times become ISO texts.

    Args:
        source: a list or tuple of dicts, a pandas or Polars data frame, a Hugging Face `Dataset`; for anything
            else, such as an iterator, the result is None.
        how: sample, and the option `fields` (see `field_map.mapped`).

    Raises:
        InputError: a record cannot be used, or there is another option than `fields`.
    """
    how = how or LoadOptions()
    rows = _rows(source)
    if rows is None:
        return None
    unknown = [*(option for option in how.options if option != "fields"), *(["format"] if how.format else [])]
    if unknown:
        raise InputError(
            f"Records in Python know no {', '.join(unknown)}. They know: fields, sample, seed, stratify."
        )
    fields = how.options.get("fields")

    def read() -> Records:
        records = ((f"record {number}", _plain_record(row)) for number, row in enumerate(rows(), 1))
        return records if fields is None else cast("Records", mapped(records, fields))

    return _evalset(read, how.draw, "records")


def _evalset(read: Callable[[], Records], draw: SampleSpec | None, name: str) -> EvalSet:
    return from_records(read(), name=name) if draw is None else sampled(read, draw, name=name)


def _rows(source: Any) -> Callable[[], Iterable[Any]] | None:
    """A function that returns the rows from the first one; frames are recognized by their methods."""
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
    """A cell's value as JSON has it, if it can; None if it is missing."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value).__name__ in MISSING_TYPES or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else value


def find(
    what: str, source: str | Path, *, bases: Sequence[Path], accepts: Callable[[Path], bool] = Path.exists
) -> Path:
    """Return the absolute path of a file, the first under one of the bases that is accepted; `what` is its kind."""
    candidates = [base / source for base in bases]
    for candidate in candidates:
        if accepts(candidate):
            return candidate.resolve()
    looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
    raise InputError(f"There is no {what} {str(source)!r}. Looked for:\n{looked}")
