"""The likely cause of losses, from the rankings now and in the baseline."""

from typing import Any

import pytest

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdResult
from pytest_rageval.reports.causes import cause_text, likely_cause
from pytest_rageval.reports.questions import beyond_bound, explain
from tests.unit.gate.scored import rule_on, threshold_of

N = 12
OLD = [[f"g{n}", f"a{n}", f"b{n}"] for n in range(N)]
"""The rankings in the baseline: the gold passage of question n, g{n}, is the first of three."""


def _compared(spec: str, outcomes: list[Outcome], old: list[list[str]]) -> ThresholdResult:
    """Return the result of a comparison with a baseline of these rankings, in which each question scored 1."""
    digests = {outcome.example.id: outcome.example.digest for outcome in outcomes}
    stored: Any = {name: {"score": 1.0, "ranking": labels} for name, labels in zip(digests, old, strict=True)}
    lookup = BaselineLookup({}, BaselineScore(digests, {}, stored))
    return rule_on(Score(spec, outcomes), threshold_of(spec, max_drop=0.01), lookup, alpha=0.05)


def _text(result: ThresholdResult) -> str:
    assert result.score is not None
    return cause_text([(result.score, explain(result))])


def _result(now: list[list[str]], k: int = 3, metadata: Any = None, **example: Any) -> ThresholdResult:
    outcomes = []
    for n, labels in enumerate(now):
        documents = [Document(f"text of {label}", label, metadata=metadata or {}) for label in labels]
        fields = {"gold": (Gold(f"g{n}", f"text of g{n}"),), **example}
        if "tags" in fields:
            fields["tags"] = fields["tags"](n)
        evidence = Evidence(Ranking.of(f"q{n}", documents, k))
        value = 1.0 / (labels.index(f"g{n}") + 1) if f"g{n}" in labels else 0.0
        outcomes.append(Outcome(Example(f"q{n}", "?", **fields), value, evidence=evidence))
    return _compared("mrr@3", outcomes, OLD)


def _cause(now: list[list[str]], k: int = 3, **fields: Any) -> str:
    result = _result(now, k, **fields)
    assert result.verdict.status == "fail"
    return _text(result)


def _other(lost: int) -> list[list[str]]:
    """Return rankings of the baseline in which the gold passages of the first questions are others'."""
    return [[f"a{n}", f"b{n}", f"a{(n + 1) % N}"] if n < lost else OLD[n] for n in range(N)]


@pytest.mark.parametrize(
    ("now", "cause"),
    [
        ([[]] * N, "every search returned nothing: is the index built?"),
        (_other(8), "8 of 8 lost: their gold is not in the top 3 now"),
        (
            [["g0", "a0", "b0"] if n < 8 else OLD[n] for n in range(N)],
            (
                "21 of 36 passages of the baseline are found by no search now: is the index incomplete, or is there a "
                "filter?"
            ),
        ),
        (
            [["g10", "g11", "b0"] if n < 10 else ["a0", "b0", "a1"] for n in range(N)],
            (
                "31 of 36 passages of the baseline are found by no search now: is the index incomplete, or is there a "
                "filter?; another 2 of 12 lost: their gold is not in the top 3 now"
            ),
        ),
        (
            [[f"a{n}", f"g{n}", f"b{n}"] if n % 2 else [f"a{n}", f"b{n}", f"g{n}"] for n in range(N)],
            "12 lost: gold fell from rank 1 to 2–3: another order",
        ),
        (
            [["a0"] if n < 9 else OLD[n] for n in range(N)],
            (
                "fewer than 3 returned in 9 of 12 searches, 0 before: a threshold or a filter; "
                "9 of 9 lost: their gold is not in the top 3 now"
            ),
        ),
        (
            [[f"x{n}", f"y{n}", f"z{n}"] for n in range(N)],
            (
                "100% of the retrieved ids are new to the baseline: the index was rebuilt; "
                "12 of 12 lost: their gold is not in the top 3 now"
            ),
        ),
    ],
)
def test_the_cause_is_read_from_the_rankings(now: list[list[str]], cause: str) -> None:
    assert _cause(now) == cause


