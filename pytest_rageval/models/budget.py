"""The budget of a run, which its processes share, and estimates of token counts.

Before a call, its highest possible cost is reserved, so that no call can exceed the budget. After the reply, the
reservation is settled: the real cost is counted instead. Tokens that the server does not report count as used in full.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypedDict

from pytest_rageval.core.errors import BudgetError, StoreError
from pytest_rageval.lib.text import counted
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.stores.interface import Spending
from pytest_rageval.options import CoreOptions
from pytest_rageval.options.parsers import LENGTH_PARAMETERS

if TYPE_CHECKING:
    from pytest_rageval.models.cache import Cache

POLL_S: Final = 0.02  # how often a waiting reservation is tried again
SETTLING_S: Final = 5.0  # how long another process may take to settle a call after its reply
NOTHING_SUBMITTED: Final = (
    "Nothing was submitted: raise the limit, or send fewer requests (--rageval-plan counts them)."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run or of a server: the number of calls, and their cost in USD; None for no limit."""

    max_calls: int | None = None
    max_cost: float | None = None
    table: str = ""  # the table of the configuration that sets the limits; empty for options

    def __bool__(self) -> bool:
        return self.max_calls is not None or self.max_cost is not None

    def describe(self, limit: str, value: str = "") -> str:
        """Return a limit as the user writes it: an option, or a key of a table; with its value if one is given."""
        if self.table:
            return f"{limit}{value and f' = {value}'} in [{self.table}]"
        return f"{vars(CoreOptions)[limit].typed}{value and f'={value}'}"


@dataclass(slots=True)
class Charge:
    """The outcome of one attempt at a request, set by the sender and read when the reservation is settled."""

    reply: Reply | None = None
    billed: bool = False  # without a reply: the server may charge, as for a slow or cancelled request


