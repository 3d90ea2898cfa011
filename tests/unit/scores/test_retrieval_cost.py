"""Costs of a retrieval; latencies are measured with a fake clock that the retriever advances."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pytest_rageval.calls import user_code
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Retrieval
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores.pipeline import Pipeline

EXAMPLES = [Example(f"q{n}", f"q{n}") for n in range(1, 5)]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock that times the calls of the user's code."""
    made = Clock()
    monkeypatch.setattr(user_code, "perf_counter", made)
    return made


def use(world, retriever: object, **words: object) -> Pipeline:
    world.run = Pipeline(adapt_retriever(retriever, world.loop), world, world, **words)
    return world.run


def seconds(world, *examples: Example) -> list[float | None]:
    return [outcome.value for outcome in world.evaluate("latency.p50", *(examples or EXAMPLES))]


class Slow:
    """A retriever that takes n seconds for the question "qn", and ten more in its first call."""

    def __init__(self, clock: Clock, factor: float = 1.0) -> None:
        self.clock, self.factor = clock, factor
        self.asked: list[str] = []

    def __call__(self, query: str, k: int) -> list[str]:
        first = not self.asked
        self.asked.append(query)
        self.clock.spend(self.factor * int(query[1:]) + 10 * first)
        return ["a passage"][:k]


def test_the_time_is_that_of_the_call_and_the_first_call_warms_up(world, clock: Clock) -> None:
    """The first question is retrieved once more, as a warm-up, and all others once; later scores reuse the rankings."""
    retriever = Slow(clock)
    use(world, retriever)
    assert seconds(world) == [1.0, 2.0, 3.0, 4.0]
    assert retriever.asked == ["q1", "q1", "q2", "q3", "q4"]
    world.evaluate("recall@5", *EXAMPLES)
    world.evaluate("latency.p95", *EXAMPLES)
    assert len(retriever.asked) == 5


def test_rankings_that_were_read_before_keep_their_time(world, clock: Clock) -> None:
    """Only the first question, which was the warm-up, is repeated."""
    retriever = Slow(clock)
    use(world, retriever)
    world.evaluate("retrieval.calls", *EXAMPLES)
    assert seconds(world) == [1.0, 2.0, 3.0, 4.0]
    assert retriever.asked == ["q1", "q2", "q3", "q4", "q1"]


def test_the_passages_of_a_generator_are_read_within_the_time(world, clock: Clock) -> None:
    """If the retriever returns a generator, the latency includes the time to iterate over it."""

    def lazy(query: str, k: int):
        def found():
            clock.spend(int(query[1:]))
            yield "a passage"

        return found() if k else None

    use(world, lazy)
    assert seconds(world) == [1.0, 2.0, 3.0, 4.0]


def test_calls_at_once_are_timed_again_one_by_one(world, clock: Clock) -> None:
    """Concurrent calls of an async retriever for other scores are not used as latencies."""
    running = most = 0

    async def search(query: str, k: int) -> list[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        clock.spend(int(query[1:]))
        running -= 1
        return ["a passage"][:k]

    use(world, search)
    world.evaluate("retrieval.calls", *EXAMPLES)
    assert most > 1
    most = 0
    assert seconds(world) == [1.0, 2.0, 3.0, 4.0]
    assert most == 1


def test_an_async_retriever_is_timed_one_by_one(world, clock: Clock) -> None:
    """If latency is the first score, an async retriever is called once per question and once more as a warm-up."""
    calls = 0

    async def search(query: str, k: int) -> list[str]:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        clock.spend(int(query[1:]))
        return ["a passage"][:k]

    use(world, search)
    assert seconds(world) == [1.0, 2.0, 3.0, 4.0]
    assert calls == 5


def test_a_replay_has_the_recorded_time_or_none(world) -> None:
    class Replay:
        replays = True
        recorded: float | None = None

        def __call__(self, query: str, k: int) -> Retrieval:
            return Retrieval(["a passage"][:k], seconds=self.recorded and self.recorded * int(query[1:]))

    replay = Replay()
    use(world, replay)
    outcomes = world.evaluate("latency.p50", *EXAMPLES)
    assert {outcome.unscored for outcome in outcomes} == {
        "the recorded rankings do not have the duration of the retrieval"
    }
    replay.recorded = 0.5
    use(world, replay)
    assert seconds(world) == [0.5, 1.0, 1.5, 2.0]


def test_a_time_with_cached_model_replies_has_no_score(world, clock: Clock) -> None:
    cached = 0

    def search(query: str, k: int) -> list[str]:
        nonlocal cached
        cached += query == "q2"
        clock.spend(1.0)
        return ["a passage"][:k]

    use(world, search, cached_replies=lambda: cached)
    for _ in range(2):
        outcomes = world.evaluate("latency.p50", *EXAMPLES)
        assert [outcome.value for outcome in outcomes] == [1.0, None, 1.0, 1.0]
        assert "from the cache" in str(outcomes[1].unscored)
        use(world, search, cached_replies=lambda: cached)
        world.evaluate("retrieval.calls", *EXAMPLES)


def test_a_failing_retriever_leaves_its_question_without_a_time(world, clock: Clock) -> None:
    """A question whose retrieval raises is unscored with the cause "retriever", so that bounds count it."""

    def search(query: str, k: int) -> Sequence[str]:
        clock.spend(1.0)
        return ["a"][:k] if query != "q3" else 1 / 0

    use(world, search)
    outcomes = world.evaluate("latency.p50", *EXAMPLES)
    assert [outcome.value for outcome in outcomes] == [1.0, 1.0, None, 1.0]
    assert outcomes[2].cause == "retriever"


def test_a_reference_is_timed_beside_it(world, clock: Clock) -> None:
    order: list[str] = []

    def named(name: str, factor: float) -> Callable[[str, int], list[str]]:
        def search(query: str, k: int) -> list[str]:
            order.append(f"{name}{query[1:]}")
            # The machine gets slower: in ABBA this adds the same to both.
            clock.spend(factor * int(query[1:]) + len(order))
            return ["a passage"][:k]

        return search

    reference = adapt_retriever(named("b", 1.0), world.loop, name="rageval_reference_retriever")
    use(world, named("a", 3.0), reference=reference)
    outcomes = world.evaluate("latency.p95", *EXAMPLES[:2])
    assert order == ["b1", "a1", "a1", "b1", "b1", "a1", "a2", "b2", "b2", "a2"]
    drift = [4.5, 8.5]
    assert [outcome.value for outcome in outcomes] == [3.0 + drift[0], 6.0 + drift[1]]
    assert [outcome.evidence.beside["reference"] for outcome in outcomes] == [1.0 + drift[0], 2.0 + drift[1]]


def test_a_cost_without_a_name_is_not_a_score(world, monkeypatch: pytest.MonkeyPatch) -> None:
    [outcome] = world.evaluate("retrieval.cost", EXAMPLES[0])
    assert outcome.unscored == "the retriever does not report its cost"
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval([], cost=0))
    world.run = world.make_pipeline()
    [free] = world.evaluate("retrieval.cost", EXAMPLES[0])
    assert free.value == 0.0


def test_the_tokens_of_the_passages_are_those_of_the_first_k(world) -> None:
    world.rankings["q1"] = ["Refunds take five working days."] * 1 + [f"Passage {n}." for n in range(9)]
    tokens = [world.evaluate(f"context.tokens@{k}", EXAMPLES[0])[0].value for k in (1, 5, 10)]
    assert tokens == sorted(set(tokens))
    [nothing] = world.evaluate("context.tokens@5", Example("e", "e"))
    assert nothing.value == 0.0
