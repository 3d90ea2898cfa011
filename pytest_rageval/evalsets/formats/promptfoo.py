"""promptfoo: test cases as a table with columns `__expected`, or as JSON with `vars` and `assert`."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.field_map import RECORD_NUMBER, check_field_map, map_fields
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.table import find_delimiter, frame_records, read_rows
from pytest_rageval.evalsets.records import Check, Records, check_records

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


def read(
    path: Path, *, fields: Mapping[str, str] | None = None, ignore: str = "", delimiter: str | None = None
) -> Records:
    """Yield records with the answers that the assertions of a test require.

    `equals`, `contains` and `icontains` require a text, `contains-any` one of several texts, and `contains-all` all of
    them. One required text, or one of several, becomes `answers`; several become `answer_set`. The text of `factuality`
    and `similar` becomes the `reference`. Metadata become tags. The default id is the number of the test.

    Args:
        path: path of the file.
        fields: map from native names to variables, as for tables. The default question is the variable `question`,
            `query`, `input`, `user_input`, `user_query`, `prompt` or `message`, or the only variable.
        ignore: types of assertions to leave out, with commas between them, such as "llm-rubric, latency".
        delimiter: the character between the cells of a table.

    Raises:
        InputError: an assertion of another type is not in `ignore`, since it does not name an answer; or the file
            cannot be used.
    """
    if not isinstance(ignore, str):
        raise InputError(f'ignore={ignore!r} is not a text.\nWrite ignore="llm-rubric, latency".')
    given = {} if fields is None else check_field_map(fields)
    renamed = {target: source for target, source in given.items() if not source.startswith(EXPECTED)}
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
    columns = {
        **({} if "id" in names else {"id": RECORD_NUMBER}),
        **(
            {}
            if "question" in renamed
            else {"question": _question_name(names.values(), Check(f"{path.name} line 1"))}
        ),
        **renamed,
    }
    records = (
        (
            place,
            {names[name]: cell for name, cell in row.items() if name in names}
            | _expected(
                Check(place), row, [row[name] for name in header if name not in names and row[name]], ignored
            ),
        )
        for place, row in rows
    )
    yield from frame_records(records, [*dict.fromkeys((*names.values(), *ANSWER_FIELDS))], columns, path.name)


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


def _expected(
    check: Check, variables: Mapping[str, Any], assertions: Iterable[Any], ignored: frozenset[str]
) -> dict[str, Any]:
    expected = _Expected(check, variables, ignored)
    for assertion in assertions:
        expected.add(assertion)
    return expected.fields()


@dataclass(slots=True)
class _Expected:
    """The answers that the assertions of one test require.

    Attributes:
        check: the place of the test.
        variables: the variables of the test, for templates.
        ignored: types of assertions to leave out.
        texts: the required texts, each with its alternatives.
        references: the reference answers.
    """

    check: Check
    variables: Mapping[str, Any]
    ignored: frozenset[str]
    texts: dict[tuple[str, ...], None] = field(default_factory=dict)
    references: dict[str, None] = field(default_factory=dict)

    def add(self, assertion: Any) -> None:
        """Add what an assertion requires, which is a text in a table and an object in JSON."""
        if isinstance(assertion, str):
            kind, value = find_assertion(assertion) or ("equals", assertion)
        else:
            given = self.check.mapping(assertion, "assert")
            kind, value = str(given.get("type")), given.get("value")
        if kind in self.ignored:
            return
        kind = kind.partition(":")[0]
        if kind in ANY_TEXT | ALL_TEXTS:
            items = value.split(",") if isinstance(value, str) else self.check.array(value, "assert", "value")
            texts = [self._text(item, kind) for item in items]
            self.texts |= dict.fromkeys([tuple(texts)] if kind in ANY_TEXT else [(text,) for text in texts])
        elif kind in ONE_TEXT:
            self.texts[(self._text(value, kind),)] = None
        elif kind in REFERENCES:
            self.references[self._text(value, kind)] = None
        else:
            self.check.fail(
                f"the assertion {kind!r} does not name an answer",
                f'Leave such assertions out: ignore="{kind}". Answers are read from '
                f"{', '.join(sorted(ONE_TEXT | ANY_TEXT | ALL_TEXTS | REFERENCES))}, and text without a type.",
            )

    def _text(self, value: Any, kind: str) -> str:
        """Return the text of an assertion, with the variables of the test in the place of simple templates."""
        text = str(value) if type(value) in (int, float) else self.check.text(value, kind)
        with suppress(KeyError):
            text = TEMPLATE.sub(lambda match: str(self.variables[match[1]]), text)
        if "{{" in text or "{%" in text or text.startswith("file://"):
            self.check.fail(f"the text of {kind!r} is computed: {text[:60]!r}", "Write the text itself.")
        return text.strip()

    def fields(self) -> dict[str, Any]:
        """Return `answers`, `answer_set` and `reference`, as far as there are any."""
        if len(self.references) > 1:
            self.check.fail("it has several reference answers", "Leave one of them.")
        texts = [list(alternatives) for alternatives in self.texts]
        answers: dict[str, Any] = {"answers": texts[0]} if len(texts) == 1 else {"answer_set": texts}
        references = [{"reference": reference} for reference in self.references]
        return {**(answers if texts else {}), **(references[0] if references else {})}
