"""Is the long answer better than the reference, or as good?

A judge reads both answers and says which one serves the reader better: truthful first, then helpful and complete. The
answer is read first for half of the questions, chosen by `seed`. `--rageval both_orders=true` judges both orders and
counts a verdict that changes as a tie. An abstention loses without a request to the judge; two abstentions tie.
Failures and the JSON report show the judge's reasons, and whether it read the system's answer first or second. Below
the score are the share of abstentions, the results by the tag `domain`, the judge's position bias, and its length bias:
how often answers win that are shorter than the reference, as long, or longer. For a parametrized test the systems get
Bradley–Terry ratings, and with `--rageval arena_pairs=N` battle each other too; see [](../how-to/compare-systems.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf
from operator import index
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import JudgeTask, Verdict
from pytest_rageval.answers.judge.replies import parse_explained_preference
from pytest_rageval.answers.judge.tasks import read_explained, require_result
from pytest_rageval.calls.gathering import gather_two
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.evalset import Example, ExampleSubset
from pytest_rageval.core.outcome import Evidence, Outcome, Places, Score
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.scores.definition import (
    LONG_REFERENCE,
    Family,
    Scored,
    ScoreDef,
    WorkedExample,
    score_with_progress,
)
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.stats.agreement import majority as majority_or
from pytest_rageval.stats.intervals import Estimate, proportion
from pytest_rageval.stats.systems import position_bias

WON, TIED, LOST = 1.0, 0.5, 0.0


def _vote(votes: Sequence[Verdict]) -> Verdict:
    """Return the preference of more than half of the votes, otherwise a tie, with the reasons of a vote for it."""
    value = int(majority_or([vote.value for vote in votes], tie=0.0))
    # If opposite votes make a tie, no vote explains it.
    return Verdict(value, next((vote.explanation for vote in votes if vote.value == value), ""))


def _preference(value: object) -> int | None:
    preference = require_result(value)
    # A bool is rejected: True equals 1, but does not say which answer is better.
    if isinstance(preference, bool) or not hasattr(preference, "__index__"):
        return None
    chosen = index(preference)
    return chosen if chosen in {0, 1, 2} else None


ALLOWED: Final = (
    "Return 1 or 2 for the better answer, 0 for neither, (one of these, explanation), or None for no verdict."
)

PREFER: Final = JudgeTask(
    name="prefer",
    template="preference",
    texts=("question", "first answer", "second answer"),
    parse=parse_explained_preference,
    vote=_vote,
    by_majority=True,
    read=partial(read_explained, number_of=_preference, allowed=ALLOWED),
    call="prefer(question, first, second), which the scores arena.* need",
    returns="1 or 2 for the better answer, 0 for neither, and perhaps why",
    decides="Which of two answers is better",
    instead="leave out the scores arena.*",
)
"""1 if the first of two long answers is better, 2 if the second is, 0 if neither is."""

RESULT_OF_FIRST: Final[Mapping[float, float]] = {1: WON, 2: LOST, 0: TIED}
"""The result of the answer that the judge read first, by the judge's preference."""

MIN_RESULT: Final = {"win": WON, "win_tie": TIED}
"""The lowest result that counts as 1, by the part of the score's name."""

DOMAIN_TAG: Final = "domain"  # tag whose values are equally represented in a sample of battles


