"""Resolves each package that users have beside this one, alone and together with it, and prints the table.

    python tests/benchmarks/resolve.py [REQUIREMENT ...]

A package is pushed if its release together with this project is older than without it, or if there is none. Then the
exit status is 1. The last column lists what else becomes older among the packages that it brings, and what newer: a
resolver may exchange one for the other. Needs `uv` on PATH, and a package index.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

ROOT: Final = Path(__file__).parents[2]

NEIGHBOURS: Final = """\
anthropic any-llm-sdk arize-phoenix autorag chromadb crewai datasets deepeval docling dspy elasticsearch faiss-cpu
fastapi google-genai gradio guardrails-ai haystack-ai instructor lancedb langchain langchain-community langchain-openai
langfuse langgraph langsmith litellm litellm==1.84.1 llama-index llama-index-core llama-index-embeddings-openai
llama-index-llms-openai mlflow ollama openai<2 openai<3 opensearch-py paper-qa pgvector promptflow pydantic-ai pymilvus
pytest-asyncio pytest-xdist qdrant-client ragas ranx semantic-kernel sentence-transformers smolagents streamlit
transformers trulens-providers-openai weaviate-client"""


def resolved(requirement: str, *files: Path) -> dict[str, Version]:
    """Return the releases that are chosen for a requirement and the dependencies in files; none without a solution."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-", *map(str, files)]
    done = subprocess.run(command, input=requirement, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    chosen = (Requirement(line) for line in lines if not line.startswith(" "))
    return {each.name: Version(next(iter(each.specifier)).version) for each in chosen if each.specifier}


def main() -> bool:
    kept = True
    echo = partial(print, flush=True)
    echo(f"{'package':32} {'alone':>14} {'with us':>14}  brought by it")
    requirements = sys.argv[1:] or NEIGHBOURS.split()
    with ThreadPoolExecutor(4) as pool:
        all_alone = pool.map(resolved, requirements)
        all_together = pool.map(resolved, requirements, [ROOT / "pyproject.toml"] * len(requirements))
    for requirement, alone, together in zip(requirements, all_alone, all_together, strict=True):
        name = Requirement(requirement).name
        before, after = alone.get(name), together.get(name)
        both = sorted(alone.keys() & together.keys() - {name})
        changed = [(each, alone[each], together[each]) for each in both if alone[each] != together[each]]
        older = any(new < old for _, old, new in changed)
        remark = ", ".join(f"{each} {old} → {new}" for each, old, new in changed) if older else ""
        echo(f"{requirement:32} {before or '-'!s:>14} {after or '-'!s:>14}  {remark}")
        kept &= before is not None and after is not None and after >= before
    return kept


if __name__ == "__main__":
    sys.exit(not main())
