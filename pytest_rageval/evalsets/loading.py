"""Reads a file, a folder or records in Python as an eval set (`load()`, `load_records()`), and writes one."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.evalset import EXCLUDED, RETRIEVER_CONTEXT, EvalSet, Example, Gold
from pytest_rageval.core.extensions import declared
from pytest_rageval.evalsets.formats import COMMON_OPTIONS, FORMATS, Format, find_format
from pytest_rageval.evalsets.records import (
    FIELDS,
    OWN_FIELD_SET,
    Check,
    Record,
    Records,
    check_evalset,
    from_records,
)
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.foreign_values import JsonObject, data_frame_rows, id_key, is_data_frame, to_plain
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted

if TYPE_CHECKING:
    from pytest_rageval.evalsets.sampling import SampleSpec

# Few eval sets are sampled.
draw_sample: Final = Lazy("evalsets.sampling", "draw_sample")
parse_sample: Final = Lazy("evalsets.sampling", "parse_sample")
map_fields: Final = Lazy("evalsets.field_map", "map_fields")  # few eval sets need a field map
frame_records: Final = Lazy("evalsets.formats.table", "frame_records")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to read an eval set."""

    format: str | None = None  # None: it is recognized
    sample: "SampleSpec | None" = None  # None: all examples
    options: Mapping[str, object] = field(default_factory=dict)  # of the format
    corpus: Path | None = None  # has the texts of gold passages that have only an id
    exclude_own_id: bool = False  # leaves the passage with the id of a question out of the question's ranking
    added: Mapping[str, object] = field(
        default_factory=dict
    )  # for each example, of fields that extensions declare

    @classmethod
    def parse(cls, arguments: JsonObject) -> "LoadOptions":
        """Parse the marker's arguments: the attributes, `seed` and `stratify`, and the options of the format."""
        options = dict(arguments)
        added = {name: value for name in declared("FIELDS") if (value := options.pop(name, None)) is not None}
        for name, value in added.items():
            declared("FIELDS")[name](value, Check("rageval_evalset"), name)
        corpus, exclude_own_id = options.pop("corpus", None), options.pop("exclude_own_id", False)
        if not isinstance(corpus, str | Path | None):
            raise InputError(f'corpus={corpus!r:.60} is not a path.\nWrite corpus="docs/corpus.jsonl".')
        if not isinstance(exclude_own_id, bool):
            raise InputError(f"exclude_own_id={exclude_own_id!r:.60} is neither True nor False.")
        name, size = options.pop("format", None), options.pop("sample", None)
        drawing = {keyword: options.pop(keyword) for keyword in ("seed", "stratify") if keyword in options}
        if name is not None and not isinstance(name, str):
            raise InputError(f'format={name!r} is not a name.\nWrite format="beir".')
        if size is None and drawing:
            verb = "says" if len(drawing) == 1 else "say"
            raise InputError(
                f"{' and '.join(drawing)} {verb} how a sample is drawn, and none is.\nAdd sample=200."
            )
        sample = None if size is None else parse_sample(size, **drawing)
        return cls(name, sample, options, None if corpus is None else Path(corpus), exclude_own_id, added)


def load(
    path: Path | str,
    how: LoadOptions | None = None,
    *,
    formats: Mapping[str, Format] = FORMATS,
    **keywords: Any,
) -> EvalSet:
    """Read an eval set from a file or a folder.

    Args:
        path: path of the file or folder, absolute or relative to the current folder.
        how: format, sample and options; by default they are parsed from `keywords`.
        formats: the known formats, by name.
        keywords: the keywords of the marker `rageval_evalset`, such as `format="beir"`, `sample=200`.

    Raises:
        InputError: the format is unknown, or the file cannot be used.
    """
    path, how = Path(path), how or LoadOptions.parse(keywords)
    if not path.exists():
        raise missing_file_error("eval set", path)
    form = find_format(path, formats, how.format, how.options)
    content = _digest(path) if form is FORMATS["native"] and how.corpus is None else None
    key = path.absolute(), content, repr(how)
    if content is not None and key in _LAST_EVALSET:
        return _LAST_EVALSET[key]
    evalset = _build_evalset(lambda: form.records(path, how.options), how, path.name, path.parent)
    if content is not None:
        _LAST_EVALSET.clear()
        _LAST_EVALSET[key] = evalset
    return evalset


_LAST_EVALSET: Final[dict[tuple[Path, bytes | None, str], EvalSet]] = {}
"""The eval set in the native format that was read last, by path, digest of the content, and options.

A fixture often reads the same eval set as the tests, for example to build a retriever from a recorded run.
"""


def clear_last_evalset() -> None:
    _LAST_EVALSET.clear()


