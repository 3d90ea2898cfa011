"""Sends requests to one server, with retries and rate limits; omits parameters that it refuses."""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_rageval.errors import RagevalError, ServerError, Unscored
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.llm.budget import Charge, count_tokens, prompt_tokens
from pytest_rageval.llm.messages import BilledFailure, Reply, Request
from pytest_rageval.llm.servers.client import Client, Refused, RetryableError
from pytest_rageval.llm.servers.rate_limits import Limiter, OutageTimer, Slot, Stall
from pytest_rageval.plural import plural

__all__ = ["Sender", "UnsupportedParams"]

FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 8.0
JITTER: Final = 0.1  # of the server's own waiting time, at most
PROMPT_RETRIES: Final = 8  # after the server's own waiting time; then it is not believed
SLOW: Final = 0.5  # the share of the timeout after which a reply counts as slow

BILLED: Final = {"slow", "garbled", "dropped"}  # failures after which the server may charge for the attempt

Reserve = Callable[[], AbstractAsyncContextManager[Charge]]
Keep = Callable[[Reply], Awaitable[Reply]] | None
FREE: Final[Reserve] = lambda: contextlib.nullcontext(Charge())  # noqa: E731 - reserves nothing


@dataclass
class Sender:
    """Sends all requests of this process to one server.

    A request that the server refuses for load (429, 503) is repeated for up to `patience_s`, in addition to the
    `retries` after other failures. After that time without any success the server itself is given up. With `flex` the
    package's own requests use that tier, except for a model that has none.
    """

    client: Client
    limiter: Limiter
    timeout_s: float
    retries: int
    patience_s: float = 300.0
    flex: bool = False
    _unsupported: dict[str, "UnsupportedParams"] = field(default_factory=dict)
    _without_flex: set[str] = field(default_factory=set)
    _broken: dict[str, RagevalError] = field(default_factory=dict)
    _reached: bool = False
    _patience: OutageTimer = field(init=False)
    _given_up: ServerError | None = None
    _silent_since: float | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._patience = OutageTimer(self.patience_s, self._give_up)

    async def send(self, request: Request, *, reserve: Reserve = FREE, keep: Keep = None) -> Reply:
        """Return the server's reply to a request.

        After an error that holds for a whole model, such as a wrong key, the model is not asked again. `reserve`
        is entered around each attempt, and its errors are raised. `keep` stores the reply and returns it, before
        the attempt is counted and its slot is free.

        Raises:
            ServerError: nothing at this server can answer, or it has not answered for `patience_s`.
            Unscored: this request failed; the reason.
        """
        with self._patience.waiting():
            return await self._send(request, reserve, keep)

    @property
    def wait(self) -> Stall | None:
        """Why requests wait: the server refuses, is silent, or asked for a pause; None otherwise."""
        patience = self._patience
        if not patience.requests or self._given_up is not None:
            return None
        url, requests = self.client.url, patience.requests
        if patience.last:
            return Stall(url, patience.last, requests, patience.spent, patience.seconds)
        if self._silent_since is not None:
            return Stall(url, "no answer yet", requests, time.monotonic() - self._silent_since)
        paused_s = self.limiter.paused_s
        reason = "its rate limit is used up"
        return Stall(url, reason, requests, paused_s) if paused_s else None

    async def _send(self, request: Request, reserve: Reserve, keep: Keep) -> Reply:
        unsupported = self._unsupported.setdefault(request.model, UnsupportedParams())
        tokens = prompt_tokens(request.messages, request.parameters) if self.limiter.counts_tokens else 0
        failures: list[RetryableError] = []
        first_failure_at = 0.0
        while True:
            self.raise_if_broken(request.model)
            async with self.limiter.slot(tokens, first=bool(failures)) as slot:
                # Checked again: another request may have failed while this one waited.
                self.raise_if_broken(request.model)
                parameters, without = request.parameters, ""
                if request.is_internal:
                    parameters, without = unsupported.adapt(parameters)
                flex = self.flex and request.is_internal and request.model not in self._without_flex
                try:
                    async with reserve() as charge:
                        # Beside the request, whose key it is not part of: the tier changes the price, not the reply.
                        sent = {**FLEX, **parameters} if flex else parameters
                        reply = await self._attempt(request, sent, slot, charge)
                        reply = replace(reply, without=without) if without else reply
                        return reply if keep is None else await keep(reply)
                except Refused as refused:
                    if flex and TIER.search(str(_without_repeated(refused.answer))):
                        self._without_flex.add(request.model)
                        continue
                    if not (request.is_internal and unsupported.learn(parameters, refused.answer)):
                        raise
                    continue
                except RetryableError as failure:
                    first_failure_at = first_failure_at or time.monotonic()
                    failures.append(failure)
                    self._patience.failed(slot.began, failure.reason)
                    delay = _delay(failures)
                    if failure.kind == "throttled" or failure.wait_s is not None:
                        # Before the slot is free. The others do not wait longer where this one failed often, and
                        # a pause without jitter does not let all that were refused go on together.
                        pause = failure.wait_s or _delay(failures[-1:])
                        self.limiter.refused(slot, pause, exhausted=failure.exhausted)
            self._raise_if_final(request.model, failures, time.monotonic() - first_failure_at)
            # Outside the slot, which others can use meanwhile; no longer than until the server is given up.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), delay)

    async def _attempt(
        self, request: Request, parameters: Mapping[str, Any], slot: Slot, charge: Charge
    ) -> Reply:
        """Send the request once, and adapt the limiter to the outcome."""
        if self._silent_since is None:
            self._silent_since = slot.began
        # Until the outcome is known: a cancelled call may be charged.
        charge.billed = True
        try:
            reply, pause = await self.client.complete(request, parameters)
        except RetryableError as failure:
            charge.billed = failure.kind in BILLED
            if failure.kind == "slow":
                self.limiter.congested(slot)
            raise
        except (RagevalError, Unscored) as error:
            charge.billed = isinstance(error, BilledFailure)
            if isinstance(error, RagevalError):
                self._broken[request.model] = error
            raise
        finally:
            # The other requests in flight have been sent by now.
            self._silent_since = time.monotonic() if self.limiter.in_flight > 1 else None
        self._reached = True
        self._patience.succeeded()
        self._given_up = None
        charge.reply = reply
        if self.limiter.counts_tokens:
            # A count that the server does not report is estimated.
            tokens_in = reply.tokens_in if reply.reports_tokens_in else slot.tokens
            counted = reply.reports_tokens_out or not request.generates
            tokens_out = reply.tokens_out if counted else count_tokens(reply.text)
            self.limiter.used(slot, tokens_in + tokens_out)
        if time.monotonic() - slot.began > SLOW * self.timeout_s:
            self.limiter.congested(slot)
        else:
            self.limiter.succeeded()
        if pause is not None:
            self.limiter.pause(pause)
        return reply

    def _give_up(self) -> None:
        """Fail all waiting requests. Those in flight may still succeed, which shows that the server works."""
        patience = self._patience
        self._given_up = self.client.silent(patience.last, patience.requests, patience.seconds)
        self.limiter.fail_waiting(self._given_up)
        self._woken.set()
        self._woken = asyncio.Event()

    def raise_if_broken(self, model: str) -> None:
        """Raise the error for which a model is not asked again, or the server is given up."""
        broken = self._broken.get(model) or self._given_up
        if broken is not None:
            # One error may fail thousands of requests: its traceback would grow with each.
            raise broken.with_traceback(None)

    def _raise_if_final(self, model: str, failures: Sequence[RetryableError], seconds: float) -> None:
        """Raise the final error when a request has failed too often or too long."""
        last = failures[-1]
        if self._given_up is not None:
            raise self._given_up from last
        counted = sum(failure.kind != "throttled" for failure in failures)
        if counted <= self.retries and seconds <= self.patience_s:
            return
        if last.kind in {"unreached", "dropped"} and not self._reached:
            self._broken[model] = self.client.unreachable(last.reason, len(failures))
            raise self._broken[model] from last
        raise Unscored(f"{last.reason}, {len(failures)} {plural(len(failures), 'time')}") from last


