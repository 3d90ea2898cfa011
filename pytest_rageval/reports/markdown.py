"""The Markdown report for a pull request: failures and next steps in at most 60 lines; the rest folded or counted."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, NamedTuple

from pytest_rageval.plural import counted
from pytest_rageval.printable import printable
from pytest_rageval.reports.document import QuestionEntry, ScoreEntry
from pytest_rageval.reports.layout import wrapped
from pytest_rageval.reports.next_steps import gains, update_command
from pytest_rageval.reports.questions import NOTHING, expected_text, lost_by_text, questions_text, score_text
from pytest_rageval.reports.results import models_text, sliced_name, usage_lines
from pytest_rageval.reports.systems import matrix_lines, ratings_lines
from pytest_rageval.reports.terminal import (
    BROKEN,
    MARKS,
    by_urgency,
    headline,
    notes,
    test_name,
    warning_lines,
    wide_cells,
)
from pytest_rageval.reports.trend import chart_lines

__all__ = ["LINES", "LONGEST", "Section", "folded", "markdown_report"]

LINES: Final = 60
"""The most lines of a report."""
LONGEST: Final = 60_000
"""The most characters: GitHub takes a comment of 65,536, and other hosts more."""

WORST: Final = 3  # how many questions are shown with what they lost
ROWS: Final = 12  # how many scores are shown before the others are folded
NAMED: Final = 12  # how many questions are named in a line
DOCUMENTS: Final = 3  # likewise documents
ABOUT: Final = 6  # how many facts of the run are in the last line

COMMIT: Final = 7

# Characters of a text; what is longer is cut.
NAME: Final = 160
QUESTION: Final = 240
TEXT: Final = 160
REASON: Final = 600
COMMAND: Final = 600

HEAD: Final = ("verdict", "test", "score", "mean", "n", "vs baseline", "threshold")


@dataclass(frozen=True)
class Section:
    """A part of the report; some of its items may be left out.

    Attributes:
        what: the noun for an item, for counting those left out.
        items: one line each, the most important first.
        opening: the lines before them; the section is left out with its last item.
        closing: the lines after them.
        least: so many items have room before any section has more; None for all, or none of them.
        most: no more than these.
    """

    what: str
    items: Sequence[str]
    opening: Sequence[str] = ()
    closing: Sequence[str] = ()
    least: int | None = 0
    most: int = LINES

    def lines(self, shown: int) -> list[str]:
        """The first items in their frame, and an empty line; nothing without an item."""
        return [*self.opening, *self.items[:shown], *self.closing, ""] if shown else []


class _Lost(NamedTuple):
    """A question that explains a verdict."""

    test: Mapping[str, Any]
    entry: ScoreEntry
    question: QuestionEntry

    @property
    def key(self) -> tuple[str | None, str]:
        """The same for one question of an eval set in all tests and scores."""
        return (self.test.get("evalset") or {}).get("digest"), self.question["id"]


def markdown_report(document: Mapping[str, Any]) -> str:
    """The document in GitHub's Markdown: verdicts, scores, the next step, and the questions that lost most.

    It has at most `LINES` lines. Reasons, further scores and notes are folded; what does not fit is left out, and
    counted. Text of users, passages and models is written as code, so that it is not markup, a link or a mention.
    """
    about = [*_run(document.get("run", {})), models_text(document), *usage_lines(document["llm"])]
    ends = [f"### {headline(document)}", "", f"<sub>{' · '.join(map(_code, about[:ABOUT]))}</sub>"]
    sections = list(_sections(document))
    # The line that counts what is left out, and the empty one after it.
    shown = _shown(sections, LINES - len(ends) - 2)
    text = _text(ends, sections, shown)
    while len(text) > LONGEST and any(shown):
        last = max(place for place, number in enumerate(shown) if number)
        shown[last] = shown[last] // 2 if sections[last].least is not None else 0
        text = _text(ends, sections, shown)
    return text


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    """The commit of the run, and that of the baseline."""
    named = [run.get("branch"), run.get("commit") and run["commit"][:COMMIT]]
    if any(named):
        yield f"{' at '.join(filter(None, named))}{' with uncommitted changes' if run.get('dirty') else ''}"
    baseline = run.get("baseline", {})
    if "commit" in baseline:
        yield f"baseline of {baseline['commit'][:COMMIT]}, {baseline.get('date', '')[: len('2026-01-01')]}"


def _text(ends: Sequence[str], sections: Sequence[Section], shown: Sequence[int]) -> str:
    *head, foot = ends
    body = [line for each, number in zip(sections, shown, strict=True) for line in each.lines(number)]
    left: Counter[str] = Counter()
    for each, number in zip(sections, shown, strict=True):
        left[each.what] += len(each.items) - number
    counts = ", ".join(counted(number, what) for what, number in left.items() if number)
    if counts:
        body += [f"Left out here: {counts}. The HTML and the JSON report have all.", ""]
    return printable("".join(f"{line}\n" for line in [*head, *body, foot]))


def _shown(sections: Sequence[Section], room: int) -> list[int]:
    """Return how many items of each section fit: first the least of each section, then more, in order."""
    shown = [0] * len(sections)
    for least in (True, False):
        for place, each in enumerate(sections):
            wanted = min(len(each.items), each.most)
            if least and each.least is not None:
                wanted = min(wanted, each.least)
            frame = 0 if shown[place] else len(each.lines(1)) - 1
            more = min(wanted - shown[place], room - frame)
            if more > 0 and (each.least is not None or more == wanted):
                shown[place] += more
                room -= frame + more
    return shown


def _sections(document: Mapping[str, Any]) -> Iterator[Section]:
    """The parts of the report, in their order."""
    tests = by_urgency(document["tests"])
    lost = _lost(tests)
    table, further = _tables(tests)
    yield table
    warnings = [f"> {_code(line, REASON)}  " for line in warning_lines(document["tests"])]
    yield Section("warning", warnings, least=2, most=4)
    yield Section("next step", list(_next_steps(tests, document.get("merge", ""))), least=3)
    yield _worst(lost)
    yield folded("Reasons, and the questions behind them", "reason", list(_reasons(tests)), least=4)
    yield further
    yield folded("The last runs", "chart line", chart_lines(document), least=None)
    for name, what, lines in (
        ("Systems", "system line", matrix_lines(document["matrix"])),
        ("Ratings", "rating line", ratings_lines(document["ratings"])),
        ("Notes", "note line", list(_notes(document["tests"]))),
    ):
        yield folded(name, what, lines, language="text")


def folded(
    summary: str, what: str, items: Sequence[str], *, least: int | None = 0, language: str | None = None
) -> Section:
    """A section that is folded; with `language` the items are lines of a block of code."""
    opening, closing = [f"<details><summary>{summary}</summary>", ""], ["", "</details>"]
    if language is not None:
        items = [" ".join(line.splitlines()) for line in items]
        fence = "`" * max(3, 1 + max(map(_longest_run, items), default=0))
        opening, closing = [*opening, f"{fence}{language}"], [fence, *closing]
    return Section(what, items, opening, closing, least)


def _tables(tests: Sequence[Mapping[str, Any]]) -> tuple[Section, Section]:
    """The table of scores, and a folded one: of those that passed, where there are many."""
    scores = [(test, entry) for test in tests for entry in _entries(test)]
    first, further = scores, []
    if len(scores) > ROWS:
        urgent = [each for each in scores if _is_urgent(*each)]
        others = [each for each in scores if not _is_urgent(*each)]
        first = urgent[:ROWS] or others[:ROWS]
        further = [*urgent, *others][len(first) :]
    head = [_row(HEAD), _row(["---"] * len(HEAD))]
    verdicts = Counter(_verdict(*each) for each in further)
    said = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    rest = folded(f"{counted(len(further), 'more score')}: {said}", "score", list(_rows(further)))
    return Section("score", list(_rows(first)), head, least=8), replace(rest, opening=[*rest.opening, *head])


def _entries(test: Mapping[str, Any]) -> list[ScoreEntry | None]:
    """The scores of a test, after None where none of them gives its outcome."""
    verdicts = {entry["verdict"] for entry in test["scores"]}
    other = test["outcome"] != "passed" and not verdicts & BROKEN
    return [*([None] if not verdicts or (other and verdicts != {None}) else []), *test["scores"]]


def _is_urgent(test: Mapping[str, Any], entry: ScoreEntry | None) -> bool:
    """Return True if the score failed or is inconclusive, or if its test failed for another reason."""
    verdict = None if entry is None else entry["verdict"]
    if test["outcome"] in {"failed", "error"}:
        return verdict in BROKEN or not any(each["verdict"] in BROKEN for each in test["scores"])
    return verdict == "inconclusive"


def _verdict(test: Mapping[str, Any], entry: ScoreEntry | None) -> str:
    """The verdict on a score; the outcome of the test where no score has a verdict."""
    verdict = None if entry is None else entry["verdict"]
    if verdict is None and entry is not None and any(each["verdict"] for each in test["scores"]):
        return "-"
    if verdict is None or (verdict in BROKEN and test["outcome"] == "xfailed"):
        verdict = test["outcome"]
    return f"{MARKS.get(verdict, MARKS['fail'])}\N{NO-BREAK SPACE}{verdict}"


def _rows(scores: Iterable[tuple[Mapping[str, Any], ScoreEntry | None]]) -> Iterator[str]:
    last = None
    for test, entry in scores:
        # The name of a test with several scores is in its first row.
        named = _verdict(test, entry), "" if test is last else _name(test["nodeid"])
        last = test
        if entry is None:
            yield _row([*named, *["-"] * (len(HEAD) - len(named))])
            continue
        score, mean, interval, n, unscored, moved, threshold, _ = wide_cells(entry)
        if interval != "-":
            mean = f"{mean} ({interval})"
        if unscored not in {"0", "-"}:
            n = f"{n}, {unscored} unscored"
        yield _row([*named, _cell(score), *map(_together, (mean, n, moved, threshold))])


def _name(nodeid: str) -> str:
    """A test as code, which a narrow column may break."""
    parts = re.split(r"(?<=::)|(?<=[_/])", _line(nodeid, NAME))
    return f"<code>{'<wbr>'.join(map(_entities, parts))}</code>"


def _together(text: str) -> str:
    """A text of a cell that is broken at most before a remark, such as an interval."""
    lines = re.split(r" (?=\()|(?<=,) ", text)
    kept = (
        line.replace(" ", "\N{NO-BREAK SPACE}").replace("e-", "e\N{NON-BREAKING HYPHEN}") for line in lines
    )
    return " ".join(kept)


def _next_steps(tests: Sequence[Mapping[str, Any]], merge: str) -> Iterator[str]:
    """Yield how to accept drops and how to keep gains. For `merge`, see `update_command`."""
    failed = [test for test in tests if test["outcome"] in {"failed", "error"}]
    also, again = (" and all other changes", ", run the shards again") if merge else ("", "")
    for accept, text in (
        ("update", f"Accept the drop{also} with"),
        ("bounds", f"To accept the drop, change `min` or `max` in the test{again}, then run"),
    ):
        if dropped := [test for test in failed if test.get("accept") == accept]:
            yield f"- {text} {_update(dropped, merge)}"
    if gained := [(test, text) for test in tests if (text := gains(test))]:
        texts = ", ".join(_code(text, TEXT) for _, text in gained[:DOCUMENTS])
        yield f"- {texts}: lock it in with {_update([test for test, _ in gained], merge)}"


def _update(tests: Sequence[Mapping[str, Any]], merge: str) -> str:
    """The command for the first tests, and how many more there are; a merge updates all."""
    if merge:
        return _code(update_command((), merge), None)
    arguments = [shlex.quote(test["nodeid"]) for test in tests]
    fitting = max(1, sum(size <= COMMAND for size in accumulate(map(len, arguments))))
    more = len(tests) - fitting
    also = f", and the same for {counted(more, 'more test')}" if more else ""
    return f"{_code(update_command(arguments[:fitting]), None)}{also}"


def _lost(tests: Sequence[Mapping[str, Any]]) -> list[_Lost]:
    """The questions behind what failed or is in doubt, each once: those that most scores lost come first."""
    found = [
        _Lost(test, entry, question)
        for test in tests
        for entry in test["scores"]
        if entry["verdict"] not in {None, "pass"} and test["outcome"] != "xfailed"
        for question in entry.get("questions", {}).get("listed", ())
    ]
    # What a baseline tells says more than a bound.
    found = [each for each in found if "before" in each.question] or found
    scores = Counter(each.key for each in found)
    # Stable: the list of a score begins with the worst.
    found.sort(key=lambda each: (-scores[each.key], "answer" not in each.question))
    return list({each.key: each for each in reversed(found)}.values())[::-1]


def _worst(lost: Sequence[_Lost]) -> Section:
    """The questions that lost most, with the passages and answers then and now."""
    names = {(sliced_name(each.entry), each.test["nodeid"]) for each in lost}
    several = len(names) > len({name for name, _ in names})
    items = [line for each in lost[:WORST] for line in _question_lines(each, with_test=several)]
    which = "that got worse" if lost and "before" in lost[0].question else "beyond a bound"
    some = f"{WORST} of the" if len(lost) > WORST else "The"
    number = "question" if len(lost) == 1 else counted(len(lost), "question")
    return Section("question line", items, [f"**{some} {number} {which}**"], least=None)


def _question_lines(lost: _Lost, *, with_test: bool) -> Iterator[str]:
    """A few lines: what the score lost, where the gold passages were and are, and the answers."""
    question, before = lost.question, lost.question.get("before", {})
    moved = f"{score_text(before['score'])} → " if before else ""
    now = "unscored" if question["score"] is None else score_text(question["score"])
    of = f" of {_code(lost.test['nodeid'].rpartition('::')[2])}" if with_test else ""
    name = f"{_code(sliced_name(lost.entry))}{of}"
    yield f"- {_code(question['id'])} {name} **{moved}{now}**: {_code(question['question'], QUESTION)}"
    for parts in ([*_passages(lost)], [*_answers(question)]):
        if parts:
            yield f"  - {'; '.join(parts)}"


def _passages(lost: _Lost) -> Iterator[str]:
    """The gold passages that moved, from rank to rank; else what was retrieved."""
    question = lost.question
    now, then = question.get("retrieved"), question.get("before", {}).get("retrieved")
    if now is None:
        return
    gold = question.get("gold", [])
    # Further down than this score reads, where another score of the test reads so far.
    known = {each["id"]: each.get("gold_ranks", {}) for each in lost.test.get("questions", ())}
    ranks = known.get(question["id"], {})
    moved = []
    for label in gold:
        # A gold passage that is found by its text has another name in a ranking.
        if then is None or label not in then:
            continue
        rank = now.index(label) + 1 if label in now else ranks.get(label)
        if rank != then.index(label) + 1:
            gone = f"out of the first {len(now)}" if now else NOTHING
            moved.append(f"{_code(label)} rank {then.index(label) + 1} → {gone if rank is None else rank}")
    if moved:
        yield f"gold {_several(moved)}"
    else:
        if gold:
            yield f"gold {_several(map(_code, gold))}"
        before = f"{_documents(then)} → " if then is not None and then != now else ""
        yield f"retrieved {before}{_documents(now)}"


def _documents(labels: Sequence[str]) -> str:
    return _several(map(_code, labels)) if labels else NOTHING


def _several(texts: Iterable[str]) -> str:
    """The first ones, and how many more there are."""
    texts = list(texts)
    more = [f"{len(texts) - DOCUMENTS} more"] if len(texts) > DOCUMENTS else []
    return ", ".join([*texts[:DOCUMENTS], *more])


def _answers(question: QuestionEntry) -> Iterator[str]:
    """The answers with what was expected, or why there is none, and why it was lost."""
    if "answer" in question:
        then, now = question.get("before", {}).get("answer"), question["answer"]
        moved = f"{_code(then, TEXT)} → " if then is not None and then != now else ""
        yield f"answer {moved}{_code(now, TEXT)}"
    if "expected" in question:
        yield f"{question['expected']['as']} {_code(expected_text(question['expected']), TEXT)}"
    if said := question.get("unscored") or question.get("judge") or question.get("remark"):
        yield _code(said, TEXT)
    if "lost_by" in question:
        yield f"lost by the {question['lost_by']}"


def _reasons(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why tests failed or are in doubt, and the questions that got worse, also of scores that passed; a line each."""
    for test in tests:
        name, outcome = _code(test["nodeid"]), test["outcome"]
        broken = any(entry["verdict"] in BROKEN for entry in test["scores"])
        # The reasons of failed thresholds say more.
        if test.get("message") and not broken:
            yield f"- {MARKS[outcome]} {name}<br>{_code(_ends(test['message']), None)}"
        for entry in test["scores"]:
            questions = entry.get("questions")
            if entry["verdict"] in BROKEN or questions is not None:
                mark = MARKS[outcome if outcome == "xfailed" else entry["verdict"] or outcome]
                parts = [f"{mark} {name} {_code(sliced_name(entry))}", _code(entry["reason"] or "", REASON)]
                if questions is not None:
                    lost_by = f"; lost by: {lost_by_text(questions)}" if questions["lost_by"] else ""
                    parts.append(f"{questions_text(questions)}{lost_by}: {_ids(questions['listed'])}")
                yield f"- {'<br>'.join(filter(None, parts))}"


