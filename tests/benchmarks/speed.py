"""What a run costs: `python tests/benchmarks/speed.py [ROW …] [--rounds N] [--large] [--kept FOLDER] [--venvs FOLDER]`.

Whole processes, in turn with what they are compared to, so that a machine that gets slower does so for both. Printed
are medians of 7 rounds (28 where a row is over soon), and of the rounds' ratios and differences the median and the
range. An empty test stands for what pytest itself takes.

Rows: idle, cached-400, cached, light, cold-100, cold-1000, recorded, bm25, verdict; with `--large`, or by name,
cached-large too, which asks for 600,000 replies first. `--kept` keeps the projects with their filled caches for
another time, `--venvs` the environment with ranx; without it `recorded` is compared with pytrec_eval alone.
"""
# ruff: noqa: T201 - a script that reports

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import large_set
from tests.benchmarks.venvs import environment
from tests.foreign_plugins import WITHOUT

SERVER: Final = Path(__file__).parents[1] / "llm_server.py"
PYTEST: Final = ("-m", "pytest", "-q", "-pno:xdist", *WITHOUT)
EMPTY: Final = (*PYTEST, "-pno:rageval", "--noconftest", "empty")
OURS: Final = (*PYTEST, "test_gate.py", "--rageval-model=m")
JUDGED: Final = ["llm_reteval@3", "answer.correct@3"]
RANKING: Final = ["recall@10", "ndcg@10", "map@10", "mrr@10"]
QUESTIONS, DEPTH = 10_000, 100  # of the recorded run

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        n = int(query.split("item-")[1].rstrip("?"))
        return [{"id": f"doc-{i}", "text": f"Of all things, item-{i} has the code c{i}x."}
                for i in range(n, n + k)]
    return search
"""

GATE = """
import pytest

@pytest.mark.rageval_evalset("evals.jsonl")
{marks}
def test_gate():
    pass
"""

FLOOR = """
import asyncio, os, sys
from openai import AsyncOpenAI

async def main(count, in_flight):
    client, limit = AsyncOpenAI(), asyncio.Semaphore(in_flight)
    async def one(i):
        async with limit:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": f"item-{i} has the code c{i}x"}])
    await asyncio.gather(*map(one, range(count)))

if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
"""

FLOOR_TEST = """
import asyncio, os
import floor

def test_floor():
    asyncio.run(floor.main(*map(int, os.environ["FLOOR"].split())))
"""

SET = "from pytest_rageval import load; kept = load('evals.jsonl')"

TREC_RUN = """
import pytest
from pytest_rageval import TrecRun, load

@pytest.fixture(scope="session")
def rageval_retriever():
    return TrecRun("a.run", load("evals.jsonl"))
"""

PYTREC_EVAL = """
import time
import pytrec_eval

began = time.perf_counter()
with open("qrels.txt") as file:
    qrels = pytrec_eval.parse_qrel(file)
with open("a.run") as file:
    run = pytrec_eval.parse_run(file)
found = pytrec_eval.RelevanceEvaluator(qrels, {"recall.10", "ndcg_cut.10", "map_cut.10", "recip_rank"}).evaluate(run)
means = {name: sum(each[name] for each in found.values()) / len(found) for name in next(iter(found.values()))}
print(time.perf_counter() - began)
"""

RANX = """
import time
from ranx import Qrels, Run, evaluate

for _ in range(2):  # the first time it compiles
    began = time.perf_counter()
    qrels, run = Qrels.from_file("qrels.txt", kind="trec"), Run.from_file("a.run", kind="trec")
    evaluate(qrels, run, ["recall@10", "ndcg@10", "map@10", "mrr@10"])
print(time.perf_counter() - began)
"""

BM25 = """
import random, string, time
import numpy as np
from rank_bm25 import BM25Okapi
from pytest_rageval import BM25Retriever

rng = random.Random(0)
names = ["".join(rng.choices(string.ascii_lowercase, k=8)) for _ in range(50_000)]
weights = [1 / (rank + 10) for rank in range(len(names))]
drawn = iter(rng.choices(names, weights, k=6_000_100))
documents = [[next(drawn) for _ in range(60)] for _ in range(100_000)]
queries = [[next(drawn) for _ in range(5)] for _ in range(20)]
ours, theirs = BM25Retriever([" ".join(words) for words in documents]), BM25Okapi(documents)
seconds = [0.0, 0.0]
for query in queries:
    began = time.perf_counter()
    found = ours(" ".join(query), 10)
    between = time.perf_counter()
    scores = theirs.get_scores(query)
    best = np.argsort(-scores, kind="stable")[:10]
    ended = time.perf_counter()
    assert [document.text for document in found] == [" ".join(documents[at]) for at in best]
    seconds[0] += (between - began) / len(queries)
    seconds[1] += (ended - between) / len(queries)
