"""Writes a question of the HTML report: a line with its scores; below it, folded, its passages and answers.

A page may have 15,000 questions, which a template would take most of the page's time for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import inf
from operator import itemgetter
from typing import Final

from markupsafe import escape

from pytest_rageval.lib.normal_forms import COMMON_UNSPACED
from pytest_rageval.reports.html import cut, number
from pytest_rageval.reports.html.question_rows import Column, Details, QuestionRow, anchor_of, documents_of
from pytest_rageval.reports.questions import NOTHING

WORD: Final = re.compile(rf"[{COMMON_UNSPACED}]|[^\W{COMMON_UNSPACED}]+")
"""A word; in a script without spaces, a character."""

MIN_MARKED_LENGTH: Final = 4  # minimum length of a marked word; shorter words are mostly function words


def question_html(
    row: QuestionRow, variants: Sequence[Details], columns: Sequence[Column], tokens: str, *, full: bool
) -> str:
    """Return the HTML of a question; unless `full`, without the texts of its passages, and with texts that are cut."""
    name, anchor, state, value = escape(row.id), row.anchor, row.state, row.value
    state_text = row.bound_side if state == "beyond" else state
    text, cells = variants[0].entry["question"], row.cells
    scores = ""
    for column in columns:
        if (cell := cells.get(column.index)) is None:
            scores += "<i></i>"
        else:
            look = f' class="{cell.look}"' if cell.look else ""
            scores += f"<i{look}><u>{escape(column.name)} </u>{escape(cell.text)}</i>"
    if full:
        tags = "".join(f"<span>{escape(f'{tag}: {each}')}</span>" for tag, each in row.tags)
        link = f'<a href="#{anchor}">Link<span class="hidden-text"> to {name}</span></a>'
        body = f'<p class="about">\n{link}\n{tags}</p>\n'
        body += "".join(_full(row, each, is_only=len(variants) == 1) for each in variants)
    else:
        body = "".join(
            f'<p class="brief"><a href="#{anchor}">Link</a>\n{escape("".join(_brief_lines(row, each)))}</p>\n'
            for each in variants
        )
    look = f"q {state}" if state else "q"
    scored = "" if value is None else f' data-s="{round(value, 4)}"'
    return (
        f'<details class="{look}" data-f="{tokens}" data-n="{row.index}"{scored}>\n'
        f"<summary><b>{state_text}</b><code>{name}</code><span>{escape(text if full else cut(text))}</span>"
        f'{scores}</summary>\n<div class="body" id="{anchor}">\n{body}</div>\n</details>'
    )


def _brief_lines(row: QuestionRow, details: Details) -> Iterator[str]:
    for tag, value in row.tags:
        yield f"{tag}: {value}\n"
    for name, text, scores in details.fields:
        yield f"{name}{f' of {scores}' if scores else ''}: {cut(text)}\n"
    if details.gold:
        gold = ", ".join(f"{name} ({rank})" if rank else name for name, rank in details.gold)
        yield f"gold: {gold}\n"
    if details.before:
        yield f"retrieved before: {', '.join(name for name, _ in details.before)}\n"
    if "retrieved" in details.entry:
        yield f"retrieved: {', '.join(documents_of(details.entry)) or NOTHING}\n"


def _full(row: QuestionRow, details: Details, *, is_only: bool) -> str:
    entry, about = details.entry, ""
    names = ", ".join(test["nodeid"] for test in details.tests)
    anchors = " ".join(map(anchor_of, details.tests))
    heading = "" if is_only else f"<h4>{escape(names)}</h4>\n"
    if (seconds := entry.get("seconds")) is not None:
        about += f"<span>{number(seconds)} s</span>"
    if (tokens := entry.get("context_tokens")) is not None:
        about += f"<span>{tokens} tokens of context</span>"
    about = about and f'<p class="about">\n{about}</p>\n'
    gold_texts = "".join(
        f'<div class="gold"><p>{_label(name, is_gold=True)} <small>gold, not among these passages</small></p>'
        f"<blockquote>{escape(text)}</blockquote></div>\n"
        for name, text in entry.get("gold_texts", {}).items()
    )
    return (
        f'<div class="variant" data-of="{escape(row.id)}" data-tests="{anchors}">\n'
        f"{heading}{about}<dl>\n{''.join(_fields(details))}</dl>\n{''.join(_passages(details))}{gold_texts}</div>\n"
    )


def _fields(details: Details) -> Iterator[str]:
    entry, before = details.entry, details.before
    for name, text, scores in details.fields:
        of = f" <small>{escape(scores)}</small>" if scores else ""
        yield f"<dt>{escape(name)}{of}</dt><dd>{escape(text)}</dd>\n"
    if details.gold:
        ranks = (
            (_label(name, is_gold=True), f" <small>{rank}</small>" if rank else "")
            for name, rank in details.gold
        )
        yield f"<dt>gold</dt><dd>{''.join(f'{label}{rank} ' for label, rank in ranks)}</dd>\n"
    gold = entry.get("gold", ())
    for at, step in enumerate(entry.get("steps", ()), 1):
        found = _labels((name, name in gold) for name in step["retrieved"])
        yield f"<dt>step {at}</dt><dd>{escape(step['query'])} → {found}</dd>\n"
    if before:
        yield f"<dt>retrieved before</dt><dd>{_labels(before)}</dd>\n"
        if "retrieved" in entry:
            now = _labels((passage["document"], passage.get("gold", False)) for passage in entry["retrieved"])
            yield f"<dt>retrieved now</dt><dd>{now}</dd>\n"


def _label(name: str, *, is_gold: bool) -> str:
    return f"<mark>{escape(name)}</mark>" if is_gold else f"<code>{escape(name)}</code>"


def _labels(names: Iterable[tuple[str, bool]]) -> str:
    return "".join(f"{_label(name, is_gold=is_gold)} " for name, is_gold in names) or NOTHING


def _passages(details: Details) -> Iterator[str]:
    """Yield the longest ranking of the question as a list.

    Words of the answers are marked in the first k passages, which the answers were generated from.
    """
    if not (retrieved := details.entry.get("retrieved")):
        return
    k, before, examples = details.k, details.before, details.examples
    ranks_before = {label: rank for rank, (label, _) in enumerate(before, 1)}
    labels = next((example["labels"] for example in examples if example.get("labels")), ())
    alone = next((example["alone"] for example in examples if example.get("alone")), ())
    answers = " ".join(details.example_values("answer"))
    cut_off = "" if k is None else f' data-k="{k}"'
    yield f'<ol class="passages"{cut_off}>\n'
    for rank, passage in enumerate(retrieved, 1):
        is_gold, is_beyond = passage.get("gold", False), rank > (inf if k is None else k)
        look = ' class="gold"' if is_gold else ' class="beyond-k"' if is_beyond else ""
        yield f"<li{look}>\n<p>{_label(passage['document'], is_gold=is_gold)}"
        if is_gold:
            yield " <small>gold</small>"
        if before:
            then = ranks_before.get(passage["document"])
            change = "new" if then is None else "as before" if then == rank else f"was {then}"
            yield f" <small>{change}</small>"
        if rank <= len(labels):
            yield f" <small>label {labels[rank - 1]:.2g}</small>"
        if answer := alone[rank - 1] if rank <= len(alone) else "":
            yield f" <small>answer from it alone: {escape(answer)}</small>"
        yield "</p>\n"
        if (text := passage.get("text")) is not None:
            marked = mark_answer_words(text, "" if is_beyond else answers, details.entry["question"])
            words = "".join(
                f"<em>{escape(part)}</em>" if is_marked else escape(part) for part, is_marked in marked
            )
            yield f'<blockquote class="passage">{words}</blockquote>\n'
        yield "</li>\n"
    yield "</ol>\n"


def mark_answer_words(passage: str, answer: str, question: str) -> list[tuple[str, bool]]:
    """Return the text of a passage in pieces, each with True if the answer probably took it from the passage.

    A word is marked if it is in the answer and not in the question, and has at least four letters or a digit. Words
    between two marked words are marked if they all are in the answer. In scripts without spaces, pairs of characters
    take the place of words.

    >>> mark_answer_words("Parcels arrive within 5 days.", "It takes 5 days.", "When do parcels arrive?")
    [('Parcels arrive within ', False), ('5 days', True), ('.', False)]
    """
    answer_words = _words(answer)
    new_words = answer_words and answer_words - _words(question)
    if not new_words:
        return [(passage, False)]
    matches = list(WORD.finditer(passage))
    words = [match[0].casefold() for match in matches]
    marked = [
        word in new_words and (len(word) >= MIN_MARKED_LENGTH or any(map(str.isdigit, word)))
        for word in words
    ]
    for index in range(len(words) - 1):
        # Only pairs of characters count: "foot" and "ball" do not match "football".
        if words[index] + words[index + 1] in new_words and len(words[index]) == len(words[index + 1]) == 1:
            marked[index] = marked[index + 1] = True
    last_marked = None
    for index, is_marked in enumerate(marked):
        if is_marked:
            if last_marked is not None and all(
                word in answer_words for word in words[last_marked + 1 : index]
            ):
                marked[last_marked:index] = [True] * (index - last_marked)
            last_marked = index
        elif words[index] not in answer_words:
            last_marked = None
    return list(_split(passage, [match.span() for match in matches], marked))


def _words(text: str) -> set[str]:
    """Return the words of a text, and the pairs of neighbouring one-character words, as in scripts without spaces."""
    words = [word.casefold() for word in WORD.findall(text)]
    pairs = (a + b for a, b in pairwise(words) if len(a) == len(b) == 1)
    return {*words, *pairs}


def _split(text: str, spans: Sequence[tuple[int, int]], marked: Sequence[bool]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, split where runs of marked words begin and end."""
    end = 0
    for is_marked, run in groupby(zip(marked, spans, strict=True), key=itemgetter(0)):
        words = [span for _, span in run]
        if is_marked:
            start, stop = words[0][0], words[-1][1]
            if start > end:
                yield text[end:start], False
            yield text[start:stop], True
            end = stop
    if end < len(text):
        yield text[end:], False
