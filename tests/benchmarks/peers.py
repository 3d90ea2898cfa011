"""Comparison with other tools: `python tests/benchmarks/peers.py [EXAMPLES …] [--rounds N] [--venvs FOLDER]`.

Each tool is installed in its own virtual environment. All tools have the same questions, passages and model: a server
on 127.0.0.1 that replies after `--latency-ms`, with 20 requests in flight. An example needs one generated answer and
one verdict on it, or the closest equivalent of the tool; the table has the number of requests. The tools take turns in
every round. The script prints medians and, in brackets, the median and the range of the ratios to this package within
the rounds. If a run of a tool takes more than a minute, it is run only once.

cold: a whole process with empty caches, which writes its result file; peak is its peak memory;
warm: the same again, with the tool's own cache. DeepEval, RAGAS and rag-ci do not generate answers. The code that
    generates answers for them stores the answers in a file, so that only requests of the tool itself are counted;
refused: cold, while every tenth request gets the status 429 with `retry-after: 1`. An example without a score is lost;
limited: cold, while requests beyond 50 per second get the status 429;
measures: recall@3 without a model;
idle: one unrelated test with the pytest plugins of the tool, minus the same test without them;
import: a script with the imports of a user of the tool, minus an empty script.
"""
# ruff: noqa: T201 - a script that reports

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.peer_tools import COMMON, PEERS, PYTEST, VERDICTS, Peer
from tests.benchmarks.speed import project
from tests.benchmarks.venvs import environment
from tests.llm_server import Fault, LLMServer, clerk

LONG_S: Final = 60.0  # a run that takes longer is not repeated
REFUSING: Final = {"refused": {"every": 10}, "limited": {"rate": 50}}


class Server(LLMServer):
    """A scripted model with the APIs of OpenAI and Anthropic. It may refuse requests with `retry-after: 1`.

    Args:
        latency_s: delay before each reply or refusal, in seconds.
        every: refuse every n-th request; 0 to refuse none.
        rate: refuse requests beyond this number per second, after a burst of the same number; 0 for no limit.
    """

    def __init__(self, latency_s: float, *, every: int = 0, rate: int = 0) -> None:
        super().__init__(self.reply_text, latency_s)
        self._every, self._rate = every, rate
        self._turns = itertools.count(1)
        self._left, self._counted_at = float(rate), time.monotonic()
        self.refuse = self._refused

    def _refused(self, _: dict[str, Any]) -> Fault | None:
        fault = Fault(429, {"retry-after": "1"})
        if self._every:
            return None if next(self._turns) % self._every else fault
        if self._rate:
            now = time.monotonic()
            self._left = min(self._rate, self._left + (now - self._counted_at) * self._rate)
            self._counted_at = now
            if self._left < 1:
                return fault
            self._left -= 1
        return None

    @staticmethod
    def reply_text(prompt: str) -> str:
        if "[Submission]: " in prompt:
            return "The same.\n\nGRADE: C"
        verdicts = (json.dumps(verdict) for mark, verdict in VERDICTS.items() if mark in prompt)
        return next(verdicts, clerk(prompt))

    async def _answer(self, head: str, body: dict[str, Any]) -> bytes:
        content = body["messages"][-1]["content"]
        if isinstance(content, list):
            body["messages"][-1]["content"] = "".join(part["text"] for part in content)
        reply = await self._reply(body)
        start, _, sent = reply.partition(b"\r\n\r\n")
        if "/messages" not in head or b" 200 " not in start.splitlines()[0]:
            return reply
        text = json.loads(sent)["choices"][0]["message"]["content"]
        data = json.dumps(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        ).encode()
        return (
            f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
            + data
        )


def process(
    python: Path, arguments: tuple[str, ...], folder: Path, accepted: tuple[int, ...] = (0,), **environ: str
) -> tuple[float, float]:
    inherited = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    with (folder / "out.txt").open("wb") as out:
        began = time.perf_counter()
        child = subprocess.Popen(
            [str(python), *arguments], cwd=folder, env=inherited | environ, stdout=out, stderr=out
        )
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in accepted:
        raise SystemExit(
            f"{python} {arguments} ended with {child.returncode}:\n{read_output(folder)[-3000:]}"
        )
    return seconds, used.ru_maxrss / 1024


def read_output(folder: Path) -> str:
    return (folder / "out.txt").read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Run:
    seconds: float
    peak_mb: float
    calls: int
    scored: int


