"""The budget of a run, shared by all its processes, and the token counts that it expects.

Before a call the most that it can cost is reserved, so that no call can exceed the budget; after its reply the
unused part is returned. What the server does not report counts as used.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import inf
from typing import Any, Final, Protocol, TypedDict

from pytest_rageval.config import LENGTHS
from pytest_rageval.errors import BudgetError, StoreError
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.llm.messages import Reply, Request
from pytest_rageval.llm.stores.interface import Spending
from pytest_rageval.llm.usage import Price, Prices
from pytest_rageval.plural import counted

__all__ = [
    "Budget",
    "Charge",
    "Ledger",
    "Limits",
    "count_tokens",
    "max_output_tokens",
    "max_reply_tokens",
    "prompt_tokens",
]

POLL_S: Final = 0.02
SETTLING_S: Final = 5.0  # how long another process may take to settle a call after its reply
NOTHING_SUBMITTED: Final = (
    "Nothing was submitted: raise the limit, or send fewer requests (--rageval-plan counts them)."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run or of a server: calls, and their cost in USD; None for no limit."""

    max_calls: int | None = None
    max_cost: float | None = None
    table: str = ""  # of the configuration that sets them; empty for options

    def __bool__(self) -> bool:
        return self.max_calls is not None or self.max_cost is not None

    def describe(self, limit: str, value: str = "") -> str:
        """Return a limit as the user writes it, with its value if one is given."""
        if self.table:
            return f"{limit}{value and f' = {value}'} in [{self.table}]"
        return f"--rageval-{limit.replace('_', '-')}{value and f'={value}'}"


@dataclass(slots=True)
class Charge:
    """One attempt at a reply; `billed` if the server may charge for it without one, as for a slow or cancelled one."""

    reply: Reply | None = None
    billed: bool = False


class Ledger(Protocol):
    """Where the processes of a run count what they spend."""

    async def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """As `ReplyStore.spend`; it is done as well where the caller is cancelled."""
        ...

    async def others_active(self) -> bool:
        """Whether another living process requests anything."""
        ...


