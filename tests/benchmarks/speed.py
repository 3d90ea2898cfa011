"""Time and memory of runs: `python tests/benchmarks/speed.py [ROW …] [OPTION …]`.

Options: `--rounds N`, `--short`, `--large`, `--kept FOLDER`, `--venvs FOLDER`. With `--short` each process runs twice,
and once before to fill caches.

Each row of the table compares whole processes. The processes take turns in each round, so that a machine that gets
slower affects all of them. The script prints medians of 7 rounds (28 for rows of short runs), and the median and the
range of the ratios and differences within the rounds. An empty test shows the cost of pytest itself.

Rows: idle, idle-workers, cached-400, cached, light, workers, canonical, reports, cold-100, cold-1000, recorded, bm25,
verdict; and cached-large, only with `--large` or if it is named, because it first requests 600,000 replies. `--kept`
stores the projects with their filled caches for later runs. `--venvs` stores the virtual environment with ranx; without
it `recorded` is compared with pytrec_eval only.
"""
# ruff: noqa: T201 - a script that reports

import argparse
import json
import os
import random
import shutil
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

from tests.benchmarks import items, large_set
from tests.benchmarks.venvs import environment
from tests.foreign_plugins import WITHOUT

SERVER: Final = Path(__file__).parents[1] / "llm_server.py"
PYTEST: Final = ("-m", "pytest", "-q", "-pno:xdist", *WITHOUT)
EMPTY: Final = (*PYTEST, "-pno:rageval", "--noconftest", "empty")
WORKERS: Final = ("-m", "pytest", "-q", "-n2", *WITHOUT)
OURS: Final = (*PYTEST, "test_gate.py", "--rageval-model=m")
JUDGED: Final = ["llm_reteval@3", "answer.correct@3"]
RANKING: Final = ["recall@10", "ndcg@10", "map@10", "mrr@10"]
QUESTIONS, DEPTH = 10_000, 100  # of the recorded run

CONFTEST = """
import items
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        return items.search(int(query.split("item-")[1].rstrip("?")), k, spread={spread})
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


CANONICAL = """
import time
from pytest_rageval.answers.canonical import matches_any

pairs = [
    (f"Lake Number {n} Nyos was named by Ali{n} in {n % 900 + 1000}.", [f"Ali{n} Baba", f"the {n} men"])
    for n in range(10_000)
]
began = time.perf_counter()
for n, (answer, references) in enumerate(pairs):
    matches_any(answer, references, question=f"Who named lake {n}?")
print((time.perf_counter() - began) / len(pairs))
"""

INDEX = """
import random, string
from itertools import accumulate
from pytest_rageval import BM25Retriever

rng = random.Random(0)
names = ["".join(rng.choices(string.ascii_lowercase, k=8)) for _ in range(50_000)]
weights = list(accumulate(1 / (rank + 10) for rank in range(len(names))))
retriever = BM25Retriever([" ".join(rng.choices(names, cum_weights=weights, k=60)) for _ in range(100_000)])
retriever("a", 10)
"""

TEXTS = INDEX.replace("retriever = BM25Retriever(", "texts = (").replace('retriever("a", 10)', "")

RANKING_PYTREC = """
import json
import pytrec_eval
from pathlib import Path

from items import gold_passages, search

