"""Where the time of the local model goes: `python tests/benchmarks/local_model.py`.

The example project runs with an empty cache, so that the embedded model gives all its replies. For each request
llama.cpp reports how many tokens it evaluated and generated, and how long that took. Tokens at the beginning of a
prompt that the previous request left in the context are not evaluated again. The script prints the sums, and the
processor time of the whole run. Only the time that is not inference could be saved with the same replies.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Reply

ROOT = Path(__file__).parents[2]

timings: list[dict[str, float]] = []
prompt_tokens: list[int] = []


def record_timings() -> None:
    parse_reply = Client.parse_reply

    def parse(self: Client, body: bytes, *arguments: Any) -> Reply:
        answer = json.loads(body)
        if "timings" in answer:
            timings.append(answer["timings"])
            prompt_tokens.append(answer["usage"]["prompt_tokens"])
        return parse_reply(self, body, *arguments)

    Client.parse_reply = parse  # type: ignore[method-assign]


def main() -> None:
    record_timings()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "example"
        shutil.copytree(ROOT / "example_project", project, ignore=shutil.ignore_patterns(".rageval_cache"))
        os.chdir(project)
        began = time.perf_counter()
        pytest.main(["-q", "--rageval-refresh", "-p", "no:cacheprovider"])
        elapsed = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, model = (usage.ru_utime + usage.ru_stime for usage in used)
    evaluated, generated = (sum(timing[name] for timing in timings) for name in ("prompt_n", "predicted_n"))
    prompt_s, generation_s = (
        sum(timing[name] for timing in timings) / 1000 for name in ("prompt_ms", "predicted_ms")
    )
    lines = (
        f"requests                          {len(timings):10,}",
        f"tokens of their prompts           {sum(prompt_tokens):10,}",
        f"… evaluated, not in the context   {evaluated:10,.0f}",
        f"tokens generated                  {generated:10,.0f}",
        f"a prompt token takes, ms          {1000 * prompt_s / evaluated:10.2f}",
        f"a generated token takes, ms       {1000 * generation_s / generated:10.2f}",
        f"elapsed, s                        {elapsed:10.1f}",
        f"processor of the model, s         {model:10.1f}",
        f"processor of pytest, s            {own:10.1f}",
        f"inference of all contexts, s      {prompt_s + generation_s:10.1f}",
    )
    sys.stdout.write("\n".join(("", *lines, "")))


if __name__ == "__main__":
    main()