class Budget:
    """One process's access to the budget of its run, or of a server in it; processes share it by its name `run`.

    Open calls of other processes count as dead after `patience_s` without any change, which is longer than a call
    lasts; where no other process is active, `SETTLING_S` is enough.
    """

    def __init__(self, limits: Limits, prices: Prices, run: str, *, patience_s: float = 60.0) -> None:
        self._limits = limits
        self._prices = prices
        self._run = run
        self._patience_s = patience_s
        self._open = 0
        self._given_up = False
        self._giving_back: asyncio.Future[None] | None = None
        self._unsettled: list[Spending] = []

    def cost(self, request: Request, reply: Reply) -> float | None:
        """Return the cost of a reply in USD, where the price is known; what is not reported counts as reserved.

        A reply that says that its tier was flex costs the price there; where that is not known, the usual one.
        """
        price = self._prices.get(request.base_url, request.model)
        if price is None:
            return None
        if reply.tier == "flex":
            price = price.for_tier("flex") or price
        counted = reply.reports_tokens_in
        tokens_in = reply.tokens_in if counted else prompt_tokens(request.messages, request.parameters)
        most = reply.tokens_out if reply.reports_tokens_out else max_reply_tokens(request, price)
        return None if most is None and price.output else price.cost(tokens_in, most or 0)

    def batch_cost(self, base_url: str, model: str, reply: Reply) -> float | None:
        """Return the cost in USD of a reply that came in a batch; at the usual price where that of batches is unknown.

        None where no price is known, or the server reports no tokens.
        """
        price = self._prices.get(base_url, model)
        if price is None or not reply.reports_tokens_in:
            return None
        return (price.for_tier("batch") or price).cost(reply.tokens_in, reply.tokens_out)

    def max_batch_cost(self, requests: Sequence[Request]) -> float:
        """Return the most that requests can cost in a batch, in USD; 0 without a limit of the cost."""
        limited = self._limits.max_cost is not None
        return sum(self._max_cost(each, batch=True) for each in requests) if limited else 0.0

    async def check_batch(
        self, ledger: Ledger, requests: Sequence[Request], *, open_calls: int = 0, open_cost: float = 0.0
    ) -> None:
        """Refuse requests in a batch that could pass a limit.

        `open_calls` and `open_cost` are of batches whose replies have not come.

        Raises:
            BudgetError: they could.
        """
        limits = self._limits
        if not limits:
            return
        calls, most = open_calls + len(requests), open_cost + self.max_batch_cost(requests)
        state = await ledger.spend(self._run, Spending(calls, most), **self._bounds)
        if state is None:
            # It is counted when the replies have come.
            await ledger.spend(self._run, Spending(-calls, -most))
            return
        if limits.max_calls is not None and state.calls + calls > limits.max_calls:
            limit = limits.describe("max_calls", str(limits.max_calls))
            made = f"{_made(state.calls)}, and the batches have {counted(calls, 'request')}"
            raise BudgetError(f"{limit} would be passed: {made}.\n{NOTHING_SUBMITTED}")
        limit = limits.describe("max_cost", f"{limits.max_cost:g}")
        raise BudgetError(
            f"{limit} could be passed: {state.cost:.4f} USD are spent, and the batches may cost {most:.4f}.\n"
            f"{NOTHING_SUBMITTED}"
        )

    async def count_batch(self, ledger: Ledger, calls: int, cost: float) -> None:
        """Count the replies of a batch, and what they cost in USD."""
        if self._limits:
            await ledger.spend(self._run, Spending(calls, cost))

    @contextlib.asynccontextmanager
    async def reserve(self, ledger: Ledger, request: Request) -> AsyncIterator[Charge]:
        """Reserve one call and the most that it can cost, or raise BudgetError; afterwards count its real cost."""
        purchase = Charge()
        # Reads the file of prices before anything is paid: later it might fail.
        self._prices.get(request.base_url, request.model)
        if not self._limits:
            yield purchase
            return
        most = self._max_cost(request) if self._limits.max_cost is not None else 0.0
        await self._reserve(ledger, most)
        self._open += 1
        try:
            yield purchase
        finally:
            self._open -= 1
            reply, billed = purchase.reply, purchase.billed
            spent = most * billed if reply is None else self.cost(request, reply) or 0.0
            self._unsettled.append(Spending(int(billed or reply is not None), spent, -1, -most))
            # A reply must not be lost because it cannot be counted now: it is counted before the next call.
            with contextlib.suppress(StoreError):
                await self._settle(ledger)

    async def _settle(self, ledger: Ledger) -> None:
        """Count the finished calls."""
        finished, self._unsettled = self._unsettled, []
        if not finished:
            return
        counting = asyncio.ensure_future(
            ledger.spend(self._run, reduce(Spending.changed, finished, Spending()))
        )
        # Also where this caller is cancelled.
        counting.add_done_callback(lambda done: self._count_again(finished, done))
        await asyncio.shield(counting)

    def _count_again(self, finished: Sequence[Spending], counting: "asyncio.Future[Spending | None]") -> None:
        if not counting.cancelled() and counting.exception() is not None:
            self._unsettled += finished

    async def _reserve(self, ledger: Ledger, most: float) -> None:
        """Reserve a call; wait while open calls, which may cost less than reserved, leave no room for it."""
        before, since = None, time.monotonic()
        while True:
            state = await self._try_reserve(ledger, most)
            if state is None:
                return
            if state != before:
                before, since = state, time.monotonic()
            if not self._fits(Spending(state.calls, state.cost), most) or not state.open_calls:
                raise BudgetError(self._exhausted(state, most))
            # Calls of this process end by themselves; another process may be dead.
            if not self._open:
                active = await ledger.others_active()
                patience = self._patience_s if active else min(SETTLING_S, self._patience_s)
                self._given_up = self._given_up or time.monotonic() - since > patience
                if self._given_up:
                    raise BudgetError(self._exhausted(state, most))
            await asyncio.sleep(POLL_S)

    async def _try_reserve(self, ledger: Ledger, most: float) -> Spending | None:
        """Reserve a call if that keeps the limits; else return the state that prevents it."""
        await self._settle(ledger)
        call = Spending(open_calls=1, open_cost=most)
        reserving = asyncio.ensure_future(ledger.spend(self._run, call, **self._bounds))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            # It is reserved all the same, and no caller is left to give it back.
            reserving.add_done_callback(partial(self._give_back, ledger, most))
            raise

    def _give_back(self, ledger: Ledger, most: float, reserved: "asyncio.Future[Spending | None]") -> None:
        if not reserved.cancelled() and reserved.exception() is None and reserved.result() is None:
            self._unsettled.append(Spending(open_calls=-1, open_cost=-most))
            self._giving_back = asyncio.ensure_future(self._settled(ledger))

    async def _settled(self, ledger: Ledger) -> None:
        with contextlib.suppress(StoreError):
            await self._settle(ledger)

    def _fits(self, state: Spending, most: float) -> bool:
        """Whether one more call keeps the limits."""
        return state.fits(Spending(open_calls=1, open_cost=most), **self._bounds)

    @property
    def _bounds(self) -> "_Bounds":
        """The limits as arguments of the ledger."""
        calls, cost = self._limits.max_calls, self._limits.max_cost
        return {"max_calls": inf if calls is None else calls, "max_cost": inf if cost is None else cost}

    def _max_cost(self, request: Request, *, batch: bool = False) -> float:
        price = self._prices.get(request.base_url, request.model)
        if price is None:
            raise BudgetError(
                f"No price is known for the model {request.model!r} at {request.base_url}, so "
                f"{self._limits.describe('max_cost')} cannot be kept.\n"
                "Write its price into a file and name it with --rageval-prices FILE:\n"
                f'["{request.model}"]\ninput = 0.15   # USD per million tokens\noutput = 0.60'
            )
        out = max_reply_tokens(request, price)
        if out is None:
            raise BudgetError(
                f"Nothing bounds the length of replies of the model {request.model!r}, so "
                f"{self._limits.describe('max_cost')} cannot be kept.\n"
                "Set --rageval-max-tokens, or max_output in the file of --rageval-prices."
            )
        lower = price.for_tier("batch") if batch else None
        return (lower or price).cost(prompt_tokens(request.messages, request.parameters), out)

    def _exhausted(self, state: Spending, most: float) -> str:
        limits = self._limits
        if limits.max_calls is not None and state.calls >= limits.max_calls:
            limit = limits.describe("max_calls", str(limits.max_calls))
            found = f"{limit} is reached: {_made(state.calls)}"
        elif limits.max_cost is not None and state.cost + most > limits.max_cost:
            found = (
                f"{limits.describe('max_cost', f'{limits.max_cost:g}')} is reached: {state.cost:.4f} USD are spent, "
                f"and the next call may cost {most:.4f}"
            )
        else:
            found = (
                f"The budget is held by {counted(state.open_calls, 'call')} of other processes, without an end: "
                f"{_made(state.calls)}, and {state.cost:.4f} USD are spent"
            )
        return f"{found}.\nWhat was paid is in the cache: a run with a higher limit goes on from there."


