"""`Application`: asks each question once; retriever and generator of a test are made from what it returned."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature, isawaitable
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Final
from weakref import WeakValueDictionary

from pytest_rageval.calls import qualified_name
from pytest_rageval.calls.user_code import CACHED, GIVEN_BY, RUNNING, InvalidResult
from pytest_rageval.core.errors import CallableError, InputError, MissingReplyError
from pytest_rageval.core.ranking import Document, Ranking, Retrieval
from pytest_rageval.extensions.application.capture import Recorder, captured, recording
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import as_mapping, is_async
from pytest_rageval.lib.text import counted
from pytest_rageval.retrievers.adapters.callables import async_if, context_of
from pytest_rageval.retrievers.documents import is_document_list
from pytest_rageval.retrievers.results import retrieval_from

TIMEOUT_S: Final = 60.0  # of a reply of an application at a URL
ANSWER_NAMES: Final = (
    "answer", "result", "response", "output", "output_text", "reply", "text", "content", "message",
)  # fmt: skip
SOURCE_NAMES: Final = (
    "sources", "source_documents", "source_nodes", "documents", "contexts", "context", "passages",
    "retrieved_contexts", "retrieved", "references", "citations",
)  # fmt: skip
REMEDY: Final = (
    'Return (answer, sources), or {"answer": …, "sources": [{"id": …, "text": …}]}; or name the search that the '
    'application calls: capture(store, "similarity_search").'
)


@dataclass(frozen=True, slots=True)
class Reply:
    answer: str
    texts: tuple[str, ...]  # of the passages that it answered from, without repetition


class Application:
    """An application in the form of a retriever and a generator, which share what it returned.

    `ask` is called with the question, and with `history`, `filters` or `metadata` if it has such parameters. The
    retriever asks each question once, whatever k is, and returns the sources. The answers of the generator are known
    already.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._context = context_of(ask)
        self._retrievals: dict[tuple[str, str], Retrieval] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[Retrieval]] = {}
        self._replies: dict[str, list[Reply]] = {}
        # By question, that the reply of a model is missing in a replay; the searches before it are known.
        self.missing: dict[str, MissingReplyError] = {}
        # Of the answers without sources: how many, whether a search was seen, and what was captured.
        self._captured_answers, self._saw_search = 0, False
        self._captured: tuple[str, ...] = ()
        function: Any = self._retrieve_async if is_async(ask) else self._retrieve

        def retrieve(question: str, **context: Any) -> Any:
            return function(question, context)

        parameters = [Parameter("question", Parameter.POSITIONAL_ONLY)]
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=parameter.default)
            for name, parameter in self._context.items()
        ]
        retriever: Any = async_if(function, retrieve)
        retriever.__signature__ = Signature(parameters)
        retriever.application = self
        setattr(retriever, GIVEN_BY, "rageval_application")
        self.retriever: Callable[..., Any] = retriever

        def generate(question: str, passages: Sequence[Document], sample: int = 0) -> str:
            if sample:
                raise InputError(
                    f"{self.name} is asked each question once, and this run draws several answers.\n"
                    "Leave draws= and --rageval repeat out, or define rageval_generator."
                )
            return self.answer_from(str(question), passages)

        # Its answers are known: there is nothing to cache beyond the run.
        setattr(generate, CACHED, True)
        # It is the user's own, and so of no class of this package.
        fingerprint = str(getattr(ask, "fingerprint", self.name))
        self.generator: object = SimpleNamespace(generate=generate, explain=generate, fingerprint=fingerprint)

    @property
    def name(self) -> str:
        return qualified_name(self._ask)

    def _retrieve(self, question: str, context: Mapping[str, object]) -> Retrieval:
        key = question, digest(context)
        if key not in self._retrievals:
            began, returned = perf_counter(), None
            with recording() as recorder, self._replaying(question, recorder):
                returned = self._call(question, context)
            self._retrievals[key] = self._read(question, returned, recorder, perf_counter() - began)
        return self._retrievals[key]

    async def _retrieve_async(self, question: str, context: Mapping[str, object]) -> Retrieval:
        key = question, digest(context)
        if key not in self._tasks or self._tasks[key].cancelled():
            # A task, since scores with another k may ask while the question is being answered.
            self._tasks[key] = asyncio.create_task(self._answer_async(question, context))
        retrieval = await self._tasks[key]
        if question in self.missing:
            # It is missing to this call too, if it is another one than the task's.
            _take_missing_reply()
        return retrieval

    async def _answer_async(self, question: str, context: Mapping[str, object]) -> Retrieval:
        began, returned = perf_counter(), None
        with recording() as recorder, self._replaying(question, recorder):
            returned = self._call(question, context)
            returned = await returned if isawaitable(returned) else returned
        return self._read(question, returned, recorder, perf_counter() - began)

    @contextmanager
    def _replaying(self, question: str, recorder: Recorder) -> Iterator[None]:
        """Keep the searches of a question whose reply is missing: scores that need no answer have a value."""
        try:
            yield
        except Exception:
            if not self._note_missing(question, recorder):
                raise
        else:
            self._note_missing(question, recorder)

    def _note_missing(self, question: str, recorder: Recorder) -> bool:
        error = _take_missing_reply() if recorder.steps else None
        if error is not None:
            self.missing[question] = error
        return error is not None

    def _call(self, question: str, context: Mapping[str, object]) -> Any:
        return self._ask(question, **{self._context[name].name: value for name, value in context.items()})

    def _read(self, question: str, returned: object, recorder: Recorder, seconds: float) -> Retrieval:
        if isinstance(returned, Awaitable):
            raise CallableError(
                f"{self.name} returned an awaitable, and is no async function.\nMake it `async def`."
            )
        is_missing = question in self.missing
        answer, sources = ("", None) if is_missing else read_parts(returned, self.name)
        searches = recorder.searches()
        steps = None
        if sources is None:
            if not captured():
                raise CallableError(f"{self.name} returned an answer and no sources.\n{REMEDY}")
            self._captured_answers += 1
            self._saw_search = self._saw_search or bool(searches)
            self._captured = captured()
            # As in a trace: the last search, which may be a reranking, has the passages of the answer.
            sources = searches[-1].documents if searches else []
            steps = searches if len(searches) > 1 else None
        if is_missing or _missing_reply() is not None:
            return Retrieval(sources, steps, seconds=seconds)
        # Unreadable sources are an error of the question, as those of any retriever.
        with suppress(InvalidResult):
            ranking = Ranking.of(question, list(retrieval_from(sources).documents))
            texts = tuple(document.text for document in ranking)
            self._replies.setdefault(question, []).append(Reply(answer, texts))
        return Retrieval(sources, steps, seconds=seconds)

    def knows(self, question: str) -> bool:
        return question in self._replies or question in self.missing

    def unknown_text(self, number: int) -> str:
        what = f"What was retrieved for {counted(number, 'question')} is not known"
        if captured():
            return f"{what}: the reply is missing before anything is searched."
        what = f"{what}, since the application answers and retrieves in one call"
        if isinstance(self._ask, HTTPApplication):
            return f"{what}."
        return f'{what}: rageval.capture(index, "search") gives their rankings (docs/how-to/application.md).'

    def unseen_text(self) -> str:
        """Return that no search was seen while it answered; empty if one was, or none was waited for."""
        if self._saw_search or not self._captured_answers:
            return ""
        return (
            f"{self.name} answered {counted(self._captured_answers, 'question')}, and no search was seen.\n"
            f"Captured was {' and '.join(self._captured)}: is that what the application calls, and the same object?\n"
            "A function that a module imports by `from … import …` is captured in that module."
        )

    def answer_from(self, question: str, passages: Sequence[Document]) -> str:
        """Return the answer that the application gave from these passages; InputError if it answered from others."""
        if question in self.missing:
            raise self.missing[question]
        texts = tuple(document.text for document in passages)
        replies = self._replies.get(question, [])
        for reply in replies:
            if reply.texts == texts:
                return reply.answer
        if not (self._retrievals or self._tasks):
            raise InputError(
                f"{self.name} was not asked: the passages are those of rageval_retriever, which takes precedence over "
                "rageval_application.\nRemove rageval_retriever to test the application; or define "
                "rageval_generator, which answers from these passages."
            )
        own = len(replies[0].texts) if replies else 0
        if replies and texts == replies[0].texts[: len(texts)]:
            raise InputError(
                f"{self.name} answers from its own {own} passages, and this score needs an answer from the first "
                f"{len(texts)}.\nGive the score a cut-off of at least {own}, such as answer.f1@{own}."
            )
        raise InputError(
            f"{self.name} answers from its own passages, and this score needs an answer from others, such as the gold "
            "passages.\nDefine rageval_generator, a function (question, passages) -> answer, for such a score."
        )