class Budget:
    """One process's access to the budget of a run, or of a server; all processes with the same `run` share it.

    If the open calls of other processes leave no room, this process waits. It gives up when the account has not changed
    for `patience_s`, which is longer than a call lasts, or for `SETTLING_S` if no other process is active.
    """

    def __init__(self, limits: Limits, prices: Prices, run: str, *, patience_s: float = 60.0) -> None:
        self._limits = limits
        self._prices = prices
        self._run = run
        self._patience_s = patience_s
        self._open_calls = 0
        self._given_up = False
        # asyncio itself holds only weak references to tasks.
        self._releasing: asyncio.Future[None] | None = None
        self._unsettled: list[Spending] = []

    def cost(self, request: Request, reply: Reply) -> float | None:
        """Return the cost of a reply in USD, or None if the price or a bound of its tokens is not known.

        Tokens that the server does not report count as reserved.
        """
        price = self._prices.get(request.base_url, request.model)
        if price is None:
            return None
        if reply.tier == "flex":
            price = price.for_tier("flex") or price
        reported = reply.reports_tokens_in
        tokens_in = reply.tokens_in if reported else prompt_tokens(request.messages, request.parameters)
        tokens_out = reply.tokens_out if reply.reports_tokens_out else max_reply_tokens(request, price)
        return None if tokens_out is None and price.output else price.cost(tokens_in, tokens_out or 0)

    def batch_cost(self, base_url: str, model: str, reply: Reply) -> float | None:
        """Return the cost of a reply in a batch, in USD; None if no price is known or the server reports no tokens."""
        price = self._prices.get(base_url, model)
        if price is None or not reply.reports_tokens_in:
            return None
        return (price.for_tier("batch") or price).cost(reply.tokens_in, reply.tokens_out)

    def max_batch_cost(self, requests: Sequence[Request]) -> float:
        limited = self._limits.max_cost is not None
        return sum(self._max_cost(request, batch=True) for request in requests) if limited else 0.0

    async def check_batch(
        self, ledger: "Cache", requests: Sequence[Request], *, open_calls: int, open_cost: float
    ) -> None:
        """Raise BudgetError if requests in a batch could exceed a limit, with the batches that are still open."""
        limits = self._limits
        if not limits:
            return
        calls, max_cost = open_calls + len(requests), open_cost + self.max_batch_cost(requests)
        state = await ledger.spend(self._run, Spending(calls, max_cost), **self._bounds)
        if state is None:
            # Undone: `count_batch` counts the real cost later.
            await ledger.spend(self._run, Spending(-calls, -max_cost))
            return
        if limits.max_calls is not None and state.calls + calls > limits.max_calls:
            limit = limits.describe("max_calls", str(limits.max_calls))
            calls_made = f"{_calls_made(state.calls)}, and the batches have {counted(calls, 'request')}"
            raise BudgetError(f"{limit} would be passed: {calls_made}.\n{NOTHING_SUBMITTED}")
        limit = limits.describe("max_cost", f"{limits.max_cost:g}")
        raise BudgetError(
            f"{limit} could be passed: {state.cost:.4f} USD are spent, and the batches may cost {max_cost:.4f}.\n"
            f"{NOTHING_SUBMITTED}"
        )

    async def count_batch(self, ledger: "Cache", calls: int, cost: float) -> None:
        if self._limits:
            await ledger.spend(self._run, Spending(calls, cost))

    @contextlib.asynccontextmanager
    async def reserve(self, ledger: "Cache", request: Request) -> AsyncIterator[Charge]:
        """Reserve a call at its highest possible cost, or raise BudgetError; settle it at the end of the block."""
        charge = Charge()
        # Read the file of prices before anything is paid: an error after the reply would lose the reply.
        self._prices.get(request.base_url, request.model)
        if not self._limits:
            yield charge
            return
        max_cost = self._max_cost(request) if self._limits.max_cost is not None else 0.0
        await self._reserve_or_wait(ledger, max_cost)
        self._open_calls += 1
        try:
            yield charge
        finally:
            self._open_calls -= 1
            reply, billed = charge.reply, charge.billed
            cost = max_cost * billed if reply is None else self.cost(request, reply) or 0.0
            self._unsettled.append(Spending(int(billed or reply is not None), cost, -1, -max_cost))
            # A reply must not be lost because its cost cannot be counted now: it is counted before the next call.
            with contextlib.suppress(StoreError):
                await self._settle(ledger)

    async def _settle(self, ledger: "Cache") -> None:
        ended, self._unsettled = self._unsettled, []
        if not ended:
            return
        counting = asyncio.ensure_future(ledger.spend(self._run, reduce(Spending.changed, ended, Spending())))

        def restore_if_failed(done: "asyncio.Future[Spending | None]") -> None:
            if not done.cancelled() and done.exception() is not None:
                self._unsettled += ended

        # A callback: it also runs if this caller is cancelled.
        counting.add_done_callback(restore_if_failed)
        await asyncio.shield(counting)

    async def _reserve_or_wait(self, ledger: "Cache", max_cost: float) -> None:
        """Reserve a call; wait while open calls leave no room for it, since they may cost less than reserved."""
        before, since = None, time.monotonic()
        while True:
            state = await self._try_reserve(ledger, max_cost)
            if state is None:
                return
            if state != before:
                before, since = state, time.monotonic()
            ended, call = Spending(state.calls, state.cost), Spending(open_calls=1, open_cost=max_cost)
            if not ended.fits(call, **self._bounds) or not state.open_calls:
                raise self._exhausted_error(state, max_cost)
            # Open calls of this process will end; another process may be dead.
            if not self._open_calls:
                active = await ledger.others_active()
                patience_s = self._patience_s if active else min(SETTLING_S, self._patience_s)
                self._given_up = self._given_up or time.monotonic() - since > patience_s
                if self._given_up:
                    raise self._exhausted_error(state, max_cost)
            await asyncio.sleep(POLL_S)

    async def _try_reserve(self, ledger: "Cache", max_cost: float) -> Spending | None:
        await self._settle(ledger)
        call = Spending(open_calls=1, open_cost=max_cost)
        reserving = asyncio.ensure_future(ledger.spend(self._run, call, **self._bounds))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            # The reservation is made nevertheless, and no caller is left to settle it.
            reserving.add_done_callback(partial(self._release, ledger, max_cost))
            raise

    def _release(
        self, ledger: "Cache", max_cost: float, reserving: "asyncio.Future[Spending | None]"
    ) -> None:
        if not reserving.cancelled() and reserving.exception() is None and reserving.result() is None:
            self._unsettled.append(Spending(open_calls=-1, open_cost=-max_cost))
            self._releasing = asyncio.ensure_future(self._try_settle(ledger))

    async def _try_settle(self, ledger: "Cache") -> None:
        with contextlib.suppress(StoreError):
            await self._settle(ledger)

    @property
    def _bounds(self) -> "_Bounds":
        calls, cost = self._limits.max_calls, self._limits.max_cost
        return {"max_calls": inf if calls is None else calls, "max_cost": inf if cost is None else cost}

    def _max_cost(self, request: Request, *, batch: bool = False) -> float:
        price = self._prices.get(request.base_url, request.model)
        if price is None:
            raise BudgetError(
                f"No price is known for the model {request.model!r} at {request.base_url}, so "
                f"{self._limits.describe('max_cost')} cannot be kept.\n"
                "Write its price into a file and name it with --rageval prices=FILE:\n"
                f'["{request.model}"]\ninput = 0.15   # USD per million tokens\noutput = 0.60'
            )
        tokens_out = max_reply_tokens(request, price)
        if tokens_out is None:
            raise BudgetError(
                f"Nothing bounds the length of replies of the model {request.model!r}, so "
                f"{self._limits.describe('max_cost')} cannot be kept.\n"
                "Set --rageval max_tokens=N, or max_output in the file of --rageval prices=FILE."
            )
        batch_price = price.for_tier("batch") if batch else None
        return (batch_price or price).cost(prompt_tokens(request.messages, request.parameters), tokens_out)

    def _exhausted_error(self, state: Spending, max_cost: float) -> BudgetError:
        limits = self._limits
        if limits.max_calls is not None and state.calls >= limits.max_calls:
            problem = f"{limits.describe('max_calls', str(limits.max_calls))} is reached"
            amounts = _calls_made(state.calls)
        elif limits.max_cost is not None and state.cost + max_cost > limits.max_cost:
            problem = f"{limits.describe('max_cost', f'{limits.max_cost:g}')} is reached"
            amounts = f"{state.cost:.4f} USD are spent, and the next call may cost {max_cost:.4f}"
        else:
            open_calls = counted(state.open_calls, "call")
            problem = f"The budget is held by {open_calls} of other processes, without an end"
            amounts = f"{_calls_made(state.calls)}, and {state.cost:.4f} USD are spent"
        advice = "What was paid is in the cache: a run with a higher limit goes on from there."
        return BudgetError(f"{problem}: {amounts}.\n{advice}", reason=problem)


