"""The formats of eval sets. Each reader is a function `read_NAME`, whose module is imported when it is called.

A format is recognised by properties of a file (`Shape`). How is defined here, except for `beir` and `trec`.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

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
from pytest_rageval.lib.lazy import Lazy

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
        return self.suffix in (".csv", ".tsv")

    @property
    def is_parquet(self) -> bool:
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
        return self.head.lstrip()[:1] in ("{", "[")

    @cached_property
    def record(self) -> Mapping[str, object]:
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

    def mentions(self, *keys: str) -> bool:
        """Return True if the content begins with `{` and the head has all of these keys, at any depth."""
        return self.head.lstrip()[:1] == "{" and all(
            re.search(rf'"{re.escape(key)}"\s*:', self.head) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Format:
    """An eval-set format.

    `read` is called with a path and, as keywords, the options of the format. It returns an iterator over the place for
    error messages ("support.jsonl line 3") and the record in the native format, from the first record. It reads lazily,
    and raises InputError if a file is missing or has another form.
    """

    name: str  # as users write it: `format="beir"`
    recognises: Callable[[Shape], bool]  # whether a file or folder looks like this format
    read: Callable[..., Records]
    general: bool = False  # any other format that recognises the file is preferred

    @property
    def options(self) -> dict[str, object]:
        parameters = list(inspect.signature(self.read).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def records(self, path: Path, options: Mapping[str, object]) -> Records:
        """Read the records of a file with the user's options; InputError for an unknown one."""
        known = self.options
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"{path.name} is read as {self.name!r}, which has no option {', '.join(map(repr, unknown))}.\n"
                f"That format knows: {', '.join([*known, 'format', *COMMON_OPTIONS])}."
            )
        return self.read(path, **options)


def _refuse_foreign(shape: Shape) -> None:
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
    """Return the format with the given name or, if `name` is None, the one that recognises the path.

    If several recognise it, formats that have all of `options` are preferred, then formats that are not general.
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
        if not (shape.folder or shape.record) and any(map(shape.mentions, EXPORT_KEYS)):
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


MODULES: Final[Mapping[str, Collection[str]]] = {
    "table": ("table",),
    "trec": ("trec", "beir"),
    "peers": ("ragas", "deepeval", "llama_index", "llama_index_pairs", "autorag", "promptfoo"),
}
"""The formats of each module; all others are in `data_sets`."""


def _lazy(function: str, name: str) -> Lazy:
    module = next((each for each, names in MODULES.items() if name in names), "data_sets")
    return Lazy(f"evalsets.formats.{module}", f"{function}_{name}")


def _format(name: str, recognises: Callable[[Shape], bool], *, general: bool = False) -> Format:
    return Format(name, recognises, _lazy("read", name), general)


@dataclass(frozen=True)
class Keys:
    """Recognises a format by the keys of its first record, with spaces between them."""

    required: str
    any: str = ""  # the record has at least one of these
    none: str = ""  # with one of these, it is of another format; `id` and `gold` are native
    tables: bool = False  # whether the columns of a .csv or .tsv file count as keys

    def __call__(self, shape: Shape) -> bool:
        if shape.folder or (shape.is_table and not self.tables):
            return False
        return (
            shape.names.issuperset(self.required.split())
            and (not self.any or not shape.names.isdisjoint(self.any.split()))
            and shape.names.isdisjoint(self.none.split())
        )


def _is_native(shape: Shape) -> bool:
    """JSON lines or a JSON array. If a record lacks a native field, reading it raises an error that names the field."""
    if shape.folder or shape.is_table:
        return False
    return shape.suffix in (".jsonl", ".ndjson", ".json") or shape.is_json


map_fields: Final = Lazy("evalsets.field_map", "map_fields")  # few eval sets need a field map


def _read_native(path: Path, *, fields: Mapping[str, str] | None = None) -> Records:
    records = json_records(path)
    return records if fields is None else map_fields(records, fields)


KILT_OUTPUT: Final = frozenset({"answer", "provenance", "meta", "score"})
"""The keys of an answer in KILT. Files of other data sets have its outer keys too, and others within."""


def _is_kilt(shape: Shape) -> bool:
    """Exports of traces have KILT's keys too, but the input is an object or the output is a text."""
    if not Keys("id input output", none="passages")(shape) or isinstance(shape.record["input"], Mapping):
        return False
    outputs = shape.record["output"]
    if not isinstance(outputs, list):
        return not isinstance(outputs, str)
    return all(isinstance(output, Mapping) and output.keys() <= KILT_OUTPUT for output in outputs)


