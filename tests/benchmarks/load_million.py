"""Large eval sets: `python tests/benchmarks/load_million.py [RECORDS]`, 1,000,000 without a number.

Each reading is in a process of its own, whose peak of resident memory and processor time the system
counts. Next to them stands `json.loads` over the same lines, which no loader can do without: on a
busy machine their ratio says more than the seconds.
"""
# ruff: noqa: T201 - a script that reports

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPICS = ("billing", "returns", "delivery")


def write(path: Path, records: int) -> None:
    """Native records of about 300 bytes, each with an answer, a gold passage and a tag."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(records):
            record = {
                "id": f"q{i}",
                "question": f"What is the code of item {i} of the catalogue?",
                "answers": [f"c{i}x"],
                "gold": [
                    {
                        "id": f"doc-{i}",
                        "text": f"Of all things in the catalogue, item {i} has the code c{i}x.",
                    }
                ],
                "tags": {"topic": TOPICS[i % 3]},
            }
            file.write(json.dumps(record) + "\n")


def parsed(path: Path) -> int:
    """Only the JSON, one line at a time."""
    with path.open("rb") as file:
        return sum(1 for line in file if json.loads(line))


def loaded(path: Path, **words: object) -> int:
    """The eval set and its digest."""
    from pytest_rageval.evalsets import LoadOptions, load

    began = time.process_time()
    evalset = load(path, LoadOptions.parse(words))
    read = time.process_time()
    assert evalset.digest
    print(f"load {read - began:6.1f} s, digest {time.process_time() - read:5.1f} s of it", end="; ")
    return len(evalset)


WAYS: dict[str, Callable[[Path], int]] = {
    "json.loads": parsed,
    "whole": loaded,
    "sample=200, by all tags": lambda path: loaded(path, sample=200),
    "sample=200, stratify=False": lambda path: loaded(path, sample=200, stratify=False),
}


def child(way: str, path: Path) -> None:
    """One reading, in this process."""
    kept = WAYS[way](path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10
    print(f"{seconds:6.1f} s of processor time, peak {peak:6.0f} MiB, {kept:,} kept")


def main(records: int) -> None:
    """Every way, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.jsonl"
        write(path, records)
        print(f"{records:,} records, {path.stat().st_size / 2**20:.0f} MiB")
        for way in WAYS:
            began = time.monotonic()
            command = [sys.executable, __file__, "--child", way, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            print(f"{way:28} {time.monotonic() - began:6.1f} s: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