def _digest(path: Path) -> bytes | None:
    try:
        refuse_special(path)
        with path.open("rb") as file:
            return file_digest(file, "sha256").digest()
    except OSError:
        return None


def load_records(source: object, how: LoadOptions | None = None) -> EvalSet | None:
    """Convert records in Python to an eval set; return None for a source of another type, such as an iterator.

    `source` is a list or tuple of dicts, a pandas or Polars data frame, or a Hugging Face `Dataset`. Missing values
    (NaN, NaT, NA) are left out, NumPy values become Python values, and times become ISO 8601 texts. The cells of a
    frame are read as those of a table in a file.
    """
    how = how or LoadOptions()
    rows = _rows(source)
    if rows is None:
        return None
    unknown = [*(option for option in how.options if option != "fields"), *(["format"] if how.format else [])]
    if unknown:
        raise InputError(
            f"Records in Python do not have the option {', '.join(unknown)}. "
            f"They have: {', '.join(['fields', *COMMON_OPTIONS])}."
        )
    fields, header = how.options.get("fields"), _column_names(source)

    def read() -> Records:
        records = ((f"record {number}", _to_json_record(row)) for number, row in enumerate(rows(), 1))
        if header is not None:
            return cast("Records", frame_records(records, header, fields))
        return records if fields is None else cast("Records", map_fields(records, fields))

    return _build_evalset(read, how, "records", Path())


def _build_evalset(read: Callable[[], Records], how: LoadOptions, name: str, folder: Path) -> EvalSet:
    evalset = (
        from_records(read(), name=name) if how.sample is None else draw_sample(read, how.sample, name=name)
    )
    if how.corpus is not None:
        evalset = replace(evalset, examples=_with_texts(evalset, how.corpus, folder))
    if how.exclude_own_id:
        evalset = replace(evalset, examples=tuple(map(_without_own_id, evalset)))
    if how.added:
        evalset = replace(evalset, examples=tuple([_with_added(example, how.added) for example in evalset]))
    return evalset


def _with_texts(evalset: EvalSet, corpus: Path, folder: Path) -> tuple[Example, ...]:
    from pytest_rageval.evalsets.corpus import texts_by_id  # noqa: PLC0415 - few eval sets have a corpus

    path = find_file("corpus", corpus, bases=dict.fromkeys((folder, Path.cwd())))
    wanted = {gold.id for example in evalset for gold in example.gold if gold.id and gold.text is None}
    texts = texts_by_id(path, wanted)
    missing = sorted(name for name in wanted if id_key(name) not in texts)
    if missing:
        raise InputError(
            f"The corpus {corpus} lacks {counted(len(missing), 'gold passage')} of {evalset.name}, or has no text for "
            f"them: {', '.join(missing[:8])}.\n"
            "Is it the corpus of this eval set? `rageval evalset check --corpus` says more."
        )

    def with_text(gold: Gold) -> Gold:
        return replace(gold, text=texts[id_key(gold.id)]) if gold.id and gold.text is None else gold

    return tuple(replace(example, gold=tuple(map(with_text, example.gold))) for example in evalset)


def _without_own_id(example: Example) -> Example:
    own = [*example.extra.get(EXCLUDED, ()), example.id]
    return replace(example, extra={**example.extra, EXCLUDED: own})


def _with_added(example: Example, added: JsonObject) -> Example:
    """Return the example with values for fields of extensions: lists are joined, other values are defaults."""
    own = {
        name: [*value, *added[name]]
        if isinstance(value, list) and isinstance(added.get(name), list)
        else value
        for name, value in example.added.items()
    }
    return replace(example, added={**added, **own})


def _rows(source: Any) -> Callable[[], Iterable[Any]] | None:
    """Return a function that iterates over the rows, each time from the first; None for an unknown type of source."""
    if isinstance(source, type | str | bytes | Mapping):
        return None
    if is_data_frame(source):
        return lambda: data_frame_rows(source)
    if isinstance(source, list | tuple) or hasattr(source, "column_names"):
        return lambda: iter(source)
    return None


def _column_names(source: Any) -> list[str] | None:
    columns = getattr(source, "columns" if is_data_frame(source) else "column_names", None)
    return None if columns is None else [str(name) for name in columns]


def _to_json_record(row: Any) -> Any:
    if not isinstance(row, Mapping):
        return row
    return {name: converted for name, value in row.items() if (converted := to_plain(value)) is not None}


MAX_LISTED: Final = 1000  # files of a folder that are compared with a path that does not exist


def find_file(
    what: str, source: str | Path, *, bases: Iterable[Path], accepts: Callable[[Path], bool] = Path.exists
) -> Path:
    """Return the first path under one of the base folders that `accepts` returns True for, as an absolute path."""
    bases = tuple(bases)
    candidates = [base / source for base in bases]
    for candidate in candidates:
        if accepts(candidate):
            return candidate.resolve()
    looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
    raise InputError(
        f"There is no {what} {str(source)!r}.{_similar_file(source, bases)} Looked for:\n{looked}"
    )


