"""The example project passes as shipped, fails after the documented change, and needs no model."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from pytest_rageval.cli import main
from tests.foreign_plugins import WITHOUT

EXAMPLE = Path(__file__).parents[2] / "example_project"
GOOD = "index.get_scores(tokenize(query))"
WORSE = "index.get_scores(query.split())"
README = (EXAMPLE.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def example(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = pytester.path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*WITHOUT, *arguments)


@pytest.fixture
def broken(
    example: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    source = example / "support_bot" / "search.py"
    source.write_text(source.read_text(encoding="utf-8").replace(GOOD, WORSE), encoding="utf-8")

    def run_broken(*arguments: str, environ: Mapping[str, str] = MappingProxyType({})) -> pytest.RunResult:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return run(pytester, *arguments)

    return run_broken


@pytest.mark.slow
@pytest.mark.usefixtures("example")
def test_the_example_is_green_from_the_shipped_replies(pytester):
    result = pytester.runpytest_subprocess(*WITHOUT)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["* replies: * cached, 0 live"])


@pytest.mark.slow
def test_the_documented_change_turns_it_red_and_names_the_lost_questions(example, pytester):
    source = example / "support_bot" / "search.py"
    text = source.read_text(encoding="utf-8")
    assert text.count(GOOD) == 1
    source.write_text(text.replace(GOOD, WORSE), encoding="utf-8")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "recall@3 fell from 0.940 to 0.593 (allowed 0.02; minimum 0.85): 32 of 91",
            "Likely cause: 36 of 51 lost: their gold is not in the top 3 now",
            "  billing-02      1 → 0     0       *",
            "      gold      billing#*",
            "llm_reteval@3 fell from 0.495 to 0.286 (allowed 0.02; minimum 0.4): 20 of 91",
            "* replies: * cached, 0 live",
        ]
    )
    assert GOOD in README
    assert WORSE in README


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "arguments", "of_test", "of_run"),
    [({}, (), 25, 80), ({"CI": "true"}, (), 25, 80), ({}, ("-q",), 12, 40), ({}, ("-v",), 999, 999)],
    ids=["default", "CI", "-q", "-v"],
)
def test_a_red_build_fits_a_screen(broken, environ, arguments, of_test, of_run):
    """At 80 columns the break has at most 25 lines a test and 80 in all, on CI too; 12 with -q; -v shows all."""
    lines = broken("test_retriever.py", *arguments, environ={"COLUMNS": "80", **environ}).outlines
    ends = [n for n, line in enumerate(lines) if line.endswith(": Failed")]
    starts = [n for n, line in enumerate(lines) if line.startswith("___")]
    assert len(starts) == len(ends) == 2
    lengths = [end - start + 1 for start, end in zip(starts, ends, strict=True)]
    assert max(lengths) <= of_test
    assert len(lines) <= of_run
    # Each lost question once: no question has a block for each score.
    rows = [
        line.split()[0]
        for start, end in zip(starts, ends, strict=True)
        for line in lines[start:end]
        if " → " in line
    ]
    assert len(rows) == len(set(rows)) or arguments == ("-v",)
    if arguments == ("-v",):
        questions = [line for line in lines[starts[0] : ends[0]] if line.startswith("      gold ")]
        assert len(questions) == 51


@pytest.mark.slow
def test_one_line_a_test_with_tb_line(broken):
    lines = broken("--tb=line", "-q", "--junitxml=junit.xml").outlines
    start = next(n for n, line in enumerate(lines) if "= FAILURES =" in line)
    end = next(n for n, line in enumerate(lines) if "= short test summary" in line)
    *tests, suite, remedy = lines[start + 1 : end]
    places = [re.search(r"/(test_\w+\.py:\d+: .*)", line)[1] for line in tests]
    slice_text = "recall@3 where topic='billing' 0.500 < 0.65"
    assert places[-2:] == [
        f"test_retriever.py:8: recall@3 0.593 < 0.85; drop 0.346 > 0.02; ndcg@3 0.535 < 0.8; {slice_text}",
        "test_retriever.py:15: llm_reteval@3 0.286 < 0.4; drop 0.209 > 0.02; answer.correct@3 0.231 < 0.35",
    ]
    assert len(places) == 7
    assert suite.startswith("fail: the suite got worse: ")
    assert remedy == "accept these drops and all other changes: pytest --rageval-update-baseline"
    # Reports in files have the whole failure.
    assert "recall@3 fell from 0.940 to 0.593" in Path("junit.xml").read_text(encoding="utf-8")


def test_its_eval_set_is_checked_and_anchored_in_its_handbook(example, capsys):
    corpus = ("--corpus", "handbook")
    assert main(["evalset", "check", "evals/support.jsonl", *corpus]) == 0
    assert "support.jsonl: 95 examples, 0 errors, 5 notes\n" in capsys.readouterr().out
    assert main(["evalset", "anchor", "evals/support.jsonl", *corpus, "--out", "anchored.jsonl"]) == 0
    assert "91 examples anchored, and 4 without gold passages and answers\n" in capsys.readouterr().out
    golds = [
        gold
        for line in (example / "anchored.jsonl").read_text(encoding="utf-8").splitlines()
        for gold in json.loads(line).get("gold", [])
    ]
    assert len(golds) == 97
    for gold in golds:
        file = (example / "handbook" / gold["source"]).read_text(encoding="utf-8")
        heading, _, body = file[gold["start"] : gold["end"]].partition("\n")
        assert f"{heading}. {' '.join(body.split())}" == gold["text"]
    assert main(["evalset", "check", "anchored.jsonl", *corpus]) == 0


@pytest.mark.slow
def test_a_harmless_change_passes(example, pytester):
    source = example / "support_bot" / "search.py"
    text = source.read_text(encoding="utf-8")
    tokenizer = r're.findall(r"\w+", text.lower())'
    assert text.count(tokenizer) == 1
    other = r're.split(r"\W+", text.lower().strip(" .?!,:;()"))'
    source.write_text(text.replace(tokenizer, other), encoding="utf-8")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["    recall@3: baseline 0.940, no change"])


@pytest.fixture
def agent(example: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent on LangChain, without a key and without its server."""
    pytest.importorskip("langchain_openai")
    folder = example / "langchain_agent"
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("agent")
def test_the_agent_is_green_from_the_shipped_replies(pytester):
    result = run(pytester)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines(["*steps.recall@2 *0.958 *", "24 replies: 24 cached, 0 live"])


@pytest.mark.slow
def test_a_lost_passage_of_the_second_search_turns_the_agent_red(agent, pytester):
    """The index loses a paragraph that only the second search finds. No prompt changes, so that no model is needed."""
    atlas = agent / "atlas.txt"
    text = atlas.read_text(encoding="utf-8")
    atlas.write_text(text.replace("tarn: The Tarn", "tarn-2: The Tarn"), encoding="utf-8")
    result = run(pytester, "--rageval-replay")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "steps.recall@2: 0.917: 1 of 12 questions worse than in the baseline*",
            "  q10 *",
            "* replies: * cached, 0 live",
        ]
    )


@pytest.mark.slow
def test_another_k_inside_the_agent_is_not_green(agent, pytester):
    """The number of passages stands in the agent: its prompts change with it, and a replay has no reply to them."""
    source = agent / "atlas_agent.py"
    source.write_text(
        source.read_text(encoding="utf-8").replace("k: int = 2", "k: int = 1"), encoding="utf-8"
    )
    result = run(pytester, "--rageval-replay")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["A reply of gemma-3-270m is in neither the cache nor a cassette*"])
