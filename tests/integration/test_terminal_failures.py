"""Failures on the terminal: full text once, one line in pytest's summary, location of the test, next step."""

import re

import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
DROP = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n'
BOTH = DROP.replace("max_drop", "min=0.9, max_drop")


def _worse(project: Project, test: str, lost: int = 7) -> None:
    project.evalset(12)
    project.test(test)
    project.run(UPDATE, passed=1)
    project.lose(*range(1, lost + 1))


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["0", "1"])
def test_on_ci_the_failure_is_printed_once_at_the_test_and_its_summary_is_a_line(
    project: Project, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    _worse(project, BOTH)
    monkeypatch.setenv("CI", "true")
    summary = "recall@1 0.417 < 0.9; drop 0.583 > 0.02"
    for style in ("auto", "long", "short", "line", "native"):
        result = project.run(f"--tb={style}", "--durations=1", *workers, failed=1)
        for once in (
            "recall@1 fell from 1.000 to 0.417 (allowed 0.02; minimum 0.9): 7 of 12 questions worse",
            " q2 1 → 0 ",
        ):
            assert " ".join(str(result.stdout).split()).count(once) == (style != "line")
        place = f"{project.path / 'test_it.py'}:4: {summary}" if style == "line" else "test_it.py:4: Failed"
        assert [line for line in result.outlines if ".py:4" in line] == [place]
        result.stdout.fnmatch_lines(
            [
                "*= slowest 1 durations =*",
                "*= rageval =*",
                "  fail * recall@1 * 0.417 (−0.583) * ≥ 0.9 ↓ 0.02 *",
                "*= short test summary info =*",
                f"FAILED test_it.py::test_gate - {summary}",
                "*= 1 failed*",
            ]
        )


def test_other_plugins_see_the_place_and_the_line(project: Project) -> None:
    project.lose(1)
    project.test(
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_marker(): pass\n'
        "def test_body(rageval):\n"
        '    rageval.score("recall@1", min=0.8)\n'
        '@pytest.mark.rageval_threshold("recall@1", maximum=0.9)\ndef test_setup(): pass\n'
        "def test_assertion(rageval):\n"
        '    assert rageval.score("recall@1") > 0.8\n'
    )
    project.add(
        "def pytest_runtest_logreport(report):\n"
        "    if report.failed:\n"
        "        crash = report.longrepr.reprcrash\n"
        "        print('SEEN', report.when, crash.path, crash.lineno, crash.message)\n"
    )
    result = project.run("-s", "--rageval-report=r.json")
    path = project.path / "test_it.py"
    seen = [line.partition("SEEN ")[2] for line in result.outlines if "SEEN " in line]
    seen = [line.partition(" Allowed: ")[0].removesuffix(".") for line in seen]
    assert seen == [
        f"call {path} 4 recall@1 0.750 < 0.9",
        f"call {path} 7 recall@1 0.750 < 0.8",
        f"setup {path} 8 rageval_threshold has no keyword 'maximum'. Did you mean max?",
        f"call {path} 11 assert recall@1 > 0.8",
    ]
    tests = project.read("r.json")["tests"]
    messages = [test["message"] for test in tests]
    assert len(messages) == 4
    assert sum("1 of 4 questions is below" in message for message in messages) == 3


def test_a_drop_comes_with_the_command_that_accepts_it(project: Project) -> None:
    _worse(project, DROP)
    result = project.run()
    (line,) = [line for line in result.outlines if line.startswith("accept")]
    assert line == "accept this drop: pytest --rageval-update-baseline test_it.py::test_gate"
    project.run(*line.partition("pytest ")[2].split(), passed=1)
    project.run(passed=1)


@pytest.mark.parametrize(
    "test", [BOTH, '@pytest.mark.rageval_threshold("mrr@1", min=0.9, max_drop=0.5)\n' + DROP]
)
def test_a_drop_that_an_update_refuses_says_what_to_change_first(project: Project, test: str) -> None:
    """If a score violates its minimum, that one or another, the failure says to change the bound before the update."""
    _worse(project, test, lost=5)
    project.run(UPDATE, shows="*its old entry is kept, as *would be lower, and out of bounds")
    update = "pytest --rageval-update-baseline test_it.py::test_gate"
    project.run(shows=["accept this drop: change min or max in the test, then", f"  {update}"])
    project.gate("recall@1 min=0.9")
    result = project.run(failed=1)
    assert "accept this" not in str(result.stdout)


def test_a_score_of_0_for_every_question_is_no_drop_to_accept(project: Project) -> None:
    _worse(project, DROP, lost=12)
    result = project.run(shows="recall@1 fell from 1.000 to 0.000 *", failed=1)
    assert "accept this" not in str(result.stdout)
    project.run(UPDATE, shows="*every question scores 0, so that nothing could be a drop*")


def test_the_command_names_a_test_in_a_folder_and_its_parameters(project: Project) -> None:
    project.evalset(12)
    (project.path / "sub").mkdir()
    body = '@pytest.mark.parametrize("n", ["a b"])\n' + DROP.replace("()", "(n)")
    project.test(body)
    (project.path / "test_it.py").rename(project.path / "sub" / "test_it.py")
    project.run(UPDATE, passed=1)
    project.lose(*range(1, 8))
    project.run(shows="accept this drop: pytest --rageval-update-baseline 'sub/test_it.py::test_gate[[]a b]'")


def test_a_significant_gain_is_reported_with_the_update_command(project: Project) -> None:
    _worse(project, DROP)
    project.run(UPDATE, passed=1)
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    worse = re.compile(r"\nfor name in \[(.*)\]:\n    del CORPUS\[name\]")
    lost = worse.search(source)
    assert lost is not None
    for missing, hinted in (('"doc-1"', True), (lost[1].removeprefix('"doc-1", '), False)):
        project.pytester.makeconftest(worse.sub(f"\nfor name in [{missing}]:\n    del CORPUS[name]", source))
        result = project.run(passed=1)
        hint = "test_it.py::test_gate: recall@1 gained 0.500, which is significant; lock it in: pytest "
        assert [line for line in result.outlines if "lock it" in line] == (
            [f"{hint}--rageval-update-baseline test_it.py::test_gate"] if hinted else []
        )
    assert "lock it" not in str(project.run(UPDATE).stdout)


def test_scores_of_citations_say_that_nothing_was_cited_and_which_item_equals_no_reference(project, llm):
    llm.model = lambda prompt: (
        "[1]" if "item-2" in prompt else "the code, 77" if "item-3" in prompt else "c1x"
    )
    project.use(llm)
    project.gate("rel_recall.answer@1 min=0.9", "rel_recall.citation@1 min=0.9")
    result = project.run("-vv", "--rageval-report=r.html", failed=1)
    text = str(result.stdout)
    assert "      why         items 'the code', '77' equal no reference; cited nothing\n" in text
    assert "      why         item 'c1x' equals no reference; cited nothing\n" in text
    assert "      why         cited nothing\n" in text
    assert "cited nothing" in (project.path / "r.html").read_text(encoding="utf-8")