def _missing_reply() -> MissingReplyError | None:
    """Return that a reply to the running call is missing in a replay, so that its result will not be used."""
    call = RUNNING.get()
    error = None if call is None else call.unanswered
    return error if isinstance(error, MissingReplyError) else None


def _take_missing_reply() -> MissingReplyError | None:
    """Return, and forget, that a reply to the running call is missing in a replay."""
    call, error = RUNNING.get(), _missing_reply()
    if call is not None and error is not None:
        call.unanswered = None
    return error


def read_parts(returned: object, name: str) -> tuple[str, Any]:
    """Return the answer, and the sources or None, of what an application returned.

    It is a text; an answer and a list of sources, in either order; or a mapping or an object with fields of the usual
    names, such as a response of LlamaIndex or a chain of LangChain. CallableError if it has no answer.
    """
    answer, sources = _text_of(returned), None
    if answer is None and isinstance(returned, tuple | list) and len(returned) == len(("answer", "sources")):
        for first, second in (returned, returned[::-1]):
            text = _text_of(first)
            if text is not None and not isinstance(second, str) and is_document_list(second):
                return text, second
    fields = as_mapping(returned)
    if not isinstance(returned, str):
        get: Callable[[str], Any] = (
            (lambda key: getattr(returned, key, None)) if fields is None else fields.get
        )
        texts = (_text_of(get(key)) for key in ANSWER_NAMES)
        answer = next((text for text in texts if text is not None), answer)
        sources = next((get(key) for key in SOURCE_NAMES if is_document_list(get(key))), None)
    if answer is None:
        shown = ", ".join(map(str, fields)) if fields else type(returned).__name__
        raise CallableError(f"{name} returned no answer that is known: {shown:.200}.\n{REMEDY}")
    return answer, sources