def _ends(text: str) -> str:
    """A message in one line, of a long one the first and the last words: either may be what matters."""
    line = " ".join(text.split())
    return line if len(line) <= REASON else f"{line[: REASON // 2]} … {line[-REASON // 2 :]}"


def _ids(questions: Sequence[QuestionEntry]) -> str:
    more = f", {len(questions) - NAMED} more" if len(questions) > NAMED else ""
    return ", ".join(_code(question["id"]) for question in questions[:NAMED]) + more


def _notes(tests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for test in tests:
        lines = [line for note in notes(test) for line in wrapped(f"  {note}", 4)]
        if lines:
            yield test_name(test)
            yield from lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Code in a table: there a bar ends a cell even in code, and renderers differ on an escaped one.

    >>> _cell("a[x]"), _cell("a|b")
    ('`a[x]`', '<code>a&#124;b</code>')
    """
    return f"<code>{_entities(_line(text, NAME))}</code>" if "|" in text else _code(text)


def _entities(text: str) -> str:
    """A text for HTML in Markdown, of whose signs none is left but letters and digits.

    >>> _entities("a_b")
    'a&#95;b'
    """
    return re.sub(r"[^a-zA-Z0-9 ]", lambda sign: f"&#{ord(sign[0])};", text)


def _code(text: str, most: int | None = NAME) -> str:
    """Text as code, where nothing is markup, link or mention.

    >>> _code("a|b"), _code("a `b`"), _code(""), _code("abc", 2)
    ('`a|b`', '`` a `b` ``', '', '`a…`')
    """
    line = _line(text, most)
    fence = "`" * (1 + _longest_run(line))
    # Markdown strips one space at either end.
    inner = f" {line} " if "`" in line else line
    return f"{fence}{inner}{fence}" if line else ""


def _line(text: str, most: int | None) -> str:
    """A text in one line, cut to so many characters."""
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall(r"`+", text)), default=0)
