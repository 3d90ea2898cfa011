"""Sends requests to one server with retries and rate limits, and omits parameters that the server does not support."""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_rageval.core.errors import RagevalError, ServerError, Unscored
from pytest_rageval.lib.text import counted
from pytest_rageval.models.budget import Charge, count_tokens, prompt_tokens
from pytest_rageval.models.client import Client, RequestRefused, RetryableError
from pytest_rageval.models.messages import BilledFailure, Reply, Request
from pytest_rageval.models.rate_limits import Limiter, OutageTimer, Slot, Stall
from pytest_rageval.options import DEFAULT_PATIENCE_S

FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 8.0
JITTER: Final = 0.1  # the largest random addition to a delay that the server requests, as a share of it
REQUESTED_DELAY_RETRIES: Final = 8
"""Retries after the delay that the server requests. Later retries wait longer."""

SLOW_SHARE: Final = 0.5  # a reply that takes this share of the timeout counts as slow

BILLED_KINDS: Final = {"slow", "garbled", "dropped"}
"""Kinds of failures after which the server may charge for the attempt."""

Reserve = Callable[[], AbstractAsyncContextManager[Charge]]
Keep = Callable[[Reply], Awaitable[Reply]] | None
FREE: Final[Reserve] = lambda: contextlib.nullcontext(Charge())  # noqa: E731 - a charge without a budget


