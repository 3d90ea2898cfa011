"""A gateway with scripted replies."""

from pytest_rageval.models.messages import Reply, Request


class ScriptedGateway:
    def __init__(self, *replies: str) -> None:
        self.requests: list[Request] = []
        self.replies = list(replies)

    def address(self, _model: str, base_url: str) -> str:
        return base_url

    async def get_reply_for_score(self, _server: object, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
