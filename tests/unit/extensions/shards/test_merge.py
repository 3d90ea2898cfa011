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


def merge(*arguments: str) -> int:
    return main(["merge", *arguments])


def test_what_passes_ends_with_0_and_a_drop_with_1(shards, capsys):
    assert merge(*shards()) == 0
    assert "rageval: 1 of 1 threshold passed" in capsys.readouterr().out
    assert merge(*shards(0, 1, 2, 3, 4, 5, 6), "--report", "out/rageval.md", "--report", "out.html") == 1
    printed = capsys.readouterr().out
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
def test_what_cannot_be_used_ends_with_2(shards, capsys, arguments, why):
    assert merge(*shards(), *arguments) == 2
    assert why in capsys.readouterr().err


def test_a_merge_accepts_a_drop_and_records_a_gain(shards, capsys):
    lost = range(7)
    assert merge(*shards(*lost), "--report", "rageval.md") == 1
    command = "rageval merge 1-2.json 2-2.json --update-baseline"
    assert f"accept this drop and all other changes: {command}" in capsys.readouterr().out
    assert f"Accept the drop and all other changes with `{command}`" in Path("rageval.md").read_text(
        encoding="utf-8"
    )
    assert main(command.split()[1:]) == 0
    capsys.readouterr()
    for name in shards():
        Path(name).rename(f"shard{name[0]}.json")
    assert (
        merge("shard1.json", "shard2.json", "--report", "shard-all.md", "--baseline", "rageval_baseline.json")
        == 0
    )
    command = "rageval merge shard*.json --baseline rageval_baseline.json --update-baseline"
    assert (
        f"{NODEID}: recall@1 gained 0.350, which is significant; lock it in: {command}"
        in capsys.readouterr().out
    )
    Path("shard10.json").touch()
    assert merge("shard1.json", "shard2.json") == 0
    assert "lock it in: rageval merge shard1.json shard2.json --update-baseline" in capsys.readouterr().out


def test_a_drop_below_a_bound_needs_new_reports(shards, capsys):
    names = shards(*range(7))
    for name in names:
        report = json.loads(Path(name).read_text(encoding="utf-8"))
        [threshold_of_marker] = report["tests"][0]["shard"]["value"]["record"]["thresholds"]
        threshold_of_marker["min"] = 0.9
        Path(name).write_text(json.dumps(report), encoding="utf-8")
    assert merge(*names) == 1
    assert "change min or max in the test, run the tests again, then\n  " in capsys.readouterr().out


def test_options_may_be_named_as_in_tests(shards, capsys):
    assert merge(*shards(0, 1, 2, 3), "--rageval-report=out.md", "--history=h.jsonl") == 1
    assert Path("out.md").exists()
    assert Path("h.jsonl").exists()
    assert merge("1-2.json", "2-2.json", "--rageval-update-baseline=force") == 0
    assert "1.000 → 0.800" in capsys.readouterr().out


def test_the_joined_run_is_a_line_of_the_history(shards, capsys):
    history, report = Path("evals/history.jsonl"), Path("out.json")
    for lost in ((), (0, 1, 2, 3)):
        merge(*shards(*lost), "--history", str(history), "--report", str(report))
        assert f"history: {history}" in capsys.readouterr().out
    means = [[point.mean for point in run.points.values()] for run in read_history(history)]
    assert means == [[1.0], [0.8]]
    written = json.loads(report.read_text(encoding="utf-8"))["history"]
    assert written == [run.line for run in read_history(history)]


def test_a_sample_is_no_line_of_the_history(shards, capsys):
    assert merge(*shards(sample=0.5), "--history", "history.jsonl") == 0
    assert "only some of the questions" in capsys.readouterr().out
    assert not Path("history.jsonl").exists()


def test_a_history_that_cannot_be_written_ends_with_2(shards, capsys):
    Path("folder").mkdir()
    assert merge(*shards(), "--history", "folder", "--report", "out.md") == 2
    assert "The history folder cannot be written: " in capsys.readouterr().err
    assert not Path("out.md").exists()


def test_a_damaged_history_gets_the_run(shards, capsys):
    Path("history.jsonl").write_text("<<<<<<< ours\n", encoding="utf-8")
    assert merge(*shards(), "--history", "history.jsonl", "--report", "out.json") == 0
    assert "history.jsonl, line 1" in capsys.readouterr().err
    assert len(Path("history.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert "history" not in json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_a_baseline_that_was_named_has_to_be_there(shards, capsys):
    assert merge(*shards(), "--baseline", "nowhere.json") == 1
    printed = capsys.readouterr().out
    assert "nowhere.json cannot be read: there is no such file" in printed
    assert "rageval: 1 of 1 threshold in error" in printed


def test_an_update_is_refused_on_a_build_server(shards, monkeypatch, capsys):
    monkeypatch.setenv("CI", "true")
    names = shards(0, 1, 2, 3)
    before = Path("rageval_baseline.json").read_bytes()
    assert merge(*names, "--update-baseline") == 2
    assert "is refused under CI=true" in capsys.readouterr().err
    assert Path("rageval_baseline.json").read_bytes() == before
    assert merge(*names, "--update-baseline=force", "--pin-baseline") == 0
    printed = capsys.readouterr().out
    assert "1.000 → 0.800" in printed
    assert "as the anchor of max_total_drop" in printed
    assert json.loads(Path("rageval_baseline.json").read_text(encoding="utf-8"))["anchors"].keys() == {NODEID}


def test_a_sample_updates_nothing(shards, capsys):
    names = shards(sample=0.5)
    assert merge(*names) == 0
    assert " of 20, sample 0.5)" in capsys.readouterr().out
    assert merge(*names, "--update-baseline") == 2
    assert "these shards have a sample of them" in capsys.readouterr().err
