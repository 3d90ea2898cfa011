"""From what a marker says to an eval set: which format, which options, all of it or a sample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.fields import mapped
from pytest_rageval.evalsets.format import Format, format_of
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.frames import records_of
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.evalsets.sampling import Draw, sampled
from pytest_rageval.model import EvalSet

__all__ = ["How", "load", "load_records"]


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
        how: sample, and the option `fields` (see `fields.mapped`).

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
