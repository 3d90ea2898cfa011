"""Arena scores: the judge compares the long answer with the long-form reference in pairs."""

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Places, Score
from pytest_rageval.scores.arena import MIN_RESULT, answer_first_ids, arena_notes, arena_text, domains_text

ABSTENTION = "I couldn't find an answer."


def _examples(world, **fought: tuple[str, str, str | int]) -> list[Example]:
    for name, (answer, _, better) in fought.items():
        world.rankings[name] = [f"passage of {name}"]
        world.explained[f"passage of {name}"] = answer
        world.better[name] = better
    return [
        Example(name, name, reference=reference, tags={"domain": name[0]})
        for name, (_, reference, _) in fought.items()
    ]


def _worked(world) -> list[Example]:
    return _examples(
        world,
        a1=("right", "wrong", "right"),
        a2=("wrong", "right", "right"),
        b1=("alike", "like it", 0),
        b2=(ABSTENTION, "right", "never asked"),
        b3=(ABSTENTION, "no answer in the documents", "never asked"),
        b4=("right", ABSTENTION, "never asked"),
    )


def test_a_worked_example(world) -> None:
    """Six battles have two wins and two ties: domain a has one win in two, domain b one win and two ties in four."""
    examples = _worked(world)
    wins, wins_and_ties = (world.evaluate(f"arena.{part}@3", *examples) for part in ("win", "win_tie"))
    assert [outcome.value for outcome in wins] == [1, 0, 0, 0, 0, 1]
    assert [outcome.value for outcome in wins_and_ties] == [1, 0, 1, 0, 1, 1]
    for outcomes, pooled, by_domain in (
        (wins, 2 / 6, (1 / 2, 1 / 4)),
        (wins_and_ties, 4 / 6, (1 / 2, 3 / 4)),
    ):
        score = Score("arena", outcomes)
        assert score == pytest.approx(pooled)
        assert (score.where(domain="a"), score.where(domain="b")) == by_domain
        assert dict(score.counts) == {"wins": 2, "ties": 2, "losses": 2, "no_answer": 2}


def test_battles_are_fought_once_for_both_scores(world) -> None:
    """A battle with an abstention is decided by rule, without a request."""
    for part in MIN_RESULT:
        world.evaluate(f"arena.{part}@3", *_worked(world))
    assert sorted(question for what, question, *_ in world.asked if what == "prefer") == ["a1", "a2", "b1"]
    assert (world.call_count("explain"), world.call_count("prefer"), world.call_count("generate")) == (
        6,
        3,
        0,
    )


def test_the_evidence_shows_both_answers_and_the_place(world) -> None:
    (outcome,) = world.evaluate("arena.win@3", *_examples(world, a1=("right", "wrong", "right")))
    evidence = outcome.evidence
    assert (evidence.answer, evidence.expected) == ("right", ("wrong",))
    assert [document.text for document in evidence.ranking] == ["passage of a1"]
    assert evidence.places == Places(first=1.0)
    assert evidence.explanation == "(read as answer 1) Answer 1 it is."


def test_in_both_orders_each_has_its_reasons(world) -> None:
    world.run = world.make_pipeline(both_orders=True)
    (outcome,) = world.evaluate("arena.win@3", *_examples(world, a1=("right", "wrong", "right")))
    explanation = "(read as answer 1) Answer 1 it is. (read as answer 2) Answer 2 it is."
    assert outcome.evidence.explanation == explanation


def test_without_a_judge_there_are_no_reasons(world) -> None:
    """An abstention loses by rule, without a judge request, so its explanation is empty."""
    (outcome,) = world.evaluate("arena.win@3", *_examples(world, a1=(ABSTENTION, "right", "never asked")))
    assert outcome.evidence.explanation == ""


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_place_has_half_of_the_examples(n: int, seed: int) -> None:
    """Exactly half of the answers come first, for any seed and set order; for an odd number, one more comes first."""
    ids = [f"q{number}" for number in range(n)]
    leading = answer_first_ids(ids, seed)
    assert len(leading) == (n + 1) // 2
    assert leading == answer_first_ids(ids[::-1], seed)


def test_the_seed_decides_who_leads() -> None:
    ids = [f"q{number}" for number in range(40)]
    assert len({answer_first_ids(ids, seed) for seed in range(5)}) == 5