def _text_of(value: Any) -> str | None:
    """Return a text, that of a message (`content`), or of a list with one of them; None for any other value."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    content = value if isinstance(value, str) else getattr(value, "content", None)
    return content if isinstance(content, str) else None


class HTTPApplication:
    """An application at a URL: a question is posted as `{"question": …}`, and the reply has an answer and sources.

    A status other than 2xx, and a reply that is not JSON, are an error of that question.

    Args:
        url: the URL.
        question: the key of the question in the body.
        body: other keys of the body.
        headers: headers of the request, such as the one that authorises it.
        timeout: seconds to wait for a reply.
    """

    def __init__(
        self,
        url: str,
        *,
        question: str = "question",
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._url = url
        self._question = question
        self._body = dict(body or {})
        self._headers = dict(headers or {})
        self._timeout = timeout

    @cached_property
    def _client(self) -> Any:
        import httpx2  # noqa: PLC0415 - few runs have an application at a URL

        return httpx2.Client(timeout=self._timeout, headers=self._headers)

    @property
    def fingerprint(self) -> str:
        """The URL, without a query, which may have a key."""
        return self._url.partition("?")[0]

    def __call__(self, question: str) -> Any:
        reply = self._client.post(self._url, json={**self._body, self._question: question})
        reply.raise_for_status()
        return reply.json()


_APPLICATIONS: Final[WeakValueDictionary[int | str, Application]] = WeakValueDictionary()
"""Applications by URL or by the id of the user's object, so that retriever and generator of a test share one."""


def application_of(value: object) -> Application:
    key = value if isinstance(value, str) else id(value)
    if isinstance(value, str):
        value = HTTPApplication(value)
    if not callable(value):
        raise CallableError(
            f"rageval_application is {type(value).__name__}, which cannot be called.\n"
            'Return a function (question) -> (answer, sources), or its URL: "http://127.0.0.1:8000/ask".'
        )
    application = _APPLICATIONS.get(key)
    if application is None:
        application = _APPLICATIONS[key] = Application(value)
    return application
