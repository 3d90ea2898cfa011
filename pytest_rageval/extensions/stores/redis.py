"""A store in Redis or Valkey, which several machines share.

Replies do not expire. Claims are keys that expire, so only the server's clock matters. Atomic operations are Lua
scripts on the server.
"""

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pytest_rageval.core.errors import StoreError, require
from pytest_rageval.extensions.stores.entry_codec import decode_or_damaged, encode_entry, usable_replies
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import (
    CLAIM_TTL_S,
    Damaged,
    Entry,
    Spending,
    StoreAwayError,
    build_claim_results,
    start_renewing,
)
from pytest_rageval.options.parsers import CACHE_URL

VERSION: Final = 1  # of the keys and values in Redis
PATIENCE_S: Final = 10.0  # how long to retry while the server does not answer, as during a restart
PAUSE_S: Final = 0.1  # between attempts
TIMEOUT_S: Final = 3.0  # of one attempt
CHUNK: Final = 500  # how many keys are read at once
SPENDING_KEPT_S: Final = 7 * 86400  # how long the spending of a run is stored
CHANGE_KEPT_S: Final = 600  # how long a change of spending is remembered, in case it is sent twice
CLAIM_TTL_MS: Final = int(CLAIM_TTL_S * 1000)
ACL_RIGHTS: Final = "~rageval:* +@read +@write +@connection +@scripting +time +info"
URL_PARAMETERS: Final = {"client_name", "db", "health_check_interval", "password", "username"}
"""The parameters of a URL that are passed to the client, besides those that begin with `ssl_`."""

AWAY: Final = re.compile(r"\b(READONLY|MASTERDOWN|CLUSTERDOWN|BUSY|LOADING|MISCONF|TRYAGAIN)\b")
"""Matches the errors of a server that may answer later: a failover, a long script, a full disk. In a script, the
server's text quotes them."""

T = TypeVar("T")

LIBRARY: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(key)
  local found = redis.pcall('GET', key)
  if type(found) ~= 'table' then return found end
  redis.call('DEL', key)
  return false
end
local function sorted_set(key)
  if redis.call('TYPE', key).ok ~= 'zset' then redis.call('DEL', key) end
  return key
end
local function finish(first, last, owner, idle, owners)
  for i = first, last do
    if text(KEYS[i]) == owner then redis.call('DEL', KEYS[i]) end
  end
  if idle == '1' then redis.call('ZREM', sorted_set(owners), owner) end