def _delay(failures: Sequence[RetryableError]) -> float:
    """Return the seconds until the next attempt: those that the server asks for, or more each time.

    At random moments, so that requests that failed together do not come together again; never before the server's time.
    """
    wait_s = failures[-1].wait_s or 0.0  # a server that says "now" says nothing
    longest: float = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (len(failures) - 1))
    if wait_s and len(failures) <= PROMPT_RETRIES:
        least, longest = 0.0, min(LONGEST_DELAY_S, JITTER * wait_s)
    else:
        least = longest / 2
    return wait_s + random.uniform(least, longest)  # noqa: S311 - guards nothing


FLEX: Final = {"service_tier": "flex"}
TIER: Final = lazy_pattern(
    r"service[_ ]?tier|\bflex\b", re.IGNORECASE
)  # words of a refusal that is about the tier

OTHER_NAMES: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

ALSO_CALLED: Final = {
    "stop": ("stop_sequences", "stopSequences"),
    "response_format": ("json output", "json mode", "structured output", "structured outputs", "text.format"),
    "reasoning_effort": ("reasoning.effort", "think value", "support thinking"),
}
"""Other names of parameters in servers' errors, besides camel case."""

ESSENTIAL: Final = {"tools", "tool_choice"}  # never left out: the request would mean something else
UNMISTAKABLE: Final = {"temperature", "logprobs", "seed"}  # plain words that always mean the parameter
REPEATED: Final = {"input", "body", "ctx", "request"}  # fields of an error that repeat the request

