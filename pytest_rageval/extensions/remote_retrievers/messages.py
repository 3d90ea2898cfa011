"""What is sent to a retriever in another program for a question, and where its reply has the documents."""

import asyncio
import json
import os
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from inspect import Parameter, Signature
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import is_secret_name

T = TypeVar("T")

CONTEXT: Final = ("filters", "history", "metadata")
PLACEHOLDERS: Final = ("query", "k", *CONTEXT)
PLACEHOLDER: Final = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
WHOLE: Final = re.compile(r"\{(\w+)\}")  # a text that is nothing but a placeholder
BODY: Final[Mapping[str, object]] = {"query": "{query}", "k": "{k}"}
VARIABLE: Final = re.compile(r"\$\{(\w+)\}")

STEP: Final = re.compile(r'(\.?)([^.\[\]"*]+)|\[(?:(\d+)|(\*)|"([^"]+)")\]')
EACH: Final = object()  # the step [*]
KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    type(None): "null",
}
HIDDEN: Final = "…"  # in place of a secret
MAX_SHOWN: Final = 200  # characters of a reply in a message


def expanded(text: str, where: str) -> tuple[str, list[str]]:
    names = list(dict.fromkeys(VARIABLE.findall(text)))
    if missing := [name for name in names if not os.environ.get(name)]:
        raise InputError(
            f"{where} needs the environment variable {missing[0]}, which is not set.\n"
            "Set it, in CI from the secrets of the repository."
        )
    return VARIABLE.sub(lambda match: os.environ[match[1]], text), [os.environ[name] for name in names]


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "a number")


def shown(text: str) -> str:
    return f"{' '.join(text.split()) or '(nothing)':.{MAX_SHOWN}}"


class ReplyPath:
    """A place in a reply: names of keys separated by ".", `[0]` for an item, `[*]` for each item of a list.

    A key with other characters is written `["a.b"]`. A list that is null is empty, as some servers write it.
    """

    def __init__(self, text: str, argument: str) -> None:
        self._text = f"{argument}={text!r}"
        self._steps: list[object] = []
        end = 0
        while end < len(text):
            match = STEP.match(text, end)
            if match is None or (match[2] and bool(match[1]) != bool(end)):
                raise InputError(
                    f"{self._text} is no path: it cannot be read from {text[end:]!r} on.\n"
                    'Write keys separated by ".", [0] for an item, [*] for each item of a list, and ["…"] for a key '
                    "with other characters, such as hits[*].source."
                )
            self._steps.append(EACH if match[4] else int(match[3]) if match[3] else match[2] or match[5])
            end = match.end()
        self.has_each: bool = EACH in self._steps

    def read(self, value: Any, of: str) -> Any:
        """Return the value at this place, with [*] a list of them; ValueError says what is there instead."""
        found = [(value, "")]
        for step in self._steps:
            found = list(chain.from_iterable(self._take(step, value, place, of) for value, place in found))
        return [value for value, _ in found] if self.has_each else found[0][0]

    def _take(self, step: Any, value: Any, place: str, of: str) -> Iterator[tuple[Any, str]]:
        expected: Any = dict if isinstance(step, str) else list
        where = f"{place} of {of}" if place else of
        if step is EACH and value is None:
            return
        if not isinstance(value, expected):
            raise ValueError(  # noqa: TRY004 - as below
                f"{self._text}: {where} is {_kind(value)}, expected {KINDS[expected]}: {shown(json.dumps(value))}"
            )
        if step is EACH:
            yield from ((item, f"{place}[{index}]") for index, item in enumerate(value))
        elif isinstance(step, str):
            if step not in value:
                names = ", ".join(map(str, value)) or "(none)"
                raise ValueError(f"{self._text}: {where} has no {step!r}: it has {names:.{MAX_SHOWN}}")
            yield value[step], f"{place}.{step}".removeprefix(".")
        elif step >= len(value):
            raise ValueError(f"{self._text}: {where} has no item {step}: it has {len(value)}")
        else:
            yield value[step], f"{place}[{step}]"