print(*seconds)
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


def serve(latency_ms: float) -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, str(SERVER), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip() if process.stdout else ""


@dataclass(frozen=True)
class Took:
    """What a process took, and the numbers in the last line that it printed."""

    seconds: float
    processor_s: float
    peak_mb: float
    printed: list[float]


@dataclass(frozen=True)
class Side:
    """A process.

    Attributes:
        arguments: of Python; `{turn}` is the number of the round.
        at: the folder below that of the row.
        python: another Python than this one.
        prints: whether its last line is numbers.
        environ: added to the environment.
    """

    arguments: tuple[str, ...]
    at: str = "."
    python: Path = Path(sys.executable)
    prints: bool = False
    environ: tuple[tuple[str, str], ...] = ()

    def run(self, folder: Path, url: str, turn: int) -> Took:
        """Run it, and end everything where it fails."""
        environ = os.environ | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", **dict(self.environ)}
        # An installed package comes compiled; a checkout on a machine that writes no bytecode would not be.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [str(self.python), *(argument.replace("{turn}", str(turn)) for argument in self.arguments)]
        here = folder / self.at
        with (folder / "out.txt").open("w+b") as out:
            began = time.perf_counter()
            process = subprocess.Popen(command, cwd=here, env=environ, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said = (folder / "out.txt").read_text(encoding="utf-8")
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said[-3000:]}")
        last = said.splitlines()[-1:] if self.prints else []
        printed = [float(each) for line in last for each in line.split()]
        return Took(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed)


Value = Callable[[dict[str, Took]], float]


@dataclass(frozen=True)
class Line:
    """A line of the table: ours and the other's, from what the sides of a row took in one round."""

    what: str
    goal: str
    ours: Value
    other: Value
    unit: str = "s"

    def show(self, rounds: list[dict[str, Took]]) -> None:
        """Print it."""
        pairs = [(self.ours(took), self.other(took)) for took in rounds]
        a, b = (statistics.median(each) for each in zip(*pairs, strict=True))
        form = ".2f" if self.unit in {"s", "kB"} else ".1f" if self.unit == "ms" else ".0f"
        ratio = ranged([ours / other for ours, other in pairs if other > 0], ".2f")
        difference = ranged([ours - other for ours, other in pairs], f"+{form}")
        print(
            f"| {self.what} | {self.goal} | {a:{form}} {self.unit} | {b:{form}} {self.unit} | {ratio} | {difference} |",
            flush=True,
        )


def ranged(values: list[float], form: str) -> str:
    """The median, and from the least to the greatest."""
    if not values:
        return "–"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def of(side: str, less: str = "", times: float = 1, field: str = "seconds") -> Value:
    """What a side took, beyond another one, so many times."""
    return lambda took: times * (getattr(took[side], field) - (getattr(took[less], field) if less else 0.0))


def printed(side: str, at: int = 0, times: float = 1) -> Value:
    """A number that a side printed."""
    return lambda took: times * took[side].printed[at]


memory: Final = partial(of, field="peak_mb")


@dataclass(frozen=True)
class Row:
    """What is measured.

    Attributes:
        prepare: writes what the sides need.
        sides: that are run in turn, once before to fill caches and compile.
        lines: that are printed.
        latency_ms: of the server; None where there is none.
        short: it is over so soon that four times as many rounds are run.
    """

    prepare: Callable[[Path], None]
    sides: dict[str, Side]
    lines: tuple[Line, ...]
    latency_ms: float | None = None
    short: bool = False


def empty(folder: Path) -> None:
    """Write one unrelated test."""
    (folder / "empty").mkdir()
    (folder / "empty" / "test_empty.py").write_text("def test_it(): pass\n", encoding="utf-8")


def projects(folder: Path, specs: list[str], *sizes: int) -> None:
    """Write an empty test, and projects of these sizes by their numbers."""
    empty(folder)
    for size in sizes:
        project(folder / str(size), size, specs)


