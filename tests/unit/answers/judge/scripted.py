"""A judge whose gateway has scripted replies."""

from typing import Any

from pytest_rageval.answers.judge.llm_judge import LLMJudge, Voting
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer

SERVER = RemoteServer("http://here/v1")


class ScriptedGateway:
    def __init__(self, *replies: str) -> None:
        self.requests: list[Request] = []
        self.replies = list(replies)

    def address(self, _model: str, base_url: str) -> str:
        return base_url

    async def get_reply_for_score(self, _server: object, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])


def llm_judge(gateway: Any, max_tokens: int | None = None, *, votes: int = 1, **fields: Any) -> LLMJudge:
    return LLMJudge(gateway, SERVER, "j", max_tokens, Voting(votes), **fields)
