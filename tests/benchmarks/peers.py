"""Ours beside other tools: `python tests/benchmarks/peers.py [EXAMPLES …] [--rounds N] [--venvs FOLDER]`.

Each tool is in a virtual environment of its own, and has the same questions, passages and model: a server on 127.0.0.1
that answers after `--latency-ms`, with 20 requests in flight. An example costs one generated answer and one verdict on
it, or what comes nearest to that; the table says how many requests were made. The tools take turns in every round;
printed are medians, and in brackets the median of the ratios to ours within a round, with its range. A tool that needs
more than a minute for a run has that run once.

cold: a whole process, nothing kept, and its result file written; memory: its peak;
warm: the same again with the tool's own cache. DeepEval, RAGAS and rag-ci do not generate answers. The code that does
    it for them keeps what it was given in a file, so that only what the tool itself asks again is counted;
refused: cold, while every tenth request is answered with 429 and `retry-after: 1`. An example without a score is lost;
limited: likewise, while those beyond 50 a second are;
measures: recall@3 without a model;
idle: one unrelated test with the plugins that the tool brings, beyond the same without them;
import: what a user of the tool imports, beyond an empty script.
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
    """A model of OpenAI's and of Anthropic's dialect, which may refuse requests and ask to wait for a second.

    Args:
        latency_s: before each reply or refusal.
        every: refuse one of so many requests.
        rate: refuse requests beyond so many a second, after as many at once.
    """

    def __init__(self, latency_s: float, *, every: int = 0, rate: int = 0) -> None:
        super().__init__(self.said, latency_s)
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
    def said(prompt: str) -> str:
        """Return the verdict that a judge wants to read, or the answer."""
        if "[Submission]: " in prompt:
            return "The same.\n\nGRADE: C"
        return next((json.dumps(said) for mark, said in VERDICTS.items() if mark in prompt), clerk(prompt))

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
    """Seconds of a process and its peak of memory in MB; what it prints is in `out.txt`."""
    known = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    with (folder / "out.txt").open("wb") as out:
        began = time.perf_counter()
        child = subprocess.Popen(
            [str(python), *arguments], cwd=folder, env=known | environ, stdout=out, stderr=out
        )
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in accepted:
        raise SystemExit(f"{python} {arguments} ended with {child.returncode}:\n{printed_in(folder)[-3000:]}")
    return seconds, used.ru_maxrss / 1024


def printed_in(folder: Path) -> str:
    """Return what the last process in a folder printed."""
    return (folder / "out.txt").read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Run:
    """What a process took, and what it found."""

    seconds: float
    peak_mb: float
    calls: int
    scored: int


def run(peer: Peer, python: Path, folder: Path, kind: str, server: Server) -> Run:
    """One run of a kind, in a folder that may hold what an earlier one kept."""
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
    # A gate that fails, or a run that calls itself invalid, has been measured too.
    seconds, peak = process(python, arguments, folder, (0, 1, 2), **environ)
    calls = len(server.requests) - before
    try:
        return Run(seconds, peak, calls, peer.scored(folder, printed_in(folder)))
    except (IndexError, OSError, ValueError) as error:
        raise SystemExit(f"{peer.name} ended without scores:\n{printed_in(folder)[-3000:]}") from error


def write(folder: Path, peer: Peer, examples: int, spec: str) -> Path:
    """Write the questions and what a tool needs to be run on them."""
    project(folder, examples, [spec])
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
    """Each kind of run once."""
    yield from answered(peer, python, folder, examples, latency_s)
    yield from refused(peer, python, folder, examples, latency_s)


def answered(
    peer: Peer, python: Path, folder: Path, examples: int, latency_s: float
) -> Iterator[tuple[str, Run]]:
    """The runs at a server that answers; the second one finds it where the first one did."""
    with Server(latency_s) as server:
        here = write(folder / "verdicts", peer, examples, "answer.correct@3")
        yield "cold", run(peer, python, here, "cold", server)
        yield "warm", run(peer, python, here, "warm", server)
        if peer.measures:
            here = write(folder / "measures", peer, examples, "recall@3")
            yield "measures", run(peer, python, here, "measures", server)


def refused(
    peer: Peer, python: Path, folder: Path, examples: int, latency_s: float
) -> Iterator[tuple[str, Run]]:
    """The runs at servers that refuse."""
    for kind, refusing in REFUSING.items():
        with Server(latency_s, **refusing) as server:
            here = write(folder / kind, peer, examples, "answer.correct@3")
            yield kind, run(peer, python, here, kind, server)


def started(peer: Peer, python: Path, folder: Path) -> Iterator[tuple[str, Run]]:
    """What a tool costs where nothing is asked of it."""
    (folder / "test_plain.py").write_text("def test_it(): pass\n", encoding="utf-8")
    home = {"HOME": str(folder), "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}
    if peer.plugin:
        found, peak = process(python, (*PYTEST, "test_plain.py"), folder, **home)
        alone, _ = process(
            python, (*PYTEST, "test_plain.py"), folder, **home, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
        )
        yield "idle", Run(found - alone, peak, 0, 0)
    if peer.imports:
        found, peak = process(python, ("-c", peer.imports), folder, **home)
        alone, _ = process(python, ("-c", "pass"), folder, **home)
        yield "import", Run(found - alone, peak, 0, 0)


Found = dict[tuple[str, str], dict[int, Run]]  # by the kind of run and the tool, by round


def beside(found: Found, kind: str, peer: str, value: Callable[[Run], float], form: str) -> str:
    """A median, and the ratios to ours."""
    of_peer, of_ours = found.get((kind, peer), {}), found.get((kind, PEERS[0].name), {})
    if not of_peer:
        return "–"
    shown = format(statistics.median(map(value, of_peer.values())), form)
    ratios = sorted(
        value(of_peer[turn]) / value(of_ours[turn])
        for turn in of_peer.keys() & of_ours.keys()
        if value(of_ours[turn]) > 0
    )
    if peer == PEERS[0].name or not ratios:
        return shown
    between = f", {ratios[0]:.2f} to {ratios[-1]:.2f}" if len(ratios) > 1 else ""
    return f"{shown} ({statistics.median(ratios):.2f} ×{between})"


def per_call_ms(each: Run) -> float:
    """Milliseconds of a process for each request that it made."""
    return 1000 * each.seconds / each.calls if each.calls else 0.0


def rows(found: Found, examples: int) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Each row of the table: its name, and from a tool to what its cell says."""

    def cell(kind: str, value: Callable[[Run], float], form: str) -> Callable[[str], str]:
        return lambda peer: beside(found, kind, peer, value, form)

    def plain(kind: str, value: Callable[[Run], float]) -> Callable[[str], str]:
        return lambda peer: (
            f"{statistics.median(map(value, of.values())):,.0f}" if (of := found.get((kind, peer))) else "–"
        )

    yield "requests, cold", plain("cold", lambda each: each.calls)
    yield "cold, s", cell("cold", lambda each: each.seconds, ".2f")
    yield "… a request, ms", cell("cold", per_call_ms, ".2f")
    yield "… peak, MB", cell("cold", lambda each: each.peak_mb, ".0f")
    yield "requests, warm", plain("warm", lambda each: each.calls)
    yield "warm, s", cell("warm", lambda each: each.seconds, ".2f")
    for kind, title in (("refused", "every 10th refused"), ("limited", "50 requests a second")):
        yield f"{title}, s", cell(kind, lambda each: each.seconds, ".2f")
        yield "… requests", plain(kind, lambda each: each.calls)
        yield "… examples lost", plain(kind, lambda each: examples - each.scored)
    yield "measures, s", cell("measures", lambda each: each.seconds, ".2f")
    yield "idle, ms", cell("idle", lambda each: 1000 * each.seconds, "+.0f")
    yield "import, ms", cell("import", lambda each: 1000 * each.seconds, "+.0f")
    yield (
        "runs",
        lambda peer: str(max((len(turns) for (_, name), turns in found.items() if name == peer), default=0)),
    )