class LoopResource(Generic[T]):
    """What `make` yields for an event loop, when it is first needed; closed with its async generators."""

    def __init__(self, make: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generator: AsyncGenerator[T, None]
        self._made: asyncio.Future[T]

    async def get(self) -> T:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._generator = loop, self._make()
            self._made = asyncio.ensure_future(anext(self._generator))
        # The first question may be cancelled, while others wait for the same.
        return await asyncio.shield(self._made)


class RemoteRetriever:
    """A retriever in another program. Its parameters are those that `body` has placeholders for."""

    def __init__(self, body: Any, documents: str, id: str, text: str) -> None:  # noqa: A002 - named as in documents
        self.__signature__: Signature = _signature(body)
        self._body = body
        self._documents = ReplyPath(documents, "documents")
        self._fields = {name: ReplyPath(path, name) for name, path in (("id", id), ("text", text)) if path}
        if several := next((name for name, path in self._fields.items() if path.has_each), ""):
            raise InputError(f"{several}=… is one place in a document, and [*] are several.\nWrite [0].")
        self._settings = {"body": _without_secrets(body), "documents": documents, "id": id, "text": text}

    @property
    def fingerprint(self) -> str:
        """The settings that decide what is found, as JSON. Values of keys such as `api_key` are left out."""
        return json.dumps(self._settings, sort_keys=True, ensure_ascii=False)

    async def __call__(self, query: str, k: int = 10, **context: Any) -> Any:
        """Return the documents for a question, best first; `context` are `filters`, `history` and `metadata`.

        Raises:
            OSError: the program cannot be reached, failed, or did not answer in time.
            ValueError: the reply cannot be read, or has no documents at the place.
        """
        reply = await self._ask(filled(self._body, {"query": query, "k": k, **context}))
        documents = self._documents.read(reply, "the reply")
        if not self._fields:
            return documents
        if not isinstance(documents, list):
            raise ValueError(  # noqa: TRY004 - the reply is wrong, and no argument
                f"the documents are {_kind(documents)}: {shown(json.dumps(documents))}. With id= or text=, documents= "
                "is the place of their list."
            )
        return [
            {**item, **{name: path.read(item, f"document {n}") for name, path in self._fields.items()}}
            for n, item in enumerate(documents, 1)
        ]

    @abstractmethod
    async def _ask(self, body: Any) -> Any:
        """Return the reply, parsed."""


def _signature(body: Any) -> Signature:
    texts = list(_texts(body))
    names = {name for text in texts for name in PLACEHOLDER.findall(text)}
    others = [match[1] for text in texts if (match := WHOLE.fullmatch(text)) and match[1] not in PLACEHOLDERS]
    if others or "query" not in names:
        problem = f"{{{others[0]}}} is no placeholder" if others else "there is no {query}, the question"
        raise InputError(
            f"body={shown(json.dumps(body))}: {problem}.\n"
            f"The placeholders are {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}."
        )
    parameters = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("query", "k") if name in names
    ]
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in CONTEXT if name in names]
    return Signature(parameters)


def _without_secrets(value: Any) -> Any:
    """Return a body whose secrets are replaced: the baseline is a file in git."""
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: HIDDEN
        if is_secret_name(str(key)) and not PLACEHOLDER.search(str(item))
        else _without_secrets(item)
        for key, item in value.items()
    }


def fingerprint_changes(old: str, new: str) -> list[str]:
    try:
        before, after = json.loads(old), json.loads(new)
    except ValueError:
        before, after = None, None
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [f"retriever was {shown(old)}, and is {shown(new)}"] if old != new else []
    return [
        f"{name} was {shown(json.dumps(before.get(name)))}, and is {shown(json.dumps(after.get(name)))}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        yield from chain.from_iterable(map(_texts, value.values() if isinstance(value, Mapping) else value))


def filled(value: Any, values: Mapping[str, object]) -> Any:
    """Return a value of JSON with values in place of its placeholders; a text that is one alone becomes the value.

    >>> filled({"q": "title: {query}", "size": "{k}"}, {"query": "who?", "k": 5})
    {'q': 'title: who?', 'size': 5}
    """
    if isinstance(value, Mapping):
        return {key: filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    if (whole := PLACEHOLDER.fullmatch(value)) is not None:
        return values.get(whole[1])
    return PLACEHOLDER.sub(lambda match: str(values.get(match[1], "")), value)
