"""What do eRAG's labels cost against answers to the same questions? A line below a test that has scores of both."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.core.evalset import Example
    from pytest_rageval.core.spec import ScoreRequest
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun
    from pytest_rageval.scores.pipeline import Pipeline

LABELS: Final = "erag"
ANSWERS: Final = "answer"


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> dict[str, object]:
    """Add the line, but not for components of the user's, whose requests are not known; nor in a part of a run."""
    names = {request.spec.partition(".")[0] for request, _ in test.record.runs}
    components, settings = getattr(test, "components", None), test.session.settings
    if not names.issuperset({LABELS, ANSWERS}) or test.record.own or components is None:
        return {}
    if not settings.effects.isdisjoint({"lacks replies", "is merged"}):
        return {}
    costs = _costs(cast("TestRun", test))
    return {"notes": [f"cost, cached replies included: {'; '.join(costs)}"]} if costs else {}


def _costs(test: "TestRun") -> list[str]:
    """Return "eRAG labels @10 30 requests, 5,571 tokens", then "end to end @10 …"."""
    from pytest_rageval.core.errors import RagevalError  # noqa: PLC0415 - every run of pytest imports this module

    tokens_of: dict[tuple[bool, int], dict[str, int]] = {}
    for (request, _), runs in test.record.runs.items():
        resolved, _ = test.session.resolve(request)
        if resolved.spec.name not in {LABELS, ANSWERS} or isinstance(runs, RagevalError):
            continue
        # Where the user's code failed it is not called again.
        examples = [outcome.example for outcome in runs[0] if outcome.failed is None]
        tokens = tokens_of.setdefault((resolved.spec.name == ANSWERS, resolved.k), {})
        tokens |= _tokens_of_replies(test, examples, request)
    return [
        f"{'end to end' if is_answer else 'eRAG labels'} @{k} {len(tokens):,} requests, "
        f"{sum(tokens.values()):,} tokens"
        for (is_answer, k), tokens in sorted(tokens_of.items())
    ]


def _tokens_of_replies(
    test: "TestRun", examples: "Sequence[Example]", request: "ScoreRequest"
) -> dict[str, int]:
    """Return the tokens of each reply that a score of this run needed, by key: it is computed again from them."""
    from pytest_rageval.calls.gathering import gather_all  # noqa: PLC0415 - as above
    from pytest_rageval.core.errors import RagevalError  # noqa: PLC0415 - as above
    from pytest_rageval.models.gateway import READ_AGAIN  # noqa: PLC0415 - as above

    session = test.session

    resolved, score = session.resolve(request)
    tokens: dict[str, int] = {}

    async def evaluate(pipeline: "Pipeline") -> None:
        READ_AGAIN.set(tokens)
        # The copy has the rankings, and no results.
        await score.evaluate(replace(pipeline), examples, resolved)

    pipelines = session.pipelines.of_score(test.components, request)
    with suppress(RagevalError):  # an error was that of the score
        session.loop.run(gather_all(map(evaluate, pipelines)))
    return tokens
