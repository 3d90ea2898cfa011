"""Runs over many questions: `python tests/benchmarks/large_set.py [QUESTIONS …]`, by default 1,000 10,000 100,000.

The retriever is cheap and returns passages of 300 characters. There are three ranking scores with `max_drop`, and some
questions are worse than in the baseline. Each run is a separate pytest process. The script prints its time, its peak of
resident memory, and the sizes of the files that it wrote.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFTEST = """
import os, random
import pytest

LOST = float(os.environ.get("LOST", 0))


def search(query, k):
    number = int(query.split()[-1])
    draw = random.Random(number)
    ids = [number, *(draw.randrange(1_000_000) for _ in range(k - 1))]
    draw.shuffle(ids)
    if draw.random() < LOST:
        ids = [i + 7 for i in ids]
    return [{"id": f"doc-{i}", "text": f"Passage {i}: " + "some words of it " * 17} for i in ids]


@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""

TEST = """
import pytest

pytestmark = pytest.mark.rageval_evalset("set.jsonl")


@pytest.mark.rageval_threshold("recall@5", max_drop=0.02)
@pytest.mark.rageval_threshold("ndcg@10", max_drop=0.02)
@pytest.mark.rageval_threshold("mrr@10", max_drop=0.02)
def test_search():
    pass
"""

RUNS: dict[str, tuple[str, ...]] = {
    "write the baseline": ("--rageval-update-baseline",),
    "gate, no report": (),
    "gate, report.md": ("--rageval-report=report.md",),
    "gate, report.html": ("--rageval-report=report.html",),
    "gate, report.json": ("--rageval-report=report.json",),
    "gate, report.json, -n 1": ("--rageval-report=workers.json", "-n", "1"),
}


def write(path: Path, questions: int) -> None:
    """Write an eval set; each question has a gold passage and a tag."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(questions):
            record = {
                "id": f"q{n}",
                "question": f"What is the code of item {n}",
                "gold": [{"id": f"doc-{n}"}],
                "tags": {"topic": ("billing", "returns", "delivery")[n % 3]},
            }
            file.write(json.dumps(record) + "\n")


def measure(folder: Path, *arguments: str, lost: float) -> tuple[float, float, float, int]:
    """Run pytest; return elapsed seconds, processor seconds, peak memory of the largest process in MB, exit status.

    Args:
        folder: the folder of the project.
        arguments: options of pytest.
        lost: the share of the questions that the retriever loses.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environ = {**os.environ, "LOST": str(lost)}
    began = time.monotonic()
    with (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
    processor_s, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return time.monotonic() - began, processor_s, peak, os.waitstatus_to_exitcode(status)


def main(sizes: list[int], names: list[str]) -> None:
    print(f"{'questions':>9}  {'run':24} {'seconds':>8} {'processor':>9} {'peak MB':>8} {'exit':>4}  files")  # noqa: T201
    for questions in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder / "set.jsonl", questions)
            (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
            (folder / "test_search.py").write_text(TEST, encoding="utf-8")
            (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
            for run in names:
                arguments = RUNS[run]
                lost = 0.0 if "--rageval-update-baseline" in arguments else 0.1
                seconds, processor_s, peak, status = measure(folder, *arguments, lost=lost)
                files = [
                    *folder.glob("report.*"),
                    *folder.glob("workers.*"),
                    *folder.glob(".rageval/baseline*"),
                ]
                file_sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in files)
                print(  # noqa: T201
                    f"{questions:>9,}  {run:24} {seconds:8.1f} {processor_s:9.1f} {peak:8.0f} {status:4}  {file_sizes}",
                    flush=True,
                )
                for report in (*folder.glob("report.*"), *folder.glob("workers.*")):
                    report.unlink()
                if status > 1:
                    print((folder / "out.txt").read_text(encoding="utf-8")[-1500:])  # noqa: T201


if __name__ == "__main__":
    sizes = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    names = [argument for argument in sys.argv[1:] if argument in RUNS]
    main(sizes or [1_000, 10_000, 100_000], names or list(RUNS))