@dataclass
class Sender:
    """Sends all requests of this process to one server.

    A request that the server refuses for load (429, 503) is repeated for up to `patience_s` seconds. After other
    failures it is repeated up to `retries` times. If no request succeeds for `patience_s` seconds, the server is given
    up. With `flex`, requests of this package use the flex tier, except for models that do not have it.
    """

    client: Client
    limiter: Limiter
    timeout_s: float
    retries: int
    patience_s: float = DEFAULT_PATIENCE_S
    flex: bool = False
    _unsupported: dict[str, "UnsupportedParams"] = field(default_factory=dict)
    _without_flex: set[str] = field(default_factory=set)
    _model_errors: dict[str, RagevalError] = field(default_factory=dict)
    _reached: bool = False
    _outage: OutageTimer = field(init=False)
    _outage_error: ServerError | None = None
    _silent_since: float | None = None
    _gave_up: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._outage = OutageTimer(self.patience_s, self._give_up)

    async def send(self, request: Request, *, reserve: Reserve = FREE, keep: Keep = None) -> Reply:
        """Return the server's reply to a request.

        After an error that concerns all requests to a model, such as a wrong key, no further request for that model is
        sent. `reserve` is entered around each attempt. `keep` stores the reply and returns it, before the attempt is
        settled and its slot is released.
        """
        with self._outage.waiting():
            return await self._send(request, reserve, keep)

    @property
    def stall(self) -> Stall | None:
        """The server and the reason if requests wait: it refuses them, is silent, or requested a pause; else None."""
        outage = self._outage
        if not outage.requests or self._outage_error is not None:
            return None
        url, requests = self.client.server.base_url, outage.requests
        if outage.last_failure:
            return Stall(url, outage.last_failure, requests, outage.elapsed_s, outage.patience_s)
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
            self.raise_if_failed(request.model)
            async with self.limiter.slot(tokens, first=bool(failures)) as slot:
                # Checked again, since another request may have failed while this one waited.
                self.raise_if_failed(request.model)
                parameters, omitted = request.parameters, ""
                if request.is_internal:
                    parameters, omitted = unsupported.adapt(parameters)
                flex = self.flex and request.is_internal and request.model not in self._without_flex
                try:
                    async with reserve() as charge:
                        # Not a part of the request and its key: the tier changes the price, and not the reply.
                        sent = {**FLEX, **parameters} if flex else parameters
                        reply = await self._attempt(request, sent, slot, charge)
                        reply = replace(reply, without=omitted) if omitted else reply
                        return reply if keep is None else await keep(reply)
                except RequestRefused as refused:
                    if flex and TIER_REFUSAL.search(str(_remove_echo(refused.answer))):
                        self._without_flex.add(request.model)
                        continue
                    if not (request.is_internal and unsupported.learn(parameters, refused.answer)):
                        raise
                    continue
                except RetryableError as failure:
                    first_failure_at = first_failure_at or time.monotonic()
                    failures.append(failure)
                    self._outage.record_failure(slot.began, failure.reason)
                    delay = _delay(failures)
                    if failure.kind == "throttled" or failure.wait_s is not None:
                        # Recorded before the slot is released. The pause for all requests does not grow with the number
                        # of failures of this one. A requested pause has no jitter: the refused requests are sent at
                        # different times after its end.
                        pause = failure.wait_s or _delay(failures[-1:])
                        self.limiter.record_refusal(slot, pause, exhausted=failure.exhausted)
            self._raise_if_final(request.model, failures, time.monotonic() - first_failure_at)
            # The slot is released during the delay. The delay ends early if the server is given up.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gave_up.wait(), delay)

    async def _attempt(
        self, request: Request, parameters: Mapping[str, object], slot: Slot, charge: Charge
    ) -> Reply:
        if self._silent_since is None:
            self._silent_since = slot.began
        # Assumed until the outcome is known, since the server may charge for a cancelled call.
        charge.billed = True
        try:
            reply, pause = await self.client.complete(request, parameters)
        except RetryableError as failure:
            charge.billed = failure.kind in BILLED_KINDS
            if failure.kind == "slow":
                self.limiter.decrease_limit(slot)
            raise
        except (RagevalError, Unscored) as error:
            charge.billed = isinstance(error, BilledFailure)
            if isinstance(error, RagevalError):
                self._model_errors[request.model] = error
            raise
        finally:
            # Any other request in flight has been sent by now.
            self._silent_since = time.monotonic() if self.limiter.in_flight > 1 else None
        self._reached = True
        self._outage.record_success()
        self._outage_error = None
        charge.reply = reply
        if self.limiter.counts_tokens:
            # A count that the server does not report is estimated.
            tokens_in = reply.tokens_in if reply.reports_tokens_in else slot.tokens
            has_count = reply.reports_tokens_out or not request.generates
            tokens_out = reply.tokens_out if has_count else count_tokens(reply.text)
            self.limiter.correct_tokens(slot, tokens_in + tokens_out)
        if time.monotonic() - slot.began > SLOW_SHARE * self.timeout_s:
            self.limiter.decrease_limit(slot)
        else:
            self.limiter.record_success()
        if pause is not None:
            self.limiter.pause(pause)
        return reply

    def _give_up(self) -> None:
        """Fail all waiting requests. A request in flight may still succeed, and then requests are sent again."""
        outage = self._outage
        self._outage_error = self.client.server.silence_error(
            outage.last_failure, outage.requests, outage.patience_s
        )
        self.limiter.fail_waiting(self._outage_error)
        self._gave_up.set()
        self._gave_up = asyncio.Event()

    def raise_if_failed(self, model: str) -> None:
        """Raise the error that prevents requests to a model or to the whole server, if there is one."""
        error = self._model_errors.get(model) or self._outage_error
        if error is not None:
            # One error object may fail thousands of requests: its traceback would grow with each.
            raise error.with_traceback(None)

    def _raise_if_final(self, model: str, failures: Sequence[RetryableError], seconds: float) -> None:
        last = failures[-1]
        if self._outage_error is not None:
            raise self._outage_error from last
        counted_failures = sum(failure.kind != "throttled" for failure in failures)
        if counted_failures <= self.retries and seconds <= self.patience_s:
            return
        if last.kind in {"unreached", "dropped"} and not self._reached:
            self._model_errors[model] = self.client.server.unreachable_error(last.reason, len(failures))
            raise self._model_errors[model] from last
        raise Unscored(f"{last.reason}, {counted(len(failures), 'time')}") from last


def _delay(failures: Sequence[RetryableError]) -> float:
    """Return the seconds until the next attempt: the delay that the server requests, or an exponential delay.

    A random part keeps requests that failed together from being sent together again.
    """
    wait_s = failures[-1].wait_s or 0.0  # a requested delay of 0 counts as none
    longest: float = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (len(failures) - 1))
    if wait_s and len(failures) <= REQUESTED_DELAY_RETRIES:
        shortest, longest = 0.0, min(MAX_DELAY_S, JITTER * wait_s)
    else:
        shortest = longest / 2
    return wait_s + random.uniform(shortest, longest)  # noqa: S311 - not a secret


FLEX: Final = {"service_tier": "flex"}
TIER_REFUSAL: Final = re.compile(r"service[_ ]?tier|\bflex\b", re.IGNORECASE)

RENAMED_PARAMETERS: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

ERROR_ALIASES: Final[Mapping[str, Collection[str]]] = {
    "stop": ("stop_sequences", "stopSequences"),
    "response_format": ("json output", "json mode", "structured output", "structured outputs", "text.format"),
    "reasoning_effort": ("reasoning.effort", "think value", "support thinking"),
}
"""Other names of parameters in the errors of servers, besides camel case."""