CUT = [[f"a{n}"] for n in range(N)]
VARIED = [[f"a{n}"] if n % 2 else [f"a{n}", f"b{n}"] for n in range(N)]


@pytest.mark.parametrize(
    ("now", "k", "cause"),
    [
        (CUT, 3, "the retriever now returns 1, 3 or more before"),
        (CUT, 5, "the retriever now returns 1, 3 before"),
        (VARIED, 3, "fewer than 3 returned in 12 of 12 searches, 0 before: a threshold or a filter"),
    ],
)
def test_another_number_of_results_is_no_filter(now: list[list[str]], k: int, cause: str) -> None:
    assert _cause(now, k).partition(";")[0] == cause


REPEATED = [[f"a{n}", f"a{n}", f"a{n}"] for n in range(N)]


@pytest.mark.parametrize(
    ("now", "cause"),
    [
        (REPEATED, "2 of the 3 documents are repeats in 12 of 12 searches: duplicates in the index?"),
        (
            [[f"a{n}", *[f"b{n}"] * (n % 2 + 1), f"b{n}"] for n in range(N)],
            "1–2 of the 3–4 documents are repeats in 12 of 12 searches: duplicates in the index?",
        ),
        (
            [[], *REPEATED[1:9], *OLD[9:]],
            (
                "2 of the 3 documents are repeats in 8 of 12 searches: duplicates in the index?; "
                "nothing returned in 1 of 12 searches (q0), 0 before: a caught exception, or a filter?"
            ),
        ),
        (
            [[]] * 8 + OLD[8:],
            "nothing returned in 8 of 12 searches (q0, q1, q2, …), 0 before: a caught exception, or a filter?",
        ),
        (
            [[]] * 7 + CUT[7:9] + OLD[9:],
            (
                "nothing returned in 7 of 12 searches (q0, q1, q2, …), 0 before: a caught exception, or a filter?; "
                "fewer than 3 returned in 2 of 12 searches, 0 before: a threshold or a filter"
            ),
        ),
    ],
)
def test_repeats_and_empty_rankings_are_told_from_a_threshold(now: list[list[str]], cause: str) -> None:
    text = _cause(now)
    assert text.startswith(cause)
    assert text.count("fewer than 3") == cause.count("fewer than 3")