def floors(folder: Path) -> None:
    """Write the bare client, too."""
    projects(folder, ["answer.em@1"], 100, 1000)
    (folder / "floor.py").write_text(FLOOR, encoding="utf-8")
    (folder / "test_floor.py").write_text(FLOOR_TEST, encoding="utf-8")


def recorded(folder: Path) -> None:
    """Write rankings, judgements and an eval set of the same."""
    projects(folder, RANKING, 0)
    here, rng = folder / "0", random.Random(0)
    (here / "conftest.py").write_text(TREC_RUN, encoding="utf-8")
    (here / "pytrec.py").write_text(PYTREC_EVAL, encoding="utf-8")
    (here / "by_ranx.py").write_text(RANX, encoding="utf-8")
    names = ("evals.jsonl", "a.run", "qrels.txt")
    with (
        (here / names[0]).open("w", encoding="utf-8") as evals,
        (here / names[1]).open("w", encoding="utf-8") as run,
        (here / names[2]).open("w", encoding="utf-8") as qrels,
    ):
        for query in range(QUESTIONS):
            found = rng.sample(range(1_000_000), DEPTH)
            gold = [*rng.sample(found[:20], 3), *(rng.randrange(1_000_000, 2_000_000) for _ in range(2))]
            record = {
                "id": f"q{query}",
                "question": f"question {query}",
                "gold": [{"id": f"d{n}"} for n in gold],
            }
            evals.write(json.dumps(record) + "\n")
            qrels.writelines(f"q{query} 0 d{n} 1\n" for n in gold)
            run.writelines(f"q{query} Q0 d{n} {at + 1} {DEPTH - at}.0 x\n" for at, n in enumerate(found))


