"""Writes the Markdown report for a pull request: failures and next steps in at most 60 lines.

Further items are folded. Items that do not fit are counted.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, NamedTuple

from pytest_rageval.lib.text import counted, join_counted, printable
from pytest_rageval.models.usage import usage_lines
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import QuestionEntry, ScoreEntry, TestEntry
from pytest_rageval.reports.gated_tests import change_lines, failing_gates, missing_lines, remark_lines
from pytest_rageval.reports.layout import AddedSection, html_entities, wrap_text
from pytest_rageval.reports.notes import change_text
from pytest_rageval.reports.questions import NOTHING, expected_text, questions_text, score_text
from pytest_rageval.reports.settings import models_text
from pytest_rageval.reports.suite import suite_lines
from pytest_rageval.reports.systems import agreement_by_system_lines, matrix_lines, ratings_lines
from pytest_rageval.reports.terminal import (
    FAILING_OUTCOMES,
    FAILING_VERDICTS,
    MARKS,
    by_urgency,
    gains_text,
    headline,
    interval_text,
    note_lines,
    number_text,
    test_name,
    threshold_text,
    update_command,
    warning_lines,
)

MAX_LINES: Final = 60  # of a report
MAX_CHARS: Final = 60_000
"""The maximum length of a report: GitHub allows 65,536 characters in a comment, and other hosts allow more."""

MAX_WORST_QUESTIONS: Final = 3  # maximum number of questions that are shown with rankings and answers
MAX_ROWS: Final = 12  # maximum number of rows in the table of scores; further rows are folded
MAX_QUESTION_IDS: Final = 12  # maximum number of question ids in a line
MAX_DOCUMENTS: Final = 3  # maximum number of documents in a line
MAX_FACTS: Final = 6  # maximum number of facts about the run in the last line

COMMIT_DIGITS: Final = 7

# Maximum lengths of texts in characters. Longer texts are cut.
MAX_NAME_LENGTH: Final = 160
MAX_QUESTION_LENGTH: Final = 240
MAX_TEXT_LENGTH: Final = 160
MAX_REASON_LENGTH: Final = 600
MAX_COMMAND_LENGTH: Final = 600

HEAD: Final = ("verdict", "test", "score", "mean", "n", "vs baseline", "threshold")


@dataclass(frozen=True)
class Section:
    """A section of the report. Items may be left out so that the report is short enough."""

    noun: str  # counts the items that are left out
    items: Sequence[str]  # a line each, the most important first
    opening: Sequence[str] = ()
    closing: Sequence[str] = ()
    min_items: int | None = 0  # that get room before any section gets more; None: all or none
    max_items: int = MAX_LINES

    def lines(self, count: int) -> list[str]:
        """Return the opening, the first `count` items, the closing and an empty line; nothing if `count` is 0."""
        return [*self.opening, *self.items[:count], *self.closing, ""] if count else []


class _ExplainingQuestion(NamedTuple):
    test: TestEntry
    entry: ScoreEntry
    question: QuestionEntry

    @property
    def key(self) -> tuple[str | None, str]:
        """The digest of the eval set and the id of the question: the question may explain several verdicts."""
        return (self.test.get("evalset") or {}).get("digest"), self.question["id"]


def markdown_report(document: Mapping[str, Any], added: Iterable[AddedSection] = ()) -> str:
    """Return the document in GitHub's Markdown: verdicts, scores, next steps, and the questions that lost most.

    The report has at most `MAX_LINES` lines. Reasons, further scores and notes are folded. Items that do not fit are
    left out and counted. Text of users, passages and models is written as code, so that it is not markup, a link or a
    mention.
    """
    models = filter(None, [models_text(document)])
    facts = [*_run_facts(document.get("run", {})), *models, *usage_lines(document["llm"])]
    foot = f"<sub>{' · '.join(map(_code, facts[:MAX_FACTS]))}</sub>" if facts else ""
    ends = [f"### {headline(document)}", "", foot]
    sections = list(_sections(document, added))
    # Two lines are reserved: the count of the items that are left out, and an empty line after it.
    counts = _fit_items(sections, MAX_LINES - len(ends) - 2)
    text = _join_sections(ends, sections, counts)
    while len(text) > MAX_CHARS and any(counts):
        last = max(index for index, count in enumerate(counts) if count)
        counts[last] = counts[last] // 2 if sections[last].min_items is not None else 0
        text = _join_sections(ends, sections, counts)
    return text


def _run_facts(run: Mapping[str, Any]) -> Iterator[str]:
    parts = [run.get("branch"), run.get("commit") and run["commit"][:COMMIT_DIGITS]]
    if any(parts):
        yield f"{' at '.join(filter(None, parts))}{' with uncommitted changes' if run.get('dirty') else ''}"
    baseline = run.get("baseline", {})
    if "commit" in baseline:
        yield f"baseline of {baseline['commit'][:COMMIT_DIGITS]}, {baseline.get('date', '')[: len('2026-01-01')]}"


def _join_sections(ends: Sequence[str], sections: Sequence[Section], counts: Sequence[int]) -> str:
    *head, foot = ends
    body = [line for section, count in zip(sections, counts, strict=True) for line in section.lines(count)]
    left_out: Counter[str] = Counter()
    for section, count in zip(sections, counts, strict=True):
        left_out[section.noun] += len(section.items) - count
    left_out_text = ", ".join(counted(count, noun) for noun, count in left_out.items() if count)
    if left_out_text:
        body += [f"Left out here: {left_out_text}. The HTML and the JSON report have all.", ""]
    return printable("".join(f"{line}\n" for line in [*head, *body, foot]))


def _fit_items(sections: Sequence[Section], room: int) -> list[int]:
    """Return how many items of each section are shown, so that all sections have at most `room` lines.

    First each section gets its `min_items`, then each gets up to its `max_items`, in the order of the sections.
    """
    counts = [0] * len(sections)
    for is_first_pass in (True, False):
        for index, section in enumerate(sections):
            wanted = min(len(section.items), section.max_items)
            if is_first_pass and section.min_items is not None:
                wanted = min(wanted, section.min_items)
            frame = 0 if counts[index] else len(section.lines(1)) - 1
            more = min(wanted - counts[index], room - frame)
            if more > 0 and (section.min_items is not None or more == wanted):
                counts[index] += more
                room -= frame + more
    return counts


def _sections(document: Mapping[str, Any], added: Iterable[AddedSection]) -> Iterator[Section]:
    tests = by_urgency(document["tests"])
    if verdict_remedy := list(suite_lines(document.get("suite"), document.get("merge", ""))):
        verdict, remedy = verdict_remedy
        items = [f"> {MARKS['fail']} {_code(verdict, MAX_REASON_LENGTH)}  ", f"> {_code(remedy, None)}"]
        yield Section("line on the suite", items, min_items=2)
    gate = document.get("gate", {})
    table, further_scores = _tables(tests)
    # What fails the run without a score that fails comes first.
    missing = _missing_tests(gate)
    yield from (missing, table) if failing_gates(gate) else (table, missing)
    yield Section("change of the baseline", _quoted(change_lines(gate)), min_items=4)
    warnings = _quoted([*remark_lines(gate), *warning_lines(document["tests"])])
    yield Section("warning", warnings, min_items=2, max_items=4)
    yield Section("next step", list(_next_steps(tests, document.get("merge", ""))), min_items=3)
    yield Section("likely cause", list(_causes(tests)), min_items=2)
    yield _worst_questions(_explaining_questions(tests))
    yield folded_section(
        "Reasons, and the questions behind them", "reason", list(_reasons(tests)), min_items=4
    )
    yield further_scores
    for section in added:
        yield folded_section(section.summary, section.noun, section.lines(document), min_items=None)
    systems = [*matrix_lines(document["matrix"]), *agreement_by_system_lines(document["tests"])]
    yield folded_section("Systems", "system line", systems, language="text")
    yield folded_section("Ratings", "rating line", ratings_lines(document["ratings"]), language="text")
    yield folded_section("Notes", "note line", list(_notes_by_test(document["tests"])), language="text")


def _quoted(lines: Iterable[str]) -> list[str]:
    return [f"> {_code(line, MAX_REASON_LENGTH)}  " for line in lines]


def folded_section(
    summary: str, noun: str, items: Sequence[str], *, min_items: int | None = 0, language: str | None = None
) -> Section:
    opening, closing = [f"<details><summary>{summary}</summary>", ""], ["", "</details>"]
    if language is not None:
        items = [" ".join(line.splitlines()) for line in items]
        fence = "`" * max(3, 1 + max(map(_longest_backtick_run, items), default=0))
        opening, closing = [*opening, f"{fence}{language}"], [fence, *closing]
    return Section(noun, items, opening, closing, min_items)


def _tables(tests: Sequence[TestEntry]) -> tuple[Section, Section]:
    scores = [(test, entry) for test in tests for entry in _row_entries(test)]
    first, further = scores, []
    if len(scores) > MAX_ROWS:
        urgent = [item for item in scores if _is_urgent(*item)]
        others = [item for item in scores if not _is_urgent(*item)]
        first = urgent[:MAX_ROWS] or others[:MAX_ROWS]
        further = [*urgent, *others][len(first) :]
    head = [_row(HEAD), _row(["---"] * len(HEAD))]
    verdicts = Counter(_verdict_cell(*item) for item in further)
    verdict_counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    rest = folded_section(
        f"{counted(len(further), 'more score')}: {verdict_counts}", "score", list(_rows(further))
    )
    return Section("score", list(_rows(first)), head, min_items=8), replace(
        rest, opening=[*rest.opening, *head]
    )


def _row_entries(test: TestEntry) -> list[ScoreEntry | None]:
    """Return the scores of a test, one for each row of the table.

    The first entry is None, a row with the outcome of the test, if no score explains the outcome or there is no score.
    """
    verdicts = {entry["verdict"] for entry in test["scores"]}
    is_unexplained = test["outcome"] != "passed" and not verdicts & FAILING_VERDICTS
    return [*([None] if not verdicts or (is_unexplained and verdicts != {None}) else []), *test["scores"]]


def _is_urgent(test: TestEntry, entry: ScoreEntry | None) -> bool:
    verdict = None if entry is None else entry["verdict"]
    if test["outcome"] in FAILING_OUTCOMES:
        return verdict in FAILING_VERDICTS or not any(
            score["verdict"] in FAILING_VERDICTS for score in test["scores"]
        )
    return verdict == "inconclusive"


def _verdict_cell(test: TestEntry, entry: ScoreEntry | None) -> str:
    verdict = None if entry is None else entry["verdict"]
    if verdict is None and entry is not None and any(score["verdict"] for score in test["scores"]):
        return "-"
    if verdict is None or (verdict in FAILING_VERDICTS and test["outcome"] == "xfailed"):
        verdict = test["outcome"]
    return f"{MARKS.get(verdict, MARKS['fail'])}\N{NO-BREAK SPACE}{verdict}"


def _rows(scores: Iterable[tuple[TestEntry, ScoreEntry | None]]) -> Iterator[str]:
    last = None
    for test, entry in scores:
        # The name of a test with several scores is only in its first row.
        first_cells = _verdict_cell(test, entry), "" if test is last else _test_cell(test["nodeid"])
        last = test
        if entry is None:
            yield _row([*first_cells, *["-"] * (len(HEAD) - len(first_cells))])
            continue
        mean, n = "-", "-"
        if entry["mean"] is not None:
            interval = f" ({interval_text(entry)})" if entry["ci95"] else ""
            mean = f"{number_text(entry['mean'])}{interval}"
            n = f"{entry['n']}, {entry['unscored']} unscored" if entry["unscored"] else str(entry["n"])
        elif "early_stop" in entry:
            mean = "- (stopped early)"
        texts = mean, n, change_text(entry, p_value=True) or "-", threshold_text(entry)
        yield _row([*first_cells, _score_cell(sliced_name(entry)), *map(_keep_together, texts)])


def _test_cell(nodeid: str) -> str:
    """Return the node id of a test as code, with places where a narrow column may break it."""
    parts = re.split(r"(?<=::)|(?<=[_/])", _cut(nodeid, MAX_NAME_LENGTH))
    return f"<code>{'<wbr>'.join(map(html_entities, parts))}</code>"


def _missing_tests(gate: Mapping[str, Any]) -> Section:
    heading, *lines, remedy = list(missing_lines(gate)) or ["", ""]
    items = [f"- {_code(line.strip(), MAX_REASON_LENGTH)}" for line in lines]
    mark = f"{MARKS['fail']} fail: " if failing_gates(gate) else ""
    return Section("missing test", items, [f"{mark}{heading}", ""], ["", remedy], min_items=4)


def _keep_together(text: str) -> str:
    """Return a text that a browser breaks only after a comma, or before a parenthesis such as an interval."""
    parts = re.split(r" (?=\()|(?<=,) ", text)
    unbreakable = (
        part.replace(" ", "\N{NO-BREAK SPACE}").replace("e-", "e\N{NON-BREAKING HYPHEN}") for part in parts
    )
    return " ".join(unbreakable)


def _next_steps(tests: Sequence[TestEntry], merge: str) -> Iterator[str]:
    failed = [test for test in tests if test["outcome"] in FAILING_OUTCOMES]
    also, again = (" and all other changes", ", run the tests again") if merge else ("", "")
    for accept, text in (
        ("update", f"Accept the drop{also} with"),
        ("bounds", f"To accept the drop, change `min` or `max` in the test{again}, then run"),
    ):
        if dropped := [test for test in failed if test.get("accept") == accept]:
            yield f"- {text} {_update_text(dropped, merge)}"
    if gained := [(test, text) for test in tests if (text := gains_text(test))]:
        texts = ", ".join(_code(text, MAX_TEXT_LENGTH) for _, text in gained[:MAX_DOCUMENTS])
        yield f"- {texts}: lock it in with {_update_text([test for test, _ in gained], merge)}"


def _update_text(tests: Sequence[TestEntry], merge: str) -> str:
    if merge:
        return _code(update_command((), merge), None)
    arguments = [shlex.quote(test["nodeid"]) for test in tests]
    fitting = max(1, sum(size <= MAX_COMMAND_LENGTH for size in accumulate(map(len, arguments))))
    more = len(tests) - fitting
    also = f", and the same for {counted(more, 'more test')}" if more else ""
    return f"{_code(update_command(arguments[:fitting]), None)}{also}"


def _causes(tests: Sequence[TestEntry]) -> Iterator[str]:
    found = [test for test in tests if "cause" in test and test["outcome"] != "xfailed"]
    for test in found:
        of_test = f" of {_code(test['nodeid'])}" if len(found) > 1 else ""
        yield f"- **Likely cause**{of_test}: {_code(test['cause'], MAX_REASON_LENGTH)}"


def _explaining_questions(tests: Sequence[TestEntry]) -> list[_ExplainingQuestion]:
    """Return the questions that explain failed and inconclusive verdicts, each question once.

    Questions that explain the verdicts of the most scores come first. If any question is compared with a baseline,
    only such questions are returned.
    """
    candidates = [
        _ExplainingQuestion(test, entry, question)
        for test in tests
        for entry in test["scores"]
        if entry["verdict"] not in {None, "pass"} and test["outcome"] != "xfailed"
        for question in entry.get("questions", {}).get("listed", ())
    ]
    # A comparison with the baseline explains more than a bound.
    candidates = [item for item in candidates if "before" in item.question] or candidates
    score_counts = Counter(item.key for item in candidates)
    # The sort is stable: the questions of a score stay in their order, the worst first.
    candidates.sort(key=lambda item: (-score_counts[item.key], "answer" not in item.question))
    return list({item.key: item for item in reversed(candidates)}.values())[::-1]


def _worst_questions(questions: Sequence[_ExplainingQuestion]) -> Section:
    names = {(sliced_name(item.entry), item.test["nodeid"]) for item in questions}
    is_ambiguous = len(names) > len({name for name, _ in names})
    items = [
        line
        for item in questions[:MAX_WORST_QUESTIONS]
        for line in _question_lines(item, with_test=is_ambiguous)
    ]
    which = "that got worse" if questions and "before" in questions[0].question else "beyond a bound"
    some = f"{MAX_WORST_QUESTIONS} of the" if len(questions) > MAX_WORST_QUESTIONS else "The"
    number = "question" if len(questions) == 1 else counted(len(questions), "question")
    return Section("question line", items, [f"**{some} {number} {which}**"], min_items=None)


def _question_lines(item: _ExplainingQuestion, *, with_test: bool) -> Iterator[str]:
    question, before = item.question, item.question.get("before", {})
    then = f"{score_text(before['score'])} → " if before else ""
    now = "unscored" if question["score"] is None else score_text(question["score"])
    of_test = f" of {_code(item.test['nodeid'].rpartition('::')[2])}" if with_test else ""
    name = f"{_code(sliced_name(item.entry))}{of_test}"
    yield f"- {_code(question['id'])} {name} **{then}{now}**: {_code(question['question'], MAX_QUESTION_LENGTH)}"
    for parts in ([*_passage_texts(item)], [*_answer_texts(question)]):
        if parts:
            yield f"  - {'; '.join(parts)}"


def _passage_texts(item: _ExplainingQuestion) -> Iterator[str]:
    """Yield the gold passages whose rank changed; if there are none, the gold passages and the rankings."""
    question = item.question
    now, then = question.get("retrieved"), question.get("before", {}).get("retrieved")
    if now is None:
        return
    gold = question.get("gold", [])
    # Another score of the test may have a larger cut-off, so that ranks beyond this score's cut-off are known.
    evaluated = item.test.get("questions", ())
    ranks = next((each.get("gold_ranks", {}) for each in evaluated if each["id"] == question["id"]), {})
    moved = []
    for label in gold:
        # A gold passage that is matched by its text has another label in a ranking.
        if then is None or label not in then:
            continue
        rank = now.index(label) + 1 if label in now else ranks.get(label)
        if rank != then.index(label) + 1:
            gone = f"out of the first {len(now)}" if now else NOTHING
            moved.append(f"{_code(label)} rank {then.index(label) + 1} → {gone if rank is None else rank}")
    if moved:
        yield f"gold {join_counted(moved, MAX_DOCUMENTS)}"
    else:
        if gold:
            yield f"gold {_codes(gold, MAX_DOCUMENTS)}"
        texts = [_codes(each, MAX_DOCUMENTS) or NOTHING for each in (then, now) if each is not None]
        yield f"retrieved {' → '.join(texts if then != now else texts[-1:])}"


def _answer_texts(question: QuestionEntry) -> Iterator[str]:
    if "answer" in question:
        then, now = question.get("before", {}).get("answer"), question["answer"]
        before = f"{_code(then, MAX_TEXT_LENGTH)} → " if then is not None and then != now else ""
        yield f"answer {before}{_code(now, MAX_TEXT_LENGTH)}"
    if "expected" in question:
        yield f"{question['expected']['as']} {_code(expected_text(question['expected']), MAX_TEXT_LENGTH)}"
    if reason := question.get("unscored") or question.get("judge") or question.get("remark"):
        yield _code(reason, MAX_TEXT_LENGTH)
    if "lost_by" in question:
        yield f"lost by the {question['lost_by']}"


def _reasons(tests: Sequence[TestEntry]) -> Iterator[str]:
    """Yield a line for each failed test or threshold with its reason, and for each score with explaining questions.

    A score that passed may have questions that got worse.
    """
    for test in tests:
        name, outcome = _code(test["nodeid"]), test["outcome"]
        has_failed_threshold = any(entry["verdict"] in FAILING_VERDICTS for entry in test["scores"])
        # The reasons of the thresholds are more specific than the message of the test.
        if test.get("message") and not has_failed_threshold:
            yield f"- {MARKS[outcome]} {name}<br>{_code(_cut_middle(test['message']), None)}"
        for entry in test["scores"]:
            questions = entry.get("questions")
            if entry["verdict"] in FAILING_VERDICTS or questions is not None:
                mark = MARKS[outcome if outcome == "xfailed" else entry["verdict"] or outcome]
                parts = [
                    f"{mark} {name} {_code(sliced_name(entry))}",
                    _code(entry["reason"] or "", MAX_REASON_LENGTH),
                ]
                if questions is not None:
                    causes = ", ".join(f"{cause} {count}" for cause, count in questions["lost_by"].items())
                    lost_by = f"; lost by: {causes}" if causes else ""
                    ids = _codes([question["id"] for question in questions["listed"]], MAX_QUESTION_IDS)
                    parts.append(f"{questions_text(questions)}{lost_by}: {ids}")
                yield f"- {'<br>'.join(filter(None, parts))}"


def _cut_middle(text: str) -> str:
    """Return a message in one line. A long message loses its middle: its beginning or its end may be what matters."""
    line, half = " ".join(text.split()), MAX_REASON_LENGTH // 2
    return line if len(line) <= MAX_REASON_LENGTH else f"{line[:half]} … {line[-half:]}"


def _notes_by_test(tests: Iterable[TestEntry]) -> Iterator[str]:
    for test in tests:
        lines = [line for note in note_lines(test) for line in wrap_text(f"  {note}", 4)]
        if lines:
            yield test_name(test)
            yield from lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _score_cell(text: str) -> str:
    """Return a name as code for a cell of a table, where a bar ends the cell even in code.

    A bar is written as an HTML entity, since renderers differ on an escaped bar.

    >>> _score_cell("a[x]"), _score_cell("a|b")
    ('`a[x]`', '<code>a&#124;b</code>')
    """
    return f"<code>{html_entities(_cut(text, MAX_NAME_LENGTH))}</code>" if "|" in text else _code(text)


def _code(text: str, max_chars: int | None = MAX_NAME_LENGTH) -> str:
    """Return a text as inline code, in which nothing is markup, a link or a mention; an empty text stays empty.

    >>> _code("a|b"), _code("a `b`"), _code(""), _code("abc", 2)
    ('`a|b`', '`` a `b` ``', '', '`a…`')
    """
    line = _cut(text, max_chars)
    fence = "`" * (1 + _longest_backtick_run(line))
    # Markdown strips one space at either end.
    inner = f" {line} " if "`" in line else line
    return f"{fence}{inner}{fence}" if line else ""


def _codes(texts: Sequence[str], limit: int) -> str:
    return join_counted(list(map(_code, texts)), limit)


def _cut(text: str, max_chars: int | None) -> str:
    line = " ".join(text.split())
    return line if max_chars is None or len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def _longest_backtick_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)
