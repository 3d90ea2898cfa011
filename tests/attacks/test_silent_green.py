"""What must not pass, or pass unseen: losses behind unscored questions, caught failures, mistyped marks."""

import pytest

GATE = '@pytest.mark.rageval_threshold("recall@1", {bounds})\ndef test_gate(): pass\n'

FULL_DISK = """
import resource, signal, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
"""


@pytest.mark.parametrize("name", ["report.html", "report.json"])
def test_a_disk_that_fills_up_leaves_the_last_good_report(project, name):
    """Promised: the report of before whole, no half of one beside it, and a run that is no success."""
    pytest.importorskip("resource")
    project.evalset(40)
    project.test(GATE.format(bounds="min=0.5"))
    (project.path / "full.py").write_text(FULL_DISK, encoding="utf-8")
    assert project.run_process(f"--rageval-report={name}").ret == 0
    before = (project.path / name).read_bytes()
    assert len(before) > 4096
    result = project.run_process(f"--rageval-report={name}", "-p", "full")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"The report *{name} cannot be written: File too large."])
    assert (project.path / name).read_bytes() == before
    assert not list(project.path.glob(".rageval-*"))
