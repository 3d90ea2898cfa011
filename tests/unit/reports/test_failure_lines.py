"""The lines that explain why a score is out of its bounds."""

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.reports.failures import Room, failure_lines, ranking_lines, score_line
from pytest_rageval.reports.questions import question_entry, score_text, single_question_lines
from pytest_rageval.stats.bootstrap import bca_means
from tests.unit.gate.scored import verdict_on


def _failure(score: Score, room: Room = Room(), **bounds: float) -> list[str]:  # noqa: B008 - immutable
    threshold = Threshold(score.spec, **bounds)
    return failure_lines([ThresholdResult(threshold, score, verdict_on(score, threshold))], room)


def test_the_whole_text_of_a_failure(score: Score) -> None:
    low, high = bca_means([[0.5, 1.0, 0.0, 0.25]])[0]
    assert _failure(score, Room(full=True), min=0.75) == [
        "llm_reteval@2: 0.438 is below the minimum 0.75: 3 of 4 questions are below 0.75",
        "Likely cause: 2 of 3 lost: their gold is not in the top 2 now; lost by retriever",
        "  1, distraction 1",
        f"llm_reteval@2 = 0.438 (95% interval {low:.3f} to {high:.3f}, n = 4, 1 unscored)",
        "1 unscored:",
        "  1 × no gold passages",
        "      llm_reteval@2",
        "  q3  0              What does the extended warranty cover in the second year, …",
        "      gold        kb-2",
        "      retrieved   (nothing)",
        "      answer      the courier pays",
        "      lost by     retriever",
        "  q5  0.25           Slightly right?",
        "      lost by     distraction (case C)",
        "  q1  0.50           Half right?",
        "      gold        kb-9",
        '      retrieved   kb-1, "beta without an id"',
        "      answer      ten days or so",
        "      with gold   five days | a week",
        "      case        A",
    ]


def test_the_brief_text_of_a_failure(score: Score) -> None:
    """Each question has its row, its gold passages, its rankings and its answers, a line each."""
    assert _failure(score, Room(13), min=0.75)[3:] == [
        "      llm_reteval@2",
        "  q3  0              What does the extended warranty cover in the second year, …",
        "      gold      kb-2",
        "      now       (nothing)",
        "      answer    the courier pays",
        "  q5  0.25           Slightly right?",
        "1 more (-v shows all): q1",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.00"),
        (0.5, "0.50"),
        (0.1, "0.10"),
        (0.0, "0.00"),
        (0.0486, "0.049"),
        (0.00461, "0.0046"),
        (-0.25, "-0.25"),
    ],
)
def test_a_small_score_keeps_two_digits(value: float, text: str) -> None:
    """A small score has two significant digits: seconds and costs of one retrieval would often be 0.00."""
    assert score_text(value) == text


def test_undefined_examples_are_reported_with_unscored_ones() -> None:
    outcomes = [
        Outcome(Example("q1", "Why?"), 0.0),
        Outcome(Example("q2", "?"), None, "no gold passages"),
        *(Outcome(Example(f"q{n}", "?"), None, undefined="nothing was cited") for n in (3, 4)),
    ]
    lines = _failure(Score("rel.citation_precision@5", outcomes), min=0.5)
    assert "n = 1, 1 unscored, 2 undefined)" in " ".join(" ".join(lines).split())
    assert lines[-6:-2] == [
        "1 unscored:",
        "  1 × no gold passages",
        "2 undefined:",
        "  2 × nothing was cited",
    ]


@pytest.mark.parametrize(
    ("alone", "lines"),
    [
        (("Ada", "no answer\nin the documents"), ["1 a: Ada", '0.33 "beta": no answer in the documents']),
        ((), ["1 a", '0.33 "beta"']),
    ],
)
def test_labels_have_a_line_each(alone: tuple[str, ...], lines: list[str]) -> None:
    """Each label has a line, with the answer from that passage alone if known; answers of a set are joined with "+"."""
    ranking = Ranking("q", (Document("alpha", "a"), Document("beta")))
    evidence = Evidence(ranking, None, ("Ada", "Bob"), "wanted", labels=(1.0, 1 / 3), answers_alone=alone)
    outcome = Outcome(Example("q1", "Who?"), 0.25, None, evidence)
    assert [*single_question_lines(question_entry(outcome, None))] == [
        "  q1  0.25  Who?",
        f"      labels      {lines[0]}",
        f"                  {lines[1]}",
        "      wanted      Ada + Bob",
    ]


