"""Pydantic AI: an agent whose model calls a search tool with the question."""

import re

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from handbook import PASSAGES


def model(messages, _):
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart("Done.")])
    return ModelResponse(parts=[ToolCallPart("search", {"query": last.content})])


agent = Agent(FunctionModel(model))


@agent.tool_plain
def search(query: str) -> list[dict[str, str]]:
    """Search the handbook."""
    words = set(re.findall(r"\w+", query.lower()))
    ranked = sorted(PASSAGES, key=lambda name: -len(words & set(re.findall(r"\w+", PASSAGES[name].lower()))))
    return [{"id": name, "text": PASSAGES[name]} for name in ranked[:3]]