def missing_file_error(what: str, path: Path) -> InputError:
    source, base = (path.name, path.parent) if path.is_absolute() else (path, Path())
    return InputError(
        f"The {what} {path} cannot be read: there is no such file.{_similar_file(source, [base])}"
    )


def _similar_file(source: str | Path, bases: Sequence[Path]) -> str:
    """Return " Did you mean evals/q.jsonl?": files in the folder of the path, or of its name in another folder."""
    path = Path(source)
    names: dict[str, None] = {}
    for base in bases:
        with suppress(OSError, ValueError):
            for folder in dict.fromkeys((base / path.parent, base, base / "evals", base / "tests")):
                files = islice(folder.iterdir(), MAX_LISTED) if folder.is_dir() else ()
                names |= {file.relative_to(base).as_posix(): None for file in files if file.is_file()}
    same_name = [name for name in names if Path(name).name == path.name]
    return f" Did you mean {same_name[0]}?" if same_name else did_you_mean(path.as_posix(), names)


def write_jsonl(evalset: EvalSet, path: Path) -> None:
    """Write an eval set as JSON lines; the set that is read back has the same digest."""
    try:
        write_atomically(path, (_line(example) for example in evalset))
    except OSError as error:
        raise InputError(f"The eval set {path} cannot be written: {error.strerror or error}.") from error


def write_proposals(evalset: EvalSet, key: str, proposed: Mapping[str, Sequence[object]], path: Path) -> int:
    """Write an eval set with what is proposed for its examples, by id, for review; without any, write nothing.

    Return how many proposals there are.
    """
    examples = [
        replace(
            example,
            added={**example.added, key: [*example.added.get(key, ()), *proposed[example.id]]},
            extra={**example.extra, f"{key}_reviewed": False},
        )
        if proposed.get(example.id)
        else example
        for example in evalset
    ]
    if number := sum(map(len, proposed.values())):
        write_jsonl(EvalSet(path.name, tuple(examples)), path)
    return number


def _line(example: Example) -> bytes:
    clash = sorted(OWN_FIELD_SET.intersection(example.extra))
    clash += [name for name in RETRIEVER_CONTEXT if name in example.extra and getattr(example, name)]
    if clash:
        raise InputError(
            f"The example {example.id!r} has {', '.join(clash)} under extra.\n"
            "These are fields of an example: take them out, or rename them."
        )
    gold = ({**asdict(each), **(each.added or {}), "added": None}.items() for each in example.gold)
    fields: Record = {name: getattr(example, name) for name in FIELDS}
    fields |= {
        **{name: dict(fields[name]) for name in ("tags", "filters", "metadata")},
        "history": [dict(message) for message in example.history],
        "gold": [
            {name: value for name, value in items if value is not None and (name, value) != ("grade", 1)}
            for items in gold
        ],
        "nuggets": [nugget._asdict() for nugget in example.nuggets],
    }
    record = {name: value for name, value in fields.items() if value not in (None, (), [], {})}
    record |= {**example.extra, **example.added}
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded in UTF-8, but JSON can escape it.
        return json.dumps(record, allow_nan=False).encode() + b"\n"


class Sources:
    """The eval sets of a run: each file is read once."""

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._formats = formats
        self._evalsets: dict[tuple[Path, str], EvalSet] = {}
        self._checked: dict[int, tuple[EvalSet, EvalSet]] = {}

    def evalset(
        self, source: object, *, bases: Sequence[Path], keywords: Mapping[str, object] | None = None
    ) -> EvalSet:
        """Return the eval set of a marker: of a path, an `EvalSet`, or records; InputError if it is none of these."""
        options = LoadOptions.parse(keywords or {})
        if isinstance(source, EvalSet):
            if keywords:
                raise InputError(
                    "rageval_evalset has an EvalSet, which is used unchanged: "
                    f"{', '.join(keywords)} would have no effect."
                )
            if id(source) not in self._checked:
                # A reference to the source prevents that another object gets its id.
                self._checked[id(source)] = source, check_evalset(source)
            return self._checked[id(source)][1]
        if isinstance(source, str | Path):
            path = find_file("eval set", source, bases=bases)
            key = (path, repr(options))
            if key not in self._evalsets:
                self._evalsets[key] = load(path, options, formats=self._formats)
            return self._evalsets[key]
        records = load_records(source, options)
        if records is None:
            raise InputError(
                f"rageval_evalset needs the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl"); or give a list of dicts, a data frame, a Dataset, or an '
                "EvalSet."
            )
        return records
