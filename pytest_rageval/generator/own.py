"""The user's own generator: a function, or an object with methods, sync or async."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pytest_rageval.errors import CallableError, Unscored
from pytest_rageval.generator.generator import Generator
from pytest_rageval.llm.reply import Reply, silence
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import Document
from pytest_rageval.usercode import UserCallable, is_ours, takes

__all__ = ["CallableGenerator", "adapt_generator"]


class CallableGenerator:
    """The user's function `(question, passages) -> str`, or an object's `generate`, and perhaps others.

    One that has a parameter `sample` is told the number of the draw; any other is simply called again.

    Args:
        generate: as `UserCallable` calls it.
        cite: likewise; without it `generate` answers, and whether it cites is up to its own prompt.
        explain: likewise; without it `generate` answers, and how long is up to its own prompt.
    """

    def __init__(
        self, generate: UserCallable, cite: UserCallable | None = None, explain: UserCallable | None = None
    ) -> None:
        self.user = generate
        self._cite = cite or generate
        self._explain = explain or generate

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            CallableError: the function raised, or returned something else than text.
        """
        return await self._asked(self.user, question, passages, sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            CallableError: as above.
        """
        return await self._asked(self._cite, question, passages, sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            CallableError: as above.
        """
        return await self._asked(self._explain, question, passages, sample)

    async def _asked(
        self, user: UserCallable, question: str, passages: Sequence[Document], sample: int
    ) -> str:
        drawn = {"sample": sample} if takes(user.function, "sample") else {}
        return _said(user, question, await user.call(question, list(passages), **drawn))

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.generator.Generator`."""
        asked = {"generate": self.user, "cite": self._cite, "explain": self._explain}[method]
        return {"": asked.identity}


def adapt_generator(generator: object, loop: PrivateLoop) -> Generator:
    """What `rageval_generator` gave, as a `Generator`.

    Raises:
        CallableError: it is neither one of ours nor callable, and has no `generate`.
    """
    if is_ours(generator):
        return cast("Generator", generator)
    generate, cite, explain = (
        UserCallable("rageval_generator", method, loop) if callable(method) else None
        for method in (getattr(generator, name, None) for name in ("generate", "cite", "explain"))
    )
    if generate is None and callable(generator):
        generate = UserCallable("rageval_generator", generator, loop)
    if generate is None:
        message = (
            f"rageval_generator is {type(generator).__name__}, which cannot be called.\n"
            "Return a function (question, passages) -> str from the fixture, sync or async, "
            "or an object with such a method generate."
        )
        raise CallableError(message)
    return CallableGenerator(generate, cite, explain)


def _said(user: UserCallable, question: str, answer: object) -> str:
    """What a user's function returned, as an answer."""
    if not isinstance(answer, str):
        message = f"returned {type(answer).__name__} for {question!r}.\nReturn the answer as a string."
        raise user.fail(message)
    # As a model's text that is passed on, it may begin with reasoning.
    reply = Reply(answer)
    if not reply.answer:
        raise Unscored(f"the generator's reply is empty{silence(reply)}")
    return reply.answer
