"""The workflow on the page about shards: its parts are consistent, and its commands run."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT

PAGE = (ROOT / "docs" / "how-to" / "shards.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
SHARDS = WORKFLOW["jobs"]["shard"]["strategy"]["matrix"]["shard"]


def steps(job: str) -> list[dict]:
    return WORKFLOW["jobs"][job]["steps"]


def step(job: str, word: str) -> dict:
    (match,) = [
        candidate
        for candidate in steps(job)
        if word in candidate.get("uses", candidate.get("run", "")).split("@")[0]
    ]
    return match


def test_the_matrix_has_every_shard_of_its_number() -> None:
    command = step("shard", "pytest --")["run"]
    assert f"--rageval-shard ${{{{ matrix.shard }}}}/{len(SHARDS)} " in command
    assert list(range(1, len(SHARDS) + 1)) == SHARDS
    assert WORKFLOW["jobs"]["shard"]["strategy"]["fail-fast"] is False


def test_a_cache_is_read_by_all_and_saved_on_main() -> None:
    read, saved = step("shard", "actions/cache/restore"), step("shard", "actions/cache/save")
    names = [step_.get("uses", step_.get("run", "")) for step_ in steps("shard")]
    places = [
        next(place for place, name in enumerate(names) if word in name)
        for word in ("restore", "pytest --", "save")
    ]
    assert places == sorted(places)
    assert read["with"]["key"] == saved["with"]["key"]
    assert read["with"]["path"] == saved["with"]["path"] == ".rageval_cache"
    key = read["with"]["key"]
    assert key.startswith(read["with"]["restore-keys"])
    assert {"github.run_id", "github.run_attempt", "matrix.shard"} <= set(
        re.findall(r"\{\{ ([\w.]+) \}\}", key)
    )
    assert f"of{len(SHARDS)}-" in key
    assert "if" not in read
    assert saved["if"] == "${{ !cancelled() && github.ref == 'refs/heads/main' }}"
    # PyYAML reads the key `on` as true.
    assert WORKFLOW[True]["push"] == {"branches": ["main"]}


def test_the_merge_gets_every_report() -> None:
    upload, download = step("shard", "upload-artifact"), step("merge", "download-artifact")
    assert upload["with"]["name"] == "shard-${{ matrix.shard }}"
    assert download["with"] == {"pattern": "shard-*", "merge-multiple": True}
    assert upload["with"]["path"] in step("shard", "pytest --")["run"]
    assert upload["if"] == WORKFLOW["jobs"]["merge"]["if"] == "${{ !cancelled() }}"
    assert WORKFLOW["jobs"]["merge"]["needs"] == "shard"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="the steps are bash")
def test_the_commands_of_the_workflow_run(tmp_path) -> None:
    app = tmp_path / "app"
    shutil.copytree(ROOT / "example_project", app, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (app / "test_in_own_words.py").unlink()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, source in (
        ("pytest", "import pytest; sys.exit(pytest.main())"),
        ("rageval", "from pytest_rageval.cli import main; sys.exit(main())"),
    ):
        (tools / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -P -c {shlex.quote(f"import sys; {source}")} "$@"\n'
        )
        (tools / name).chmod(0o755)
    env = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "CI": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTEST_ADDOPTS": shlex.join(WITHOUT),
    }

    def run(command: str) -> None:
        subprocess.run(["bash", "-e", "-c", command], cwd=app, env=env, check=True, capture_output=True)  # noqa: S607

    for shard in SHARDS:
        run(step("shard", "pytest --")["run"].replace("${{ matrix.shard }}", str(shard)))
    for merge_step in steps("merge"):
        if "run" in merge_step and "pip install" not in merge_step["run"]:
            run(merge_step["run"])
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "5 of 5 thresholds passed" in summary
    assert "recall@3" in summary
