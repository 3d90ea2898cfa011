"""Eval sets of other tools: AutoRAG, DeepEval, LlamaIndex, Ragas and promptfoo; see docs/reference/eval-sets.md."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.corpus import texts_by_id
from pytest_rageval.evalsets.field_map import RECORD_NUMBER, check_field_map, map_fields
from pytest_rageval.evalsets.files import json_nested_members, json_records
from pytest_rageval.evalsets.formats import Shape
from pytest_rageval.evalsets.formats.table import (
    find_delimiter,
    frame_records,
    parse_list_cell,
    read_rows,
    rows_or_records,
)
from pytest_rageval.evalsets.records import Check, Record, Records, check_records
from pytest_rageval.lib.foreign_values import JsonObject, id_key

AUTORAG_CORPUS: Final = "corpus.parquet"
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in EMPTY}


def as_passages(texts: Iterable[str]) -> list[dict[str, str]]:
    return [{"text": text} for text in dict.fromkeys(texts)]


def read_autorag(path: Path, *, texts: bool = True) -> Records:
    """Yield records; one passage of each inner list of `retrieval_gt` is needed: a group, named by its number."""
    file = path.parent / AUTORAG_CORPUS
    known: dict[str, str] = {}
    if texts and file.exists():
        passages = (_alternatives(record, check) for check, record in check_records(json_records(path)))
        known = texts_by_id(file, {passage["id"] for gold in passages for passage in gold})
    for check, record in check_records(json_records(path), "qid", "query"):
        answers, gold = record.pop("generation_gt", None), _alternatives(record, check)
        record |= {
            "id": check.name(record.pop("qid"), "qid"),
            "question": check.text(record.pop("query"), "query"),
            "answers": [answers] if isinstance(answers, str) else check.texts(answers, "generation_gt"),
            "gold": [{**passage, "text": known.get(id_key(passage["id"]))} for passage in gold],
        }
        yield check.place, record


def _alternatives(record: Record, check: Check) -> list[dict[str, str]]:
    groups = check.array(record.pop("retrieval_gt", None), "retrieval_gt")
    gold = []
    for number, group in enumerate(groups, 1):
        alternatives = group if isinstance(group, list) else [group]
        names = dict.fromkeys(check.name(each, "retrieval_gt", number - 1) for each in alternatives)
        gold += [{"id": name, "group": str(number)} if len(names) > 1 else {"id": name} for name in names]
    return gold


UPPER_CASE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read_deepeval(path: Path, *, separator: str = "|") -> Records:
    for number, (check, record) in enumerate(check_records(rows_or_records(path), "input"), 1):
        yield check.place, {"id": number, **read_golden(record, check, separator)}


def read_golden(record: JsonObject, check: Check, separator: str = "|") -> Record:
    """Return a golden as a native record, without an id unless it has one; empty values are left out."""
    left = {UPPER_CASE.sub("_", str(name)).lower(): value for name, value in given(record).items()}

    def texts(name: str) -> tuple[str, ...]:
        value = left.pop(name, None)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(separator) if part.strip()]
        return check.texts(value, name)

    question = check.text(left.pop("input", None), "input")
    gold, retrieved = texts("context"), texts("retrieval_context")
    metadata = left.pop("additional_metadata", None)
    if isinstance(metadata, str):
        metadata = parse_list_cell(metadata, check.place)
    fields = {
        "question": question,
        "reference": left.pop("expected_output", None),
        "gold": as_passages(gold),
        "metadata": check.object(metadata, "additional_metadata"),
        "answer_given": left.pop("actual_output", None),
        "retrieved": [{"text": text} for text in retrieved],
    }
    return left | given(fields)


def read_llama_index(path: Path) -> Records:
    for number, (check, record) in enumerate(check_records(json_records(path), "query"), 1):
        answer = record.pop("reference_answer", None)
        texts = check.texts(record.pop("reference_contexts", None), "reference_contexts")
        record |= {
            "id": number,
            "question": check.text(record.pop("query"), "query"),
            "gold": as_passages(texts),
            "reference": answer or None,
        }
        yield check.place, record


def read_llama_index_pairs(path: Path) -> Records:
    """Yield records. The corpus is not held in memory: the file is read a second time for the texts."""
    queries: dict[str, object] = {}
    relevant: dict[str, list[str]] = {}
    for part, key, value in json_nested_members(path):
        check = Check(f"{path.name} {part} {key[:80]}")
        if part == "queries":
            queries[key] = check.text(value, part)
        elif part == "relevant_docs":
            names = enumerate(check.array(value, part))
            relevant[key] = list(dict.fromkeys(check.name(each, part, i) for i, each in names))
    if unknown := sorted(relevant.keys() - queries.keys()):
        raise InputError(f"{path.name} has relevant_docs of queries that it lacks: {', '.join(unknown[:8])}.")
    wanted = {each for documents in relevant.values() for each in documents}
    corpus = ((key, text) for part, key, text in json_nested_members(path) if part == "corpus")
    texts = {key: text for key, text in corpus if key in wanted}
    for identifier, question in queries.items():
        gold = [{"id": each, "text": texts.get(each) or None} for each in relevant.get(identifier, ())]
        yield f"{path.name} queries {identifier[:80]}", {"id": identifier, "question": question, "gold": gold}


HOP: Final = re.compile(r"\s*<\d+-hop>\s*")
"""What the synthesizers of multi-hop questions write before the text of a passage."""

TAGS: Final = ("synthesizer_name", "persona_name", "query_style", "query_length", "evolution_type")
RAGAS_LISTS: Final = (
    *("user_input", "contexts", "reference_contexts", "retrieved_contexts"),
    *("reference_context_ids", "retrieved_context_ids", "ground_truths"),
)

ROLES: Final = {"human": "user", "ai": "assistant"}


def read_ragas(path: Path) -> Records:
    # In a table, a record has no key for an empty cell.
    has_answers = "answer" in Shape(path).names
    for number, (check, record) in enumerate(check_records(rows_or_records(path, RAGAS_LISTS)), 1):
        left = given(record)
        question, history = _asked(left.pop("user_input", left.pop("question", None)), check)
        contexts = left.pop("contexts", None)
        # Before 0.2 the contexts of a test set were those that its questions were made of.
        made_of = "contexts" in record and not (has_answers or "answer" in record)
        made, found = (contexts, None) if made_of else (left.pop("reference_contexts", None), contexts)
        texts = check.texts(made, "reference_contexts")
        retrieved = check.texts(left.pop("retrieved_contexts", found), "retrieved_contexts")
        truths = check.texts(left.pop("ground_truths", None), "ground_truths")
        fields: dict[str, object] = {
            "id": number,
            "question": question,
            "history": history,
            "gold": _passages([HOP.sub("", text, count=1) for text in texts], left, "reference", check),
            "reference": left.pop("reference", left.pop("ground_truth", next(iter(truths), None))),
            "tags": {name: left.pop(name) for name in TAGS if name in left},
            "retrieved": _passages(retrieved, left, "retrieved", check),
            "answer_given": left.pop("response", left.pop("answer", None)),
        }
        yield check.place, left | given(fields)


def _asked(asked: Any, check: Check) -> tuple[str, list[dict[str, str]]]:
    if not isinstance(asked, list):
        return check.text(asked, "user_input"), []
    contents = (
        (message["type"], check.text(message.get("content"), "user_input", i, "content"))
        for i, message in enumerate(check.objects(asked, "user_input"))
        if message.get("type") in ROLES and message.get("content")
    )
    messages = [{"role": ROLES[kind], "content": content} for kind, content in contents]
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
    if last is None:
        check.fail('"user_input" has no message of a user', 'Ragas writes its "type" as "human".')
    return messages[last]["content"], messages[:last]


def _passages(texts: Sequence[str], left: Record, kind: str, check: Check) -> list[dict[str, str]]:
    """Return passages by text and id; if their numbers differ, which id is whose is unknown, and the ids count."""
    name = f"{kind}_context_ids"
    ids = [check.name(item, name, i) for i, item in enumerate(check.array(left.pop(name, None), name))]
    if ids and len(ids) == len(texts):
        return [{"id": each, "text": text} for each, text in zip(ids, texts, strict=True)]
    return [{"id": each} for each in dict.fromkeys(ids)] or [*as_passages(texts)]


EXPECTED: Final = "__expected"
METADATA: Final = "__metadata:"
ANSWER_FIELDS: Final = ("answers", "answer_set", "reference")
QUESTION_NAMES: Final = ("question", "query", "input", "user_input", "user_query", "prompt", "message")

ASSERTION: Final = re.compile(
    r"(?P<type>(?:not-)?(?:agent-rubric|answer-relevance|bleu|classifier|i?contains(?:-[a-z]+)?|context-[a-z]+|"
    r"conversation-relevance|cost|equals|eval|factuality|file|finish-reason|fn|g-eval|gleu|grade|guardrails|human|"
    r"is-[a-z-]+|javascript|latency|levenshtein|llm-rubric|max-score|meteor|model-graded-[a-z]+|moderation|"
    r"perplexity(?:-score)?|pi|python|regex|rouge-[a-z]|ruby|search-rubric|select-best|"
    r"similar(?::(?:cosine|dot|euclidean))?|skill-used|starts-with|tool-call-f1|trace-[a-z-]+|trajectory:[a-z-]+|"
    r"webhook|word-count))(?:\([0-9.]+\))?(?::(?P<value>.*))?",
    re.DOTALL,
)
"""An assertion as text; any other text is the answer itself, as in promptfoo."""
TEMPLATE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")

ONE_TEXT: Final = frozenset({"equals", "contains", "icontains"})
ANY_TEXT: Final = frozenset({"contains-any", "icontains-any"})
ALL_TEXTS: Final = frozenset({"contains-all", "icontains-all"})
REFERENCES: Final = frozenset({"factuality", "model-graded-factuality", "similar"})


def find_assertion(text: str) -> tuple[str, str | None] | None:
    """Return type and value of an assertion that is written as text; None for any other text.

    >>> find_assertion("icontains: Tulsa"), find_assertion("note: in Tulsa")
    (('icontains', 'Tulsa'), None)
    """
    match = ASSERTION.fullmatch(text.strip())
    return None if match is None else (match["type"], match["value"] and match["value"].strip())


def read_promptfoo(
    path: Path, *, fields: Mapping[str, str] | None = None, ignore: str = "", delimiter: str | None = None
) -> Records:
    """Yield records with the answers that the assertions of a test require; the default id is the test's number."""
    if not isinstance(ignore, str):
        raise InputError(f'ignore={ignore!r} is not a text.\nWrite ignore="llm-rubric, latency".')
    named = {} if fields is None else check_field_map(fields)
    renamed = {target: source for target, source in named.items() if not source.startswith(EXPECTED)}
    ignored = frozenset(name.strip() for name in ignore.split(","))
    if Shape(path).is_table:
        yield from _read_table(path, delimiter or find_delimiter(path), renamed, ignored)
    else:
        yield from _read_json(path, renamed, ignored)