def verdict(folder: Path) -> None:
    """Write 100,000 questions, a baseline of them, and a test without a comparison."""
    empty(folder)
    for name in ("drop", "bound"):
        here = folder / name
        here.mkdir()
        large_set.write(here / "set.jsonl", 100_000)
        (here / "conftest.py").write_text(large_set.CONFTEST, encoding="utf-8")
        test = large_set.TEST if name == "drop" else large_set.TEST.replace("max_drop=0.02", "min=0.1")
        (here / "test_search.py").write_text(test, encoding="utf-8")
        (here / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    Side((*PYTEST, "--rageval-update-baseline"), "drop").run(folder, "", 0)


def cold(count: int, in_flight: int) -> Row:
    """New replies of 200 ms, beside a bare client as a script and as a test."""
    ours = (*OURS, f"--rageval-concurrency={in_flight}", "--rageval-cache-dir=cache{turn}")
    numbers = f"{count} {in_flight}"
    what = f"{count:,} new replies of 200 ms, {in_flight} in flight, beside AsyncOpenAI"
    return Row(
        floors,
        {
            "ours": Side(ours, str(count)),
            "script": Side(("floor.py", *numbers.split())),
            "test": Side((*PYTEST, "-pno:rageval", "test_floor.py"), environ=(("FLOOR", numbers),)),
        },
        (
            Line(f"{what} in a script", "≤ 1.10 ×", of("ours"), of("script")),
            Line(f"{what} in a test", "", of("ours"), of("test")),
        ),
        latency_ms=200,
    )


def cached(many: int, few: int, goals: tuple[str, str]) -> Row:
    """Judged examples with every reply in the cache, beside fewer of them."""
    each = 1024 / (many - few)  # from MB to kB an example
    return Row(
        lambda at: projects(at, JUDGED, few, many),
        {
            "many": Side(OURS, str(many)),
            "few": Side(OURS, str(few)),
            "set of many": Side(("-c", SET), str(many)),
            "set of few": Side(("-c", SET), str(few)),
            "empty": Side(EMPTY),
        },
        (
            Line(f"{many:,} examples cached, beside an empty test", goals[0], of("many"), of("empty")),
            Line("… peak of memory", goals[1], memory("many"), memory("empty"), "MB"),
            Line(
                f"… beside {many // few} × {few:,} examples",
                "≤ 1.20 ×",
                of("many", "empty"),
                of("few", "empty", many / few),
            ),
            Line(
                "… memory of one more example, beside that of the set alone",
                "≤ +2 kB",
                memory("many", "few", each),
                memory("set of many", "set of few", each),
                "kB",
            ),
        ),
        latency_ms=0,
    )


def rows(venvs: Path | None) -> dict[str, Row]:
    """Every row by its name."""
    beside = {"pytrec_eval": Side(("pytrec.py",), "0", prints=True)}
    if venvs:
        beside["ranx"] = Side(("by_ranx.py",), "0", environment(venvs, "ranx", ("ranx",)), prints=True)
    run = f"recorded run, {QUESTIONS:,} × {DEPTH}, beyond an empty test, beside"
    return {
        "idle": Row(
            empty,
            {"ours": Side((*PYTEST, "empty")), "without": Side(EMPTY)},
            (
                Line(
                    "one unrelated test, beside `-p no:rageval`",
                    "≤ +10 ms",
                    of("ours", times=1000),
                    of("without", times=1000),
                    "ms",
                ),
            ),
            short=True,
        ),
        "cached-400": Row(
            lambda at: projects(at, ["llm_reteval@3", "recall@3", "ndcg@3"], 400),
            {"ours": Side(OURS, "400"), "empty": Side(EMPTY)},
            (Line("400 examples cached, beside an empty test", "≤ +0.40 s", of("ours"), of("empty")),),
            latency_ms=0,
        ),
        "cached": cached(10_000, 1_000, ("≤ 3 s", "≤ 200 MB")),
        "light": Row(
            lambda at: projects(at, ["recall@3"], 100),
            {"ours": Side(OURS, "100"), "empty": Side(EMPTY)},
            (Line("recall of 100 questions, beside an empty test", "≤ +0.25 s", of("ours"), of("empty")),),
            short=True,
        ),
        "cold-100": cold(100, 20),
        "cold-1000": cold(1000, 64),
        "recorded": Row(
            recorded,
            {"ours": Side(OURS, "0"), "empty": Side(EMPTY), **beside},
            tuple(Line(f"{run} {name}", "≤ 1.00 ×", of("ours", "empty"), printed(name)) for name in beside),
        ),
        "bm25": Row(
            lambda _: None,
            {"both": Side(("-c", BM25), prints=True)},
            (
                Line(
                    "BM25, a query of 100,000 documents, beside rank-bm25",
                    "≤ 10 ms",
                    printed("both", 0, 1000),
                    printed("both", 1, 1000),
                    "ms",
                ),
            ),
        ),
        "verdict": Row(
            verdict,
            {name: Side(PYTEST, name, environ=(("LOST", "0.005"),)) for name in ("drop", "bound")},
            (
                Line(
                    "100,000 questions, three `max_drop`, beside three `min`; processor",
                    "≤ +5 s",
                    of("drop", field="processor_s"),
                    of("bound", field="processor_s"),
                ),
            ),
        ),
        "cached-large": cached(100_000, 10_000, ("≤ 30 s", "")),
    }


@contextmanager
def prepared(row: Row, folder: Path) -> Iterator[str]:
    """Write what a row needs, fill its caches, and yield the address of the server.

    A folder from another time is taken as it is: the address is part of the keys of replies, and stays.
    """
    address = folder / "address.txt"
    if address.exists() and not row.latency_ms:
        yield address.read_text(encoding="utf-8")
        return
    if not address.exists():
        folder.mkdir(parents=True)
        row.prepare(folder)
    server, url = serve(row.latency_ms) if row.latency_ms is not None else (None, "")
    try:
        for side in row.sides.values():
            side.run(folder, url, -1)
        address.write_text(url, encoding="utf-8")
        yield url
    finally:
        if server:
            server.terminate()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--kept", type=Path, help="where projects and caches are kept")
    parser.add_argument("--venvs", type=Path, help="where virtual environments are kept")
    given = parser.parse_args()
    table = rows(given.venvs)
    names = given.rows or [name for name in table if given.large or name != "cached-large"]
    if unknown := set(names) - set(table):
        parser.error(f"{', '.join(sorted(unknown))}: no such row; there are {', '.join(table)}")
    print("| | goal | ours | the other | ratio | difference |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = (given.kept or Path(temporary)).absolute() / name
            with prepared(table[name], folder) as url:
                turns = [
                    {key: side.run(folder, url, turn) for key, side in table[name].sides.items()}
                    for turn in range(given.rounds * (4 if table[name].short else 1))
                ]
            for line in table[name].lines:
                line.show(turns)


if __name__ == "__main__":
    main()