class _Bounds(TypedDict):
    max_calls: float
    max_cost: float


def max_reply_tokens(request: Request, price: Price | None) -> int | None:
    return max_output_tokens(request.parameters, price) if request.generates else 0


def max_output_tokens(parameters: Mapping[str, object], price: Price | None) -> int | None:
    """Return the highest possible number of tokens of a reply with these parameters; None if there is no bound."""
    values = (parameters.get(name) for name in LENGTH_PARAMETERS)
    bounds = [value for value in values if isinstance(value, int) and value > 0]
    bound = min(bounds, default=None if price is None else price.max_output)
    choices = parameters.get("n")
    return bound * choices if bound is not None and isinstance(choices, int) and choices > 1 else bound


ASCII_TOKEN: Final = re.compile(
    r"[A-Z]?[a-z]{1,7}"  # a short word or a part of a long word; the space before it belongs to the token
    r"|[A-Z]{1,3}"
    r"|[0-9]"  # half of the tokenizers split digits; the others join three, and have a token for the space
    r"|={4,16}|-{4,16}|_{4,16}|\*{4,16}|#{4,16}|\.{4,16}"  # rules and leaders
    r"|[!-/:-@\[-`{-~]{1,2}"
    r"|\n[ \n]*"  # an end of line with the indentation of the next line
    r"|[ \r]{2,}"
    r"|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]"
)
"""One token of ASCII text. A single space belongs to the following token."""

ENCODED_DATA: Final = re.compile(r"(?<![A-Za-z0-9+/])(?=[A-Za-z+/]{0,39}[0-9])[A-Za-z0-9+/]{40,}")
"""Base64 or a hexadecimal hash, which no vocabulary contains."""

MIN_ENCODED_LENGTH: Final = 40
IRREGULAR: Final = 2**40  # more tokens than any text has

