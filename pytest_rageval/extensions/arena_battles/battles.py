"""Arena battles between the systems of a parametrized test, on the long answers of this process.

After a test is scored, its system battles all systems that were scored before it. Their retrievers may no longer exist,
so battles use only answers that have been generated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.spec import Spec
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.digests import digest
from pytest_rageval.reports.systems import rated_system_name
from pytest_rageval.run import Marker
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.arena import DOMAIN_TAG, TIED, compare_answers, position_bias_entry
from pytest_rageval.scores.definition import Scored, score_each
from pytest_rageval.scores.pipeline import Pipeline

Siblings = Mapping[str, Sequence[Marker]]
"""The markers `rageval_threshold` of the selected tests with the same function and eval set, by node id."""

LongAnswers = Callable[[Example], str | None]
"""Returns the long answer of a system to an example; None if the system has no answer."""


class Battles:
    """The systems that this process has scored in the arena, and the battles between them."""

    def __init__(self, session: Session) -> None:
        # The number of battles between systems, for each test function and eval set.
        self._n = session.settings.value_of("arena_pairs")
        self._loop = session.loop
        self._systems: dict[tuple[str, str], dict[str, LongAnswers]] = defaultdict(dict)

    def run_for_test(
        self,
        nodeid: str,
        pipeline: Pipeline,
        evalset: tuple[str, Sequence[Example]],
        cutoffs: Iterable[int],
        siblings: Siblings,
    ) -> list[dict[str, object]]:
        """Let the systems of a test battle all systems scored before it; return one report entry per pair.

        A test has one system per cut-off of its arena scores; the judge of its pipeline decides. `evalset` is the
        digest of its eval set, with the examples. `siblings` determine the systems of the whole run, and with them the
        number of battles of each pair.
        """
        digest, examples = evalset
        systems = self._systems[nodeid.partition("[")[0], digest]
        cutoffs = sorted(set(cutoffs))
        shares = battles_per_pair(arena_systems(siblings, cutoffs), self._n, pipeline.seed)
        own = {rated_system_name(nodeid, k): partial(pipeline.known_long_answer, k=k) for k in cutoffs}
        systems |= own
        pairs = sorted(
            {(min(one, other), max(one, other)) for one in own for other in systems if one != other}
        )
        questions = draw_questions(
            (example for example in examples if example.reference is not None), pipeline.seed
        )

        # All pairs run concurrently: a pair that waits for a reply does not delay the requests of the others.
        battles = (
            run_battles(pipeline, questions[: shares.get((one, other), 0)], systems[one], systems[other])
            for one, other in pairs
        )
        fought: list[list[Outcome]] = self._loop.run(gather_all(battles))
        return [
            {
                **_battles_entry(pair, outcomes),
                **({"wanted": shares[pair]} if shares.get(pair, 0) > len(questions) else {}),
            }
            for pair, outcomes in zip(pairs, fought, strict=True)
        ]


def battle(test: TestRun, thresholds: Iterable[Threshold]) -> None:
    session = test.session
    # Scores with the same settings for draws have the same pipeline.
    cutoffs_of: dict[Pipeline, list[int]] = {}
    for request in test.requests(thresholds):
        if cutoffs := arena_cutoffs([request.spec]):
            pipeline = session.pipeline(test.components, request)
            cutoffs_of.setdefault(pipeline, []).extend(cutoffs)
    for pipeline, cutoffs in cutoffs_of.items():
        evalset = test.evalset.digest, test.evalset.examples
        siblings = test.marked.siblings()
        systems, entries = test.state.setdefault("arena_battles", (set(), {}))
        systems.update(arena_systems(siblings, cutoffs))
        fought = session.resource(Battles).run_for_test(
            test.marked.nodeid, pipeline, evalset, cutoffs, siblings
        )
        session.evaluator.check_answered()
        entries |= {(entry["system"], entry["opponent"]): entry for entry in fought}


def arena_cutoffs(specs: Iterable[object]) -> list[int]:
    cutoffs = set()
    for spec in specs:
        # The error about an invalid name is raised when its own score is evaluated.
        with suppress(InputError):
            parsed = Spec.parse(spec)
            if parsed.name == "arena" and parsed.k is not None:
                cutoffs.add(parsed.k)
    return sorted(cutoffs)


def arena_systems(siblings: Siblings, cutoffs: Sequence[int]) -> list[str]:
    """Return the names of the systems of these tests; a test without an arena marker has these `cutoffs`."""
    return [
        rated_system_name(nodeid, k)
        for nodeid, markers in siblings.items()
        for k in arena_cutoffs(marker.args[0] for marker in markers if marker.args) or cutoffs
    ]


def battles_per_pair(systems: Iterable[str], n: int, seed: int) -> dict[tuple[str, str], int]:
    """Return the number of battles of each pair of systems, n in total.

    The numbers differ by at most one; digests decide which pairs have one more. The names of a pair are sorted.

    >>> battles_per_pair(["dense", "bm25"], 7, 0)
    {('bm25', 'dense'): 7}
    """
    pairs = sorted(combinations(sorted(set(systems)), 2), key=lambda pair: digest([seed, *pair]))
    return {pair: n // len(pairs) + (index < n % len(pairs)) for index, pair in enumerate(pairs)}


def draw_questions(examples: Iterable[Example], seed: int) -> list[tuple[Example, bool]]:
    """Return the examples in random order, each with whether the answer of the first system is read first.

    The battles of a pair of systems take the first examples of the list. The order is by digests of seed and id, with
    one example of each domain in turn, so that domains are equally represented in the first n examples for any n.
    Within a domain, the answers of the two systems are read first in turn.
    """
    domains: dict[str, list[Example]] = {}
    for example in sorted(examples, key=lambda example: digest(["battle", seed, example.id])):
        domains.setdefault(str(example.tags.get(DOMAIN_TAG)), []).append(example)
    rounds = [
        (round_, domain, example)
        for domain, name in enumerate(sorted(domains))
        for round_, example in enumerate(domains[name])
    ]
    rounds.sort(key=lambda each: each[:2])
    return [(example, (round_ + domain) % 2 == 0) for round_, domain, example in rounds]


async def run_battles(
    pipeline: Pipeline, questions: Sequence[tuple[Example, bool]], system: LongAnswers, rival: LongAnswers
) -> list[Outcome]:
    """Compare two systems' long answers to each question; the value of an outcome is the result of `system`.

    The rules are those against the reference: an abstention loses, two abstentions tie. Two equal answers tie too,
    without a call of the judge. Each question says whether the answer of `system` is read first; if the run judges both
    orders, it is read in both places.
    """
    reads_first = {example.id: first for example, first in questions}

    async def score(example: Example) -> Scored:
        answer, rival_answer = system(example), rival(example)
        if answer is None or rival_answer is None:
            raise Unscored("one of the two systems has no answer")
        if answer == rival_answer:
            return TIED, Evidence()
        result, places, _ = await compare_answers(
            pipeline, example, answer, rival_answer, first=reads_first[example.id]
        )
        return result, Evidence(places=places)

    return await score_each([example for example, _ in questions], score)


def _battles_entry(pair: tuple[str, str], outcomes: Sequence[Outcome]) -> dict[str, object]:
    places = [outcome.evidence.places for outcome in outcomes]
    return {
        "system": pair[0],
        "opponent": pair[1],
        "position_bias": position_bias_entry(places),
        "examples": [
            {
                "id": outcome.example.id,
                "score": outcome.value,
                "unscored": outcome.unscored,
                **({"places": place._asdict()} if any(result is not None for result in place) else {}),
            }
            for outcome, place in zip(outcomes, places, strict=True)
        ],
    }