def _read_table(path: Path, delimiter: str, renamed: Mapping[str, str], ignored: frozenset[str]) -> Records:
    header, rows = read_rows(path, delimiter)
    names = {
        name: f"tags.{name.removeprefix(METADATA)}" if name.startswith(METADATA) else name
        for name in header
        if not name.startswith(EXPECTED)
    }
    columns = {} if "id" in names else {"id": RECORD_NUMBER}
    if "question" not in renamed:
        columns["question"] = _question_name(names.values(), Check(f"{path.name} line 1"))

    def records() -> Records:
        for place, row in rows:
            record = {names[name]: cell for name, cell in row.items() if name in names}
            assertions = [cell for name, cell in row.items() if name not in names and cell]
            yield place, record | _expected(Check(place), row, assertions, ignored)

    every = [*dict.fromkeys((*names.values(), *ANSWER_FIELDS))]
    yield from frame_records(records(), every, {**columns, **renamed}, path.name)


def _read_json(path: Path, renamed: Mapping[str, str], ignored: frozenset[str]) -> Records:
    def records() -> Records:
        for number, (check, record) in enumerate(check_records(json_records(path)), 1):
            variables = check.object(record.pop("vars", None), "vars") if "vars" in record else dict(record)
            assertions = [*check.array(record.pop("assert", None), "assert")]
            for name in [name for name in variables if name.startswith(EXPECTED)]:
                assertions.append(variables.pop(name))
                record.pop(name, None)
            case = {"id": number, **record, **variables}
            if tags := check.object(case.pop("metadata", None), "metadata"):
                case["tags"] = tags
            if "question" not in renamed:
                case["question"] = case.pop(_question_name(variables, check))
            yield check.place, case | _expected(check, variables, assertions, ignored)

    yield from map_fields(records(), renamed)


