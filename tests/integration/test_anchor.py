"""`--rageval-pin-baseline` and `max_total_drop`: a total drop is measured from an anchor that updates do not move."""

import json
import shutil
import subprocess

import pytest

from tests.llm_server import clerk

pytestmark = pytest.mark.slow

UPDATE, PIN = "--rageval-update-baseline", "--rageval-pin-baseline"
GATE = '@pytest.mark.rageval_threshold("{spec}", {bounds})\ndef test_gate(): pass\n'

FROG = """
import pytest

LOST = {lost}

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        n = int(query.split("item-")[1].rstrip("?"))
        return [{{"id": f"doc-{{n if n > LOST else 0}}", "text": "a text"}}]
    return search
"""


def _file(project):
    return project.read("rageval_baseline.json")


def _lose(project, number):
    project.pytester.makeconftest(FROG.format(lost=number))


def _git(project, *arguments):
    command = [shutil.which("git"), *arguments]
    return subprocess.run(
        command, cwd=project.path, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def hundred(project):
    """A project with 100 questions and a pinned anchor, at which the retriever finds the document of every question."""
    project.evalset(100)
    _lose(project, 0)
    project.policies(pr="max_total_drop = 0.05")
    project.test(GATE.format(spec="recall@1", bounds="max_drop=0.02"))
    project.run(UPDATE, PIN, passed=1)
    return project


@pytest.mark.long
def test_twenty_updates_that_lose_a_point_each_are_caught(hundred):
    """If each of 20 updates loses a question, `max_drop` passes, and `max_total_drop` fails from the sixth on."""
    results = []
    for lost in range(1, 21):
        _lose(hundred, lost)
        results.append(hundred.run())
        updated = hundred.run(UPDATE, "-q", passed=1)
        below = [line for line in updated.outlines if "the new baseline is below the anchor" in line]
        assert len(below) == (lost > 5)
    verdicts = [result.parseoutcomes() == {"passed": 1} for result in results]
    # With no gain, six losses are the smallest number that is significant at the level 0.05 / 8.
    assert verdicts == [lost < 6 for lost in range(1, 21)]
    results[-1].stdout.fnmatch_lines(
        [
            "recall@1 fell from the anchor's 1.000 (pinned on *, 19 updates ago) to",
            "*20 of 100 questions worse, 0 better*",
            "*Several updates of the baseline lowered it: `git",
            "  log -p` of its file shows which. Fix that, or accept it: `rageval baseline",
            "  pin`",
            "  fail * recall@1 * ↓ 0.02 total ↓ 0.05 *",
            "    recall@1: anchor 1.000 (pinned on *, 19 updates ago), drop 0.200 *, 20 of 100 worse)",
        ]
    )
    assert _file(hundred)["anchors"]["test_it.py::test_gate"]["updates"] == 20

    hundred.run(
        UPDATE,
        PIN,
        shows=[
            "baseline: * (1 test written, pinned on * as the anchor of max_total_drop)",
            "warning: *: the new baseline is below the anchor: fell from the anchor*; it is replaced",
        ],
    )
    hundred.run(passed=1)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_an_anchor_has_the_commit_that_it_was_pinned_at(hundred):
    anchor = _file(hundred)["anchors"]["test_it.py::test_gate"]
    assert "commit" not in anchor
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for command in (("init", "-q"), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
        _git(hundred, *command)
    commit = _git(hundred, "rev-parse", "HEAD")
    hundred.run(UPDATE, PIN, shows=f"baseline: * (1 test written, pinned at {commit[:7]} as the *)")
    assert _file(hundred)["anchors"]["test_it.py::test_gate"]["commit"] == commit
    _lose(hundred, 1)
    hundred.run(
        "--rageval-report=report.json",
        shows=f"    recall@1: anchor 1.000 (pinned at {commit[:7]}), drop 0.010 *",
    )
    report = hundred.read()
    (score,) = report["tests"][0]["scores"]
    assert score["threshold"]["max_total_drop"] == 0.05
    assert score["threshold"]["alpha"] == 0.05
    assert (score["anchor"]["commit"], score["anchor"]["updates"]) == (commit, 0)
    assert score["anchor"]["alpha"] == pytest.approx(0.05 / 8)
    assert score["baseline"]["alpha"] == pytest.approx(0.05)


@pytest.mark.parametrize("git", ["no git at all", "a git that fails", "a git that says nothing"])
def test_pinning_never_fails_because_of_git(hundred, monkeypatch, git):
    folder = hundred.path / "bin"
    folder.mkdir()
    if git != "no git at all":
        (folder / "git").write_text(
            "#!/bin/sh\nexit " + ("1" if "fails" in git else "0") + "\n", encoding="utf-8"
        )
        (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    hundred.run(
        UPDATE,
        PIN,
        passed=1,
        shows="baseline: * (1 test written, pinned on * as the anchor of max_total_drop)",
    )


def test_without_an_anchor_a_run_says_how_to_pin_one(project):
    project.evalset(20)
    project.policies(pr="max_total_drop = 0.05")
    project.test(GATE.format(spec="recall@1", bounds="max_drop=0.02"))
    none_yet = "1.000 has no anchor yet for max_total_drop to compare with; *`rageval baseline pin` pins one"
    project.run("-q", shows=f"warning: *no baseline yet*{UPDATE} *{PIN} pins it as the anchor *")
    project.run(UPDATE, passed=1)
    project.run("-q", passed=1, shows=f"warning: *: recall@1: {none_yet}")
    project.run(
        "--rageval=require_baseline=true", errors=1, shows=f"*{none_yet} (--rageval require_baseline=true, *"
    )
    project.run(UPDATE, PIN)
    result = project.run("--rageval=require_baseline=true", passed=1)
    result.stdout.no_fnmatch_line("warning: *anchor yet*")


def test_pinning_alone_is_refused(project):
    result = project.run(PIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {PIN} pins what {UPDATE} writes, and nothing is written without *"])


def test_a_new_generator_leaves_the_anchor_as_it_is_until_another_is_pinned(project, llm):
    project.use(llm)
    project.evalset(12)
    project.policies(pr="max_total_drop = 0.5")
    project.test(GATE.format(spec="answer.em@1", bounds="max_drop=0.5"))
    project.run(UPDATE, PIN, passed=1)
    pinned = _file(project)["anchors"]
    llm.model = lambda prompt: "wrong" if "item-2?" in prompt else clerk(prompt)
    project.use(llm, "m2")
    result = project.run(f"{UPDATE}=force", "-q", passed=1)
    reason = (
        "answer.em@1: the anchor (pinned on *) was made with other settings; only the retriever may differ. *"
    )
    result.stdout.fnmatch_lines([f"warning: *the anchor is kept, and cannot be compared with: {reason}"])
    anchors = _file(project)["anchors"]
    assert anchors["test_it.py::test_gate"] == {**pinned["test_it.py::test_gate"], "updates": 1}
    project.run(
        errors=1,
        shows=[
            f"*{reason}",
            "*generator: m1 at * in the anchor, m2 at * now",
            f"*pin a new anchor *: {UPDATE} {PIN}.",
        ],
    )
    result = project.run(UPDATE, PIN, "-q")
    result.stdout.no_fnmatch_line("*the anchor is kept*")
    project.run(passed=1)


def test_workers_write_the_same_anchor(hundred):
    written = (hundred.path / "rageval_baseline.json").read_bytes()
    hundred.run_process(UPDATE, PIN, "-n2", passed=1)
    assert (hundred.path / "rageval_baseline.json").read_bytes() == written


def test_a_file_that_is_no_baseline_is_reported_once_by_an_update(hundred):
    (hundred.path / "rageval_baseline.json").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    result = hundred.run(UPDATE, passed=1)
    assert result.ret != 0
    messages = [line for line in result.outlines if "it contains the marks of a merge conflict" in line]
    assert len(messages) == 1


def test_only_a_full_run_removes_an_anchor_without_its_test(hundred):
    """A partial run keeps the anchor of a test that no longer exists, for example after a rename."""
    path = hundred.path / "rageval_baseline.json"
    document = _file(hundred)
    document["anchors"]["test_it.py::test_old"] = document["anchors"].pop("test_it.py::test_gate")
    path.write_text(json.dumps(document), encoding="utf-8")
    hundred.run(UPDATE, "test_it.py::test_gate", passed=1)
    assert set(_file(hundred)["anchors"]) == {"test_it.py::test_old"}
    hundred.run(UPDATE, "-q", shows="  test_it.py::test_old: its anchor is removed, as the test is gone")
    assert "anchors" not in _file(hundred)


def test_tests_with_a_total_drop_share_the_level_too(hundred):
    """Half of the level 0.05 is divided between two marked tests; for the anchor, all of it.

    The anchor's first comparison gets an eighth of its test's share; `rageval.score` is not divided.
    """
    hundred.policies(total="max_total_drop = 0.05")
    hundred.test(
        GATE.format(spec="recall@1", bounds="max_drop=0.02")
        + GATE.format(spec="recall@1", bounds="max_drop=0.02, policy='total'").replace(
            "test_gate", "test_total"
        )
        + "def test_own(rageval):\n    rageval.score('recall@1', max_drop=0.02, policy='total')\n"
    )
    hundred.run(UPDATE, PIN)
    hundred.run("--rageval-report=report.json", passed=3)
    tests = hundred.read()["tests"]
    gate, own, total = (test["scores"][0] for test in tests)
    assert (gate["baseline"]["alpha"], "anchor" in gate) == (0.0125, False)
    assert (total["anchor"]["alpha"], total["baseline"]["alpha"]) == (0.025 / 8, 0.0125)
    assert own["anchor"]["alpha"] == 0.05 / 8