records = [json.loads(line) for line in Path("evals.jsonl").read_text().splitlines()]
qrels = {each["id"]: {gold["id"]: 1 for gold in each["gold"]} for each in records}
found = {each["id"]: search(int(each["id"][1:]), 3, spread=True) for each in records}
run = {name: {item["id"]: -float(rank) for rank, item in enumerate(items)} for name, items in found.items()}
values = pytrec_eval.RelevanceEvaluator(qrels, {"recall.3"}).evaluate(run)
print(sum(each["recall_3"] for each in values.values()) / len(values))
"""


def project(folder: Path, examples: int, specs: list[str], *, spread: bool = True) -> None:
    """Write a project with this number of questions and a threshold for each score.

    With `spread`, verdicts, recalls and lengths differ, and some questions are unscored. Without, every score is 1.
    """
    folder.mkdir()
    shutil.copy(items.__file__, folder)
    (folder / "conftest.py").write_text(CONFTEST.format(spread=spread), encoding="utf-8")
    marks = "\n".join(f'@pytest.mark.rageval_threshold("{spec}", min=0.1)' for spec in specs)
    (folder / "test_gate.py").write_text(GATE.format(marks=marks), encoding="utf-8")
    records = (
        {
            "id": f"q{i}",
            "question": f"What is the code of item-{i}?",
            "answers": [f"c{i}x"],
            "gold": items.gold_passages(i, spread=spread),
        }
        for i in range(examples)
    )
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "evals.jsonl").write_text(lines, encoding="utf-8")


def serve(latency_ms: float) -> tuple[subprocess.Popen[str], str]:
    """Start a server in another process; return the process and the URL of the server."""
    command = [sys.executable, str(SERVER), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip() if process.stdout else ""


@dataclass(frozen=True)
class Measurement:
    seconds: float
    processor_s: float
    peak_mb: float
    printed: list[float]


@dataclass(frozen=True)
class Command:
    """The command of a process that is measured.

    Attributes:
        arguments: command-line arguments of Python; `{turn}` is replaced by the number of the round.
        subfolder: the working directory, relative to the folder of the row.
        python: path of the Python interpreter.
        prints: whether the last line of the output consists of numbers.
        environ: additional environment variables.
    """

    arguments: tuple[str, ...]
    subfolder: str = "."
    python: Path = Path(sys.executable)
    prints: bool = False
    environ: tuple[tuple[str, str], ...] = ()

    def run(self, folder: Path, url: str, turn: int) -> Measurement:
        environ = os.environ | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", **dict(self.environ)}
        # An installed package contains bytecode. A checkout has none on a machine that does not write bytecode.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [str(self.python), *(argument.replace("{turn}", str(turn)) for argument in self.arguments)]
        working_directory = folder / self.subfolder
        with (folder / "out.txt").open("w+b") as out:
            began = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=working_directory, env=environ, stdout=out, stderr=subprocess.STDOUT
            )
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output = (folder / "out.txt").read_text(encoding="utf-8")
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{output[-3000:]}")
        last_lines = output.splitlines()[-1:] if self.prints else []
        printed = [float(number) for line in last_lines for number in line.split()]
        return Measurement(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed)


Value = Callable[[dict[str, Measurement]], float]
"""Computes a number from the measurements of one round, by the names of the commands."""


@dataclass(frozen=True)
class Line:
    title: str
    goal: str
    ours: Value
    other: Value
    unit: str = "s"

    def show(self, rounds: list[dict[str, Measurement]]) -> None:
        pairs = [(self.ours(measurements), self.other(measurements)) for measurements in rounds]
        a, b = (statistics.median(values) for values in zip(*pairs, strict=True))
        form = ".2f" if self.unit in {"s", "kB"} else ".1f" if self.unit == "ms" else ".0f"
        ratio = format_median_and_range([ours / other for ours, other in pairs if other > 0], ".2f")
        difference = format_median_and_range([ours - other for ours, other in pairs], f"+{form}")
        print(
            f"| {self.title} | {self.goal} | {a:{form}} {self.unit} | {b:{form}} {self.unit} | {ratio} "
            f"| {difference} |",
            flush=True,
        )


def format_median_and_range(values: list[float], form: str) -> str:
    if not values:
        return "–"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def measured(command: str, baseline: str = "", times: float = 1, field: str = "seconds") -> Value:
    return lambda measurements: (
        times
        * (
            getattr(measurements[command], field)
            - (getattr(measurements[baseline], field) if baseline else 0.0)
        )
    )


def printed(command: str, index: int = 0, times: float = 1) -> Value:
    return lambda measurements: times * measurements[command].printed[index]


peak_memory: Final = partial(measured, field="peak_mb")
"""Returns a function that computes the peak memory of a command in MB; arguments as for `measured`."""


@dataclass(frozen=True)
class Row:
    """A comparison of commands.

    Attributes:
        prepare: writes the files that the commands need into a folder.
        commands: the commands by name. They run in turn, and once before the first round, to fill caches and to
            compile modules.
        lines: the lines of the table that are printed.
        latency_ms: latency of the server's replies in milliseconds; None to start no server.
        short: whether the commands take so little time that four times as many rounds are run.
    """

    prepare: Callable[[Path], None]
    commands: dict[str, Command]
    lines: tuple[Line, ...]
    latency_ms: float | None = None
    short: bool = False


def empty(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "test_empty.py").write_text("def test_it(): pass\n", encoding="utf-8")


def projects(folder: Path, specs: list[str], *sizes: int) -> None:
    empty(folder)
    for size in sizes:
        project(folder / str(size), size, specs)


def floors(folder: Path) -> None:
    projects(folder, ["answer.em@1"], 100, 1000)
    (folder / "floor.py").write_text(FLOOR, encoding="utf-8")
    (folder / "test_floor.py").write_text(FLOOR_TEST, encoding="utf-8")


def recorded(folder: Path) -> None:
    projects(folder, RANKING, 0)
    project_folder, rng = folder / "0", random.Random(0)
    (project_folder / "conftest.py").write_text(TREC_RUN, encoding="utf-8")
    (project_folder / "pytrec.py").write_text(PYTREC_EVAL, encoding="utf-8")
    (project_folder / "by_ranx.py").write_text(RANX, encoding="utf-8")
    names = ("evals.jsonl", "a.run", "qrels.txt")
    with (
        (project_folder / names[0]).open("w", encoding="utf-8") as evals,
        (project_folder / names[1]).open("w", encoding="utf-8") as run,
        (project_folder / names[2]).open("w", encoding="utf-8") as qrels,
    ):
        for query in range(QUESTIONS):
            retrieved = rng.sample(range(1_000_000), DEPTH)
            gold = [*rng.sample(retrieved[:20], 3), *(rng.randrange(1_000_000, 2_000_000) for _ in range(2))]
            record = {
                "id": f"q{query}",
                "question": f"question {query}",
                "gold": [{"id": f"d{n}"} for n in gold],
            }
            evals.write(json.dumps(record) + "\n")
            qrels.writelines(f"q{query} 0 d{n} 1\n" for n in gold)
            run.writelines(
                f"q{query} Q0 d{n} {rank} {DEPTH - rank + 1}.0 x\n" for rank, n in enumerate(retrieved, 1)
            )


def verdict(folder: Path) -> None:
    empty(folder)
    for name in ("drop", "bound"):
        project_folder = folder / name
        project_folder.mkdir()
        large_set.write(project_folder / "set.jsonl", 100_000)
        (project_folder / "conftest.py").write_text(large_set.CONFTEST, encoding="utf-8")
        test = large_set.TEST if name == "drop" else large_set.TEST.replace("max_drop=0.02", "min=0.1")
        (project_folder / "test_search.py").write_text(test, encoding="utf-8")
        (project_folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    Command((*PYTEST, "--rageval-update-baseline"), "drop").run(folder, "", 0)


def compared(folder: Path) -> None:
    large_set.write(folder / "set.jsonl", QUESTIONS)
    (folder / "conftest.py").write_text(large_set.CONFTEST, encoding="utf-8")
    (folder / "test_search.py").write_text(large_set.TEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    Command((*PYTEST, "--rageval-update-baseline"), ".").run(folder, "", 0)


def light(folder: Path) -> None:
    projects(folder, ["recall@3"], 100)
    (folder / "100" / "pytrec.py").write_text(RANKING_PYTREC, encoding="utf-8")


def reports() -> Row:
    kinds = {"md": "≤ +0.5 s", "json": "≤ +2 s", "html": "≤ +1.5 s"}
    runs = {kind: (*PYTEST, f"--rageval-report=report.{kind}") for kind in kinds}
    environ = (("LOST", "0.005"),)
    title = f"{QUESTIONS:,} questions, three scores with `max_drop`"
    return Row(
        compared,
        {name: Command(run, environ=environ) for name, run in {"none": PYTEST, **runs}.items()},
        tuple(
            line
            for kind, goal in kinds.items()
            for line in (
                Line(
                    f"{title}, report.{kind}, beside no report; processor",
                    goal,
                    measured(kind, field="processor_s"),
                    measured("none", field="processor_s"),
                ),
                Line("… peak of memory", "", peak_memory(kind), peak_memory("none"), "MB"),
            )
        ),
    )


def cold(count: int, in_flight: int) -> Row:
    ours = (*OURS, f"--rageval=concurrency={in_flight}", "--rageval=cache_dir=cache{turn}")
    numbers = f"{count} {in_flight}"
    title = f"{count:,} new replies of 200 ms, {in_flight} in flight, beside AsyncOpenAI"
    return Row(
        floors,
        {
            "ours": Command(ours, str(count)),
            "script": Command(("floor.py", *numbers.split())),
            "test": Command((*PYTEST, "-pno:rageval", "test_floor.py"), environ=(("FLOOR", numbers),)),
        },
        (
            Line(f"{title} in a script", "≤ 1.10 ×", measured("ours"), measured("script")),
            Line(f"{title} in a test", "", measured("ours"), measured("test")),
        ),
        latency_ms=200,
    )


def cached(many: int, few: int, goals: tuple[str, str]) -> Row:
    kb_per_example = 1024 / (many - few)  # the factor from a difference in MB to kB per example
    return Row(
        lambda folder: projects(folder, JUDGED, few, many),
        {
            "many": Command(OURS, str(many)),
            "few": Command(OURS, str(few)),
            "set of many": Command(("-c", SET), str(many)),
            "set of few": Command(("-c", SET), str(few)),
            "empty": Command(EMPTY),
        },
        (
            Line(
                f"{many:,} examples cached, beside an empty test",
                goals[0],
                measured("many"),
                measured("empty"),
            ),
            Line("… peak of memory", goals[1], peak_memory("many"), peak_memory("empty"), "MB"),
            Line(
                f"… beside {many // few} × {few:,} examples",
                "≤ 1.20 ×",
                measured("many", "empty"),
                measured("few", "empty", many / few),
            ),
            Line(
                "… memory of one more example, beside that of the set alone",
                "≤ +2 kB",
                peak_memory("many", "few", kb_per_example),
                peak_memory("set of many", "set of few", kb_per_example),
                "kB",
            ),
        ),
        latency_ms=0,
    )


def rows(venvs: Path | None) -> dict[str, Row]:
    peers = {"pytrec_eval": Command(("pytrec.py",), "0", prints=True)}
    if venvs:
        peers["ranx"] = Command(("by_ranx.py",), "0", environment(venvs, "ranx", ("ranx",)), prints=True)
    run = f"recorded run, {QUESTIONS:,} × {DEPTH}, beyond an empty test, beside"
    return {
        "idle": Row(
            empty,
            {"ours": Command((*PYTEST, "empty")), "without": Command(EMPTY)},
            (
                Line(
                    "one unrelated test, beside `-p no:rageval`",
                    "≤ +10 ms",
                    measured("ours", times=1000),
                    measured("without", times=1000),
                    "ms",
                ),
            ),
            short=True,
        ),
        "cached-400": Row(
            lambda folder: projects(folder, ["llm_reteval@3", "recall@3", "ndcg@3"], 400),
            {"ours": Command(OURS, "400"), "empty": Command(EMPTY)},
            (
                Line(
                    "400 examples cached, beside an empty test",
                    "≤ +0.40 s",
                    measured("ours"),
                    measured("empty"),
                ),
            ),
            latency_ms=0,
        ),
        "cached": cached(10_000, 1_000, ("≤ 4 s", "≤ 100 MB")),
        "light": Row(
            light,
            {"ours": Command(OURS, "100"), "empty": Command(EMPTY), "script": Command(("pytrec.py",), "100")},
            (
                Line(
                    "recall of 100 questions, beside an empty test",
                    "≤ +0.25 s",
                    measured("ours"),
                    measured("empty"),
                ),
                Line("… beside pytrec_eval in a script", "≤ 0.60 s", measured("ours"), measured("script")),
            ),
            short=True,
        ),
        "idle-workers": Row(
            empty,
            {"ours": Command((*WORKERS, "empty")), "without": Command((*WORKERS, "-pno:rageval", "empty"))},
            (
                Line(
                    "one unrelated test with `-n 2`, beside `-p no:rageval`",
                    "≤ +20 ms",
                    measured("ours", times=1000),
                    measured("without", times=1000),
                    "ms",
                ),
            ),
        ),
        "workers": Row(
            lambda folder: projects(folder, ["recall@3"], QUESTIONS),
            {
                "two": Command((*WORKERS, "test_gate.py"), str(QUESTIONS)),
                "one": Command(OURS, str(QUESTIONS)),
            },
            (
                Line(
                    f"recall of {QUESTIONS:,} questions in one test with `-n 2`, beside one process",
                    "≤ 1.00 ×",
                    measured("two"),
                    measured("one"),
                ),
            ),
        ),
        "canonical": Row(
            lambda _: None,
            {"ours": Command(("-c", CANONICAL), prints=True)},
            (
                Line(
                    "canonical comparison of an unseen pair, beside 5,000 a second",
                    "≤ 1.00 ×",
                    printed("ours", times=1000),
                    lambda _: 0.2,
                    "ms",
                ),
            ),
        ),
        "reports": reports(),
        "cold-100": cold(100, 20),
        "cold-1000": cold(1000, 64),
        "recorded": Row(
            recorded,
            {"ours": Command(OURS, "0"), "empty": Command(EMPTY), **peers},
            tuple(
                Line(f"{run} {name}", "≤ 1.00 ×", measured("ours", "empty"), printed(name)) for name in peers
            ),
        ),
        "bm25": Row(
            lambda _: None,
            {
                "both": Command(("-c", BM25), prints=True),
                "index": Command(("-c", INDEX)),
                "texts": Command(("-c", TEXTS)),
            },
            (
                Line(
                    "BM25 of 100,000 documents, peak of memory, beside the texts alone",
                    "≤ 300 MB",
                    peak_memory("index"),
                    peak_memory("texts"),
                    "MB",
                ),
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
            {name: Command(PYTEST, name, environ=(("LOST", "0.005"),)) for name in ("drop", "bound")}
            | {"empty": Command(EMPTY)},
            (
                Line(
                    "100,000 questions, three `max_drop`, beside three `min`; processor",
                    "≤ +5 s",
                    measured("drop", field="processor_s"),
                    measured("bound", field="processor_s"),
                ),
                Line("… in all, beside an empty test", "≤ 15 s", measured("drop"), measured("empty")),
                Line("… peak of memory", "≤ 300 MB", peak_memory("drop"), peak_memory("empty"), "MB"),
            ),
        ),
        "cached-large": cached(100_000, 10_000, ("≤ 30 s", "")),
    }


@contextmanager
def prepare(row: Row, folder: Path) -> Iterator[str]:
    """Write the files of a row, fill its caches, and yield the address of the server.

    A folder of an earlier benchmark is used unchanged, with the address of its server, because the address is part of
    the keys of cached replies.
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
        for command in row.commands.values():
            command.run(folder, url, -1)
        address.write_text(url, encoding="utf-8")
        yield url
    finally:
        if server:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--kept", type=Path, help="the folder in which projects and caches are stored")
    parser.add_argument("--venvs", type=Path, help="the folder in which virtual environments are stored")
    options = parser.parse_args()
    table = rows(options.venvs)
    names = options.rows or [name for name in table if options.large or name != "cached-large"]
    if unknown := set(names) - set(table):
        parser.error(f"{', '.join(sorted(unknown))}: no such row; there are {', '.join(table)}")
    print("| | goal | ours | the other | ratio | difference |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = (options.kept or Path(temporary)).absolute() / name
            with prepare(table[name], folder) as url:
                rounds = [
                    {key: command.run(folder, url, turn) for key, command in table[name].commands.items()}
                    for turn in range(
                        2 if options.short else options.rounds * (4 if table[name].short else 1)
                    )
                ]
            for line in table[name].lines:
                line.show(rounds)


if __name__ == "__main__":
    main()