def _question_name(variables: Iterable[str], check: Check) -> str:
    names = [name for name in variables if not name.startswith(("__", "tags."))]
    name = next((name for name in QUESTION_NAMES if name in names), names[0] if len(names) == 1 else None)
    if name is None:
        found = ", ".join(names[:12]) or "none"
        check.fail(
            f"it is unclear which variable is the question: {found}", 'Say so: fields={"question": "…"}.'
        )
    return name


def _assertion_text(value: Any, kind: str, variables: Mapping[str, object], check: Check) -> str:
    """Return the text of an assertion, with the variables of the test in the place of simple templates."""
    text = str(value) if type(value) in (int, float) else check.text(value, kind)
    with suppress(KeyError):
        text = TEMPLATE.sub(lambda match: str(variables[match[1]]), text)
    if "{{" in text or "{%" in text or text.startswith("file://"):
        check.fail(f"the text of {kind!r} is computed: {text[:60]!r}", "Write the text itself.")
    return text.strip()


def _expected(
    check: Check, variables: Mapping[str, object], assertions: Iterable[Any], ignored: frozenset[str]
) -> dict[str, object]:
    required: dict[tuple[str, ...], None] = {}  # each text with its alternatives
    references: dict[str, None] = {}
    for assertion in assertions:
        if isinstance(assertion, str):  # as in a table
            kind, value = find_assertion(assertion) or ("equals", assertion)
        else:
            fields = check.mapping(assertion, "assert")
            kind, value = str(fields.get("type")), fields.get("value")
        if kind in ignored:
            continue
        kind = kind.partition(":")[0]
        if kind in ANY_TEXT | ALL_TEXTS:
            items = value.split(",") if isinstance(value, str) else check.array(value, "assert", "value")
            texts = [_assertion_text(item, kind, variables, check) for item in items]
            required |= dict.fromkeys([tuple(texts)] if kind in ANY_TEXT else [(text,) for text in texts])
        elif kind in ONE_TEXT:
            required[(_assertion_text(value, kind, variables, check),)] = None
        elif kind in REFERENCES:
            references[_assertion_text(value, kind, variables, check)] = None
        else:
            check.fail(
                f"the assertion {kind!r} does not name an answer",
                f'Leave such assertions out: ignore="{kind}". Answers are read from '
                f"{', '.join(sorted(ONE_TEXT | ANY_TEXT | ALL_TEXTS | REFERENCES))}, and text without a type.",
            )
    if len(references) > 1:
        check.fail("it has several reference answers", "Leave one of them.")
    answers = [list(alternatives) for alternatives in required]
    expected: dict[str, object] = {"reference": next(iter(references))} if references else {}
    if answers:
        expected |= {"answers": answers[0]} if len(answers) == 1 else {"answer_set": answers}
    return expected
