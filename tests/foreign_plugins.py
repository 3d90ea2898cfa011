"""Which plugins stay out of the runs of pytest that tests and benchmarks start."""

from typing import Final

__all__ = ["WITHOUT"]

WITHOUT: Final = tuple(
    f"-pno:{name}"
    for name in (
        "anyio",
        "asyncio",
        "cacheprovider",
        "hypothesispytest",
        "langsmith_plugin",
        "platformdirs",
        "socket",
    )
)
"""Packages of the developer's bring them; what they say is no part of the tests, and importing them takes a second."""
