"""Arena battles between the systems of a parametrized test, from the long answers of this process.

When a test has its answers, its system battles all systems that were scored before it. Their retrievers may no longer
exist, so only their known answers are used.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import Example
from pytest_rageval.errors import InputError
from pytest_rageval.evaluations.arena import drawn, fight, place_bias, shares_of_pairs
from pytest_rageval.reports.systems import rated_system_name
from pytest_rageval.scores import Outcome, Spec

if TYPE_CHECKING:
    from pytest_rageval.evaluations.pipeline import Pipeline
    from pytest_rageval.session.pipelines import Marker

__all__ = ["Battles", "arena_cutoffs", "arena_systems"]

ARENA: Final = "arena"

Siblings = Mapping[str, Sequence["Marker"]]
"""By node id, the thresholds of the selected tests of one function and eval set."""


class Battles:
    """The systems that this process has scored in the arena.

    Args:
        n: number of battles between systems, for each test function and eval set.
        run: waits for what runs in the event loop.
    """

    def __init__(self, n: int, run: Callable[[Any], Any]) -> None:
        self._n = n
        self._run = run
        self._systems: dict[tuple[str, str], dict[str, tuple[Pipeline, int]]] = defaultdict(dict)

    def fight(
        self,
        nodeid: str,
        pipeline: "Pipeline",
        evalset: tuple[str, Sequence[Example]],
        cutoffs: Iterable[int],
        siblings: Siblings,
    ) -> list[dict[str, Any]]:
        """Let the systems of a test, one a cut-off, battle those that are known; return the battles of each pair.

        Args:
            nodeid: of the test.
            pipeline: of the test; its judge is asked.
            evalset: the digest of its eval set, and the examples.
            cutoffs: of its scores of the arena.
            siblings: with them the systems of the whole run are known, so that each pair gets its share of battles.

        Raises:
            RagevalError: models cannot be asked.
        """
        digest, examples = evalset
        known = self._systems[nodeid.partition("[")[0], digest]
        cutoffs = sorted(set(cutoffs))
        shares = shares_of_pairs(arena_systems(siblings, cutoffs), self._n, pipeline.seed)
        own = {rated_system_name(nodeid, k): (pipeline, k) for k in cutoffs}
        known |= own
        pairs = sorted({(min(one, other), max(one, other)) for one in own for other in known if one != other})
        questions = drawn((each for each in examples if each.reference is not None), pipeline.seed)

        async def every() -> list[list[Outcome]]:
            # All at once: where one of them waits for a reply, the others have asked.
            return await gather_all(
                fight(pipeline, questions[: shares.get(pair, 0)], *(_answers(*known[name]) for name in pair))
                for pair in pairs
            )

        fought: list[list[Outcome]] = self._run(every()) if pairs else []
        return [
            {
                **_entry(pair, outcomes),
                **({"wanted": shares[pair]} if shares.get(pair, 0) > len(questions) else {}),
            }
            for pair, outcomes in zip(pairs, fought, strict=True)
        ]


def arena_cutoffs(specs: Iterable[object]) -> list[int]:
    """The cut-offs of those of the scores that are of the arena."""
    found = set()
    for spec in specs:
        # An unknown name is reported with its own score.
        with suppress(InputError):
            parsed = Spec.parse(spec)
            if parsed.name == ARENA and parsed.k is not None:
                found.add(parsed.k)
    return sorted(found)


def arena_systems(siblings: Siblings, cutoffs: Sequence[int]) -> list[str]:
    """The names of the systems of these tests; `cutoffs` are of those without a marker of the arena."""
    return [
        rated_system_name(nodeid, k)
        for nodeid, markers in siblings.items()
        for k in arena_cutoffs(marker.args[0] for marker in markers if marker.args) or cutoffs
    ]


def _answers(pipeline: "Pipeline", k: int) -> Callable[[Example], str | None]:
    return lambda example: pipeline.known_long_answer(example, k)


def _entry(pair: tuple[str, str], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The battles of a pair, for the report of a test."""
    places = [outcome.evidence.places for outcome in outcomes]
    return {
        "system": pair[0],
        "opponent": pair[1],
        "position_bias": place_bias(places),
        "examples": [
            {
                "id": outcome.example.id,
                "score": outcome.value,
                "unscored": outcome.unscored,
                **({"places": place._asdict()} if any(each is not None for each in place) else {}),
            }
            for outcome, place in zip(outcomes, places, strict=True)
        ],
    }
