"""The same job through the gates of other tools: `python tests/benchmarks/gates.py [--repeats N] [--venvs FOLDER]`.

The job is 100 questions with one gold passage each. The retriever of the baseline finds 80 of them in the first five
passages. Of the new one, each found question is lost, and each other one found, with the probabilities of a row of
`CHANGES`. The table has the share of the repetitions in which the gate is red: exit status 1, or a gate that does not
pass. Every gate allows a drop of 0.02, if it has such a setting; all other settings are those of its own documentation.

- recallops builds the index and the retriever that it tests, and reads no rankings. Its command cannot do the job: the
  function of its gate (`evaluate_gate`) is called with the same outcomes, and without noise in the calibration.
- longprobe is red for every question that is not found, whatever the baseline; `--threshold 0` switches that off.
- rag-contract is too; the rules for single queries are off.
- judgekeeper tests a judge against human labels, and has no retriever to test: it is not in the table.
"""
# ruff: noqa: T201 - a script that reports

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.venvs import ROOT, environment

QUESTIONS: Final = 100
FOUND: Final = 80
CHANGES: Final = {
    "nothing changes": (0.0, 0.0),
    "4 lost and 4 gained, as expected": (0.05, 0.2),
    "0.05 worse": (0.1125, 0.2),
    "0.10 worse": (0.175, 0.2),
}
"""The probability with which a found question is lost, and with which another one is found."""

JOBS: Final = """
import json, sys
from pathlib import Path

JOBS = json.loads(Path("jobs.json").read_text())
IDS = [f"q{n}" for n in range(len(JOBS[0][0]))]

def ranking(n, found):
    return [f"d{n}" if found and rank == 1 else f"x{n}-{rank}" for rank in range(5)]

def report(reds):
    print(json.dumps(reds))
"""

OURS: Final = """
import contextlib, io, os
import pytest
from jobs import *

Path("conftest.py").write_text('''
import json, os, pytest
from pathlib import Path
from jobs import ranking

@pytest.fixture(scope="session")
def rageval_retriever():
    found = json.loads(os.environ["FOUND"])
    return lambda query, k: [{"id": each} for each in ranking(int(query), found[int(query)])][:k]
''')
Path("test_it.py").write_text('''
import pytest

@pytest.mark.rageval_evalset("evals.jsonl")
@pytest.mark.rageval_threshold("recall@5", max_drop=0.02)
def test_it(): pass
''')
Path("pytest.ini").write_text("[pytest]\\npythonpath = .\\n")
Path("evals.jsonl").write_text("".join(
    json.dumps({"id": name, "question": str(n), "gold": [{"id": f"d{n}"}]}) + "\\n" for n, name in enumerate(IDS)))

def run(found, *arguments):
    os.environ["FOUND"] = json.dumps(found)
    with contextlib.redirect_stdout(io.StringIO()):
        return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments]))

assert run(JOBS[0][0], "--rageval-update-baseline") == 0  # all jobs have the same baseline
report([run(after) for _, after in JOBS])
"""

RAG_CONTRACT: Final = """
from jobs import *
from rag_contract.cli import app
from typer.testing import CliRunner

Path("golden.jsonl").write_text("".join(
    json.dumps({"id": name, "query": name, "relevant_doc_ids": [f"d{n}"]}) + "\\n" for n, name in enumerate(IDS)))
Path("ragcontract.yml").write_text(
    "k: 5\\nfail_on: {recall_drop_gt: 0.025}\\n"  # of 0.80: relative to the baseline
    "per_query: {enforce_must_rank_at_most: false, enforce_must_include: false, enforce_forbidden_docs: false}\\n")

def run(command, found, *arguments):
    rows = ({"query_id": name, "results": [{"doc_id": each} for each in ranking(n, found[n])]}
            for n, name in enumerate(IDS))
    Path("run.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    return CliRunner().invoke(app, [command, "--golden", "golden.jsonl", "--run", "run.jsonl", *arguments]).exit_code

reds = []
for before, after in JOBS:
    assert run("baseline", before, "--out", "baseline.json") == 0
    reds.append(run("check", after, "--baseline", "baseline.json"))
report(reds)
"""

REGRESSGATE: Final = """
from jobs import *
from regressgate.cli import app
from typer.testing import CliRunner

Path("target.py").write_text('''
import json
from pathlib import Path
from jobs import ranking

def search(query):
    found = json.loads(Path("found.json").read_text())
    return {"output": "", "retrieved": [{"doc": each} for each in ranking(int(query), found[int(query)])]}
''')
Path("cases.jsonl").write_text("".join(json.dumps(
    {"id": name, "input": str(n), "checks": [{"type": "retrieval", "any_of": [{"doc": f"d{n}"}], "k": 5}]}
    ) + "\\n" for n, name in enumerate(IDS)))
Path("regressgate.yaml").write_text("target: target:search\\ncases: cases.jsonl\\ngate: {margin: 0.02}\\n")
sys.path.insert(0, ".")

def run(found, out):
    Path("found.json").write_text(json.dumps(found))
    result = CliRunner().invoke(app, ["run", "--out", out])
    assert result.exit_code == 0, result.output

reds = []
for before, after in JOBS:
    run(before, "base.json")
    run(after, "head.json")
    reds.append(CliRunner().invoke(app, ["compare", "base.json", "head.json"]).exit_code)
report(reds)
"""

