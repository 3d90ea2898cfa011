"""Arena battles between the systems of a parametrized test, on the long answers of this process.

After a test is scored, its system battles all systems that were scored before it. Their retrievers may no longer exist,
so battles use only answers that have been generated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.spec import Spec
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.systems import rated_system_name
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.arena import battles_per_pair, draw_questions, position_bias_entry, run_battles

if TYPE_CHECKING:
    from pytest_rageval.run.inputs import Marker
    from pytest_rageval.scores.pipeline import Pipeline

ARENA: Final = "arena"

Siblings = Mapping[str, Sequence["Marker"]]
"""The markers `rageval_threshold` of the selected tests with the same function and eval set, by node id."""


class Battles:
    """The systems that this process has scored in the arena, and the battles between them.

    `n` is the number of battles between systems, for each test function and eval set.
    """

    def __init__(self, n: int, run: Callable[[Any], Any]) -> None:
        self._n = n
        self._run = run
        self._systems: dict[tuple[str, str], dict[str, tuple[Pipeline, int]]] = defaultdict(dict)

    def run_for_test(
        self,
        nodeid: str,
        pipeline: "Pipeline",
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
        own = {rated_system_name(nodeid, k): (pipeline, k) for k in cutoffs}
        systems |= own
        pairs = sorted(
            {(min(one, other), max(one, other)) for one in own for other in systems if one != other}
        )
        questions = draw_questions(
            (example for example in examples if example.reference is not None), pipeline.seed
        )

        async def run_pairs() -> list[list[Outcome]]:
            # All pairs run concurrently: a pair that waits for a reply does not delay the requests of the others.
            return await gather_all(
                run_battles(
                    pipeline,
                    questions[: shares.get(pair, 0)],
                    *(_long_answers(*systems[name]) for name in pair),
                )
                for pair in pairs
            )

        fought: list[list[Outcome]] = self._run(run_pairs()) if pairs else []
        return [
            {
                **_battles_entry(pair, outcomes),
                **({"wanted": shares[pair]} if shares.get(pair, 0) > len(questions) else {}),
            }
            for pair, outcomes in zip(pairs, fought, strict=True)
        ]


def battle(test: TestRun, thresholds: Iterable[Threshold], battles: Battles) -> None:
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
        fought = battles.run_for_test(test.marked.nodeid, pipeline, evalset, cutoffs, siblings)
        session.check_answered()
        entries |= {(entry["system"], entry["opponent"]): entry for entry in fought}


def arena_cutoffs(specs: Iterable[object]) -> list[int]:
    cutoffs = set()
    for spec in specs:
        # The error about an invalid name is raised when its own score is evaluated.
        with suppress(InputError):
            parsed = Spec.parse(spec)
            if parsed.name == ARENA and parsed.k is not None:
                cutoffs.add(parsed.k)
    return sorted(cutoffs)


def arena_systems(siblings: Siblings, cutoffs: Sequence[int]) -> list[str]:
    """Return the names of the systems of these tests; a test without an arena marker has these `cutoffs`."""
    return [
        rated_system_name(nodeid, k)
        for nodeid, markers in siblings.items()
        for k in arena_cutoffs(marker.args[0] for marker in markers if marker.args) or cutoffs
    ]


def _long_answers(pipeline: "Pipeline", k: int) -> Callable[[Example], str | None]:
    return lambda example: pipeline.known_long_answer(example, k)


def _battles_entry(pair: tuple[str, str], outcomes: Sequence[Outcome]) -> dict[str, object]:
    user_frames = [outcome.evidence.places for outcome in outcomes]
    return {
        "system": pair[0],
        "opponent": pair[1],
        "position_bias": position_bias_entry(user_frames),
        "examples": [
            {
                "id": outcome.example.id,
                "score": outcome.value,
                "unscored": outcome.unscored,
                **({"places": place._asdict()} if any(result is not None for result in place) else {}),
            }
            for outcome, place in zip(outcomes, user_frames, strict=True)
        ],
    }
