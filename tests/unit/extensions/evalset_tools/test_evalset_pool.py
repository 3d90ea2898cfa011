"""`rageval evalset pool`, on reports of real runs."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from tests.foreign_plugins import WITHOUT
from tests.unit.cli.folders import Done

Pool = Callable[..., Done]

pytestmark = pytest.mark.slow

CONFTEST = """
import pytest

@pytest.fixture(scope="session", params=["first", "second"])
def rageval_retriever(request):
    def search(query, k):
        n = int(query.split()[1].rstrip("?"))
        own = [{"id": f"{request.param}-{n}", "text": f"By {request.param}: the code is c{n}."}]
        other = [{"id": f"x{rank}", "text": "Nothing."} for rank in range(5)]
        late = request.param == "second" and n % 4 == 3
        return (other[:2] + own + other[2:] if late else own + other)[:k]
    return search
"""
TESTS = """
import pytest

@pytest.mark.rageval_evalset("e.jsonl")
@pytest.mark.rageval_threshold("contains.hit@1", min=0)
@pytest.mark.rageval_threshold("contains.hit@4", min=0)
def test_it(): pass
"""


def record(n: int) -> dict[str, Any]:
    return {
        "id": f"q{n}",
        "question": f"Code {n}?",
        "answer_set": [[f"c{n}"], ["none of them"]],
        "gold": [{"id": f"first-{n}"}] if n % 2 else [],
        "tags": {"type": "simple" if n < 8 else "complex"},
    }


@pytest.fixture
def pool(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> Pool:
    records = (json.dumps(record(n)) for n in range(12))
    Path("e.jsonl").write_text("\n".join(records), encoding="utf-8")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    pytester.runpytest_inprocess(*WITHOUT, "--rageval-report=report.json").assert_outcomes(passed=2)
    capsys.readouterr()

    def run(*arguments: str) -> Done:
        command = ["evalset", "pool", "e.jsonl", "--report", "report.json", "--out", "out.jsonl", *arguments]
        return Done(main(command), *capsys.readouterr())

    return run


def written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]


def test_what_any_system_found_is_gold_once(pool: Pool) -> None:
    done = pool()
    line = "out.jsonl: 12 of 12 examples; 18 passages with an answer added as gold, of 2 systems\n"
    assert (done.status, done.out) == (0, line)
    second = {"id": "second-1", "text": "By second: the code is c1."}
    even, odd, *_ = written()
    assert even["gold"] == [
        {"id": "first-0", "text": "By first: the code is c0."},
        {"id": "second-0", "text": "By second: the code is c0."},
    ]
    assert odd["gold"] == [{"id": "first-1"}, second]


def test_the_papers_selection(pool: Pool) -> None:
    assert pool("--top", "2").status == 0
    assert [each["id"] for each in written()] == [f"q{n}" for n in range(12) if n % 4 != 3]
    assert pool("--top", "3", "--force").status == 0
    assert len(written()) == 12
    draws = []
    for seed in ("0", "0", "1"):
        assert pool("--top", "2", "--n", "3", "--by", "type", "--seed", seed, "--force").status == 0
        assert Counter(each["tags"]["type"] for each in written()) == {"simple": 3, "complex": 3}
        draws.append([each["id"] for each in written()])
    assert draws[0] == draws[1] != draws[2]
    done = pool("--top", "2", "--n", "4", "--by", "type", "--force")
    assert (done.status, done.out.splitlines()[1:]) == (1, ["type=complex has 3 of 4"])
    assert len(written()) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n", "3"), "Give both, or neither of them."),
        (("--n", "3", "--by", "hops"), "The example 'q0' has no tag 'hops'."),
        (("--report", "e.jsonl"), "e.jsonl"),
    ],
)
def test_what_is_refused(pool: Pool, arguments: tuple[str, ...], message: str) -> None:
    done = pool(*arguments)
    assert done.status == 2
    assert message in done.err
    assert not Path("out.jsonl").exists()


def test_an_eval_set_that_changed_is_refused(pool: Pool) -> None:
    Path("e.jsonl").write_text(json.dumps(record(1)), encoding="utf-8")
    done = pool()
    error = "No test of report.json has rankings for e.jsonl as it is now."
    assert (done.status, done.err.splitlines()[0]) == (2, error)


def test_an_eval_set_without_answers_is_refused(pool: Pool) -> None:
    Path("e.jsonl").write_text('{"id": "q0", "question": "Code?"}', encoding="utf-8")
    assert "No example of e.jsonl has answers" in pool().err
