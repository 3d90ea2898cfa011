"""A secret is hidden however it is printed, and when a server repeats it."""

import copy
import pickle
from dataclasses import dataclass, replace

import pytest

from pytest_rageval.lib.secret import Credentials, Secret

KEY = "sk-planted/key+1"


@dataclass(frozen=True)
class Holder:
    key: Secret | None = None


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(KEY)),
        str(Secret(KEY)),
        f"{Secret(KEY)}",
        f"{Secret(KEY):>40}",
        f"{Secret(KEY)!r} {Secret(KEY)!s} {Secret(KEY)!a}",
        "%s %r" % (Secret(KEY), Secret(KEY)),  # noqa: UP031 - one of the ways
        "{0} {0!r}".format(Secret(KEY)),
        repr(Holder(Secret(KEY))),
        repr([Secret(KEY)]),
        repr(Credentials(Secret(KEY), Secret.from_login("me", KEY), Secret(KEY))),
        repr(getattr(Secret(KEY), "__dict__", {})),
    ],
)
def test_it_is_shown_as_stars(shown: str) -> None:
    assert "planted" not in shown
    assert "***" in shown or shown == "{}"


def test_it_is_no_text() -> None:
    """A secret is no str, so that libraries cannot send or print it; only `reveal` returns the text."""
    secret = Secret(KEY)
    assert not isinstance(secret, str)
    with pytest.raises(TypeError):
        "Bearer " + secret
    assert secret.reveal() == KEY


def test_it_is_not_pickled() -> None:
    for holder in (Secret(KEY), Holder(Secret(KEY)), [Secret(KEY)]):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="a secret is not pickled"):
                pickle.dumps(holder, protocol)
    assert copy.deepcopy(Holder(Secret(KEY))) == replace(Holder(), key=Secret(KEY))


def test_two_are_equal_where_their_texts_are() -> None:
    assert Secret(KEY) == Secret(KEY)
    assert len({Secret(KEY), Secret(KEY), Secret("other")}) == 2
    assert Secret(KEY) != KEY


@pytest.mark.parametrize(
    "text",
    [
        "sk-planted/key+1",
        'in JSON: "sk-planted\\/key+1"',
        "in a URL: ?key=sk-planted%2Fkey%2B1&x",
        "in a URL: ?key=sk-planted/key%2B1&x",
        "twice: sk-planted/key+1sk-planted/key+1",
    ],
)
def test_a_server_may_repeat_it(text: str) -> None:
    redacted = Secret(KEY).redact(text)
    assert "***" in redacted
    assert "planted" not in redacted


@pytest.mark.parametrize(
    "key", ["planted\x01key", 'planted"key', "planted\\key", "plantedükey", "planted\nkey", " planted-key\n"]
)
def test_an_error_may_quote_it(key: str) -> None:
    header = f"Bearer {key}".strip()
    for quoted in (repr(key), ascii(key), repr(header.encode("latin-1")), repr(header.encode())):
        redacted = Secret(key).redact(f"Illegal header value {quoted}")
        assert "***" in redacted, quoted
        assert "planted" not in redacted


def test_a_login_is_hidden_whole_and_in_parts() -> None:
    login = Secret.from_login("me", "planted-word")
    for text in ("me:planted-word", "planted-word", "Basic bWU6cGxhbnRlZC13b3Jk"):
        assert "***" in login.redact(text)
        assert "planted" not in login.redact(text)
        assert "bWU6" not in login.redact(text)
    assert login.redact("me and you") == "me and you"


def test_a_short_word_is_no_secret() -> None:
    """A short placeholder key, such as local servers get, is not redacted."""
    assert Secret("none").redact("There are none.") == "There are none."