end
"""
"""The beginning of each script. A key of a type that the store does not write is deleted and counts as missing."""

CLAIM: Final = f"""{LIBRARY}
local got = {{}}
local owners = sorted_set(KEYS[#KEYS])
for i = 1, #KEYS - 1 do
  local owner = text(KEYS[i])
  if owner and owner ~= ARGV[1] then
    got[i] = 0
  else
    got[i] = 1
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    redis.call('ZADD', owners, now + ARGV[2], ARGV[1])
  end
end
return got
"""
"""Claims keys. KEYS: the claims, the set of owners. ARGV: this owner, milliseconds until the claims expire.

Returns for each claim whether this owner has it.
"""

RENEW: Final = f"""{LIBRARY}
local owners = sorted_set(KEYS[#KEYS])
for i = 1, #KEYS - 1 do
  if text(KEYS[i]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    redis.call('ZADD', owners, now + ARGV[2], ARGV[1])
  end
end
return 1
"""
"""Renews the claims of this owner. KEYS, ARGV: as for CLAIM."""

OTHER_OWNERS: Final = f"""{LIBRARY}
redis.call('ZREMRANGEBYSCORE', sorted_set(KEYS[1]), '-inf', now)
local owners = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, owner in ipairs(owners) do
  if owner ~= ARGV[1] then return 1 end
end
return 0
"""
"""Returns whether there is another owner. KEYS: the set of owners. ARGV: this owner."""

RELEASE: Final = f"""{LIBRARY}
finish(1, #KEYS - 1, ARGV[1], ARGV[2], KEYS[#KEYS])
return 1
"""
"""Ends claims. KEYS: the claims, the set of owners. ARGV: this owner, "1" if it has no other claims."""

KEEP: Final = f"""{LIBRARY}
local count = (#KEYS - 1) / 2
for i = 1, count do
  if (text(KEYS[i]) or '') ~= ARGV[1 + 2 * i] then return 0 end
end
for i = 1, count do
  redis.call('SET', KEYS[i], ARGV[2 + 2 * i])
end
finish(count + 1, 2 * count, ARGV[1], ARGV[2], KEYS[#KEYS])
return 1
"""
"""Stores replies and ends their claims, unless one of the replies has changed since it was read.

KEYS: the replies, their claims, the set of owners. ARGV: as for RELEASE; then for each reply the value that was read
(empty for none) and the new value.
"""

SPEND: Final = f"""
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then return {{'2'}} end
if redis.call('EXISTS', KEYS[2]) == 1 then return {{'1'}} end
local names = {{'calls', 'cost', 'open_calls', 'open_cost'}}
local now, sum = {{}}, {{}}
for i, name in ipairs(names) do
  now[i] = tonumber(redis.call('HGET', KEYS[1], name) or '0')
  sum[i] = now[i] + tonumber(ARGV[i])
end
local calls = sum[1] + sum[3]
local cost = now[2] + now[4] + (ARGV[2] + ARGV[4])
if (ARGV[5] ~= '' and calls > tonumber(ARGV[5])) or (ARGV[6] ~= '' and cost > tonumber(ARGV[6])) then
  local answer = {{'0'}}
  for i = 1, 4 do answer[i + 1] = string.format('%.17g', now[i]) end
  return answer
end
if sum[3] == 0 then sum[4] = 0 end
for i, name in ipairs(names) do redis.call('HSET', KEYS[1], name, string.format('%.17g', sum[i])) end
if ARGV[7] == '1' then redis.call('EXPIRE', KEYS[1], {SPENDING_KEPT_S}) end
redis.call('SET', KEYS[2], '1', 'EX', {CHANGE_KEPT_S})
return {{'1'}}
"""
"""Adds a change to an account once, within limits.

KEYS: the account, a key that is unique to this change. ARGV: the change; the limits of calls and cost, "" for no
limit; "1" if the account expires.

Returns '1' if the change was added, '0' and the account if it would exceed a limit, '2' if the account is no account.
"""


class RedisStore:
    """A `ReplyStore` at a Redis server; StoreAwayError from every method if it does not answer for `PATIENCE_S`."""

    def __init__(self, url: StoreURL, namespace: str = "replies") -> None:
        self._redis = RedisConnection(url)
        self._prefix = f"rageval:{VERSION}:{namespace}"
        self._owner = uuid.uuid4().hex
        self._owners_name = f"{self._prefix}:owners"
        self._own_keys: set[str] = set()
        self._lock = threading.Lock()
        self._renewal_thread: threading.Thread | None = None
        self.damaged: set[str] = set()
        self._never_evicts = self._redis.check_eviction()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        return usable_replies(self._read_replies(keys), self.damaged, run, only_run=only_run)

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        replies = self.get_many(keys, run=run, only_run=only_run)
        missing = [key for key in dict.fromkeys(keys) if key not in replies]
        if not missing:
            return build_claim_results(keys, replies, ())
        # Before the keys are claimed, so that the renewing thread misses no claim; it renews only existing claims.
        with self._lock:
            self._own_keys.update(missing)
        try:
            got = self._redis.run_script(
                CLAIM, [*map(self._claim_name, missing), self._owners_name], [self._owner, CLAIM_TTL_MS]
            )
        except StoreError:
            self._forget(missing)
            raise
        own = [key for key, mine in zip(missing, got, strict=True) if mine]
        self._forget(key for key, mine in zip(missing, got, strict=True) if not mine)
        if own and self._renewal_thread is None:
            self._renewal_thread = start_renewing(self.renew, self._redis.closing)
        # A reply may have been stored between the look-up and the claim, which ends only after the reply is stored.
        try:
            late = self.get_many(own, run=run, only_run=only_run)
            self.release(list(late))
        except StoreError:
            # No caller receives these claims: let them expire.
            self._forget(own)
            raise
        return build_claim_results(keys, replies | late, own)

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        owners = self._redis.mget([self._claim_name(key) for key in keys])
        this_owner = self._owner.encode()
        return {
            key: owner == this_owner for key, owner in zip(keys, owners, strict=True) if owner is not None
        }

    def others_active(self) -> bool:
        return bool(self._redis.run_script(OTHER_OWNERS, [self._owners_name], [self._owner]))

    def renew(self) -> None:
        with self._lock:
            own = list(self._own_keys)
        if own:
            # Without retries: the thread calls this method again soon.
            keys = [*map(self._claim_name, own), self._owners_name]
            self._redis.run_script(RENEW, keys, [self._owner, CLAIM_TTL_MS], patience_s=0.0)

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        new = {entry.key: entry for entry in reversed(list(entries))}
        if not new:
            return {}
        self._forget(new)
        lines = {key: encode_entry(entry, run) for key, entry in new.items()}
        while True:
            before = self._read_replies(list(new))
            stored = usable_replies(before, self.damaged, run, only_run=only_run)
            arguments: list[Any] = [self._owner, self._has_no_claims]
            for key, line in lines.items():
                old = before.get(key, b"")
                arguments += [old, old if key in stored else line]
            keys = [*map(self._reply_name, new), *map(self._claim_name, new), self._owners_name]
            # If another process has stored one of the replies meanwhile, read them again.
            if self._redis.run_script(KEEP, keys, arguments):
                return {key: stored.get(key, entry.reply) for key, entry in new.items()}

    def release(self, keys: Sequence[str], *, patience_s: float = PATIENCE_S) -> None:
        if keys:
            self._forget(keys)
            names = [*map(self._claim_name, keys), self._owners_name]
            self._redis.run_script(RELEASE, names, [self._owner, self._has_no_claims], patience_s=patience_s)

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        limits = ["" if limit == inf else repr(limit) for limit in (max_calls, max_cost)]
        keys = [f"{self._prefix}:spending:{account}", f"{self._prefix}:spent:{uuid.uuid4().hex}"]
        # A server may evict what expires: the run would spend more than its limit.
        expires = "1" if self._never_evicts else "0"
        done, *state = self._redis.run_script(SPEND, keys, [*map(repr, change), *limits, expires])
        if done == b"1":
            return None
        if done == b"2":
            raise StoreError(
                f"The cache {self._redis.url.public} does not know what this run has spent: its key {keys[0]} is "
                "not a hash.\nDelete this key, which another program has written, and run again."
            )
        calls, cost, open_calls, open_cost = map(float, state)
        return Spending(int(calls), cost, int(open_calls), open_cost)

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        ordered = sorted(set(self._all_keys() if keys is None else keys))
        for start in range(0, len(ordered), CHUNK):
            for key, text in self._read_replies(ordered[start : start + CHUNK]).items():
                yield decode_or_damaged(key, text)

    def delete_many(self, keys: Sequence[str]) -> None:
        if keys:
            self._redis.call(lambda client: client.delete(*map(self._reply_name, keys)))

    def close(self) -> None:
        self._redis.closing.set()
        if self._renewal_thread is not None and not self._redis.is_away:
            self._renewal_thread.join(timeout=CLAIM_TTL_S)
        # If this fails, the claims expire.
        with suppress(StoreError):
            if not self._redis.is_away:
                self.release(list(self._own_keys), patience_s=0.0)
        self._redis.close()

    def ping(self) -> None:
        """Raise StoreAwayError if the server does not answer now, or does not write."""
        self._redis.call(lambda client: client.set(f"{self._prefix}:ping", "", ex=1), patience_s=0.0)

    @property
    def _has_no_claims(self) -> str:
        """An argument of scripts: "1" if this process has no claims, else "0"."""
        with self._lock:
            return "0" if self._own_keys else "1"

    def _forget(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._own_keys.difference_update(keys)

    def _reply_name(self, key: str) -> str:
        return f"{self._prefix}:reply:{key}"

    def _claim_name(self, key: str) -> str:
        return f"{self._prefix}:claim:{key}"

    def _read_replies(self, keys: Sequence[str]) -> dict[str, bytes]:
        texts = self._redis.mget([self._reply_name(key) for key in keys])
        return {key: text for key, text in zip(keys, texts, strict=True) if text is not None}

    def _all_keys(self) -> list[str]:
        prefix = self._reply_name("").encode()
        # After a lost connection the scan starts again: a cursor is valid in one server process only.
        names = self._redis.call(lambda client: list(client.scan_iter(match=prefix + b"*", count=CHUNK)))
        return [name[len(prefix) :].decode(errors="backslashreplace") for name in names]


class RedisConnection:
    """A connection to a Redis server. It repeats calls while the server is away, and its errors say what to do."""

    def __init__(self, url: StoreURL) -> None:
        self._library = require("redis", extra="redis", purpose=f"The cache {url.public}")
        _check_url(url, address := url.secret.reveal())
        self.url = url
        self.closing = threading.Event()  # after which no call is repeated
        self.is_away = False  # whether the server has not answered the last call
        errors, retry = self._library.exceptions, self._library.retry
        # Checked before the connection errors: wrong credentials raise a subclass of ConnectionError.
        self._refusal_errors = (
            errors.AuthenticationError,
            errors.AuthorizationError,
            errors.MaxConnectionsError,
        )
        self._connection_errors = (errors.ConnectionError, errors.TimeoutError, OSError)
        try:
            self._client = self._library.Redis.from_url(
                address,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                # `call` retries instead.
                retry=retry.Retry(self._library.backoff.NoBackoff(), 0),
            )
        except Exception as error:  # noqa: BLE001 - see `call`
            raise self._unusable_error(error) from None

    def call(self, work: Callable[[Any], T], *, patience_s: float = PATIENCE_S) -> T:
        """Return what `work` gets from the client; retry while it does not answer, so `work` must be idempotent."""
        until = time.monotonic() + patience_s
        while True:
            try:
                answer = work(self._client)
            except self._refusal_errors as error:
                raise self._unusable_error(error) from None
            # Whatever the library raises: its traceback would show the URL with its secrets.
            except Exception as error:  # noqa: BLE001
                if not self._says_away(error):
                    raise self._unusable_error(error) from None
                self.is_away = True
                if time.monotonic() >= until or self.closing.is_set():
                    raise self._unusable_error(error, StoreAwayError) from None
                time.sleep(PAUSE_S)
            else:
                self.is_away = False
                return answer

    def run_script(
        self, source: str, keys: Sequence[str], arguments: Sequence[Any], *, patience_s: float = PATIENCE_S
    ) -> Any:
        script = self._client.register_script(source)
        return self.call(lambda _: script(keys=keys, args=arguments), patience_s=patience_s)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        values: list[bytes | None] = []
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            values += self.call(lambda client, chunk=chunk: client.mget(chunk))  # type: ignore[misc]
        return values

    def close(self) -> None:
        with suppress(*self._connection_errors):
            self._client.close()

    def check_eviction(self) -> bool:
        """Return whether the server keeps all keys; raise StoreError if it deletes replies when its memory is full."""
        memory = self.call(lambda client: client.info("memory"))
        policy = str(memory.get("maxmemory_policy", ""))
        if policy.startswith("allkeys"):
            raise StoreError(
                f"The cache {self.url.public} cannot be used: its maxmemory-policy is {policy}, which deletes replies "
                "that were paid for.\nSet it to noeviction."
            )
        return policy == "noeviction"

    def _says_away(self, error: Exception) -> bool:
        errors = self._library.exceptions
        # The client cuts the code of an error that it has a class for.
        away = (errors.ReadOnlyError, errors.ClusterDownError, errors.TryAgainError, *self._connection_errors)
        is_said = isinstance(error, errors.ResponseError) and AWAY.search(str(error)) is not None
        return is_said or isinstance(error, away)

    def _unusable_error(self, error: BaseException, kind: type[StoreError] = StoreError) -> StoreError:
        # Callers raise it `from None`: the traceback of the library's error would show the URL with its secrets.
        said = self.url.redact(str(error)).rstrip(".")
        errors = self._library.exceptions
        if isinstance(error, errors.AuthenticationError):
            given = self._client.connection_pool.connection_kwargs.get("password")
            why = (
                f"refuses the user or password: {said}" if given else "needs a password, and its URL has none"
            )
            scheme = self.url.scheme
            remedy = (
                f"Write the URL into the environment variable {CACHE_URL}, as {scheme}://:PASSWORD@HOST/0 or "
                f"{scheme}://USER:PASSWORD@HOST/0, with / ? # and @ in them as %2F %3F %23 and %40"
            )
        elif isinstance(error, errors.NoPermissionError):
            why = f"does not let this user do what a store has to: {said}"
            remedy = f"Let an administrator say: ACL SETUSER USER {ACL_RIGHTS}"
        else:
            why = f"cannot be used: {type(error).__name__}: {said}"
            remedy = f"Check the server, and its URL in --rageval-cache or {CACHE_URL}"
        return kind(
            f"The cache {self.url.public} {why}.\n{remedy}; without a URL, replies are kept in a local folder."
        )


def _check_url(url: StoreURL, address: str) -> None:
    parts = urlsplit(address)
    if not re.fullmatch(r"/?\d*", parts.path):
        raise _url_error(
            url, f"its path {parts.path!r} is not the number of a database", "as in redis://HOST/0"
        )
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in URL_PARAMETERS and not name.startswith("ssl_"):
            # A text without a value is no name: it may be a part of the password.
            found = f"the parameter {name!r}" if value else "a text after ? that is not NAME=VALUE"
            known = f"{', '.join(sorted(URL_PARAMETERS))}, and those that begin with ssl_"
            raise _url_error(url, f"its URL has {found}", f"where the parameters can be {known}")


def _url_error(url: StoreURL, why: str, allowed: str) -> StoreError:
    return StoreError(
        f"The cache {url.public} cannot be used: {why}.\n"
        f"Correct the URL in --rageval-cache or {CACHE_URL}, {allowed}."
    )
