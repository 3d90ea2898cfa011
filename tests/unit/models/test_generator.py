"""Generators: from a question and passages to an answer."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.core.ranking import Document
from pytest_rageval.models.generator import EmbeddedGenerator, LLMGenerator, adapt_generator
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prompt_rendering import (
    DEFAULT_PROMPTS,
    FEW_SHOT_PROMPTS,
    Prompts,
)
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.summaries import request_summary

PASSAGES = [Document("one", "1"), Document("two")]
SERVER = RemoteServer("http://here/v1")


class _Gateway:
    def __init__(self, text: str = " c7\n") -> None:
        self.text = text
        self.requests: list[Request] = []

    def address(self, _model: str, base_url: str) -> str:
        return base_url

    async def get_reply_for_score(self, server: object, request: Request) -> Reply:
        assert server is SERVER
        self.requests.append(request)
        return Reply(self.text)


class _Kept:
    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.requests: list[tuple[Request, Sequence[int]]] = []

    async def get_cached_replies(self, request: Request, samples: Sequence[int]) -> list[Reply] | None:
        self.requests.append((request, samples))
        found = [self.texts.get(f"_{sample}") for sample in samples]
        return None if None in found else [Reply(text or "") for text in found]


async def test_cached_answers_equal_those_of_single_calls() -> None:
    """The result is without reasoning, and None if an answer is missing or empty."""
    cache, gateway = _Kept(_0=" a\n", _1="<think>b?</think> b", _2=""), _Gateway()
    cached_generator, live_generator = LLMGenerator(cache, SERVER, "m"), LLMGenerator(gateway, SERVER, "m")
    assert await cached_generator.cached_answers("generate", "Which?", PASSAGES, range(2)) == ("a", "b")
    assert await cached_generator.cached_answers("generate", "Which?", PASSAGES, range(3)) is None
    assert await cached_generator.cached_answers("cite", "Which?", PASSAGES, [3]) is None
    await live_generator.answer("generate", "Which?", PASSAGES)
    assert cache.requests[0] == (gateway.requests[0], range(2))


async def test_a_model_at_temperature_0_has_one_cached_answer() -> None:
    cache = _Kept(_0="a")
    generator = EmbeddedGenerator(cache, SERVER, "m")
    assert await generator.cached_answers("generate", "Which?", PASSAGES, (3, 4)) == ("a", "a")
    warmer = generator.with_temperature(0.5)
    assert await warmer.cached_answers("generate", "Which?", PASSAGES, (3, 4)) is None


async def test_the_users_own_code_has_no_cached_replies(loop: BackgroundEventLoop) -> None:
    assert await adapt_generator(_sync, loop).cached_answers("generate", "Which?", PASSAGES, [0]) is None


def _generate(loop: BackgroundEventLoop, generator: object, sample: int = 0) -> str:
    return _answer(loop, generator, "generate", sample)


def _answer(loop: BackgroundEventLoop, generator: object, method: str, sample: int = 0) -> str:
    adapted = generator if isinstance(generator, LLMGenerator) else adapt_generator(generator, loop)
    return loop.run(adapted.answer(method, "Which?", PASSAGES, sample))


def _sync(question: str, passages: Sequence[Document]) -> str:
    return f" {question} {'+'.join(map(str, passages))}\n"


async def _async(question: str, passages: Sequence[Document]) -> str:
    return _sync(question, passages)


class _AsyncCallable:
    async def __call__(self, question: str, passages: Sequence[Document]) -> str:
        return _sync(question, passages)


@pytest.mark.parametrize("generator", [_sync, _async, partial(_async), _AsyncCallable()])
def test_functions_are_generators(loop: BackgroundEventLoop, generator: Callable[..., Any]) -> None:
    assert _generate(loop, generator) == _cite(loop, generator) == "Which? one+two"


def test_a_sync_function_is_called_in_the_tests_thread(loop: BackgroundEventLoop) -> None:
    assert _generate(loop, lambda _q, _p: str(threading.get_ident())) == str(threading.get_ident())


def test_draws_have_one_prompt_which_is_filled_once(loop: BackgroundEventLoop) -> None:
    rendered = []

    class Counted(Prompts):
        def fill(self, name: str, *texts: str | Sequence[str]) -> str:
            rendered.append(texts[0])
            return super().fill(name, *texts)

    gateway = _Gateway()
    generator = LLMGenerator(gateway, SERVER, "m", prompts=Counted())
    for sample in range(3):
        loop.run(generator.answer("generate", "Which?", PASSAGES, sample=sample))
    assert len({request.key for request in gateway.requests}) == 3
    assert len({str(request_summary(request)["parts"]) for request in gateway.requests}) == 1
    assert rendered == ["Which?", ""]


def _fail(question: str, passages: Sequence[Document]) -> str:
    raise LookupError(question, len(passages))


async def _fail_async(question: str, passages: Sequence[Document]) -> str:
    return _fail(question, passages)


@pytest.mark.parametrize("generator", [_fail, _fail_async])
def test_an_exception_of_the_function_is_reported_with_the_question(loop, generator):
    """The user's exception is the cause, and the message shows the line in the user's code."""
    with pytest.raises(CallableError) as caught:
        _generate(loop, generator)
    assert str(caught.value).startswith("rageval_generator raised for 'Which?': LookupError: ")
    assert str(caught.value).endswith(" in _fail")
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("error", [Unscored("too long"), InputError("no key")])
def test_our_own_errors_pass(loop: BackgroundEventLoop, error: Exception) -> None:
    def generate(_question: str, _passages: Sequence[Document]) -> str:
        raise error

    with pytest.raises(type(error)) as caught:
        _generate(loop, generate)
    assert caught.value is error


@pytest.mark.parametrize(
    ("returned", "name"), [(None, "NoneType"), (["a"], "list"), (b"a", "bytes"), (7, "int")]
)
def test_an_answer_is_text(loop: BackgroundEventLoop, returned: object, name: str) -> None:
    with pytest.raises(CallableError, match=f"rageval_generator returned {name} for 'Which\\?'"):
        _generate(loop, lambda _q, _p: returned)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_answer_is_unscored(loop: BackgroundEventLoop, empty: str) -> None:
    for generator in (lambda _q, _p: empty, LLMGenerator(_Gateway(empty), SERVER, "m")):
        with pytest.raises(Unscored, match="the generator's reply is empty"):
            _generate(loop, generator)


@pytest.mark.parametrize("value", [None, "model", 5])
def test_what_cannot_be_called_is_refused(loop: BackgroundEventLoop, value: object) -> None:
    with pytest.raises(CallableError, match="which cannot be called") as caught:
        adapt_generator(value, loop)
    assert type(value).__name__ in str(caught.value)
    assert "(question, passages) -> str" in str(caught.value)


def test_a_models_request_has_prompt_temperature_and_sample(loop: BackgroundEventLoop) -> None:
    gateway = _Gateway()
    generator = LLMGenerator(gateway, SERVER, "m")
    assert [_generate(loop, generator, sample) for sample in (0, 1)] == ["c7", "c7"]
    first, second = gateway.requests
    assert (first.base_url, first.model, first.parameters) == ("http://here/v1", "m", {"temperature": 0.5})
    assert "one" in first.messages[0]["content"]
    assert (first.messages, first.sample, second.sample) == (second.messages, 0, 1)


def test_the_embedded_model_draws_once(loop: BackgroundEventLoop) -> None:
    gateway = _Gateway()
    for sample in (0, 2):
        assert _generate(loop, EmbeddedGenerator(gateway, SERVER, "m"), sample) == "c7"
    first, second = gateway.requests
    assert first.key == second.key
    assert (first.parameters["temperature"], first.parameters["stop"]) == (0.0, ["\n"])


def _cite(loop: BackgroundEventLoop, generator: object) -> str:
    return _answer(loop, generator, "cite")


@pytest.mark.parametrize(
    ("method", "template", "local_max_tokens"), [("cite", "citing", 64), ("explain", "long_answer", 128)]
)
def test_models_cite_and_explain_by_prompts_of_their_own(loop, method, template, local_max_tokens):
    """The local model gets worked examples, and a max_tokens for each method."""
    gateway = _Gateway(" c7 [1]\n")
    remote, local = LLMGenerator(gateway, SERVER, "m", max_tokens=9), EmbeddedGenerator(gateway, SERVER, "m")
    for generator in (remote, local):
        assert _answer(loop, generator, method) == "c7 [1]"
        _generate(loop, generator)
        identities = [generator.identity(name) for name in ("generate", "cite", "explain")]
        assert len({str(identity) for identity in identities}) == 3
    asked, answered, asked_locally, answered_locally = gateway.requests
    assert asked.messages[0]["content"] == DEFAULT_PROMPTS.fill(template, "Which?", ["one", "two"])
    assert asked.parameters == answered.parameters == {"temperature": 0.5, "max_tokens": 9}
    assert asked_locally.messages[0]["content"] == FEW_SHOT_PROMPTS.fill(template, "Which?", ["one", "two"])
    assert asked_locally.parameters == answered_locally.parameters | {"max_tokens": local_max_tokens}


class _Sync:
    def generate(self, question: str, passages: Sequence[Document]) -> str:
        return f" {question} {len(passages)}\n"


class _Async:
    async def generate(self, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        return f"{question} {len(passages)} {sample}"


class _AllMethods(_Sync):
    def cite(self, question: str, passages: Sequence[Document]) -> str:
        return f"{question} [{len(passages)}]"

    def explain(self, question: str, passages: Sequence[Document]) -> str:
        return f"Of {len(passages)} passages: {question}"


@pytest.mark.parametrize(
    ("generator", "answered", "cited", "explained"),
    [
        (_sync, "Which? one+two", "Which? one+two", "Which? one+two"),
        (_Sync(), "Which? 2", "Which? 2", "Which? 2"),
        (_Async(), "Which? 2 1", "Which? 2 0", "Which? 2 0"),
        (_AllMethods(), "Which? 2", "Which? [2]", "Of 2 passages: Which?"),
    ],
)
def test_an_objects_methods_are_called_as_a_function_is(loop, generator, answered, cited, explained):
    assert _generate(loop, generator, sample=1) == answered
    assert _cite(loop, generator) == cited
    assert _answer(loop, generator, "explain") == explained


def test_each_method_has_an_identity_of_its_own(loop: BackgroundEventLoop) -> None:
    assert adapt_generator(_AllMethods(), loop).identity("explain")[""].endswith("_AllMethods.explain")


def test_a_function_with_a_parameter_sample_receives_it(loop: BackgroundEventLoop) -> None:
    assert _generate(loop, lambda _q, _p, sample: f"draw {sample}", sample=2) == "draw 2"


def test_exceptions_and_results_of_a_method_are_reported_as_of_a_function(loop: BackgroundEventLoop) -> None:

    class Broken:
        async def generate(self, question: str, passages: Sequence[Document]) -> str:
            raise LookupError(question, len(passages))

        def cite(self, _question: str, _passages: Sequence[Document]) -> None:
            return None

    with pytest.raises(CallableError, match="rageval_generator raised for 'Which\\?': LookupError"):
        _generate(loop, Broken())
    with pytest.raises(CallableError, match="rageval_generator returned NoneType for 'Which\\?'"):
        _cite(loop, Broken())


def test_parameters_of_the_user_replace_ours(loop: BackgroundEventLoop) -> None:
    gateway = _Gateway()
    given = {"seed": 7, "max_tokens": 80, "user": "planted", "stop": ["a"]}
    plain, generator = (
        LLMGenerator(gateway, SERVER, "m", max_tokens=9),
        LLMGenerator(gateway, SERVER, "m", parameters=given),
    )
    for llm_generator in (plain, generator):
        _generate(loop, llm_generator)
    first, second = (request.parameters for request in gateway.requests)
    assert first == {"temperature": 0.5, "max_tokens": 9}
    assert second == {"temperature": 0.5, **given}
    identity = generator.identity("generate")
    assert identity.items() >= {"temperature": 0.5, "seed": 7, "max_tokens": 80, "stop": '["a"]'}.items()
    assert "planted" not in str(identity)
    assert plain.identity("generate").keys() == {"", "temperature", "max_tokens", "prompt to generate"}
