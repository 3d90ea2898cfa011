"""The location of the cache, and the name of a run whose machines share the cache."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import Secret, StoreURL, parse_cache
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings

ROOT, HERE = Path("/project"), Path("/here")


def _resolve(
    given: dict[str, Any] | None = None, ini: dict[str, Any] | None = None, **environ: str
) -> Settings:
    return resolve_options(given or {}, ini or {}, environ, invoked_in=HERE, root=ROOT)


@pytest.mark.parametrize(
    ("given", "ini", "environ", "place"),
    [
        ({}, {}, "", "/project/.rageval_cache"),
        ({"cache": "c"}, {}, "", "/here/c"),
        ({"cache_dir": "c"}, {}, "", "/here/c"),
        ({"cache": "c", "cache_dir": "d"}, {}, "", "/here/c"),
        ({}, {"cache": "c"}, "", "/project/c"),
        ({}, {"cache": "redis://h/0"}, "", "redis://h/0"),
        ({"cache": "c"}, {"cache": "redis://h/0"}, "", "/here/c"),
        ({}, {"cache": "diskcache:c"}, "", "diskcache:/project/c"),
        ({"cache": "diskcache:/c"}, {}, "", "diskcache:/c"),
        ({}, {}, "c", "/here/c"),
        ({}, {}, "redis://h/0", "redis://h/0"),
        ({}, {"cache": "c"}, "redis://h/0", "/project/c"),
        ({"cache": r"C:\c"}, {}, "", r"/here/C:\c"),
    ],
)
def test_the_place_of_the_cache(given: dict[str, str], ini: dict[str, str], environ: str, place: str) -> None:
    settings = _resolve(given, ini, RAGEVAL_CACHE_URL=environ)
    assert str(settings.cache_location) == place
    if not isinstance(settings.cache_location, StoreURL):
        assert settings.cache_dir == settings.cache_location


def test_an_option_may_name_the_store_without_its_password() -> None:
    environ = "rediss://me:planted-password@h:1/0"
    same = _resolve({"cache": "rediss://h:1/0"}, RAGEVAL_CACHE_URL=environ).cache
    other = _resolve({"cache": "rediss://h:1/1"}, RAGEVAL_CACHE_URL=environ).cache
    assert isinstance(same, StoreURL)
    assert isinstance(other, StoreURL)
    assert (same.secret, same.public) == (Secret(environ), "rediss://h:1/0")
    assert other.secret == Secret("rediss://h:1/1")


@pytest.mark.parametrize("source", ["flag", "ini"])
@pytest.mark.parametrize(
    "url", ["redis://:planted-password@h/0", "redis://planted@h/0", "redis://h/0?password=planted-password"]
)
def test_a_password_is_refused_where_others_read_it(source: str, url: str) -> None:
    given, ini = ({"cache": url}, {}) if source == "flag" else ({}, {"cache": url})
    with pytest.raises(InputError, match="belongs in the environment variable RAGEVAL_CACHE_URL") as caught:
        _resolve(given, ini)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis://:planted/password@h/0", "redis://h:planted/0", "redis://u:planted#x@h/0"]
)
def test_a_url_that_cannot_be_used_is_not_quoted(url: str) -> None:
    """The error for an invalid URL does not quote it, since any part may belong to the password."""
    with pytest.raises(InputError, match="RAGEVAL_CACHE_URL cannot be used: expected a") as caught:
        _resolve(RAGEVAL_CACHE_URL=url)
    assert "planted" not in str(caught.value)


def test_what_is_shown_of_a_url() -> None:
    url = parse_cache("rediss://me:planted%2Fpassword@h:6380/2?ssl_ca_certs=%2Fetc%2Fmine.pem")
    assert isinstance(url, StoreURL)
    assert str(url) == url.public == "rediss://h:6380/2"
    assert "planted" not in repr(url)
    for text in ("planted/password", "planted%2Fpassword", "'me:planted%2Fpassword'"):
        assert "planted" not in url.redact(f"wrong: {text}")


@pytest.mark.parametrize("url", ["team:///x", "team:////x", "team:/x", "team://h", "team://h/x", "team:x"])
def test_a_url_without_a_host_keeps_its_slashes(url: str) -> None:
    assert StoreURL.parse(url).public == url


@pytest.mark.parametrize(
    ("environ", "shared", "name"),
    [
        ({}, True, ""),
        ({"RAGEVAL_RUN_ID": "n"}, True, "n"),
        ({"RAGEVAL_RUN_ID": "n"}, False, "n"),
        ({"GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2"}, True, "7-2"),
        ({"GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2"}, False, ""),
        ({"RAGEVAL_RUN_ID": "n", "GITHUB_RUN_ID": "7"}, True, "n"),
        ({"CI_PIPELINE_ID": "8"}, True, "8"),
        ({"BUILDKITE_BUILD_ID": "8"}, True, "8"),
        ({"CIRCLE_WORKFLOW_ID": "8"}, True, "8"),
        ({"BUILD_BUILDID": "8"}, True, "8"),
        ({"BUILD_TAG": "8"}, True, "8"),
    ],
)
def test_the_name_that_machines_give_a_run(environ: dict[str, str], shared: bool, name: str) -> None:  # noqa: FBT001
    assert _resolve({"cache": "redis://h/0"} if shared else {}, **environ).run == name