def test_rankings_that_were_as_short_before_are_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one document have its id, before as now; and questions without any passage found none before."""
    monkeypatch.setitem(globals(), "OLD", [[], *[[f"g{n}"] for n in range(1, N)]])
    text = _cause([[], *REPEATED[1:]])
    assert "100% of the retrieved ids are new" in text
    assert not any(word in text for word in ("repeats", "returned", "fewer"))


def test_a_filter_is_seen_in_the_metadata() -> None:
    """All documents have the value of a tag, and lost questions have another."""
    tags = {"topic": "travel", "lang": "en"}
    for topic in ("stay", "travel"):
        cause = _cause(_other(8), metadata={"topic": topic, "lang": "en", "page": 1}, tags=lambda _: tags)
        assert cause.startswith(
            "all that is found now has topic=stay; " if topic == "stay" else "8 of 8 lost"
        )


@pytest.mark.parametrize(
    ("now", "causes"),
    [
        (
            [[], *OLD[1:]],
            "nothing returned in 1 of 12 searches (q0), 0 before: a caught exception, or a filter?",
        ),
        (
            [["a0", "a0", "b0"], *OLD[1:]],
            "1 of the 3 documents are repeats in 1 of 12 searches: duplicates in the index?",
        ),
        ([["a0", "b0"], *OLD[1:]], ""),
        (_other(1), ""),
    ],
)
def test_what_is_sure_is_said_of_an_inconclusive_verdict(now: list[list[str]], causes: str) -> None:
    """A threshold or another order may be chance where a test is not sure that anything is lost."""
    result = _result(now)
    assert result.verdict.status == "inconclusive"
    assert likely_cause([result], sure=True) == causes


@pytest.mark.parametrize(
    ("shared", "lost", "cause"),
    [
        (
            "h" * 9,
            9,
            "gold h: retrieved for 9 questions before, for none now: removed from the index, or filtered out?",
        ),
        (
            "h" * 9,
            12,
            "gold h: retrieved for 9 questions before, for none now: removed from the index, or filtered out?",
        ),
        (
            "hi" * 4,
            9,
            (
                "2 gold passages (h, i): retrieved for 8 questions before, for none now: "
                "removed from the index, or filtered out?"
            ),
        ),
        ("h" * 9, 7, ""),
        ("h" * 2, 9, ""),
    ],
)
def test_a_gold_passage_that_no_search_finds_any_more_was_removed(shared: str, lost: int, cause: str) -> None:
    """That a question lost its own passage, or that another still finds it, is no sign of that."""
    outcomes, before = [], []
    for n in range(N):
        gold = shared[n] if n < len(shared) else f"g{n}"
        documents = [Document(name, name) for name in (f"a{n}", f"b{n}" if n < lost else gold)]
        before.append([gold, f"a{n}"])
        evidence = Evidence(Ranking.of(f"q{n}", documents, 2))
        outcomes.append(
            Outcome(Example(f"q{n}", "?", gold=(Gold(gold),)), float(n >= lost), evidence=evidence)
        )
    text = _text(_compared("recall@2", outcomes, before))
    assert text.partition("; ")[0] == (cause or f"{lost} of {lost} lost: their gold is not in the top 2 now")
    assert ("3 of 12 lost: their gold" in text) == (lost == 12)


def test_gold_passages_that_another_order_moved_out_were_not_removed() -> None:
    for old, order in (("abg", "abc"), ("gab", "bac")):
        evidence = Evidence(Ranking.of("q", [Document(name, name) for name in order], 3))
        outcomes = [
            Outcome(Example(f"q{n}", "?", gold=(Gold("g"),)), 0.0, evidence=evidence) for n in range(N)
        ]
        assert ("removed" in _text(_compared("recall@3", outcomes, [list(old)] * N))) == (order == "abc")


@pytest.mark.parametrize(
    ("gold_text", "text", "cause"),
    [
        ("Text\n{}", "Text {}", "12 lost: ids renamed: gold 'g0' has the text of 'docs/g0'"),
        ("", " ", "12 of 12 lost: their gold is not in the top 1 now"),
    ],
    ids=["renamed", "without text"],
)
def test_renamed_ids_are_found_by_their_texts(gold_text: str, text: str, cause: str) -> None:
    outcomes = [
        Outcome(
            Example(f"q{n}", "?", gold=(Gold(f"g{n}", gold_text.format(n) or None),)),
            0.0,
            evidence=Evidence(Ranking.of("q", [Document(text.format(n), f"docs/g{n}")], 1)),
        )
        for n in range(N)
    ]
    score = Score("recall@1", outcomes)
    assert cause_text([(score, beyond_bound(score, 0.5, below=True))]) == cause


def test_a_tag_that_all_lost_questions_share_is_named() -> None:
    assert _cause(_other(8), tags=lambda n: {"topic": "a" if n < 8 else "b"}).endswith("; all topic=a")
    assert "topic" not in _cause(_other(8), tags=lambda n: {"topic": "a" if n < 7 else "b"})
    assert "topic" not in _cause(_other(8), tags=lambda _: {"topic": "a"})


def test_rankings_do_not_explain_what_is_too_large() -> None:
    evidence = Evidence(Ranking.of("q", [Document("text of other", "other")], 1))
    gold = (Gold("g", "text of g"),)
    score = Score("latency.p95", [Outcome(Example("q", "?", gold=gold), 2.5, evidence=evidence)])
    assert cause_text([(score, beyond_bound(score, 1.0, below=False))]) == ""
    assert cause_text([(score, beyond_bound(score, 3.0, below=True))]) != ""
