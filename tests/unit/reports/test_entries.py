"""Report entries: results as plain data."""

import json
from typing import Any

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score, Tally
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.build import SCORE_KEYS, entry_name
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.notes import NOTE_TEXTS, change_text
from pytest_rageval.reports.settings import header_line, models_text, settings_entry
from tests.unit.gate.scored import verdict_on
from tests.unit.reports.entries import error_entry, score_entry

LLM = {"requests": 4, "failed": 0}
BOUND = Threshold("llm_reteval@2", min=0.75)


def test_the_keys_of_an_entry_have_the_order_of_their_types() -> None:
    assert tuple(ScoreEntry.__annotations__) == SCORE_KEYS


def test_an_entry_has_everything_about_a_score(score: Score) -> None:
    entry = score_entry(score, BOUND, verdict_on(score, BOUND))
    assert (entry["spec"], entry["where"], entry["mean"]) == ("llm_reteval@2", {}, 0.4375)
    assert (entry["n"], entry["unscored"], entry["oddities"]) == (4, 1, {"duplicates": 2, "foreign_ids": 1})
    assert entry["ci95"] == list(score.ci95 or ())
    assert entry["threshold"].keys() == {"min", "max", "max_drop", "alpha"}
    assert (entry["threshold"]["min"], entry["threshold"]["max"]) == (0.75, None)
    assert (entry["verdict"], entry["reason"]) == ("fail", "0.438 is below the minimum 0.75")


def test_every_example_is_in_the_entry(score: Score) -> None:
    entries = [(e["id"], e["score"], e["unscored"]) for e in score_entry(score, None, None)["examples"]]
    assert entries == [
        ("q1", 0.5, None),
        ("q2", 1.0, None),
        ("q3", 0.0, None),
        ("q4", None, "no gold passages"),
        ("q5", 0.25, None),
    ]


def test_cases_and_their_counts_are_in_the_entry(score: Score) -> None:
    """An entry of LLM-retEval has a case or null per example, the counts of cases, and Spearman's rho, here by hand.

    All: the verdicts' ranks 3, 4, 1, 2 and the recalls' 1.5, 3.5, 1.5, 3.5: covariance 0.5 of at most sqrt(1.25 * 1),
    so 0.4472. Refined: q2 and q3 alone, in one order.
    """
    entry = score_entry(score, None, None)
    assert [example["case"] for example in entry["examples"]] == ["A", None, None, None, "C"]
    lost_by = [example["lost_by"] for example in entry["examples"]]
    assert lost_by == [None, None, "retriever", None, "distraction"]
    assert entry["cases"] == {"A": 1, "C": 1}
    assert entry["spearman"] == {"all": pytest.approx(0.5 / 1.25**0.5), "refined": pytest.approx(1.0)}


def test_spearman_is_null_where_it_is_undefined(score: Score) -> None:
    entry = score_entry(score.where(topic="billing"), None, None)
    assert entry["spearman"] == {"all": pytest.approx(1.0), "refined": None}


def test_other_scores_have_no_cases(score: Score) -> None:
    other = score_entry(Score("recall@2", score.outcomes), None, None)
    assert not {"cases", "spearman"} & other.keys()
    assert "case" not in other["examples"][0]


def test_an_error_has_the_same_form(score: Score) -> None:
    bound = Threshold("llm_reteval@2", min=0.75, where={"topic": "billing"})
    entry = error_entry("llm_reteval@2", bound, "no model")
    assert entry.keys() == score_entry(score, None, None).keys()
    assert (entry["verdict"], entry["reason"], entry["where"]) == ("error", "no model", {"topic": "billing"})
    assert (entry["mean"], entry["n"], entry["examples"]) == (None, 0, [])
    assert error_entry("llm_reteval@2", None, "no model")["threshold"] is None


@pytest.mark.parametrize("tags", [{}, {"topic": "billing"}, {"topic": ["billing"]}, {"topic": {"billing"}}])
def test_entries_are_plain_data(score: Score, tags: dict[str, Any]) -> None:
    entry = score_entry(score.where(**tags), BOUND, verdict_on(score, BOUND))
    assert json.loads(json.dumps(entry))["spec"] == "llm_reteval@2"
    error = error_entry("llm_reteval@2", Threshold("llm_reteval@2", min=0.5, where=tags), "no model")
    assert json.loads(json.dumps(error))["verdict"] == "error"


def test_counts_are_in_the_entry_where_there_are_any(score: Score) -> None:
    assert "counts" not in score_entry(score, None, None)
    outcomes = [
        *(
            Outcome(Example(f"q{n}", "?"), 0.5, None, Evidence(counts={"parametric_answers": n}))
            for n in (0, 2)
        ),
        Outcome(Example("q3", "?"), None, "no gold passages"),
    ]
    entry = score_entry(Score("rel.answer@5", outcomes), None, None)
    assert entry["counts"] == {"parametric_answers": 2}
    assert [example.get("counts") for example in entry["examples"]] == [
        {"parametric_answers": 0},
        {"parametric_answers": 2},
        None,
    ]


