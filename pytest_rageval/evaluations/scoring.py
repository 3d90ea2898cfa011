"""From the score of one example to the outcomes of all, with the failures of user code."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.answers.llm_judge import with_tally
from pytest_rageval.errors import CallableError, QueryError, RagevalError, Undefined, Unscored
from pytest_rageval.evaluations.context import Pipeline, gather_all
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome, Score, too_many

__all__ = ["FEWEST", "check_failures", "error_of_all", "score_each", "uniform_judge"]

ERRORS: Final = 3
"""How many different errors of one score are shown."""

NAMED: Final = 5
"""How many of the examples that an error ended are named."""

FEWEST: Final = 30
"""From so many verdicts on, it is no accident that all are yes, or all no."""


def check_failures(outcomes: Sequence[Outcome], max_unscored: float) -> None:
    """Check that the user's retriever, generator or judge failed at a few of the questions at most.

    Raises:
        CallableError: they failed at all of them, or at a larger share than may be unscored.
    """
    failed = {outcome.example.id: outcome.failed for outcome in outcomes if outcome.failed is not None}
    if not failed:
        return
    defined = sum(outcome.undefined is None for outcome in outcomes)
    if len(failed) == defined:
        raise error_of_all(failed)
    if too_many(len(failed), defined, max_unscored):
        share = f"More than the allowed {100 * max_unscored:g}% of {defined} examples have no score."
        remedy = "Mend it, or allow a larger share with --rageval-max-unscored SHARE."
        raise error_of_all(failed, f"{share} {remedy}")


def error_of_all(failed: Mapping[str, RagevalError], more: str = "") -> RagevalError:
    """Several errors as one: each text once, with the examples that it ended.

    Args:
        failed: the errors, by the example's id. Errors that differ only in the question count as one.
        more: a last line.
    """
    ended: dict[str, list[str]] = {}
    for name, error in failed.items():
        ended.setdefault(error.reason if isinstance(error, QueryError) else str(error), []).append(name)
    lines = []
    for names in list(ended.values())[:ERRORS]:
        named = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        lines.append(str(failed[names[0]]))
        lines.append(f"It ended {len(names)} {'example' if len(names) == 1 else 'examples'}: {named}.")
    rest = sum(len(names) for names in list(ended.values())[ERRORS:])
    if rest:
        lines.append(f"{rest} more examples ended for other reasons.")
    kind = type(next(iter(failed.values())))
    # A QueryError is that of one question.
    kind = CallableError if issubclass(kind, QueryError) else kind
    return kind("\n".join([*lines, *([more] if more else [])]))


async def score_each(
    examples: Iterable[Example],
    score: Callable[[Example], Awaitable[tuple[float, Evidence] | Outcome]],
) -> list[Outcome]:
    """Score all examples at once, each with the votes behind it.

    An example is unscored or undefined where its score raises `Unscored` or `Undefined`. It is also unscored
    where the user's retriever, generator or judge fails; then the outcome keeps the error.

    Any other exception is raised, but only when all examples have ended: the replies that they
    paid for are in the cache. A `RagevalError` names its examples.
    """
    failed: dict[str, RagevalError] = {}

    async def outcome(example: Example) -> Outcome:
        try:
            scored, votes = await with_tally(score(example))
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

    outcomes = await gather_all(map(outcome, examples))
    if failed:
        # In the order of the examples: the order of the failures varies.
        ended = (each.example.id for each in outcomes)
        raise error_of_all({name: failed[name] for name in ended if name in failed})
    return outcomes


WORDS: Final = {1.0: "yes", 0.0: "no"}


def uniform_judge(run: Pipeline, scores: Iterable[Score], moved: Collection[str]) -> str:
    """A warning about a judge that gave the same verdict throughout; empty where it did not.

    There is none where the rankings are all equally good, and as good as in the baseline: then the
    verdicts may be right.

    Args:
        run: of the scores.
        scores: of a test.
        moved: the questions of which one of these scores differs from its baseline.
    """
    outcomes = [outcome for score in scores for outcome in score.outcomes]
    examples = {outcome.example.question for outcome in outcomes}
    verdicts = [(question, verdict) for question, verdict in run.verdicts if question in examples]
    said = {verdict for _, verdict in verdicts}
    if len(verdicts) < FEWEST or len(said) > 1 or not said <= WORDS.keys():
        return ""
    judged = {question for question, _ in verdicts}
    found = set(_recalls(run, (outcome for outcome in outcomes if outcome.example.question in judged)))
    if len(found) < 2 and judged.isdisjoint(moved):  # noqa: PLR2004 - they differ
        return ""
    return (
        f"the judge said {WORDS[said.pop()]} {len(verdicts)} times and never anything else, though the rankings behind "
        "it differ in what they find: it may not tell right from wrong. Hold it against people's labels "
        "(rageval_calibration), or name another with --rageval-judge-model or --rageval-comparator"
    )


def _recalls(run: Pipeline, outcomes: Iterable[Outcome]) -> Iterator[float]:
    """The share of its gold passages that each ranking holds."""
    for outcome in outcomes:
        relevant, ranking = outcome.example.relevant, outcome.evidence.ranking
        if relevant and ranking is not None:
            match = GoldMatch(ranking, outcome.example.gold, run.match_share)
            yield sum(label > 0 for label in match.labels) / len(relevant)
