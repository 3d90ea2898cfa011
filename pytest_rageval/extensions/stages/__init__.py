"""Which stage loses a passage? Scores by stage, and the stage that lost each gold passage of a lost question.

- `scores`: the score `stages.recall`, and where a gold passage was lost.
- `frameworks`: reads the stages of retrievers of LangChain, LlamaIndex and Haystack.
"""

from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.lazy import Lazy

if TYPE_CHECKING:
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.registry import Registry


def rageval_corpus() -> object:
    """The ids of the passages in the index, or a function (id) -> whether it is there. Default: not known."""
    return None


FIXTURES: Final = (rageval_corpus,)
COMPONENTS: Final = ("rageval_corpus",)
SCORES: Final = {"extensions.stages.scores": ("stages",)}


def _has_stages(retriever: object) -> bool:
    if callable(retriever):
        return False
    from pytest_rageval.extensions.stages.frameworks import has_stages  # noqa: PLC0415 - most retrievers are functions

    return has_stages(retriever)


@hookimpl(tryfirst=True)
def pytest_rageval_register(registry: "Registry") -> None:
    """Add a table, and the adapter before those of other plugins, which then are tried before it."""
    registry.add_retriever_adapter(_has_stages, Lazy("extensions.stages.frameworks", "adapt"))
    registry.add_table("Recall by stage", Lazy("extensions.stages.scores", "recall_rows"))


@hookimpl(trylast=True)
def pytest_rageval_before_judge(
    test: "JudgedTest", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    outcomes = threshold_input.score.outcomes
    if all(
        outcome.evidence.ranking is None or outcome.evidence.ranking.stages is None for outcome in outcomes
    ):
        return None
    from pytest_rageval.extensions.stages.scores import explained  # noqa: PLC0415 - few retrievers report stages

    return explained(test, threshold_input)
