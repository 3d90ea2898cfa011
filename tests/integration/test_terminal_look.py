"""How the output fits the terminal: its width, and pytest's own colours."""

import sys

import pytest

from tests.integration.conftest import Project

if sys.platform == "win32":
    pytest.skip("there are no pseudo terminals", allow_module_level=True)

from tests.integration.conftest import on_a_terminal

pytestmark = pytest.mark.slow

TESTS = """
@pytest.mark.rageval_threshold("recall@1", min=0.9, max_drop=0.02)
def test_fail(): pass

@pytest.mark.rageval_threshold("hit@2", min=0.1)
def test_pass(): pass

@pytest.mark.rageval_threshold("recall@1", max_drop=0.02, policy="rare")
def test_doubt(): pass
"""
DOUBT = TESTS.replace("min=0.9, ", "")


@pytest.fixture
def worse(project: Project) -> Project:
    project.evalset(12)
    project.policies(rare="alpha = 0.001\nsmall_set_drop = false")
    project.test(TESTS)
    project.run("--rageval-update-baseline", passed=3)
    project.lose(*range(1, 8))
    return project


@pytest.mark.parametrize(
    ("columns", "workers"),
    [(40, ()), (80, ()), (200, ()), pytest.param(40, ("-n1",), marks=pytest.mark.slow)],
)
def test_text_wraps_at_the_width_of_the_terminal(worse, monkeypatch, columns, workers):
    """Text wraps at the terminal's width, also in workers; rows of the table and commands are not wrapped."""
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = on_a_terminal(
        worse.path, *worse.arguments, "--color=no", "--rageval-report=r.md", *workers, status=1
    ).splitlines()
    failure = shown[shown.index(next(line for line in shown if "_ test_fail _" in line)) + 1 :]
    failure = failure[: failure.index(next(line for line in failure if line.startswith("accept this drop")))]
    notes = [line for line in shown if line.startswith("    ")]
    lengths = [len(line) for line in [*failure, *notes] if not line.startswith("[gw0] ")]
    assert max(lengths) <= columns
    assert max(lengths) > columns * 0.6 or columns == 200
    (first,) = (line for line in failure if line.startswith("recall@1 fell from 1.000"))
    assert ("(allowed 0.02; minimum 0.9): 7 of 12 questions worse" in first) == (columns == 200)
    _, _, written = (worse.path / "r.md").read_text(encoding="utf-8").partition("```text\n")
    lengths = [len(line) for line in written.partition("\n```")[0].splitlines()]
    assert 60 < max(lengths) <= 80


def test_a_log_has_whole_lines(worse: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, notes are not wrapped, whatever COLUMNS says, so that logs can be searched."""
    monkeypatch.setenv("COLUMNS", "40")
    worse.run(shows="    recall@1: baseline 1.000, drop 0.583 * 7 of 12 worse)")


@pytest.mark.parametrize(
    ("options", "environment", "coloured"),
    [
        (["--color=yes"], {}, True),
        (["--color=yes"], {"NO_COLOR": "1"}, True),
        (["--color=no"], {"FORCE_COLOR": "1"}, False),
        ([], {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
    ],
)
def test_verdicts_have_the_colours_of_pytest(worse, monkeypatch, options, environment, coloured):
    for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    worse.test(DOUBT)
    text = str(worse.run(*options).stdout)
    for word, colour in (("fail", 31), ("pass", 32), ("inconclusive", 33)):
        assert (f"\n \x1b[{colour}m {word}\x1b[0m" in text) == coloured
        assert (f"\n  {word} " in text) != coloured
    assert ("\x1b" in text) == coloured