ENCODED_DATA_RATE: Final = 75  # hundredths of a token per character of encoded data
NON_ASCII: Final = re.compile(r"[^\x00-\x7f]+")

SCRIPT_RATES: Final = tuple(
    (re.compile(f"[{characters}]+"), rate)
    for characters, rate in (
        ("\u01a0-\u01b0\u1ea0-\u1ef9", 0),  # vowels of Vietnamese, whose syllables are short
        ("\u00c0-\u024f", 125),  # Latin letters with diacritics: they split words of ASCII letters in two
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
"""Hundredths of a token per character, by script; common scripts first."""

OTHER_RATE: Final = 150  # hundredths of a token per character of another script
FRAME_TOKENS: Final = 4  # tokens around each message, including its role
REPLY_TOKENS: Final = 3  # tokens that open the reply
PROMPT_PARAMETERS: Final = {"tools", "response_format"}  # parameters that become part of the prompt


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer, for plans and budgets: 0 if empty, else at least 1.

    Pieces of ASCII text are counted as byte-pair tokenizers split it, and characters that are not ASCII by their
    script. Too high is better than too low: for Gemma 3 and OpenAI's o200k, texts in English, Chinese and most European
    languages, JSON and code are estimated 4 % too low to 18 % too high, in nine of ten single passages 6 % too low to
    20 % too high; Spanish, Turkish, Russian, Arabic, Hindi and Thai 10 % to 40 % too high, Vietnamese 71 %. Too low are
    long words without diacritics (Finnish, by a quarter), and for GPT-4 and GPT-3.5 (cl100k) languages other than
    English: German by 16 %, Chinese 30 %, Greek 51 %, Hindi 60 %. Claude and Gemini were not measured.
    """
    if not text:
        return 0
    words = text.split(" ")
    # No token contains a single space, and no short word is encoded data.
    pieces, hundredths = sum(map(_pieces_of, words)), 0
    if pieces >= IRREGULAR or "\r" in text or "\n " in text:
        plain = ENCODED_DATA.sub(" ", text)
        pieces, hundredths = len(ASCII_TOKEN.findall(plain)), ENCODED_DATA_RATE * (len(text) - len(plain))
    rest = "" if text.isascii() else "".join(NON_ASCII.findall(text))
    for script, rate in SCRIPT_RATES if rest else ():
        left = script.sub("", rest)
        hundredths += rate * (len(rest) - len(left))
        rest = left
    hundredths += OTHER_RATE * len(rest)
    return max(pieces - (-hundredths // 100), 1)


class _Pieces(dict[str, int]):
    """The number of ASCII tokens of a word; `IRREGULAR` if it is empty or long. The words of a corpus recur."""

    def __missing__(self, word: str) -> int:
        pieces = len(ASCII_TOKEN.findall(word)) if 0 < len(word) < MIN_ENCODED_LENGTH else IRREGULAR
        if len(self) < MAX_KNOWN_WORDS:
            self[word] = pieces
        return pieces


MAX_KNOWN_WORDS: Final = 8192
_pieces_of: Final = _Pieces().__getitem__


def prompt_tokens(
    messages: Sequence[Mapping[str, object]], parameters: Mapping[str, object] | None = None
) -> int:
    """Estimate the tokens of a whole prompt: contents by `count_tokens`, and their framing; 0 without messages.

    If a content is a list of parts, parts with a "text" and token ids count; images and tool calls do not. Tools and
    the schema of the response count, since they become part of the prompt.
    """
    if not messages:
        return 0
    schemas = sum(
        count_tokens(json.dumps(value, ensure_ascii=False, default=str))
        for name, value in (parameters or {}).items()
        if name in PROMPT_PARAMETERS and value
    )
    contents = sum(FRAME_TOKENS + _content_tokens(message.get("content")) for message in messages)
    return REPLY_TOKENS + contents + schemas


def _content_tokens(content: Any) -> int:
    if isinstance(content, str):
        return count_tokens(content)
    if not isinstance(content, Sequence):
        return 0
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return sum(count_tokens(text) if isinstance(text, str) else isinstance(text, int) for text in texts)


def _calls_made(calls: int) -> str:
    return "1 call was made" if calls == 1 else f"{calls} calls were made"
