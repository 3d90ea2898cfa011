"""The plugins that are disabled in the runs of pytest that tests and benchmarks start."""

from typing import Final

WITHOUT: Final = tuple(
    f"-pno:{name}"
    for name in (
        "anyio",
        "asyncio",
        "cacheprovider",
        "hypothesispytest",
        "langsmith_plugin",
        "platformdirs",
        "pytest-testmon",
        "recording",
        "repeat",
        "socket",
    )
)
"""Options that disable plugins of other packages. Their output is not tested, and their import takes a second."""