def _is_alce(shape: Shape) -> bool:
    is_data = Keys("question docs", any="answer answers qa_pairs claims")
    return is_data(shape) or is_alce_prompt(shape)


def is_alce_prompt(shape: Shape) -> bool:
    return shape.mentions("demos", "demo_prompt", "doc_prompt")


def is_golden(names: Collection[str]) -> bool:
    own = {"retrievalcontext", "sourcefile", "additionalmetadata", "customcolumnkeyvalues", "expectedtools"}
    return (
        "input" in names
        and "question" not in names
        and any(str(name).replace("_", "").lower() in own for name in names)
    )


def is_test_case(names: Collection[str]) -> bool:
    return any(str(name).startswith("__expected") for name in names) or {"vars", "assert"} <= {*names}


def _is_nq_open(shape: Shape) -> bool:
    """Keys of NQ-open. A record with contexts (`ctxs`) and an id is native."""
    keys = shape.record.keys()
    if Keys("question answers ctxs")(shape):
        return "id" not in keys
    # Google's files have only these keys. A record with other keys may need a field map, as a native one.
    own = {"question", "answer"}
    rated = keys >= {"def_correct_predictions", "answer_and_def_correct_predictions", *own}
    return (rated or keys == own) and isinstance(shape.record["answer"], list)


def _is_ragas(shape: Shape) -> bool:
    """Samples of Ragas, and records of its releases before 0.2."""
    samples = Keys(
        "user_input",
        any="reference_contexts retrieved_contexts reference_context_ids reference response rubrics synthesizer_name",
        none="question",
        tables=True,
    )
    old = Keys("question contexts", any="ground_truth ground_truths", none="id gold", tables=True)
    return samples(shape) or old(shape)


LLAMA_INDEX_PAIRS: Final = re.compile(
    r'\s*\{\s*(?:"mode"\s*:\s*"\w*"\s*,\s*)?"(?:queries|corpus|relevant_docs)"\s*:\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*["\[])'
)
"""The beginning of an object of `queries`, `corpus` and `relevant_docs`, each an object, in any order."""

_is_beir: Final = _lazy("recognises", "beir")
_is_trec: Final = _lazy("recognises", "trec")

FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        Format("native", _is_native, _read_native, general=True),
        # A table has columns of any names, which a field map assigns to fields.
        _format("table", lambda shape: shape.is_table or shape.is_parquet, general=True),
        _format("beir", lambda shape: shape.folder and _is_beir(shape)),
        # The beginning of a JSON file is enough.
        _format(
            "trec", lambda shape: (not shape.is_json or is_json_by_topic(shape.head)) and _is_trec(shape)
        ),
        _format("ragas", _is_ragas),
        _format("deepeval", lambda shape: is_golden(shape.names)),
        _format("llama_index", Keys("query reference_contexts reference_answer", none="id question")),
        _format("llama_index_pairs", lambda shape: LLAMA_INDEX_PAIRS.match(shape.head) is not None),
        _format("autorag", Keys("qid query retrieval_gt generation_gt")),
        _format("promptfoo", lambda shape: is_test_case(shape.names)),
        _format("kilt", _is_kilt),
        _format("clapnq", Keys("id input passages output", none="question gold")),
        _format("alce", _is_alce),
        _format("asqa", Keys("ambiguous_question qa_pairs")),
        _format("qampari", Keys("qid question_text answer_list")),
        _format("ms_marco", Keys("passages query_id query", tables=True)),
        _format("ms_marco_answers", lambda shape: shape.record.keys() == {"query_id", "answers"}),
        _format("nq_open", _is_nq_open),
        _format("lfrqa", Keys("qid question answer gold_doc_ids")),
        _format("hotpotqa", Keys("question supporting_facts context", none="gold")),
        _format(
            "musique", Keys("id question paragraphs", any="question_decomposition answerable", none="gold")
        ),
        _format(
            "fanoutqa", Keys("id question categories", any="necessary_evidence decomposition", none="gold")
        ),
        _format("retrievalqa", Keys("question_id question ground_truth context", none="id gold")),
        _format("squad", lambda shape: shape.mentions("data", "paragraphs", "context", "qas")),
        # A record with an id is native, and is read with a field map.
        _format("openqa", Keys("question answer prediction", none="id")),
    )
}
"""The built-in formats, by the name that users write: `format="beir"`."""