async def evaluate_arena(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Score 1 if the long answer from the first k retrieved passages beats the reference (for `win_tie`: or ties).

    The judge reads both answers in one order; in half of the examples the system's answer is first
    (`answer_first_ids`). If the run judges both orders, a verdict that changes with the order is a tie. If only one of
    the answers is an abstention, it loses; two abstentions tie. Unscored: an example without a long-form `reference`.
    """
    ids = examples.ids if isinstance(examples, ExampleSubset) else [example.id for example in examples]
    answer_first = answer_first_ids(ids, pipeline.seed)

    async def score(example: Example) -> Scored:
        # Checked before the first request, so that an example that cannot be scored costs nothing.
        if example.reference is None:
            raise NoGroundTruth("no long-form reference")
        answer = await pipeline.long_answer(example, resolved.k)
        ranking = await pipeline.ranking(example, resolved.k)
        result, places, reasons = await compare_answers(
            pipeline, example, answer, example.reference, first=example.id in answer_first
        )
        counts = {
            "wins": int(result == WON),
            "ties": int(result == TIED),
            "losses": int(result == LOST),
            "no_answer": int(abstains(answer)),
        }
        evidence = Evidence(
            ranking, answer, (example.reference,), counts=counts, places=places, explanation=reasons
        )
        return float(result >= MIN_RESULT[resolved.part]), evidence

    return await score_with_progress(pipeline, examples, score)


def answer_first_ids(ids: Sequence[str], seed: int) -> frozenset[str]:
    """Return the ids of the examples whose answer is read before the reference: half of the ids, rounded up.

    They are chosen by digests of seed and id, so that adding or removing an example changes the order of at most one
    other example.

    >>> len(answer_first_ids(["a", "b", "c", "d"], 0))
    2
    """
    ordered = sorted(ids, key=lambda id_: digest([seed, id_]))
    return frozenset(ordered[: (len(ordered) + 1) // 2])


async def compare_answers(
    pipeline: Pipeline, example: Example, answer: str, rival: str, *, first: bool
) -> tuple[float, Places, str]:
    """Return the result of an answer against a rival, and the judge's verdicts and reasons if the judge was called."""
    declined = abstains(answer), abstains(rival)
    if any(declined):
        return TIED if all(declined) else LOST if declined[0] else WON, Places(), ""
    places, reasons = await _judge(pipeline, example, answer, rival, first=first)
    verdicts = {verdict for verdict in places if verdict is not None}
    return verdicts.pop() if len(verdicts) == 1 else TIED, places, reasons


async def _judge(
    pipeline: Pipeline, example: Example, answer: str, rival: str, *, first: bool
) -> tuple[Places, str]:
    async def judge(*, first: bool) -> tuple[float, str]:
        answers = (answer, rival) if first else (rival, answer)
        preference = await pipeline.ask(PREFER, example.full_question, *answers)
        result = RESULT_OF_FIRST[preference.value]
        # The reasons mention answers 1 and 2, so they get the number of the answer that is scored.
        place = f"(read as answer {1 if first else 2}) " if preference.explanation else ""
        return result if first else WON - result, f"{place}{preference.explanation}"

    if pipeline.both_orders:
        (won_first, as_first), (won_second, as_second) = await gather_two(
            judge(first=True), judge(first=False)
        )
        return Places(won_first, won_second), " ".join(filter(None, (as_first, as_second)))
    result, reasons = await judge(first=first)
    return (Places(first=result) if first else Places(second=result)), reasons


def arena_notes(score: Score | None) -> dict[str, object]:
    """Return the report's keys `arena`, the share of abstentions and two biases of the judge, and `domains`.

    `domains` has the numbers of questions, wins, ties and abstentions for each value of the tag `domain`; it is missing
    if there are fewer than two. `length_bias` has the share of wins among the decided verdicts on answers that are
    shorter than the reference, as long, or longer (`LENGTHS`); it is missing without a decided verdict.

    `position_bias` is None if the verdicts do not show it.

    - One order (`orders` 1): `verdicts` is the number of verdicts that are no ties, and `first_place` the share of them
      for the answer that was read first.
    - Both orders (`orders` 2): `verdicts` is the number of pairs of verdicts, `flip_rate` the share of pairs whose
      verdict changed with the order, and `first_place` the share of the changed pairs in which an answer did better
      when it was read first.
    """
    if score is None:
        return {}
    bias = position_bias_entry(outcome.evidence.places for outcome in score.outcomes)
    lengths, domains = _length_bias(score.outcomes), _domains(score.outcomes)
    return {
        "arena": {
            "no_answer_ratio": score.counts["no_answer"] / score.n,
            "position_bias": bias,
            **({"length_bias": lengths} if lengths else {}),
        },
        **({"domains": domains} if domains else {}),
    }


LENGTHS: Final = {"shorter": 0.8, "as long": 1.25, "longer": inf}
"""The groups of answers by their length: the number of words as a multiple of that of the reference, up to a limit."""


def _length_bias(outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    decided: dict[str, list[int]] = {length: [] for length in LENGTHS}
    for outcome in outcomes:
        counts, answer = outcome.evidence.counts, outcome.evidence.answer
        if answer is None or not counts or counts["ties"] or abstains(answer):
            continue
        ratio = len(answer.split()) / max(len(outcome.evidence.expected[0].split()), 1)
        decided[next(length for length, limit in LENGTHS.items() if ratio <= limit)].append(counts["wins"])
    return [
        {
            "length": length,
            "wins": sum(wins),
            "verdicts": len(wins),
            **_estimate("win_rate", proportion(sum(wins), len(wins))),
        }
        for length, wins in decided.items()
        if wins
    ]


def _domains(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    domains: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        domain = outcome.example.tags.get(DOMAIN_TAG)
        if domain is not None and outcome.value is not None:
            sums = domains.setdefault(str(domain), Counter())
            sums.update({"questions": 1, **outcome.evidence.counts})
    names = ("questions", "wins", "ties", "no_answer")
    table = {domain: {name: domains[domain][name] for name in names} for domain in sorted(domains)}
    return table if len(table) > 1 else {}


def position_bias_entry(verdicts: Iterable[Places]) -> dict[str, object] | None:
    """Return the key `position_bias`; in one order it does not show a bias that turns verdicts into ties."""
    places = list(verdicts)
    pairs = [(first, second) for first, second in places if first is not None and second is not None]
    if (bias := position_bias(pairs)) is not None:
        return {
            "orders": 2,
            "verdicts": len(pairs),
            **_estimate("flip_rate", bias.flips),
            **_estimate("first_place", bias.first),
            "p_value": bias.p_value,
        }
    of_first = [place.first for place in places]
    of_first += [1 - place.second for place in places if place.second is not None]
    wins, decided = of_first.count(WON), of_first.count(WON) + of_first.count(LOST)
    if not decided:
        return None
    return {"orders": 1, "verdicts": decided, **_estimate("first_place", proportion(wins, decided))}


def _estimate(name: str, estimate: Estimate | None) -> dict[str, object]:
    if estimate is None:
        return {name: None, f"{name}_ci95": None}
    return {name: estimate.value, f"{name}_ci95": [estimate.low, estimate.high]}


def arena_text(entry: Mapping[str, Any]) -> str:
    arena = entry["arena"]
    no_answer = f"no answer {arena['no_answer_ratio']:.1%} ({entry['counts']['no_answer']} of {entry['n']})"
    lengths = ", ".join(
        f"{group['length']} {group['win_rate']:.1%} of {group['verdicts']} "
        f"({group['win_rate_ci95'][0]:.1%} to {group['win_rate_ci95'][1]:.1%})"
        for group in arena.get("length_bias", ())
    )
    by_length = f"; answers won by length against the reference: {lengths}" if lengths else ""
    return f"{no_answer}; {_position_bias_text(arena['position_bias'])}{by_length}"


def domains_text(entry: Mapping[str, Any]) -> str:
    """Return the results by domain: "by domain, win, win or tie, no answer: writing 20.0%, 20.0%, 0.0% of 5"."""
    texts = []
    for domain, counts in entry["domains"].items():
        n, wins = counts["questions"], counts["wins"]
        shares = (wins / n, (wins + counts["ties"]) / n, counts["no_answer"] / n)
        texts.append(f"{domain} {', '.join(f'{share:.1%}' for share in shares)} of {n}")
    return f"by domain, win, win or tie, no answer: {'; '.join(texts)}"


def _position_bias_text(bias: JsonObject | None) -> str:
    if bias is None:
        return "the judge preferred no answer, so its position bias is not known"
    if bias["orders"] == 1:
        low, high = bias["first_place_ci95"]
        return (
            f"the first place won {bias['first_place']:.1%} of {bias['verdicts']} decided verdicts "
            f"(95% interval {low:.1%} to {high:.1%})"
        )
    flipped = f"{bias['flip_rate']:.1%} of {bias['verdicts']} verdicts changed with the order"
    if bias["first_place"] is None:
        return flipped
    return f"{flipped}, {bias['first_place']:.1%} of these for the first place (p = {bias['p_value']:.2g})"


def _settings(pipeline: Pipeline, _resolved: ResolvedScore) -> dict[str, object]:
    return {"both_orders": pipeline.both_orders, **({} if pipeline.both_orders else {"seed": pipeline.seed})}


FAMILY: Final = Family(
    "Arena",
    __doc__,
    requests="1 long answer, 1 verdict; 2 verdicts with `--rageval both_orders=true`",
    source="Han et al. (2024), section 4.",
    example=WorkedExample(
        text="The judge prefers the reference.",
        k=1,
        record={
            "question": "How do I return a tablet?",
            "reference": "Within 40 days, complete and in its box.",
        },
        retrieved=("x",),
        says={"x": "You can return it."},
        judge={"prefer": "Within 40 days, complete and in its box."},
    ),
)

SCORES: Final = tuple(
    ScoreDef(
        f"arena.{part}",
        evaluate_arena,
        {"explain", PREFER},
        settings=_settings,
        # Which answer the judge reads first depends on the ids of the other examples.
        separable=False,
        depends_on_ids=True,
        notes=arena_notes,
        definition=definition,
        worked=(0.0, "the reference won"),
        needs=(LONG_REFERENCE,),
    )
    for part, definition in (
        ("win", "1 if the judge prefers the generator's answer to the reference, else 0."),
        ("win_tie", "1 if the judge prefers the generator's answer to the reference, or neither, else 0."),
    )
)