class _Bounds(TypedDict):
    max_calls: float
    max_cost: float


def max_reply_tokens(request: Request, price: Price | None) -> int | None:
    """Return the most tokens of a request's reply; None where nothing bounds it."""
    return max_output_tokens(request.parameters, price) if request.generates else 0


def max_output_tokens(parameters: Mapping[str, Any], price: Price | None) -> int | None:
    """Return the most tokens of a reply with these parameters; None where nothing bounds it."""
    values = (parameters.get(name) for name in LENGTHS)
    bounds = [value for value in values if isinstance(value, int) and value > 0]
    most = min(bounds, default=None if price is None else price.max_output)
    choices = parameters.get("n")
    return most * choices if most is not None and isinstance(choices, int) and choices > 1 else most


PIECE: Final = lazy_pattern(
    r"[A-Z]?[a-z]{1,7}"  # a short word or a part of a long one; the space before it is in its token
    r"|[A-Z]{1,3}"
    r"|[0-9]"  # alone, as half of the tokenizers have it; the others take three, and a token for the space
    r"|={4,16}|-{4,16}|_{4,16}|\*{4,16}|#{4,16}|\.{4,16}"  # rules and leaders
    r"|[!-/:-@\[-`{-~]{1,2}"
    r"|\n[ \n]*"  # an end of line with the indentation of the next
    r"|[ \r]{2,}"
    r"|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]"
)
"""One token of ASCII text. A single space belongs to the following token."""

CIPHER: Final = lazy_pattern(r"(?<![A-Za-z0-9+/])(?=[A-Za-z+/]{0,39}[0-9])[A-Za-z0-9+/]{40,}")
"""Base64 or a hexadecimal hash, which no vocabulary has."""

CIPHER_RATE: Final = 75  # hundredths of a token for each of its characters
FOREIGN: Final = lazy_pattern(r"[^\x00-\x7f]+")

