"""Detecting whether a retriever overrides the asynchronous method of its framework."""

import pytest

from pytest_rageval.retrievers.adapters.callables import overrides_method


def _kind(*bases: type, of: str = "") -> type:
    """Return a class, with a method that the module `of` defines if it is given."""

    async def asks(_: object) -> str:
        return of

    asks.__module__ = of
    return type("Kind", bases, {"__module__": of or "app", **({"asks": asks} if of else {})})


BASE = _kind(of="framework.base")
OWN = _kind(BASE, of="app")


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        (BASE, False),
        (_kind(BASE), False),
        (_kind(BASE, of="framework.stores"), False),
        (OWN, True),
        (_kind(OWN), True),
        (object, False),
    ],
)
def test_only_what_is_defined_outside_the_framework_is_its_own(kind: type, *, overrides: bool) -> None:
    """A framework's default would call the synchronous method in a thread where it must not run."""
    assert overrides_method(kind(), "asks") is overrides


def test_what_a_framework_writes_into_a_class_is_not_its_own() -> None:
    patched = _kind(BASE)
    patched.asks = BASE.asks
    assert overrides_method(patched(), "asks") is False
