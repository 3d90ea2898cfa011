"""Loading a large eval set: `python tests/benchmarks/load_million.py [RECORDS]`, by default 1,000,000.

Each load runs in a separate process. The script prints its processor time and its peak of resident memory, as the
operating system reports them. For comparison it calls `json.loads` for the same lines, which every loader has to do. On
a busy machine the ratio is more reliable than the seconds.
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
    """Write records of the native format, of about 300 bytes, each with an answer, a gold passage and a tag."""
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


def parse_json(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if json.loads(line))


def load_evalset(path: Path, **keywords: object) -> int:
    """Load the eval set and compute its digest; return the number of examples."""
    from pytest_rageval.evalsets import LoadOptions, load

    began = time.process_time()
    evalset = load(path, LoadOptions.parse(keywords))
    loaded_at = time.process_time()
    assert evalset.digest
    digest_s = time.process_time() - loaded_at
    print(f"load {loaded_at - began:6.1f} s, digest {digest_s:5.1f} s of it", end="; ")
    return len(evalset)


LOADS: dict[str, Callable[[Path], int]] = {
    "json.loads": parse_json,
    "whole": load_evalset,
    "sample=200, by all tags": lambda path: load_evalset(path, sample=200),
    "sample=200, stratify=False": lambda path: load_evalset(path, sample=200, stratify=False),
}


def child(name: str, path: Path) -> None:
    """Load a file in this process, and print the measurement."""
    examples = LOADS[name](path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10
    print(f"{seconds:6.1f} s of processor time, peak {peak:6.0f} MiB, {examples:,} kept")


def main(records: int) -> None:
    """Write the file, and run each load in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.jsonl"
        write(path, records)
        print(f"{records:,} records, {path.stat().st_size / 2**20:.0f} MiB")
        for name in LOADS:
            began = time.monotonic()
            command = [sys.executable, __file__, "--child", name, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            print(f"{name:28} {time.monotonic() - began:6.1f} s: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