RATES: Final = tuple(
    (lazy_pattern(f"[{characters}]+"), rate)
    for characters, rate in (
        ("\u01a0-\u01b0\u1ea0-\u1ef9", 0),  # vowels of Vietnamese, whose syllables are short
        ("\u00c0-\u024f", 125),  # Latin letters with marks: they cut words of ASCII letters in two
        ("\u2010-\u2027", 100),  # dashes, quotation marks, the ellipsis
        ("\u0400-\u052f", 36),  # Cyrillic
        ("\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u3000-\u303f\uff00-\uffef", 85),  # Chinese, Japanese
        ("\u0600-\u06ff\u0750-\u077f", 45),  # Arabic
        ("\u0900-\u0dff", 45),  # Devanagari and the other scripts of India
        ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", 80),  # Korean
        ("\u0e00-\u0eff", 48),  # Thai, Lao
        ("\u0370-\u03ff\u1f00-\u1fff", 48),  # Greek
        ("\u0530-\u05ff\u10a0-\u10ff", 58),  # Armenian, Hebrew, Georgian
        ("\U00010000-\U0010ffff", 200),  # emoji, historic scripts
    )
)
"""Hundredths of a token for each character, by script; common ones first."""

OTHER_RATE: Final = 150
FRAME_TOKENS: Final = 4  # tokens around each message, with its role
REPLY_TOKENS: Final = 3  # tokens that open the reply
READ_BY_MODELS: Final = {"tools", "response_format"}  # parameters that become part of the prompt


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer: 0 if empty, else at least 1.

    Meant for plans and budgets, where too many is better than too few. It counts pieces as byte-pair tokenizers
    cut them (words, parts of long words, digits, punctuation, line ends), and characters that are not ASCII.

    Measured as (estimate - true) / true over all texts of a kind, against the tokenizers of Gemma 3 and of
    OpenAI's models since GPT-4o (o200k):

    | texts | Gemma 3 | o200k |
    | --- | --- | --- |
    | English passages, questions, long answers | +1 % to +10 % | +1 % to +12 % |
    | JSON, Python, Markdown, tables with tabs | -4 % to +11 % | +10 % to +18 % |
    | German, Romanian, Greek, Chinese | -1 % to +16 % | +2 % to +15 % |
    | Spanish, Turkish, Russian, Arabic, Hindi, Thai | +14 % to +40 % | +10 % to +25 % |
    | Vietnamese | +71 % | +62 % |

    Of single English passages, nine in ten are between -6 % and +20 %. Long words without marks, as in
    Finnish, are estimated a quarter too low. For GPT-4 and GPT-3.5 (cl100k) it is at most 11 % too high in
    English, but too low elsewhere: German by 16 %, Chinese 30 %, Greek 51 %, Hindi 60 %. Claude and Gemini were
    not measured.
    """
    if not text:
        return 0
    plain = CIPHER.sub(" ", text)
    hundredths = CIPHER_RATE * (len(text) - len(plain))
    rest = "" if text.isascii() else "".join(FOREIGN.findall(text))
    for characters, rate in RATES if rest else ():
        left = characters.sub("", rest)
        hundredths += rate * (len(rest) - len(left))
        rest = left
    hundredths += OTHER_RATE * len(rest)
    return max(len(PIECE.findall(plain)) - (-hundredths // 100), 1)


def prompt_tokens(messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any] | None = None) -> int:
    """Estimate the tokens of a whole prompt: contents by `count_tokens`, and their framing; 0 without messages.

    Of a content in parts those with a "text" and tokens count; images and tool calls do not. Tools and the schema of
    a response are read by the model, too.
    """
    if not messages:
        return 0
    schemas = sum(
        count_tokens(json.dumps(value, ensure_ascii=False, default=str))
        for name, value in (parameters or {}).items()
        if name in READ_BY_MODELS and value
    )
    contents = sum(FRAME_TOKENS + _content(message.get("content")) for message in messages)
    return REPLY_TOKENS + contents + schemas


def _content(content: Any) -> int:
    if isinstance(content, str):
        return count_tokens(content)
    if not isinstance(content, Sequence):
        return 0
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return sum(count_tokens(text) if isinstance(text, str) else isinstance(text, int) for text in texts)


def _made(calls: int) -> str:
    return "1 call was made" if calls == 1 else f"{calls} calls were made"
