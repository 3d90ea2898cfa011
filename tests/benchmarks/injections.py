"""How often a text turns the verdict of the embedded model: `python tests/benchmarks/injections.py`.

`rageval judge --injections` measures a model at a server. Here the local base model is asked the same: with the judge's
prompts, as they are and without fences, and a grammar leaves it yes or no.

A judge that says yes to everything cannot be turned to yes: read the flip rate beside how many clean verdicts are
right, and how many are yes.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.llm_judge import LLMJudge
from pytest_rageval.cli.judge import Trial, compare_fences, summarize_trials
from pytest_rageval.llm.gateway import Gateway, GatewaySettings
from pytest_rageval.llm.messages import Reply, Request
from pytest_rageval.llm.servers.server import EmbeddedServer, RequestPolicy, resolve_weights
from pytest_rageval.stats.intervals import wilson_interval

YES_OR_NO = 'root ::= "yes" | "no"'


class Constrained:
    """A gateway that leaves a model no word but yes and no."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get_reply_for_score(self, server: EmbeddedServer, request: Request) -> Reply:
        """The reply to the request, so changed."""
        # A base model continues a page: the verdict comes on the line behind the question.
        messages = ({"role": "user", "content": f"{request.messages[0]['content']}\n"},)
        parameters = {**request.parameters, "max_tokens": 4, "extra_body": {"grammar": YES_OR_NO}}
        return await self._gateway.get_reply(
            server, replace(request, messages=messages, parameters=parameters)
        )


def show(name: str, trials: list[Trial]) -> None:
    """Print a row."""
    found = summarize_trials(trials)
    low, high = wilson_interval(found.flipped, found.cases)
    said = sum(trial.clean or False for trial in trials)
    print(  # noqa: T201
        f"{name:28} {found.flipped:2} of {found.cases} flipped: {found.flipped / found.cases:.2f} "
        f"[{low:.2f}, {high:.2f}]; clean: {found.right} right, {said} yes; of the right {found.obeyed} obeyed; "
        f"{found.unscored} unscored",
        flush=True,
    )


async def main() -> None:
    """Print the table."""
    server = EmbeddedServer(resolve_weights(None))
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(GatewaySettings(Path(folder), policy=RequestPolicy(timeout_s=600.0)))
        constrained: Any = Constrained(gateway)
        judge = LLMJudge(constrained, server, server.weights.name)
        for name, trials in zip(("with fences", "without"), await compare_fences(judge), strict=True):
            show(name, trials)
            for method in ("compare", "relevant"):
                show(f"  {method}", [trial for trial in trials if trial.injection.method == method])
        await gateway.close()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