ESSENTIAL: Final = {"tools", "tool_choice"}
"""Parameters that are never omitted: without them the request would mean something else."""

UNAMBIGUOUS: Final = {"temperature", "logprobs", "seed"}
"""Words that always mean the parameter, even without quotes."""

ECHO_FIELDS: Final = {"input", "body", "ctx", "request"}  # fields of an error that repeat the request

UNSUPPORTED: Final = re.compile(
    r"unsupported|(not|n't) support|not enabled|unavailable|deprecated|unknown|unrecogni[sz]ed"
    r"|extra[_ ](inputs|fields|forbidden)|not permitted|not allowed|unexpected|cannot find field"
    r"|only (the default|be set)|no endpoints found that support|cannot both be specified",
    re.IGNORECASE,
)
"""Matches an error about a parameter that is not supported. The user has to correct an unsupported value."""

OUT_OF_RANGE: Final = re.compile(
    r"too (large|long|high|big|small|low)|at (most|least)\b|(less|greater|more) than|(valid|supported) range"
    r"|(above|below|exceeds?) (the )?(maximum|minimum)|maximum allowed|supported values are:[^.]*(,| and | or )",
    re.IGNORECASE,
)
"""Matches an error about a wrong value of a supported parameter."""

EXPECTED_NAMES: Final = re.compile(r"expected one of\b[^\n]*", re.IGNORECASE)  # lists the supported names

INTRODUCTION: Final = (
    r"(?:\b(?:argument|parameter|param|field|key|option|path|property)s?(?:[ ][\w ]{1,40}:)?[ ]|\#/)"
)
"""Matches the words before a parameter name without quotes: the name may be an English word."""


class UnsupportedParams:
    """The unsupported parameters of one model at one server: learned from its refusals, then renamed or omitted."""

    def __init__(self) -> None:
        self._replacements: dict[str, str | None] = {}

    def adapt(self, parameters: Mapping[str, object]) -> tuple[dict[str, object], str]:
        """Return the parameters to send, and the names of the omitted ones, separated by spaces."""
        sent, omitted = {}, []
        for requested, value in parameters.items():
            name: str | None = requested
            while name is not None and name in self._replacements:
                name = self._replacements[name]
            if name is None:
                omitted.append(requested)
            else:
                sent[name] = value
        return sent, " ".join(omitted)

    def learn(self, sent: Mapping[str, object], refusal: Mapping[str, object]) -> bool:
        """Learn from a refusal which of the sent parameters is not supported; return whether a retry makes sense."""
        error = _remove_echo(refusal)
        text = EXPECTED_NAMES.sub("", str(error))
        refused = UNSUPPORTED.search(text) and not OUT_OF_RANGE.search(text)
        name = _refused_name(sent, error.get("param"), text) if refused else None
        if name is None:
            return False
        other = RENAMED_PARAMETERS.get(name)
        if other in self._replacements:
            # The server refuses both names. Without a token limit a reply could cost more than the budget has reserved.
            return False
        self._replacements[name] = None if other in sent else other
        return True


def _remove_echo(refusal: Any) -> Any:
    if isinstance(refusal, Mapping):
        return {name: _remove_echo(value) for name, value in refusal.items() if name not in ECHO_FIELDS}
    return [_remove_echo(value) for value in refusal] if isinstance(refusal, list) else refusal


def _refused_name(sent: Mapping[str, object], param: object, text: str) -> str | None:
    """Return the sent parameter that a refusal names in its field `param` or its text; None if it names none."""
    candidates = [name for name in sent if name not in ESSENTIAL]
    if isinstance(param, str) and param.partition(".")[0] in candidates:
        return param.partition(".")[0]
    names = {form: name for name in candidates for form in (name, _camel(name), *ERROR_ALIASES.get(name, ()))}
    # A name without quotes counts only if it is not an English word.
    bare = [form for form in names if not (form.isalpha() and form.islower()) or form in UNAMBIGUOUS]
    for forms, before, after in (
        (names, r"""\\?["'`\[]""", r"""\\?["'`\]]"""),
        (names, INTRODUCTION, r"\b"),
        (bare, r"\b", r"\b"),
    ):
        matches = {
            match.start(): names[form]
            for form in forms
            if (match := re.search(f"{before}{re.escape(form)}{after}", text, re.IGNORECASE))
        }
        if matches:
            # The refused name comes first: "Unsupported 'max_tokens', use 'max_completion_tokens'".
            return matches[min(matches)]
    return None


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)
