"""What the plugin adds to a test run: `python tests/benchmarks/speed.py [ROUNDS]`.

Whole processes, in turn with what they are compared to, so that a machine that
gets slower does so for both; medians, and ratios of medians.

1. cold: 100 replies of 200 ms, 20 in flight, next to a bare `AsyncOpenAI` and a gather, as a script and
   as a test;
2. cached: LLM-retEval and two ranking measures of 400 examples with every reply in the cache;
3. idle: one unrelated test, next to the same with `-p no:rageval`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.foreign_plugins import WITHOUT

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "llm_server.py"
QUIET = ["-q", "-pno:xdist", *WITHOUT]
PYTEST = [sys.executable, "-m", "pytest", *QUIET]

CONFTEST = """
import sys
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        n = int(query.split("item-")[1].rstrip("?"))
        return [{"id": f"doc-{i}", "text": f"Of all things, item-{i} has the code c{i}x."}
                for i in range(n, n + k)]
    return search

def pytest_sessionfinish():
    print("\\nopenai imported:", "openai" in sys.modules)
"""

GATE = """
import pytest

@pytest.mark.rageval_evalset("evals.jsonl")
{marks}
def test_gate():
    pass
"""

FLOOR = """
import asyncio, sys
from openai import AsyncOpenAI

async def main():
    client, limit = AsyncOpenAI(base_url=sys.argv[1], api_key="none"), asyncio.Semaphore(20)
    async def one(i):
        async with limit:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": f"item-{i} has the code c{i}x"}])
    await asyncio.gather(*map(one, range(100)))

if __name__ == "__main__":
    asyncio.run(main())
"""

FLOOR_TEST = """
import asyncio, os, sys
import floor

def test_floor():
    sys.argv = ["floor", os.environ["OPENAI_BASE_URL"]]
    asyncio.run(floor.main())
"""


def project(folder: Path, examples: int, specs: list[str]) -> None:
    """Write a project with that many questions."""
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    marks = "\n".join(f'@pytest.mark.rageval_threshold("{spec}", min=0.1)' for spec in specs)
    (folder / "test_gate.py").write_text(GATE.format(marks=marks), encoding="utf-8")
    records = (
        {
            "id": f"q{i}",
            "question": f"What is the code of item-{i}?",
            "answers": [f"c{i}x"],
            "gold": [{"id": f"doc-{i}", "text": f"Of all things, item-{i} has the code c{i}x."}],
        }
        for i in range(examples)
    )
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "evals.jsonl").write_text(lines, encoding="utf-8")


def timed(command: list[str], folder: Path, **environment: str) -> tuple[float, str]:
    """Seconds of a whole process, and what it printed."""
    environ = {**os.environ, **environment}
    # An installed package comes compiled; a checkout on a machine that writes no bytecode would not be.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took, done.stdout


def serve(latency_ms: int) -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, str(SERVER), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip() if process.stdout else ""


def cold(folder: Path, rounds: int) -> None:
    """100 replies of 200 ms."""
    project(folder, 100, ["answer.em@1"])
    (folder / "floor").mkdir()
    (folder / "floor" / "floor.py").write_text(FLOOR, encoding="utf-8")
    (folder / "floor" / "test_floor.py").write_text(FLOOR_TEST, encoding="utf-8")
    process, url = serve(200)
    try:
        ours, floor, floor_in_pytest = [], [], []
        for i in range(rounds):
            command = [
                *PYTEST,
                "test_gate.py",
                "--rageval-model=m",
                "--rageval-concurrency=20",
                f"--rageval-cache-dir=cache{i}",
            ]
            ours.append(timed(command, folder, OPENAI_BASE_URL=url)[0])
            floor.append(timed([sys.executable, "floor/floor.py", url], folder)[0])
            command = [*PYTEST, "-pno:rageval", "--noconftest", "floor/test_floor.py"]
            floor_in_pytest.append(timed(command, folder, OPENAI_BASE_URL=url)[0])
    finally:
        process.terminate()
    say("cold, 100 replies", ours, floor, "bare client, a script")
    say("", ours, floor_in_pytest, "bare client, a test")


def cached(folder: Path, rounds: int) -> None:
    """400 examples from the cache."""
    project(folder, 400, ["llm_reteval@3", "recall@3", "ndcg@3"])
    process, url = serve(0)
    try:
        command = [*PYTEST, "--rageval-model=m"]
        timed(command, folder, OPENAI_BASE_URL=url)
    finally:
        process.terminate()
    runs = [timed(command, folder, OPENAI_BASE_URL=url) for _ in range(rounds)]
    if not all("openai imported: False" in printed for _, printed in runs):
        raise SystemExit("a cached run imported openai")
    (folder / "plain").mkdir()
    (folder / "plain" / "test_plain.py").write_text("def test_it(): pass\n", encoding="utf-8")
    plain = [timed([*PYTEST, "-pno:rageval", "plain"], folder)[0] for _ in range(rounds)]
    say("cached, 400 examples", [took for took, _ in runs], plain, "one empty test")


def idle(folder: Path, rounds: int) -> None:
    """One unrelated test."""
    folder.mkdir()
    (folder / "test_plain.py").write_text("def test_it(): pass\n", encoding="utf-8")
    pairs = [
        (timed(PYTEST, folder)[0], timed([*PYTEST, "-pno:rageval"], folder)[0]) for _ in range(4 * rounds)
    ]
    ours, without = zip(*pairs, strict=True)
    say("idle, one unrelated test", list(ours), list(without), "without the plugin")
    difference = statistics.median(a - b for a, b in pairs)
    print(f"{'':26}median difference of the pairs: {1000 * difference:+.1f} ms")  # noqa: T201


def say(what: str, ours: list[float], theirs: list[float], name: str) -> None:
    """Print medians and their ratio."""
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{what:26}{a:.3f} s; {name} {b:.3f} s; ratio {a / b:.3f} (n = {len(ours)})", flush=True)  # noqa: T201


if __name__ == "__main__":
    repeat = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as temporary:
        for measure in (cold, cached, idle):
            measure(Path(temporary) / measure.__name__, repeat)