LONGPROBE: Final = """
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from jobs import *
from longprobe.cli.main import app
from typer.testing import CliRunner

found = []

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        n = int(json.loads(self.rfile.read(int(self.headers["content-length"])))["query"])
        body = json.dumps({"results": [{"id": each, "text": each, "score": 1} for each in ranking(n, found[n])]})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
Path("longprobe.yaml").write_text(json.dumps(
    {"retriever": {"type": "http", "http": {"url": f"http://127.0.0.1:{server.server_port}"}}}))
Path("goldens.yaml").write_text(json.dumps({"name": "set", "version": "1", "questions": [
    {"id": name, "question": str(n), "match_mode": "id", "required_chunks": [f"d{n}"], "top_k": 5}
    for n, name in enumerate(IDS)]}))
reds = []
for before, after in JOBS:
    found = before
    saved = CliRunner().invoke(app, ["baseline", "save"])
    assert saved.exit_code == 0, saved.output
    found = after
    reds.append(CliRunner().invoke(app, ["check", "--threshold", "0"]).exit_code)
report(reds)
"""

RECALLOPS: Final = """
from jobs import *
from recallops.gating import evaluate_gate
from recallops.models import CalibrationRecord, DiffResult, QueryDiff, QueryEval

def evaluated(n, found):
    hit = float(found)
    return QueryEval(IDS[n], [(each, 1.0) for each in ranking(n, found)], ranking(n, found), 2 if found else None,
                     {5: found}, {"recall@5": hit})

calibration = CalibrationRecord("a", 3, {}, 0.0, {})
reds = []
for before, after in JOBS:
    pairs = {IDS[n]: (evaluated(n, before[n]), evaluated(n, after[n])) for n in range(len(IDS))}
    queries = {name: QueryDiff(name, "", "stable", {"recall@5": b.metrics["recall@5"] - a.metrics["recall@5"]}, a, b)
               for name, (a, b) in pairs.items()}
    diff = DiffResult("d", "a", "b", "set", {}, False, {}, queries, {}, False, False)
    reds.append(int(not evaluate_gate(diff, calibration).passed))
report(reds)
"""


@dataclass(frozen=True)
class Gate:
    package: str
    script: str
    packages: tuple[str, ...]


GATES: Final = (
    Gate("pytest-rageval", OURS, (str(ROOT), "pytest")),
    Gate("rag-contract", RAG_CONTRACT, ("rag-contract",)),
    Gate("regressgate", REGRESSGATE, ("regressgate",)),
    Gate("longprobe", LONGPROBE, ("longprobe",)),
    Gate("recallops", RECALLOPS, ("recallops",)),
)


def jobs(change: tuple[float, float], repeats: int, seed: int) -> list[tuple[list[bool], list[bool]]]:
    source, (lost, gained) = random.Random(seed), change
    before = [n < FOUND for n in range(QUESTIONS)]
    return [
        (before, [source.random() >= lost if found else source.random() < gained for found in before])
        for _ in range(repeats)
    ]


def reds(gate: Gate, python: Path, all_jobs: list[tuple[list[bool], list[bool]]]) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"jobs.py": JOBS, "run.py": gate.script, "jobs.json": json.dumps(all_jobs)}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        environ = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG"}}
        done = subprocess.run(
            [python, "run.py"],
            cwd=folder,
            env={**environ, "HOME": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{gate.package} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--venvs", type=Path, help="the folder in which virtual environments are stored")
    parser.add_argument("--only", nargs="+", default=[gate.package for gate in GATES], help="packages to run")
    options = parser.parse_args()
    print(f"| | {' | '.join(CHANGES)} | exit statuses |")
    print(f"|---|{'---|' * (len(CHANGES) + 1)}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        for gate in (each for each in GATES if each.package in options.only):
            python = environment(options.venvs or Path(temporary), gate.package, gate.packages)
            version = f"import importlib.metadata as m; print(m.version({gate.package!r}))"
            release = subprocess.run(
                [python, "-c", version], capture_output=True, text=True, check=True
            ).stdout.strip()
            found = [
                reds(gate, python, jobs(change, options.repeats, seed))
                for seed, change in enumerate(CHANGES.values())
            ]
            shares = " | ".join(f"{sum(map(bool, each)) / len(each):.0%}" for each in found)
            seen = ", ".join(map(str, sorted({status for each in found for status in each})))
            print(f"| {gate.package} {release} | {shares} | {seen} |", flush=True)


if __name__ == "__main__":
    main()