UNKNOWN: Final = lazy_pattern(
    r"unsupported|(not|n't) support|not enabled|unavailable|deprecated|unknown|unrecogni[sz]ed"
    r"|extra[_ ](inputs|fields|forbidden)|not permitted|not allowed|unexpected|cannot find field"
    r"|only (the default|be set)|no endpoints found that support|cannot both be specified",
    re.IGNORECASE,
)
"""Words for a parameter that is not supported; an unsupported value is for the user to correct."""

OUT_OF_RANGE: Final = lazy_pattern(
    r"too (large|long|high|big|small|low)|at (most|least)\b|(less|greater|more) than|(valid|supported) range"
    r"|(above|below|exceeds?) (the )?(maximum|minimum)|maximum allowed|supported values are:[^.]*(,| and | or )",
    re.IGNORECASE,
)
"""Words for a supported parameter with a wrong value."""

EXPECTED: Final = lazy_pattern(r"expected one of\b[^\n]*", re.IGNORECASE)  # all but the refused one

INTRODUCED: Final = (
    r"(?:\b(?:argument|parameter|param|field|key|option|path|property)s?(?:[ ][\w ]{1,40}:)?[ ]|\#/)"
)
"""Words before a name without quotes, which may be an English word."""


class UnsupportedParams:
    """The unsupported parameters of one model at one server: learned from its refusals, then left out."""

    def __init__(self) -> None:
        self._replacements: dict[str, str | None] = {}

    def adapt(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the parameters to send, and the names that are left out, separated by spaces."""
        sent, without = {}, []
        for requested, value in parameters.items():
            name: str | None = requested
            while name is not None and name in self._replacements:
                name = self._replacements[name]
            if name is None:
                without.append(requested)
            else:
                sent[name] = value
        return sent, " ".join(without)

    def learn(self, sent: Mapping[str, Any], refusal: Mapping[str, Any]) -> bool:
        """Learn which of the sent parameters a refusal (status 400 or 422) names.

        Returns:
            Whether it names one that can be left out, so that a retry makes sense.
        """
        own = _without_repeated(refusal)
        text = EXPECTED.sub("", str(own))
        refused = UNKNOWN.search(text) and not OUT_OF_RANGE.search(text)
        name = _refused_name(sent, own.get("param"), text) if refused else None
        if name is None:
            return False
        other = OTHER_NAMES.get(name)
        if other in self._replacements:
            # Both names are refused. Without a token limit a reply could cost more than was reserved.
            return False
        self._replacements[name] = None if other in sent else other
        return True


def _without_repeated(refusal: Any) -> Any:
    if isinstance(refusal, Mapping):
        return {name: _without_repeated(value) for name, value in refusal.items() if name not in REPEATED}
    return [_without_repeated(value) for value in refusal] if isinstance(refusal, list) else refusal


def _refused_name(sent: Mapping[str, Any], param: object, text: str) -> str | None:
    """Return the sent parameter that a refusal names in its field `param` or its text; None for none."""
    candidates = [name for name in sent if name not in ESSENTIAL]
    if isinstance(param, str) and param.partition(".")[0] in candidates:
        return param.partition(".")[0]
    names = {form: name for name in candidates for form in (name, _camel(name), *ALSO_CALLED.get(name, ()))}
    # A bare word counts only where it is not also an English word.
    bare = [form for form in names if not (form.isalpha() and form.islower()) or form in UNMISTAKABLE]
    for forms, before, after in (
        (names, r"""\\?["'`\[]""", r"""\\?["'`\]]"""),
        (names, INTRODUCED, r"\b"),
        (bare, r"\b", r"\b"),
    ):
        found = {
            match.start(): names[form]
            for form in forms
            if (match := re.search(f"{before}{re.escape(form)}{after}", text, re.IGNORECASE))
        }
        if found:
            # "Unsupported 'max_tokens', use 'max_completion_tokens'": the refused one comes first.
            return found[min(found)]
    return None


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)
