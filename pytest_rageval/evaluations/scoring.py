"""From the score of one example to the outcomes of all: who has none, and why."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from pytest_rageval.answers.votes import tallied
from pytest_rageval.errors import QueryError, RagevalError, Undefined, Unscored
from pytest_rageval.evaluations.at_once import all_of
from pytest_rageval.evaluations.failures import error_of_all
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["score_each"]


async def score_each(
    examples: Iterable[Example],
    score: Callable[[Example], Awaitable[tuple[float, Evidence] | Outcome]],
) -> list[Outcome]:
    """Score all examples at once, each with the votes behind it; one that raises `Unscored` has that reason.

    One that raises `Undefined` is undefined for that reason. One at whose question the retriever
    failed is unscored, and the outcome keeps the error.

    Any other exception is raised, but only when all the others have come to
    their end: what they were paying for meanwhile is in the cache. One of ours
    then says for which examples it was.
    """
    failed: dict[str, RagevalError] = {}

    async def outcome(example: Example) -> Outcome:
        try:
            scored, votes = await tallied(score(example))
        except QueryError as error:
            return Outcome(example, None, error.reason, failed=error, cause=error.cause)
        except Undefined as undefined:
            return Outcome(example, None, undefined=str(undefined))
        except Unscored as unscored:
            return Outcome(example, None, str(unscored), cause=unscored.cause)
        except RagevalError as error:
            failed[example.id] = error
            return Outcome(example, None, str(error))
        if not isinstance(scored, Outcome):
            value, evidence = scored
            scored = Outcome(example, value, None, evidence)
        return replace(scored, evidence=replace(scored.evidence, votes=votes))

    outcomes = await all_of(map(outcome, examples))
    if failed:
        # In the order of the examples, and not in that in which they failed, which is another each time.
        ended = (each.example.id for each in outcomes)
        raise error_of_all({name: failed[name] for name in ended if name in failed})
    return outcomes
