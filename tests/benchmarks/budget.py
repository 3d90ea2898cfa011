"""The cost of a run as counts that hardly depend on the machine: `python tests/benchmarks/budget.py`.

The exit status is 1 if a count is more than 5 % above its value in `budget.json`. `--write` writes the new counts to
that file. The counts are:

- modules: modules of this package that are imported by a run without a marked test, by one with two workers (in all
  three processes), and by a run with a ranking test;
- calls: calls of Python and C functions for one more example, with all replies in the cache;
- statements: SQL statements for one more example, with all replies in the cache;
- bytes: memory that is still allocated at the end of the run, for one more example with all replies in the cache;
- heavy: how many of numpy and scipy are imported by a run with a ranking test, and by one with cached replies;
- calls of one pair, canonical: for one more pair of texts that the rules compare for the first time;
- peak bytes of one document, BM25: the peak of memory while an index is built, for one more document of 40 words.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.speed import project, serve

BUDGET = Path(__file__).with_suffix(".json")
# A resumed coroutine counts as a call of each of its frames: examples take turns, so that they read replies together.
SLACK = 1.05, 0.1
FEW, MANY = 100, 300  # examples
RANKING = ["recall@3", "ndcg@3"]
CACHED = [*RANKING, "llm_reteval@3", "answer.correct@3"]

RUN = """
import collections, gc, json, sys, threading, tracemalloc
import pytest

counts = collections.Counter()

def profile(frame, event, argument):
    if event == "call":
        counts["calls"] += 1
    elif event == "c_call":
        counts["calls"] += 1
        if type(getattr(argument, "__self__", None)).__module__ == "sqlite3":
            counts["statements"] += argument.__name__.startswith("execute")

class Measured:
    def pytest_sessionfinish(self):
        if sys.argv[1] == "bytes":
            gc.collect()
            counts["bytes"] = tracemalloc.get_traced_memory()[0]

if sys.argv[1] == "bytes":
    tracemalloc.start()
elif sys.argv[1] == "calls":
    threading.setprofile(profile)
    sys.setprofile(profile)
status = pytest.main(sys.argv[2:], plugins=[Measured()])
sys.setprofile(None)
threading.setprofile(None)
if sys.argv[1] == "modules":
    counts["modules"] = sum(name.partition(".")[0] == "pytest_rageval" for name in sys.modules)
    counts["heavy"] = sum(name in sys.modules for name in ("numpy", "scipy"))
if status:
    sys.exit(f"the run ended with {status}")
print(json.dumps(counts))
"""

WORKERS_CONFTEST = """
import os, sys

def pytest_unconfigure():
    name = os.environ.get("PYTEST_XDIST_WORKER", "controller")
    with open(f"{name}.txt", "w") as file:
        print(sum(name.partition(".")[0] == "pytest_rageval" for name in sys.modules), file=file)
"""

PAIRS = """
import sys
from pytest_rageval.answers.canonical import matches_any

def compare(first, last):
    for n in range(first, last):
        matches_any(f"Lake Number {n} Nyos was named by Ali{n} in {n % 900 + 1000}.",
                    [f"the {n} lakes of Ann{n} Bo{n}, 9 May {n % 900 + 1100}"], question=f"Who named lake {n}?")

calls = 0

def profile(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")

compare(0, 100)
sys.setprofile(profile)
compare(100, 300)
sys.setprofile(None)
print(calls / 200)
"""

INDEX = """
import tracemalloc
from pytest_rageval import BM25Retriever

def peak(count):
    documents = [" ".join(f"w{(n * 31 + m * m) % 3001}" for m in range(40)) for n in range(count)]
    tracemalloc.start()
    BM25Retriever(documents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak

print((peak(6000) - peak(2000)) / 4000)
"""


def run(folder: Path, count: str, *arguments: str, url: str = "") -> dict[str, int]:
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OPENAI_BASE_URL": url}
    command = [
        sys.executable,
        "-c",
        RUN,
        count,
        "-q",
        "-p",
        "rageval",
        "-p",
        "no:cacheprovider",
        *arguments,
        # A run without marked tests has no option of this package.
        *(["--rageval-model=m"] if url else []),
    ]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def measure(folder: Path, url: str) -> dict[str, float]:
    idle = folder / "idle"
    idle.mkdir()
    (idle / "test_idle.py").write_text("def test_it(): pass\n", encoding="utf-8")
    counts: dict[str, float] = {"modules idle": run(idle, "modules")["modules"]}
    (idle / "conftest.py").write_text(WORKERS_CONFTEST, encoding="utf-8")
    run(idle, "modules", "-p", "xdist", "-n2")
    counts["modules idle, -n 2"] = sum(
        int((idle / f"{name}.txt").read_text(encoding="utf-8")) for name in ("controller", "gw0", "gw1")
    )
    for name, specs in (("ranking", RANKING), ("cached", CACHED)):
        counts_by_size = {}
        for examples in (FEW, MANY):
            project_folder = folder / f"{name}{examples}"
            project(project_folder, examples, specs)
            # The first run fills the cache.
            counts_by_size[examples] = run(project_folder, "modules", url=url)
            counts_by_size[examples] |= run(project_folder, "calls", url=url)
            counts_by_size[examples] |= run(project_folder, "bytes", url=url)
        counts[f"modules {name}"] = counts_by_size[FEW]["modules"]
        counts[f"heavy {name}"] = counts_by_size[FEW]["heavy"]
        for count in ("calls", "statements", "bytes"):
            difference = counts_by_size[MANY].get(count, 0) - counts_by_size[FEW].get(count, 0)
            counts[f"{count} of one example, {name}"] = round(difference / (MANY - FEW), 2)
    for name, script in (
        ("calls of one pair, canonical", PAIRS),
        ("peak bytes of one document, BM25", INDEX),
    ):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        counts[name] = round(float(done.stdout), 2)
    return counts


def main() -> int:
    """Print the counts next to those in `budget.json`; return the exit status."""
    server, url = serve(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            counts = measure(Path(folder), url)
    finally:
        server.terminate()
    budget = json.loads(BUDGET.read_text(encoding="utf-8")) if BUDGET.exists() else {}
    for name, count in counts.items():
        sys.stdout.write(f"{name:<36} {count:>12,.2f} {budget.get(name, 0):>12,.2f}\n")
    if "--write" in sys.argv:
        BUDGET.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        return 0
    above = [name for name, count in counts.items() if count > budget.get(name, -1) * SLACK[0] + SLACK[1]]
    for name in above:
        sys.stdout.write(f"{name} is above its budget: find what costs more, or accept it with --write.\n")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
