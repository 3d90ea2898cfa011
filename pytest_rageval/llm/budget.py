"""The budget of a run, shared by all its processes.

Before a call the most that it can cost is reserved, so that no call can exceed the budget; after its reply the
unused part is returned. What the server does not report counts as used.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.errors import BudgetError, StoreError
from pytest_rageval.llm.tokens import prompt_tokens
from pytest_rageval.llm.usage import Price, Prices

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Reply, Request
    from pytest_rageval.llm.store import Database

__all__ = ["Budget", "Limits", "Purchase", "most_tokens_out"]

POLL_S: Final = 0.02

SETTLING_S: Final = 5.0
"""How long another process may take to settle a call after its reply."""

KEPT_S: Final = 7 * 86400.0
"""How long the spending of a run is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run.

    Attributes:
        max_calls: calls to servers; None for no limit.
        max_cost: their cost in USD; None for no limit.
    """

    max_calls: int | None = None
    max_cost: float | None = None


@dataclass(slots=True)
class Purchase:
    """One attempt at a reply.

    Attributes:
        reply: the reply; None where none came.
        billed: whether the server may charge for an attempt without a reply, such as a slow or cancelled one.
    """

    reply: "Reply | None" = None
    billed: bool = False


class Budget:
    """One process's access to the budget of its run.

    Args:
        limits: for the whole run.
        prices: the models' prices.
        run: a name that the processes of a run share.
        patience_s: how long to wait for open calls of other processes, without any change, before they count
            as dead; longer than a call lasts.
        others_active: whether another process requests anything; where none does, `SETTLING_S` is enough.
    """

    def __init__(
        self,
        limits: Limits,
        prices: Prices,
        run: str,
        *,
        patience_s: float = 60.0,
        others_active: Callable[[], bool] = lambda: True,
    ) -> None:
        self._limits = limits
        self._prices = prices
        self._run = run
        self._patience_s = patience_s
        self._others_active = others_active
        self._open = 0
        self._given_up = False
        self._unsettled: list[tuple[int, float, float]] = []

    def cost(self, request: "Request", reply: "Reply") -> float | None:
        """Return the cost of a reply in USD; None where it is not known.

        Tokens that the server does not report count as what was reserved for them.
        """
        price = self._prices.of(request.base_url, request.model)
        if price is None:
            return None
        tokens_in, tokens_out = reply.tokens_in, reply.tokens_out
        if not reply.counts_in:
            tokens_in = prompt_tokens(request.messages, request.parameters)
        if not reply.counts_out:
            most = most_tokens_out(request.parameters, price)
            if most is None and price.output:
                return None
            tokens_out = most or 0
        return price.cost(tokens_in, tokens_out)

    @contextlib.asynccontextmanager
    async def purchase(self, database: "Database", request: "Request") -> AsyncIterator[Purchase]:
        """Reserve one call and the most that it can cost, or raise BudgetError; afterwards count its real cost."""
        purchase = Purchase()
        # Reads the file of prices before anything is paid: later it might fail.
        self._prices.of(request.base_url, request.model)
        if self._limits == Limits():
            yield purchase
            return
        most = self._most_cost(request) if self._limits.max_cost is not None else 0.0
        await self._reserve(database, most)
        self._open += 1
        try:
            yield purchase
        finally:
            self._open -= 1
            reply = purchase.reply
            spent = most if purchase.billed else 0.0
            if reply is not None:
                spent = self.cost(request, reply) or 0.0
            self._unsettled.append((int(purchase.billed or reply is not None), spent, most))
            # A reply must not be lost because it cannot be counted now: it is counted before the next call.
            with contextlib.suppress(StoreError):
                self._settle(database)

    def _settle(self, database: "Database") -> None:
        """Count the finished calls."""
        with database.transaction():
            for calls, spent, most in self._unsettled:
                database.execute(
                    # Without open calls the open cost is exactly 0, despite rounding.
                    "UPDATE spending SET calls = calls + ?, cost = cost + ?, open_calls = open_calls - 1, "
                    "open_cost = CASE open_calls WHEN 1 THEN 0 ELSE open_cost - ? END WHERE run = ?",
                    (calls, spent, most, self._run),
                )
        self._unsettled.clear()

    async def _reserve(self, database: "Database", most: float) -> None:
        """Reserve a call; wait while open calls, which may cost less than reserved, leave no room for it."""
        before, since = None, time.monotonic()
        while True:
            state = self._try_reserve(database, most)
            if state is None:
                return
            if state != before:
                before, since = state, time.monotonic()
            if not self._fits(state.calls, state.cost, most) or not state.open_calls:
                raise BudgetError(self._exhausted(state, most))
            # Calls of this process end by themselves; another process may be dead.
            if not self._open and (self._given_up or time.monotonic() - since > self._patience):
                self._given_up = True
                raise BudgetError(self._exhausted(state, most))
            await asyncio.sleep(POLL_S)

    @property
    def _patience(self) -> float:
        return self._patience_s if self._others_active() else min(SETTLING_S, self._patience_s)

    def _try_reserve(self, database: "Database", most: float) -> "_State | None":
        """Reserve a call if that keeps the limits; else return the state that prevents it."""
        if self._unsettled:
            self._settle(database)
        with database.transaction():
            database.execute(
                "DELETE FROM spending WHERE began < ? AND run != ?", (time.time() - KEPT_S, self._run)
            )
            database.execute(
                "INSERT OR IGNORE INTO spending (run, calls, cost, began, open_calls, open_cost) "
                "VALUES (?, 0, 0, ?, 0, 0)",
                (self._run, time.time()),
            )
            sql = "SELECT calls, cost, open_calls, open_cost FROM spending WHERE run = ?"
            state = _State(*database.rows(sql, (self._run,))[0])
            if not self._fits(state.calls + state.open_calls, state.cost + state.open_cost, most):
                return state
            database.execute(
                "UPDATE spending SET open_calls = open_calls + 1, open_cost = open_cost + ? WHERE run = ?",
                (most, self._run),
            )
        return None

    def _fits(self, calls: int, cost: float, most: float) -> bool:
        """Whether one more call keeps the limits."""
        limits = self._limits
        return (limits.max_calls is None or calls < limits.max_calls) and (
            limits.max_cost is None or cost + most <= limits.max_cost
        )

    def _most_cost(self, request: "Request") -> float:
        price = self._prices.of(request.base_url, request.model)
        if price is None:
            raise BudgetError(
                f"No price is known of the model {request.model!r} at {request.base_url}, so "
                f"--rageval-max-cost cannot be kept.\n"
                "Write its price into a file and name it with --rageval-prices FILE:\n"
                f'["{request.model}"]\ninput = 0.15   # USD per million tokens\noutput = 0.60'
            )
        out = most_tokens_out(request.parameters, price)
        if out is None:
            raise BudgetError(
                f"Nothing bounds the length of replies of the model {request.model!r}, so "
                "--rageval-max-cost cannot be kept.\n"
                "Set --rageval-max-tokens, or max_output in the file of --rageval-prices."
            )
        return price.cost(prompt_tokens(request.messages, request.parameters), out)

    def _exhausted(self, state: "_State", most: float) -> str:
        limits = self._limits
        if limits.max_calls is not None and state.calls >= limits.max_calls:
            found = f"--rageval-max-calls={limits.max_calls} is reached: {state.calls} calls were made"
        elif limits.max_cost is not None and state.cost + most > limits.max_cost:
            found = (
                f"--rageval-max-cost={limits.max_cost:g} is reached: {state.cost:.4f} USD are spent, and the "
                f"next call may cost {most:.4f}"
            )
        else:
            found = (
                f"The budget is held by {state.open_calls} calls of other processes, which do not end: "
                f"{state.calls} calls were made, and {state.cost:.4f} USD are spent"
            )
        return f"{found}.\nWhat was paid is in the cache: a run with a higher limit goes on from there."


class _State(NamedTuple):
    """What a run has spent, and what is reserved for its open calls."""

    calls: int
    cost: float
    open_calls: int
    open_cost: float


def most_tokens_out(parameters: Any, price: Price | None) -> int | None:
    """Return the most tokens of a reply; None where nothing bounds it."""
    values = (parameters.get(name) for name in ("max_tokens", "max_completion_tokens"))
    bounds = [value for value in values if isinstance(value, int) and value > 0]
    if bounds:
        return min(bounds)
    return None if price is None else price.max_output
