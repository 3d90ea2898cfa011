"""The sample of passages in the baseline, and what is said of it."""

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.silent_changes.changes import SAMPLE, change_of_texts, sample, texts_of
from pytest_rageval.run.base import TestRecord


def _record(*rankings: list[Document]) -> TestRecord:
    outcomes = [
        Outcome(Example(f"q{n}", "?"), 1.0, evidence=Evidence(Ranking.of("?", documents)))
        for n, documents in enumerate(rankings)
    ]
    return TestRecord(runs={(ScoreRequest("recall@5"), False): [outcomes]})


def test_a_text_that_depends_on_the_question_is_left_out() -> None:
    """A search engine may return another excerpt for each question."""
    same, other = [Document("a  b", "d1"), Document("x", "d2")], [Document("a b", "d1"), Document("y", "d2")]
    texts = texts_of(_record(same, other, [Document("no id")], [Document("c", "d1", chunk_id="d1/2")]))
    assert {name: length for name, (_, length) in texts.items()} == {"d1": 3, "d1/2": 1, '"no id"': 5}


def test_the_sample_has_the_same_passages_whatever_else_is_retrieved() -> None:
    texts = {f"d{n}": (f"{n}", n) for n in range(3 * SAMPLE)}
    chosen = {name for name, *_ in sample(texts)}
    assert len(chosen) == SAMPLE
    others = {name: value for name, value in texts.items() if name in chosen or name.endswith("7")}
    assert {name for name, *_ in sample(others)} == chosen


@pytest.mark.parametrize(("changed", "shown"), [(1, ""), (2, "of 20% of"), (10, "of 100% of")])
def test_a_share_of_changed_texts_is_said(changed: int, shown: str) -> None:
    before = [(f"d{n}", "old", 760) for n in range(10)]
    now = {name: ("new" if n < changed else "old", 190) for n, (name, *_) in enumerate(before)}
    text = change_of_texts([*before, ("gone", "old", 1)], now)
    said = "(760 → 190 characters on average, most of all d0: 760 → 190)"
    assert (shown in text, said in text) == (True, bool(shown))


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([760, 762, 757], "(760 → 760 characters on average, most of all d2: 760 → 757)"),
        ([760, 1520, 0], "(760 → 760 characters on average, most of all d2: 760 → 0)"),
        ([760, 760, 760], "(760 characters on average, each as many as before)"),
    ],
)
def test_a_small_change_reads_otherwise_than_a_lost_text(lengths: list[int], said: str) -> None:
    before = [(f"d{n}", "old", 760) for n in range(len(lengths))]
    now = {f"d{n}": ("new", length) for n, length in enumerate(lengths)}
    assert said in change_of_texts(before, now)


def test_texts_without_ids_are_known_by_their_beginnings() -> None:
    whole, cut = (_record([Document(f"{'word ' * 20}{end}")]) for end in ("and more", ""))
    before = [(str(name), str(old), int(str(length))) for name, old, length in sample(texts_of(whole))]
    assert (
        "of 100% of the retrieved passages changed under the same beginnings (108 → 99 characters on average"
        in change_of_texts(before, texts_of(cut))
    )
