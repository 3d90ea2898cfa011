"""Detecting whether a retriever overrides the asynchronous method of its framework."""

from typing import Any

import pytest

from pytest_rageval.retrievers.adapters.callables import overrides_method


class _Base:
    __module__ = "framework.base"

    async def asks(self) -> str:
        return "by the synchronous one"


_Base.asks.__module__ = "framework.base"


class _Sync(_Base):
    pass


class _Async(_Base):
    async def asks(self) -> str:
        return "of its own"


class _OfTheFramework(_Base):
    """Another class of the framework, whose method is also defined in the framework."""

    async def asks(self) -> str:
        return "by another's"


_OfTheFramework.asks.__module__ = "framework.stores"


class _BelowAsync(_Async):
    pass


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        (_Base, False),
        (_Sync, False),
        (_OfTheFramework, False),
        (_Async, True),
        (_BelowAsync, True),
        (object, False),
    ],
)
def test_only_what_is_defined_outside_the_framework_is_its_own(kind: type[Any], overrides: bool) -> None:  # noqa: FBT001
    """A framework's default would call the synchronous method in a thread where it must not run."""
    assert overrides_method(kind(), "asks") is overrides


def test_what_a_framework_writes_into_a_class_is_not_its_own() -> None:
    class Patched(_Base):
        pass

    async def asks(_: object) -> str:
        return "by the synchronous one"

    asks.__module__ = "framework.base"
    Patched.asks = asks
    assert overrides_method(Patched(), "asks") is False
