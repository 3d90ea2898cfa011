"""pytest-rageval: a pytest plugin that tells in a pull request whether a RAG retriever got worse.

`plugin` has the pytest hooks, `run` evaluates the tests, `scores` has the scoring methods, and `gate` compares scores
with their thresholds and the baseline. `extensions` has what the core can do without.
`docs/explanation/architecture.md` is a map of all packages.

This file is the public face: type checkers need each public name in it, also those of extensions. It imports none until
the name is used; without its extension the name is an `ImportError`.

PYTEST_DONT_REWRITE: the command `rageval` has imported it when it starts pytest, which would warn of that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_rageval.core.errors import RagevalError, Unscored
    from pytest_rageval.core.evalset import EvalSet, Example, Gold, Nugget
    from pytest_rageval.core.outcome import Evidence, Outcome, Score
    from pytest_rageval.core.ranking import Document, Ranking, Retrieval, Stage, Step
    from pytest_rageval.evalsets.loading import load
    from pytest_rageval.extensions.application.application import HTTPApplication
    from pytest_rageval.extensions.application.capture import capture
    from pytest_rageval.extensions.application_calls.plugin import GatewayServer
    from pytest_rageval.extensions.baseline_retrievers.llm_baselines import (
        FeedbackRetriever,
        FusionRetriever,
        HyDERetriever,
        RewriteRetriever,
        reciprocal_rank_fusion,
    )
    from pytest_rageval.extensions.baseline_retrievers.trec_run import TrecRun
    from pytest_rageval.extensions.embeddings.dense import DenseRetriever, PooledRetriever
    from pytest_rageval.extensions.embeddings.encoder import CachedEncoder, SentenceEncoder
    from pytest_rageval.extensions.remote_retrievers.http import HTTPRetriever
    from pytest_rageval.extensions.remote_retrievers.program import CommandRetriever
    from pytest_rageval.extensions.traces.reading import TraceRun
    from pytest_rageval.models.api import LLM
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.retrievers.adapters import RetrieverFactory
    from pytest_rageval.retrievers.bm25 import BM25Retriever
    from pytest_rageval.run.registry import Registry

__all__ = [
    "LLM",
    "BM25Retriever",
    "CachedEncoder",
    "CommandRetriever",
    "DenseRetriever",
    "Document",
    "EvalSet",
    "Evidence",
    "Example",
    "FeedbackRetriever",
    "FusionRetriever",
    "GatewayServer",
    "Gold",
    "HTTPApplication",
    "HTTPRetriever",
    "HyDERetriever",
    "Nugget",
    "Outcome",
    "PooledRetriever",
    "Rageval",
    "RagevalError",
    "Ranking",
    "Registry",
    "Retrieval",
    "RetrieverFactory",
    "RewriteRetriever",
    "Score",
    "SentenceEncoder",
    "Stage",
    "Step",
    "TraceRun",
    "TrecRun",
    "Unscored",
    "capture",
    "load",
    "reciprocal_rank_fusion",
]

_MODULE_OF = {
    name: f"pytest_rageval.{module}"
    for module, names in (
        ("extensions.embeddings.encoder", "CachedEncoder SentenceEncoder"),
        ("core.errors", "RagevalError Unscored"),
        ("evalsets.loading", "load"),
        ("run.registry", "Registry"),
        ("models.api", "LLM"),
        ("core.ranking", "Document Ranking Retrieval Stage Step"),
        ("core.evalset", "EvalSet Example Gold Nugget"),
        ("plugin.rageval_fixture", "Rageval"),
        ("retrievers.bm25", "BM25Retriever"),
        ("extensions.embeddings.dense", "DenseRetriever PooledRetriever"),
        ("retrievers.adapters", "RetrieverFactory"),
        (
            "extensions.baseline_retrievers.llm_baselines",
            "FeedbackRetriever FusionRetriever HyDERetriever RewriteRetriever reciprocal_rank_fusion",
        ),
        ("extensions.traces.reading", "TraceRun"),
        ("extensions.baseline_retrievers.trec_run", "TrecRun"),
        ("core.outcome", "Evidence Outcome Score"),
        ("extensions.application_calls.plugin", "GatewayServer"),
        ("extensions.application.capture", "capture"),
        ("extensions.application.application", "HTTPApplication"),
        ("extensions.remote_retrievers.http", "HTTPRetriever"),
        ("extensions.remote_retrievers.program", "CommandRetriever"),
    )
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    # pytest imports this file in every run of every project that has the plugin installed. So a public name is
    # imported only when it is first accessed.
    if name not in _MODULE_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415

    module = _MODULE_OF[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        package, _, _ = module.rpartition(".")
        if error.name not in {module, package}:
            raise
        message = f"{__name__}.{name} is in the extension {package}, which this installation does not have"
        raise ImportError(message, name=name) from None