def table(found: Found, examples: int, names: dict[str, str]) -> None:
    """Print a table in Markdown."""
    print(f"\n| {examples:,} examples | {' | '.join(names.values())} |")
    print(f"|---|{'---|' * len(names)}")
    asked = {peer.name: peer.asks for peer in PEERS}
    print(f"| an example | {' | '.join(asked[name] for name in names)} |")
    for title, cell in rows(found, examples):
        if set(cells := list(map(cell, names))) != {"–"}:
            print(f"| {title} | {' | '.join(cells)} |", flush=True)


def prepared(venvs: Path, names: list[str]) -> Iterator[tuple[Peer, Path, str]]:
    """Each tool that could be installed, its Python, and its release."""
    for peer in PEERS:
        if peer.name not in names:
            continue
        try:
            python = environment(venvs, peer.name, peer.packages, peer.python)
        except SystemError as error:
            print(f"{peer.name} is left out: {error}", flush=True)
            continue
        version = (
            "import importlib.metadata as found, platform;"
            f"print(found.version({peer.package!r}), platform.python_version())"
        )
        done = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)
        release, on = done.stdout.split()
        print(f"{peer.package} {release}, Python {on}", flush=True)
        yield peer, python, release


Turn = Callable[[Peer, Path, Path, int], Iterator[tuple[str, Run]]]


def compare(pythons: dict[Peer, Path], folder: Path, examples: int, rounds: int, turn_of: Turn) -> Found:
    """Run all tools in turn, on so many examples."""
    found: Found = defaultdict(dict)
    for turn in range(rounds):
        for peer, python in pythons.items():
            took = [
                each.seconds
                for (_, name), runs in found.items()
                if name == peer.name
                for each in runs.values()
            ]
            if max(took, default=0.0) > LONG_S:
                continue
            here = folder / f"{peer.name}-{examples}-{turn}"
            here.mkdir()
            for kind, each in turn_of(peer, python, here, examples):
                found[kind, peer.name][turn] = each
                print(examples, turn, peer.name, kind, each, file=sys.stderr, flush=True)
            shutil.rmtree(here)
    return found


def main() -> None:
    """Make the environments, run, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("examples", nargs="*", type=int, default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--venvs", type=Path, help="where the virtual environments are kept")
    parser.add_argument("--latency-ms", type=float, default=100)
    parser.add_argument("--only", nargs="+", default=[peer.name for peer in PEERS], help="tools to run")
    parser.add_argument("--refused", action="store_true", help="only the runs at servers that refuse")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tools = list(prepared(given.venvs or folder, given.only))
        pythons = {peer: python for peer, python, _ in tools}
        idle: Found = defaultdict(dict)
        for turn in range(-1, 0 if given.refused else 2 * given.rounds):  # the first one compiles
            for peer, python in pythons.items():
                for kind, each in started(peer, python, folder):
                    if turn >= 0:
                        idle[kind, peer.name][turn] = each
        for examples in given.examples:
            turn_of = partial(refused if given.refused else one_round, latency_s=given.latency_ms / 1000)
            found = compare(pythons, folder, examples, given.rounds, turn_of)
            table(found | idle, examples, {peer.name: f"{peer.name} {release}" for peer, _, release in tools})


if __name__ == "__main__":
    main()
