"""The source of `--rageval-plan`: counts the requests that a run would send.

Each missing reply is replaced by a placeholder, so that the evaluation goes on and requests that depend on
replies are counted too.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_rageval.errors import PLAN_MARK
from pytest_rageval.llm.budget import most_tokens_out
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.tokens import prompt_tokens

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Request
    from pytest_rageval.llm.servers import Server
    from pytest_rageval.llm.usage import Prices, Usage

__all__ = ["PlanSource"]


@dataclass
class PlanSource:
    """Counts into a `Usage` as if every request were sent; `live`, tokens and cost are what they would be."""

    prices: "Prices"
    usage: "Usage"
    _planned: dict[str, int] = field(default_factory=dict)

    async def obtain(self, server: "Server", request: "Request") -> Reply:  # noqa: ARG002 - nothing is sent
        """Return a placeholder, after counting the request."""
        mark = request.key[:16]
        reply = Reply(f"⟪reply {mark}⟫", request.model)
        if mark in self._planned:
            self.usage.cached += 1
            return reply
        usage, price = self.usage, self.prices.of(request.base_url, request.model)
        marks = PLAN_MARK.findall(" ".join(str(message.get("content")) for message in request.messages))
        tokens_in = prompt_tokens(request.messages, request.parameters) + sum(
            self._planned.get(mark, 0) for mark in marks
        )
        tokens_out = most_tokens_out(request.parameters, price)
        usage.live += 1
        usage.dependent += bool(marks)
        usage.tokens_in += tokens_in
        usage.tokens_out += tokens_out or 0
        usage.unbounded += tokens_out is None
        if price is None or (tokens_out is None and price.output):
            usage.unpriced += 1
        else:
            usage.cost_usd += price.cost(tokens_in, tokens_out or 0)
        self._planned[mark] = tokens_out or 0
        return reply

    async def close(self) -> None:
        """Nothing was opened."""
