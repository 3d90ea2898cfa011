"""How often an injected text changes the verdict of the embedded model: `python tests/benchmarks/injections.py`.

`rageval judge --injections` measures a model at a server. This script measures the local base model with the same
prompts of the judge, with and without fences. A grammar allows only the replies yes and no.

The verdict of a judge that always says yes cannot be changed to yes. So compare the share of changed verdicts with the
numbers of clean verdicts that are right, and that are yes.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.llm_judge import LLMJudge
from pytest_rageval.extensions.calibration.command import Trial, compare_fences, summarize_trials
from pytest_rageval.extensions.providers.embedded import EmbeddedServer, resolve_weights
from pytest_rageval.models.client import RequestPolicy
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.stats.intervals import wilson_interval

YES_OR_NO = 'root ::= "yes" | "no"'


class YesNoGateway:
    """A gateway that adds a grammar to each request, which allows only the replies yes and no."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get_reply_for_score(self, server: EmbeddedServer, request: Request) -> Reply:
        # A base model continues the text of the prompt. With a line break, it continues with the verdict.
        messages = ({"role": "user", "content": f"{request.messages[0]['content']}\n"},)
        parameters = {**request.parameters, "max_tokens": 4, "extra_body": {"grammar": YES_OR_NO}}
        return await self._gateway.get_reply(
            server, replace(request, messages=messages, parameters=parameters)
        )


def show(name: str, trials: list[Trial]) -> None:
    summary = summarize_trials(trials)
    low, high = wilson_interval(summary.flipped, summary.cases)
    yes_count = sum(trial.clean or False for trial in trials)
    print(  # noqa: T201
        f"{name:28} {summary.flipped:2} of {summary.cases} flipped: {summary.flipped / summary.cases:.2f} "
        f"[{low:.2f}, {high:.2f}]; clean: {summary.right} right, {yes_count} yes; of the right {summary.obeyed} "
        f"obeyed; {summary.unscored} unscored",
        flush=True,
    )


async def main() -> None:
    server = EmbeddedServer(resolve_weights(None))
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(GatewaySettings(Path(folder), policy=RequestPolicy(timeout_s=600.0)))
        constrained: Any = YesNoGateway(gateway)
        judge = LLMJudge(constrained, server, server.weights.name)
        for name, trials in zip(
            ("with fences", "without"), (await compare_fences(judge)).values(), strict=True
        ):
            show(name, trials)
            for method in ("compare", "relevant"):
                show(f"  {method}", [trial for trial in trials if trial.injection.method == method])
        await gateway.close()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