def test_one_more_example_moves_at_most_one_other() -> None:
    """Adding an example changes the order of at most one other example, so that cached replies stay valid."""
    ids = [f"q{number}" for number in range(41)]
    for n in range(1, 41):
        before, after = answer_first_ids(ids[:n], 3), answer_first_ids(ids[: n + 1], 3)
        assert len(before ^ (after - {ids[n]})) <= 1


def test_a_judge_of_the_first_place_gives_half_to_each(world) -> None:
    """A judge that always prefers the first position gives a win rate of 0.5, because the positions are balanced."""
    fought = {f"q{n}": ("one", "other", 1) for n in range(10)}
    outcomes = world.evaluate("arena.win@3", *_examples(world, **fought))
    assert Score("arena.win@3", outcomes) == 0.5
    assert {outcome.evidence.places for outcome in outcomes} == {Places(first=1.0), Places(second=0.0)}


@pytest.mark.parametrize(
    ("better", "places", "win", "win_tie"),
    [
        ("answer", Places(1.0, 1.0), 1.0, 1.0),
        ("reference", Places(0.0, 0.0), 0.0, 0.0),
        (0, Places(0.5, 0.5), 0.0, 1.0),
        (1, Places(1.0, 0.0), 0.0, 1.0),
        (2, Places(0.0, 1.0), 0.0, 1.0),
    ],
)
def test_in_both_orders_a_verdict_that_changes_is_a_tie(world, better, places, win, win_tie):
    """With both orders, two requests are sent per example, and a judge that prefers one position yields a tie."""
    world.run = world.make_pipeline(both_orders=True)
    examples = _examples(world, a1=("answer", "reference", better))
    (won,), (not_lost,) = (world.evaluate(f"arena.{part}@3", *examples) for part in ("win", "win_tie"))
    assert (won.value, not_lost.value, won.evidence.places) == (win, win_tie, places)
    assert {tuple(asked[2:]) for asked in world.asked if asked[0] == "prefer"} == {
        ("answer", "reference"),
        ("reference", "answer"),
    }


def test_half_a_change_of_mind_is_a_tie_too(world, monkeypatch) -> None:
    async def prefer(_question: str, first: str, _second: str) -> Verdict:
        return Verdict(1 if first == "answer" else 0)

    world.run = world.make_pipeline(both_orders=True)
    monkeypatch.setattr(world, "prefer", prefer)
    (outcome,) = world.evaluate("arena.win@3", *_examples(world, a1=("answer", "reference", 0)))
    assert (outcome.value, outcome.evidence.counts["ties"], outcome.evidence.places) == (0.0, 1, (1.0, 0.5))


def test_wins_by_length_and_by_domain(world) -> None:
    long, short = "one two three four five six", "one two"
    answers = {
        "a": (long, 1, "x"),
        "b": (long, 2, "x"),
        "c": (short, 2, "x"),
        "d": (short, 0, "y"),
        "e": (ABSTENTION, 0, "y"),
    }
    for name, (answer, better, _) in answers.items():
        world.rankings[name] = [name]
        world.explained[name] = answer
        world.better[name] = answer if better == 1 else "one two three four" if better else 0
    examples = [
        Example(name, name, reference="one two three four", tags={"domain": domain})
        for name, (_, _, domain) in answers.items()
    ]
    notes = arena_notes(Score("arena.win@1", world.evaluate("arena.win@1", *examples)))
    assert [
        (group["length"], group["wins"], group["verdicts"]) for group in notes["arena"]["length_bias"]
    ] == [("shorter", 0, 1), ("longer", 1, 2)]
    assert notes["domains"] == {
        "x": {"questions": 3, "wins": 1, "ties": 0, "no_answer": 0},
        "y": {"questions": 2, "wins": 0, "ties": 1, "no_answer": 1},
    }
    assert domains_text(notes) == (
        "by domain, win, win or tie, no answer: x 33.3%, 33.3%, 0.0% of 3; y 0.0%, 50.0%, 50.0% of 2"
    )
    text = arena_text({**notes, "counts": {"no_answer": 1}, "n": 5})
    assert text.endswith(
        "; answers won by length against the reference: shorter 0.0% of 1 (0.0% to 79.3%), "
        "longer 50.0% of 2 (9.5% to 90.5%)"
    )


def test_one_domain_is_no_table(world) -> None:
    outcomes = world.evaluate("arena.win@3", *_examples(world, a1=("answer", "reference", 1)))
    assert "domains" not in arena_notes(Score("arena.win@3", outcomes))
