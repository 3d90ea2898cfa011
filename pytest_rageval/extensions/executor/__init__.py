"""Runs a retriever in other processes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.calls.event_loop import BackgroundEventLoop
    from pytest_rageval.retrievers import Retriever
    from pytest_rageval.retrievers.adapters import Adapter
    from pytest_rageval.run.inputs import Components


def rageval_executor() -> object:
    """A concurrent.futures.Executor that runs a sync retriever, in chunks of questions. Default: none."""
    return None


FIXTURES: Final = (rageval_executor,)
COMPONENTS: Final = ("rageval_executor",)


@hookimpl
def pytest_rageval_adapt_retriever(  # noqa: PLR0913, PLR0917 - see the hook
    retriever: object,
    components: "Components",
    name: str,
    loop: "BackgroundEventLoop",
    adapters: "Sequence[Adapter]",
    id_path: str,
) -> "Retriever | None":
    executor = components.added.get("rageval_executor")
    if executor is None:
        return None
    from pytest_rageval.extensions.executor.executor import retriever_in_executor  # noqa: PLC0415 - few runs have one
    from pytest_rageval.retrievers import replays_rankings  # noqa: PLC0415 - see above

    if replays_rankings(retriever):
        return None
    return retriever_in_executor(retriever, executor, loop, adapters, name=name, id_path=id_path)