def test_what_is_not_defined_is_counted_apart() -> None:
    outcomes = [
        Outcome(Example("q1", "?"), 0.5),
        Outcome(Example("q2", "?"), None, undefined="nothing was cited"),
    ]
    entry = score_entry(Score("rel.citation_precision@5", outcomes), None, None)
    assert (entry["n"], entry["unscored"], entry["undefined"]) == (1, 0, 1)
    assert entry["examples"][1] == {
        "id": "q2",
        "score": None,
        "unscored": None,
        "undefined": "nothing was cited",
    }


def test_labels_of_passages_are_in_the_entry_where_there_are_any() -> None:
    outcomes = [
        Outcome(Example("q", "?"), 0.5, None, Evidence(labels=(1.0, 0.0))),
        Outcome(Example("r", "?"), 0.5),
    ]
    entry = score_entry(Score("erag.p@2", outcomes), None, None)
    assert [example.get("labels") for example in entry["examples"]] == [[1.0, 0.0], None]


def test_a_random_order_is_reported(score: Score) -> None:
    """The order is reported only if it is random, because rank order is the default."""
    assert score_entry(score, Threshold("rel.answer@5", order="random"), None)["order"] == "random"
    assert "order" not in score_entry(score, Threshold("rel.answer@5", order="rank"), None)


def test_votes_are_in_the_entry_where_there_were_any(score: Score) -> None:
    assert "judge_votes" not in score_entry(score, None, None)
    tallies = [Tally(1, 1, 3, 1), Tally(1, 0, 2, 0, 1), Tally()]
    outcomes = [
        Outcome(Example(f"q{n}", "?"), 0.5, None, Evidence(votes=tally)) for n, tally in enumerate(tallies)
    ]
    entry = json.loads(json.dumps(score_entry(Score("answer.correct@5", outcomes), None, None)))
    added = {"verdicts": 2, "split": 1, "votes": 5, "minority": 1, "unread": 1}
    assert entry["judge_votes"] == added | {"flip_rate": 0.5, "minority_rate": 0.2}
    assert [example.get("judge_votes") for example in entry["examples"]] == [
        {"verdicts": 1, "split": 1, "votes": 3, "minority": 1, "unread": 0},
        {"verdicts": 1, "split": 0, "votes": 2, "minority": 0, "unread": 1},
        None,
    ]


def test_how_answers_were_drawn_is_part_of_the_name() -> None:
    """Temperature and draws are part of a score's name, because they make another score."""
    name = "answer.f1@5 at temperature 0 in 3 draws"
    assert entry_name({"spec": "answer.f1@5", "temperature": 0.0, "draws": 3}) == name
    assert Threshold("answer.f1@5", min=0, temperature=0.0, draws=3).name == name


def test_the_line_of_models_says_how_answers_were_drawn() -> None:
    settings = {"generator": "m", "judge": "j", "comparator": "judge"}
    document = {"settings": settings, "tests": [{"uses": ["generator", "judge", "comparator"]}], "llm": LLM}
    assert models_text(document) == "generator m, answers judged by j"
    drawn = settings_entry(Settings(model="m", judge_model="j", temperature=0.2, draws=2))
    assert models_text({**document, "settings": drawn}).startswith(
        "generator m (temperature 0.2, 2 draws; llm_reteval: temperature 0.5), answers judged by j"
    )


@pytest.mark.parametrize(
    ("uses", "text"),
    [
        ([], ""),
        (["generator"], "generator m"),
        (["judge"], "judged by j"),
        (["generator", "judge"], "generator m, judged by j"),
        (["generator", "comparator"], "generator m, answers judged by j"),
    ],
)
def test_the_line_of_models_names_what_is_used(uses: list[str], text: str) -> None:
    settings = {"generator": "m", "judge": "j", "comparator": "judge"}
    document = {"settings": settings, "tests": [{"uses": uses}, {}], "llm": LLM}
    assert models_text(document) == text
    assert not models_text({**document, "llm": {"requests": 0, "failed": 0}})
    line = header_line(Settings(model="m", judge_model="j"), uses)
    assert line == text.replace("generator m", "generator m (temperature 0.5)")


@pytest.mark.parametrize(("drop", "shown"), [(0.1, True), (0.0, False), (-0.1, False)])
def test_the_p_value_of_a_drop_says_nothing_of_a_gain(drop: float, shown: bool) -> None:  # noqa: FBT001 - parametrized
    baseline = {"mean": 0.5, "drop": drop, "n": 4, "p_value": 0.98, "interval": [0, 0], "alpha": 0.05}
    baseline |= {"worse": [], "better": []}
    entry: Any = {"n": 4, "baseline": baseline, "verdict": "pass", "threshold": None}
    assert ("p = 0.98" in change_text(entry, p_value=True)) is shown
    assert ("p = 0.98" in NOTE_TEXTS["baseline"](entry)) is shown
    # The test that excludes a drop says most where there is none.
    assert "p = 0.98" in change_text(entry | {"threshold": {"strict": True}}, p_value=True) or not drop