def run(peer: Peer, python: Path, folder: Path, kind: str, server: Server) -> Run:
    before = len(server.requests)
    environ = {
        "HOME": str(folder),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": server.url.removesuffix("/v1"),
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "RAGAS_DO_NOT_TRACK": "true",
    }
    arguments = peer.measures if kind == "measures" else peer.command
    # The status is 1 if a gate failed and 2 if the run is invalid. Both are measured.
    seconds, peak = process(python, arguments, folder, (0, 1, 2), **environ)
    calls = len(server.requests) - before
    try:
        return Run(seconds, peak, calls, peer.scored(folder, read_output(folder)))
    except (IndexError, OSError, ValueError) as error:
        raise SystemExit(f"{peer.name} ended without scores:\n{read_output(folder)[-3000:]}") from error


def write(folder: Path, peer: Peer, examples: int, spec: str) -> Path:
    # Without a spread, since each tool sends other requests for an example that has no answer.
    project(folder, examples, [spec], spread=False)
    lines = (folder / "evals.jsonl").read_text(encoding="utf-8").splitlines()
    golden = [
        {
            "id": record["id"],
            "question": record["question"],
            "required_passages": [
                {"doc_id": gold["id"], "text": gold["text"], "char_start": 0, "char_end": len(gold["text"])}
                for gold in record["gold"]
            ],
        }
        for record in map(json.loads, lines)
    ]
    files = {
        "common.py": COMMON,
        "golden.jsonl": "".join(json.dumps(case) + "\n" for case in golden),
        **peer.files,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def one_round(
    peer: Peer, python: Path, folder: Path, examples: int, latency_s: float
) -> Iterator[tuple[str, Run]]:
    yield from runs_with_replies(peer, python, folder, examples, latency_s)
    yield from runs_with_refusals(peer, python, folder, examples, latency_s)


def runs_with_replies(
    peer: Peer, python: Path, folder: Path, examples: int, latency_s: float
) -> Iterator[tuple[str, Run]]:
    with Server(latency_s) as server:
        project_folder = write(folder / "verdicts", peer, examples, "answer.correct@3")
        yield "cold", run(peer, python, project_folder, "cold", server)
        yield "warm", run(peer, python, project_folder, "warm", server)
        if peer.measures:
            project_folder = write(folder / "measures", peer, examples, "recall@3")
            yield "measures", run(peer, python, project_folder, "measures", server)


def runs_with_refusals(
    peer: Peer, python: Path, folder: Path, examples: int, latency_s: float
) -> Iterator[tuple[str, Run]]:
    for kind, refusal_options in REFUSING.items():
        with Server(latency_s, **refusal_options) as server:
            project_folder = write(folder / kind, peer, examples, "answer.correct@3")
            yield kind, run(peer, python, project_folder, kind, server)


def startup_runs(peer: Peer, python: Path, folder: Path) -> Iterator[tuple[str, Run]]:
    (folder / "test_plain.py").write_text("def test_it(): pass\n", encoding="utf-8")
    home = {"HOME": str(folder), "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}
    if peer.plugin:
        seconds, peak = process(python, (*PYTEST, "test_plain.py"), folder, **home)
        seconds_without, _ = process(
            python, (*PYTEST, "test_plain.py"), folder, **home, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
        )
        yield "idle", Run(seconds - seconds_without, peak, 0, 0)
    if peer.imports:
        seconds, peak = process(python, ("-c", peer.imports), folder, **home)
        seconds_without, _ = process(python, ("-c", "pass"), folder, **home)
        yield "import", Run(seconds - seconds_without, peak, 0, 0)


Runs = dict[tuple[str, str], dict[int, Run]]
"""The runs of each round, by the kind of run and the name of the tool."""


def format_comparison(runs: Runs, kind: str, peer: str, value: Callable[[Run], float], form: str) -> str:
    peer_runs, own_runs = runs.get((kind, peer), {}), runs.get((kind, PEERS[0].name), {})
    if not peer_runs:
        return "–"
    median = format(statistics.median(map(value, peer_runs.values())), form)
    ratios = sorted(
        value(peer_runs[turn]) / value(own_runs[turn])
        for turn in peer_runs.keys() & own_runs.keys()
        if value(own_runs[turn]) > 0
    )
    if peer == PEERS[0].name or not ratios:
        return median
    ratio_range = f", {ratios[0]:.2f} to {ratios[-1]:.2f}" if len(ratios) > 1 else ""
    return f"{median} ({statistics.median(ratios):.2f} ×{ratio_range})"


def per_call_ms(run: Run) -> float:
    return 1000 * run.seconds / run.calls if run.calls else 0.0


def rows(runs: Runs, examples: int) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield the title of each row of the table, and a function that returns the row's cell for a tool."""

    def cell(kind: str, value: Callable[[Run], float], form: str) -> Callable[[str], str]:
        return lambda peer: format_comparison(runs, kind, peer, value, form)

    def median_cell(kind: str, value: Callable[[Run], float]) -> Callable[[str], str]:
        return lambda peer: (
            f"{statistics.median(map(value, peer_runs.values())):,.0f}"
            if (peer_runs := runs.get((kind, peer)))
            else "–"
        )

    yield "requests, cold", median_cell("cold", lambda run: run.calls)
    yield "cold, s", cell("cold", lambda run: run.seconds, ".2f")
    yield "… a request, ms", cell("cold", per_call_ms, ".2f")
    yield "… peak, MB", cell("cold", lambda run: run.peak_mb, ".0f")
    yield "requests, warm", median_cell("warm", lambda run: run.calls)
    yield "warm, s", cell("warm", lambda run: run.seconds, ".2f")
    for kind, title in (("refused", "every 10th refused"), ("limited", "50 requests a second")):
        yield f"{title}, s", cell(kind, lambda run: run.seconds, ".2f")
        yield "… requests", median_cell(kind, lambda run: run.calls)
        yield "… examples lost", median_cell(kind, lambda run: examples - run.scored)
    yield "measures, s", cell("measures", lambda run: run.seconds, ".2f")
    yield "idle, ms", cell("idle", lambda run: 1000 * run.seconds, "+.0f")
    yield "import, ms", cell("import", lambda run: 1000 * run.seconds, "+.0f")
    yield (
        "runs",
        lambda peer: str(max((len(turns) for (_, name), turns in runs.items() if name == peer), default=0)),
    )


def table(runs: Runs, examples: int, names: dict[str, str]) -> None:
    print(f"\n| {examples:,} examples | {' | '.join(names.values())} |")
    print(f"|---|{'---|' * len(names)}")
    requests = {peer.name: peer.requests for peer in PEERS}
    print(f"| an example | {' | '.join(requests[name] for name in names)} |")
    for title, cell in rows(runs, examples):
        if set(cells := list(map(cell, names))) != {"–"}:
            print(f"| {title} | {' | '.join(cells)} |", flush=True)


def install(venvs: Path, names: list[str]) -> Iterator[tuple[Peer, Path, str]]:
    for peer in PEERS:
        if peer.name not in names:
            continue
        try:
            python = environment(venvs, peer.name, peer.packages, peer.python)
        except SystemError as error:
            print(f"{peer.name} is left out: {error}", flush=True)
            continue
        version = (
            "import importlib.metadata as metadata, platform;"
            f"print(metadata.version({peer.package!r}), platform.python_version())"
        )
        done = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)
        release, python_version = done.stdout.split()
        print(f"{peer.package} {release}, Python {python_version}", flush=True)
        yield peer, python, release


Measure = Callable[[Peer, Path, Path, int], Iterator[tuple[str, Run]]]
"""Runs a tool, given its Python, a folder and the number of examples; yields each kind of run and its measurement."""


def compare(pythons: dict[Peer, Path], folder: Path, examples: int, rounds: int, measure: Measure) -> Runs:
    all_runs: Runs = defaultdict(dict)
    for turn in range(rounds):
        for peer, python in pythons.items():
            durations = [
                run.seconds
                for (_, name), runs in all_runs.items()
                if name == peer.name
                for run in runs.values()
            ]
            if max(durations, default=0.0) > LONG_S:
                continue
            turn_folder = folder / f"{peer.name}-{examples}-{turn}"
            turn_folder.mkdir()
            for kind, measurement in measure(peer, python, turn_folder, examples):
                all_runs[kind, peer.name][turn] = measurement
                print(examples, turn, peer.name, kind, measurement, file=sys.stderr, flush=True)
            shutil.rmtree(turn_folder)
    return all_runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("examples", nargs="*", type=int, default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--venvs", type=Path, help="the folder in which virtual environments are stored")
    parser.add_argument("--latency-ms", type=float, default=100)
    parser.add_argument("--only", nargs="+", default=[peer.name for peer in PEERS], help="tools to run")
    parser.add_argument(
        "--refused", action="store_true", help="only the runs with servers that refuse requests"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tools = list(install(options.venvs or folder, options.only))
        pythons = {peer: python for peer, python, _ in tools}
        idle: Runs = defaultdict(dict)
        # The round -1 compiles modules and is not measured.
        for turn in range(-1, 0 if options.refused else 2 * options.rounds):
            for peer, python in pythons.items():
                for kind, measurement in startup_runs(peer, python, folder):
                    if turn >= 0:
                        idle[kind, peer.name][turn] = measurement
        for examples in options.examples:
            measure = runs_with_refusals if options.refused else one_round
            runs = compare(
                pythons,
                folder,
                examples,
                options.rounds,
                partial(measure, latency_s=options.latency_ms / 1000),
            )
            table(runs | idle, examples, {peer.name: f"{peer.name} {release}" for peer, _, release in tools})


if __name__ == "__main__":
    main()
