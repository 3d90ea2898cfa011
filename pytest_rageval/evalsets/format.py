"""`Format`, the interface of an eval-set format, and `Shape`, the properties of a file by which it is recognized."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import (
    PARQUET_SUFFIXES,
    find_wrapper_key,
    json_elements,
    json_records,
    open_file,
    open_parquet,
    parse_json,
)
from pytest_rageval.evalsets.records import EXPORT_KEYS, EXPORT_REMEDY, Records

COMMON_OPTIONS: Final = ("sample", "seed", "stratify", "corpus", "exclude_own_id")
"""The keywords of the marker that every eval set has, also records in Python."""

HEAD_BYTES: Final = 2**18  # read from the beginning of a file to recognize its format
COMPRESSION_SUFFIXES: Final = (".gz", ".zst")
SEP_LINE: Final = re.compile(r'\s*"?sep=(.)"?\s*$', re.IGNORECASE)
"""The line before the header in which Excel names the delimiter of a table: sep=;"""

CONVERT_YAML: Final = "json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
SPREADSHEET: Final = (
    "a spreadsheet",
    "Save its sheet as CSV in UTF-8, or pass pandas.read_excel(…) to the marker.",
)
FOREIGN_BYTES: Final[Mapping[bytes, tuple[str, str]]] = {
    b"\xd0\xcf\x11\xe0": SPREADSHEET,
    b"%PDF": ("a PDF", "Write its questions into JSON lines or CSV."),
    b"SQLite format 3": ("an SQLite database", "Pass the rows of a query to the marker, as a list of dicts."),
    b"ARROW1": ("an Arrow file", "Pass pandas.read_feather(…) to the marker."),
    b"\x89HDF": ("an HDF5 file", "Pass pandas.read_hdf(…) to the marker."),
    b"PAR1": ("Parquet", "Name it with the suffix .parquet."),
    b"\xff\xfe": ("UTF-16, which Windows calls Unicode", "Save it in UTF-8."),
    b"\xfe\xff": ("UTF-16", "Save it in UTF-8."),
    b"PK\x03\x04": ("a ZIP archive", "Unpack it, and name the file or the folder of the eval set."),
    b"BZh": ("compressed by bzip2", "Unpack it, or compress it with gzip."),
    b"\xfd7zXZ": ("compressed by xz", "Unpack it, or compress it with gzip."),
}
"""What a file is that begins with these bytes, and what to do."""

FOREIGN_SUFFIXES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), SPREADSHEET),
    **dict.fromkeys(
        (".yaml", ".yml"),
        ("YAML", f"Write it as JSON: python -c 'import json, sys, yaml; {CONVERT_YAML}' < FILE > FILE.json"),
    ),
    ".toml": ("TOML", "Write it as JSON lines."),
    **dict.fromkeys(
        (".pkl", ".pickle"), ("a pickle", "It may run any code: load it yourself, and pass the records.")
    ),
    **dict.fromkeys((".docx", ".odt"), ("a text document", "Write its questions into JSON lines or CSV.")),
    **dict.fromkeys((".arrow", ".feather"), FOREIGN_BYTES[b"ARROW1"]),
    **dict.fromkeys((".html", ".xml"), ("markup", "Write its records as JSON lines.")),
    ".py": ("Python code", "Pass its records to the marker, as a list of dicts."),
}


class Shape:
    """The path of a file or folder, and properties of its first bytes, each computed when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def folder(self) -> bool:
        """True if the path is a folder."""
        return self.path.is_dir()

    @cached_property
    def suffix(self) -> str:
        """The suffix of the name in lower case, without a suffix of compression: ".jsonl" for "a.jsonl.gz"."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        while suffixes and suffixes[-1] in COMPRESSION_SUFFIXES:
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @cached_property
    def is_table(self) -> bool:
        """True if the suffix is `.csv` or `.tsv`."""
        return self.suffix in (".csv", ".tsv")

    @property
    def is_parquet(self) -> bool:
        """True if the suffix is `.parquet` or `.pq`."""
        return self.path.suffix.lower() in PARQUET_SUFFIXES and not self.folder

    @cached_property
    def head(self) -> str:
        """The first 256 KiB as text; empty for a folder and for Parquet. Bytes that are not UTF-8 become U+FFFD."""
        if self.folder or self.is_parquet:
            return ""
        with open_file(self.path) as file:
            return file.stream.read(HEAD_BYTES).decode("utf-8-sig", "replace")

    @cached_property
    def line(self) -> str:
        """The first line of the head that is not blank, without its line break."""
        return next((line.rstrip("\r") for line in self.head.split("\n") if line.strip()), "")

    @cached_property
    def is_json(self) -> bool:
        """True if the content begins with `{` or `[`, as a JSON object or array."""
        return self.head.lstrip()[:1] in ("{", "[")

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first object of JSON lines, of an array, or of an array under a key, or first row; empty if none."""
        try:
            if self.is_parquet:
                return next(json_records(self.path), ("", {}))[1]
            key = find_wrapper_key(self.path) if self.suffix == ".json" and self.is_json else None
            if key is not None or self.head.lstrip()[:1] == "[":
                first = next(json_elements(self.path, key), ("", None))[1]
            else:
                first = parse_json(self.line, self.path.name)
        except InputError:
            return {}
        return first if isinstance(first, Mapping) else {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The keys of the first record; of a table and of Parquet, the names of the columns."""
        if self.is_parquet:
            return frozenset(open_parquet(self.path).schema_arrow.names)
        if not self.is_table:
            return frozenset(map(str, self.record))
        lines = (line for line in self.head.split("\n") if line.strip() and not SEP_LINE.match(line))
        return frozenset(cell.strip('" \r') for cell in re.split("[,;\t|]", next(lines, "")))

    def has(self, *keys: str) -> bool:
        """Return True if the first record has all of these keys."""
        return all(key in self.record for key in keys)

    def mentions(self, *keys: str) -> bool:
        """Return True if the content begins with `{` and the head has all of these keys, at any depth."""
        return self.head.lstrip()[:1] == "{" and all(
            re.search(rf'"{re.escape(key)}"\s*:', self.head) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Format:
    """An eval-set format.

    Attributes:
        name: the name that users write: `format="beir"`.
        recognises: returns True if a file or folder looks like this format.
        read: called with a path and, as keywords, the options of the format. It returns an iterator over the place
            for error messages ("support.jsonl line 3") and the record in the native format, from the first record. It
            reads lazily, and raises InputError if a file is missing or has another form.
        general: True if any other format that recognises the file is preferred.
    """

    name: str
    recognises: Callable[[Shape], bool]
    read: Callable[..., Records]
    general: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The names of the options of `read`, with their defaults."""
        parameters = list(inspect.signature(self.read).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def records(self, path: Path, options: Mapping[str, Any]) -> Records:
        """Read the records of a file with the user's options.

        Raises:
            InputError: an option is unknown; or, while iterating, the file cannot be used.
        """
        known = self.options
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"{path.name} is read as {self.name!r}, which has no option {', '.join(map(repr, unknown))}.\n"
                f"That format knows: {', '.join([*known, 'format', *COMMON_OPTIONS])}."
            )
        return self.read(path, **options)


def _refuse_foreign(shape: Shape) -> None:
    """Raise InputError for a kind of file that holds eval sets but is not read, with what to do."""
    path = shape.path
    if shape.folder:
        if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
            raise InputError(
                f"{path.name} is a folder of Hugging Face's datasets.\n"
                "Pass it to the marker: rageval_evalset(datasets.load_from_disk(…))."
            )
        return
    if shape.is_parquet:
        return
    with open_file(path) as file:
        start = file.stream.read(max(map(len, FOREIGN_BYTES)))
    by_content = next((what for magic, what in FOREIGN_BYTES.items() if start.startswith(magic)), None)
    found = FOREIGN_SUFFIXES.get(path.suffix.lower(), by_content)
    if found is not None:
        raise InputError(f"{path.name} is {found[0]}, which is not read.\n{found[1]}")


JSON_BY_TOPIC: Final = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*-?\d')


def is_json_by_topic(head: str) -> bool:
    """Return True if a file begins as JSON `{topic: {document: number}}`: qrels or a run of ranx or pytrec_eval."""
    return JSON_BY_TOPIC.match(head) is not None


def find_format(
    path: Path, formats: Mapping[str, Format], name: str | None = None, options: Collection[str] = ()
) -> Format:
    """Return the format with the given name or, if `name` is None, the format that recognises the path.

    If several formats recognise it, formats that have all of `options` are preferred, then formats that are not
    general.

    Raises:
        InputError: no format has the name, or no format or more than one recognises the path.
    """
    if name is not None:
        if name not in formats:
            raise InputError(f"There is no eval set format {name!r}. There are: {', '.join(formats)}.")
        return formats[name]
    shape = Shape(path)
    recognized = [form for form in formats.values() if form.recognises(shape)]
    fitting = [form for form in recognized if form.options.keys() >= set(options)] or recognized
    chosen = [form for form in fitting if not form.general] or fitting
    if all(form.general for form in chosen):
        _refuse_foreign(shape)
    # An export of traces that is one object over several lines has no first record to recognise it by.
    if (
        all(form.general for form in chosen)
        and not (shape.folder or shape.record)
        and any(map(shape.mentions, EXPORT_KEYS))
    ):
        raise InputError(f"{path.name} is not an eval set.\n{EXPORT_REMEDY}")
    if not chosen:
        raise InputError(
            f"{path.name} looks like no format of eval sets.\n"
            f'Say which it is, format="…". There are: {", ".join(formats)}.'
        )
    if len(chosen) > 1:
        names = " or ".join(form.name for form in chosen)
        raise InputError(f'{path.name} may be {names}.\nSay which: format="{chosen[0].name}".')
    return chosen[0]
