"""`rageval merge`: its options, its files and its exit status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.history.history import read_history
from pytest_rageval.options.settings import Settings
from tests.unit.extensions.shards.sharded import shards_of, write_baseline
from tests.unit.run.marked import EVALS, NODEID, components, threshold


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that writes the reports of two shards of 20 questions, some of which the retriever loses."""
    monkeypatch.chdir(tmp_path)
    settings = Settings(cache_dir=tmp_path / "cache", baseline=tmp_path / "rageval_baseline.json")

    def write(*lost: int, sample: float = 1.0) -> list[str]:
        marks = [EVALS, threshold(max_drop=0.02)]
        if not settings.baseline.exists():
            write_baseline(settings, tmp_path, marks, components())
        reports = shards_of(settings.replace(sample=sample), tmp_path, marks, 2, lambda: components(*lost))
        for shard in reports:
            Path(shard.path).write_text(json.dumps(shard.document), encoding="utf-8")
        return [shard.path for shard in reports]

    return write


@pytest.fixture
def merge(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that merges reports, checks the exit status, and returns what is printed."""

    def run(*arguments: str, status: int = 0) -> str:
        assert main(["merge", *arguments]) == status
        return "".join(capsys.readouterr())

    return run


def test_what_passes_ends_with_0_and_a_drop_with_1(shards, merge):
    assert "rageval: 1 of 1 threshold passed" in merge(*shards())
    lost = shards(0, 1, 2, 3, 4, 5, 6)
    printed = merge(*lost, "--report", "out/rageval.md", "--report", "out.html", status=1)
    assert "rageval: 1 of 1 threshold failed" in printed
    assert "7 of 20 questions worse" in printed
    assert NODEID in Path("out/rageval.md").read_text(encoding="utf-8")
    assert NODEID in Path("out.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--report", "a.pdf"], "--report is 'a.pdf': expected a file name that ends in .html, .json, .md"),
        (["--update-baseline=yes"], "--update-baseline is 'yes': expected nothing, or force"),
        (["--pin-baseline"], "--pin-baseline pins what --update-baseline writes: add that"),
        (["--drop-unused"], "--drop-unused drops replies from a cassette: name it"),
        (["nothing.json"], "nothing.json cannot be read"),
    ],
)
def test_what_cannot_be_used_ends_with_2(shards, merge, arguments, why):
    assert why in merge(*shards(), *arguments, status=2)


def test_a_merge_accepts_a_drop_and_records_a_gain(shards, merge):
    command = "rageval merge 1-2.json 2-2.json --update-baseline"
    printed = merge(*shards(*range(7)), "--report", "rageval.md", status=1)
    assert f"accept this drop and all other changes: {command}" in printed
    report = Path("rageval.md").read_text(encoding="utf-8")
    assert f"Accept the drop and all other changes with `{command}`" in report
    merge(*command.split()[2:])
    for name in shards():
        Path(name).rename(f"shard{name[0]}.json")
    names = ("shard1.json", "shard2.json")
    printed = merge(*names, "--report", "shard-all.md", "--baseline", "rageval_baseline.json")
    command = "rageval merge shard*.json --baseline rageval_baseline.json --update-baseline"
    assert f"{NODEID}: recall@1 gained 0.350, which is significant; lock it in: {command}" in printed
    Path("shard10.json").touch()
    assert "lock it in: rageval merge shard1.json shard2.json --update-baseline" in merge(*names)


def test_a_drop_below_a_bound_needs_new_reports(shards, merge):
    names = shards(*range(7))
    for name in names:
        report = json.loads(Path(name).read_text(encoding="utf-8"))
        [threshold_of_marker] = report["tests"][0]["shard"]["value"]["record"]["thresholds"]
        threshold_of_marker["min"] = 0.9
        Path(name).write_text(json.dumps(report), encoding="utf-8")
    printed = merge(*names, status=1)
    assert "change min or max in the test, run the tests again, then\n  " in printed


def test_options_may_be_named_as_in_tests(shards, merge):
    names = shards(0, 1, 2, 3)
    merge(*names, "--rageval-report=out.md", "--history=h.jsonl", status=1)
    assert Path("out.md").exists()
    assert Path("h.jsonl").exists()
    assert "1.000 → 0.800" in merge(*names, "--rageval-update-baseline=force")


def test_the_joined_run_is_a_line_of_the_history(shards, merge):
    history, report = Path("evals/history.jsonl"), Path("out.json")
    for status, lost in enumerate(((), (0, 1, 2, 3))):
        printed = merge(*shards(*lost), "--history", str(history), "--report", str(report), status=status)
        assert f"history: {history}" in printed
    means = [[point.mean for point in run.points.values()] for run in read_history(history)]
    assert means == [[1.0], [0.8]]
    written = json.loads(report.read_text(encoding="utf-8"))["history"]
    assert written == [run.line for run in read_history(history)]


def test_a_history_that_cannot_be_written_ends_with_2(shards, merge):
    Path("folder").mkdir()
    printed = merge(*shards(), "--history", "folder", "--report", "out.md", status=2)
    assert "The history folder cannot be written: " in printed
    assert not Path("out.md").exists()


def test_a_damaged_history_gets_the_run(shards, merge):
    Path("history.jsonl").write_text("<<<<<<< ours\n", encoding="utf-8")
    printed = merge(*shards(), "--history", "history.jsonl", "--report", "out.json")
    assert "history.jsonl, line 1" in printed
    assert len(Path("history.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert "history" not in json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_a_baseline_that_was_named_has_to_be_there(shards, merge):
    printed = merge(*shards(), "--baseline", "nowhere.json", status=1)
    assert "nowhere.json cannot be read: there is no such file" in printed
    assert "rageval: 1 of 1 threshold in error" in printed


def test_an_update_is_refused_on_a_build_server(shards, monkeypatch, merge):
    monkeypatch.setenv("CI", "true")
    names = shards(0, 1, 2, 3)
    before = Path("rageval_baseline.json").read_bytes()
    assert "is refused under CI=true" in merge(*names, "--update-baseline", status=2)
    assert Path("rageval_baseline.json").read_bytes() == before
    printed = merge(*names, "--update-baseline=force", "--pin-baseline")
    assert "1.000 → 0.800" in printed
    assert "as the anchor of max_total_drop" in printed
    assert json.loads(Path("rageval_baseline.json").read_text(encoding="utf-8"))["anchors"].keys() == {NODEID}


def test_a_sample_updates_neither_baseline_nor_history(shards, merge):
    names = shards(sample=0.5)
    printed = merge(*names, "--history", "history.jsonl")
    assert " of 20, sample 0.5)" in printed
    assert "only some of the questions" in printed
    assert not Path("history.jsonl").exists()
    assert "these shards have a sample of them" in merge(*names, "--update-baseline", status=2)