def test_above_a_maximum_the_highest_are_worst(score: Score) -> None:
    lines = _failure(score, max=0.2)
    assert lines[0] == "llm_reteval@2: 0.438 is above the maximum 0.2: 3 of 4 questions are above 0.2"
    assert [line[2:4] for line in lines if line.startswith("  q")] == ["q2", "q1", "q5"]


@pytest.mark.parametrize("lines", range(3, 30))
def test_a_failure_has_no_more_lines_than_it_may(score: Score, lines: int) -> None:
    text = _failure(score, Room(lines), min=0.75)
    assert len(text) <= max(lines, 5)
    shown = [line[2:4] for line in text if line.startswith("  q")]
    named = text[-1].rpartition(": ")[2].split(", ") if "(-v shows all)" in text[-1] else []
    assert [*shown, *named] == ["q3", "q5", "q1"]


@pytest.mark.parametrize("room", [Room(22), Room(), Room(full=True)])
def test_lines_fit_a_terminal(room: Room) -> None:
    """Lines have at most eighty columns, however long questions, answers, ids and reasons are."""
    words = "a question of many words " * 20
    outcomes = [
        Outcome(Example(f"example-with-a-long-id-{n}", words), 0.0 if n else None, None if n else words)
        for n in range(40)
    ]
    outcomes.append(Outcome(Example("right", words), 0.5))
    lines = _failure(Score("recall@5", outcomes), room, min=0.75)
    assert max(map(len, lines)) <= 80
    assert any(len(line) > 60 for line in lines)


def test_a_ranking_is_one_document_a_line() -> None:
    ranking = Ranking("how?", (Document("Alpha\n beta", "kb-1"), Document("Gamma")))
    assert ranking_lines(ranking) == ["retrieved for 'how?':", "  1. kb-1: Alpha beta", "  2. Gamma"]
    assert ranking_lines(Ranking("how?", ())) == ["nothing was retrieved for 'how?'"]


@pytest.mark.parametrize(
    "text", ["many words " * 30, " ".join(["four"] * 100), "x" * 300, "東京都の人口は" * 40]
)
def test_a_documents_line_shows_the_beginning_of_its_text(text: str) -> None:
    """The text is cut to eighty columns, in scripts with and without spaces."""
    line = ranking_lines(Ranking("q", (Document(text),)))[1]
    assert len(line) <= 80
    assert text[:20] in line
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("values", "tags", "line"),
    [
        ([1.0, 1.0, 0.0], {}, "recall@5 = 0.667 (95% interval 0.208 to 0.939, n = 3)"),
        ([0.4], {}, "recall@5 = 0.400 (n = 1)"),
        ([0.4, None], {}, "recall@5 = 0.400 (n = 1, 1 unscored)"),
        ([0.4], {"topic": "a"}, "recall@5 where topic='a' = 0.400 (n = 1)"),
    ],
)
def test_a_score_in_a_line(values: list[float | None], tags: dict[str, str], line: str) -> None:
    outcomes = [Outcome(Example(str(n), "q"), value) for n, value in enumerate(values)]
    assert score_line(Score("recall@5", outcomes, slice=tags)) == line


def test_each_score_of_a_question_has_its_remark() -> None:
    results = []
    for spec, remark in (
        ("rel_recall.answer@1", "item 'c1x' equals no reference"),
        ("rel.other@1", "cited nothing"),
    ):
        score = Score(spec, [Outcome(Example("q1", "Which code?"), 0.0, evidence=Evidence(remark=remark))])
        threshold = Threshold(spec, min=0.5)
        results.append(ThresholdResult(threshold, score, verdict_on(score, threshold)))
    lines = failure_lines(results, Room(full=True))
    assert "      why         item 'c1x' equals no reference; cited nothing" in lines
