"""The headers that say when a refused request may be sent again."""

import email.utils
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_rageval.models import rate_limits as waits
from pytest_rageval.models.rate_limits import MAX_WAIT_S, retry_after, until_reset

REMAINING = "x-ratelimit-remaining-"
RESET = "x-ratelimit-reset-"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "3600"}, MAX_WAIT_S),
        ({"retry-after": "inf"}, MAX_WAIT_S),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_a_refusal_says_for_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """The wait is read in seconds or milliseconds and limited to `MAX_WAIT_S`; an invalid value is ignored."""
    assert retry_after(headers) == seconds


def test_a_refusal_may_say_until_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait may be an HTTP date: a past date is no wait, and a distant one is limited to `MAX_WAIT_S`."""
    monkeypatch.setattr(waits, "time", SimpleNamespace(time=lambda: 1_800_000_000.0))
    soon = email.utils.formatdate(1_800_000_020, usegmt=True)
    assert retry_after({"retry-after": soon}) == 20
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}) == MAX_WAIT_S


@pytest.mark.slow
@given(text=st.text(max_size=40))
@example(text="Fri, 31 Dec 99999 23:59:59 GMT")
@example(text="Fri, 99 Dec 2026 99:99:99 +9999")
@example(text="1e999")
def test_no_header_breaks_a_run(text: str) -> None:
    for headers in (
        {"retry-after": text},
        {"retry-after-ms": text},
        {f"{REMAINING}tokens": "0", f"{RESET}tokens": text},
        {f"{REMAINING}tokens": text, f"{RESET}tokens": "1s"},
    ):
        wait = retry_after(headers)
        assert wait is None or 0 <= wait <= MAX_WAIT_S


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("1s", 1.0),
        ("20ms", 0.02),
        ("6m0s", MAX_WAIT_S),
        ("1m2s", 62.0),
        ("1m30.5s", 90.5),
        ("17.5", 17.5),
        ("0", 0.0),
        ("2h", MAX_WAIT_S),
        ("", None),
        ("soon", None),
        ("1s later", None),
        ("-1s", None),
    ],
)
def test_an_exhausted_limit_says_when_it_is_filled_up(reset: str, seconds: float | None) -> None:
    headers = {f"{REMAINING}requests": "0", f"{RESET}requests": reset}
    assert until_reset(headers) == seconds
    assert retry_after(headers) == seconds


def test_a_limit_that_is_not_exhausted_delays_no_request() -> None:
    assert until_reset({f"{REMAINING}requests": "1", f"{RESET}requests": "1m"}) is None
    assert until_reset({f"{RESET}requests": "1m"}) is None
    assert until_reset({f"{REMAINING}requests": "none", f"{RESET}requests": "1m"}) is None


def test_the_later_reset_of_two_exhausted_limits_counts() -> None:
    headers = {
        f"{REMAINING}requests": "0",
        f"{RESET}requests": "2s",
        f"{REMAINING}tokens": "0",
        f"{RESET}tokens": "7s",
    }
    assert until_reset(headers) == 7
    assert until_reset({**headers, f"{REMAINING}tokens": "100"}) == 2


def test_what_a_refusal_asks_for_counts_more_than_limits() -> None:
    """`retry-after` takes precedence over the reset of a limit, since it concerns this request."""
    headers = {"retry-after": "1", f"{REMAINING}requests": "0", f"{RESET}requests": "30s"}
    assert retry_after(headers) == 1
