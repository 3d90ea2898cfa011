"""`rageval why`: the table of factors, and runs of pytest with some of them reverted."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.why.command import Key, Run, _explained, _lines, runs_of
from pytest_rageval.extensions.why.plugin import factors_of
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer

pytestmark = pytest.mark.filterwarnings("ignore:.*asyncio_default_fixture_loop_scope")

CONFTEST = """
import pytest

rageval_factors = {"chunk_size": (400, 800), "embedder": ("e5", "bge"), "reranker": (True, False)}


@pytest.fixture(scope="session")
def rageval_retriever(rageval_factor):
    kept = 54 if rageval_factor["chunk_size"] == 400 else 42
    return lambda query: [{"id": query if int(query[1:]) < kept else "other"}]
"""
TEST = """
import pytest

QUESTIONS = [{"id": f"q{n}", "question": f"d{n}", "gold": [{"id": f"d{n}"}]} for n in range(60)]


@pytest.mark.rageval_evalset(QUESTIONS)
@pytest.mark.rageval_threshold("recall@1", min=0.5)
@pytest.mark.rageval_threshold("ndcg@3", max_drop=0.02)
@pytest.mark.rageval_threshold("latency.p95@3", max=9)
def test_found():
    pass
"""
NODEID = "test_it.py::test_found"


def why(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_rageval", "why", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": " ".join(WITHOUT)},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def write(folder: Path, conftest: str = CONFTEST, test: str = TEST, ini: str = "") -> None:
    for name, text in (("conftest.py", conftest), ("test_it.py", test), ("pytest.ini", f"[pytest]\n{ini}")):
        (folder / name).write_text(text, encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_one_of_three_factors_matters_and_nothing_is_written(tmp_path: Path) -> None:
    """The project's own configuration writes reports, a history and a cassette, and stops at the first failure."""
    project, result = tmp_path / "project", tmp_path / "why.json"
    project.mkdir()
    ini = (
        "addopts = -x --rageval-report own.json --junitxml=own.xml --rageval-record --rageval-cassette own.jsonl\n"
        "rageval_history = history.jsonl\nrageval_report = own.md\n"
    )
    write(project, ini=ini)
    (project / "own.jsonl").touch()
    before = contents(project)
    status, output, errors = why(project, "--json", str(result), "--score", "recall@1", "test_it.py", "-q")
    assert (status, errors) == (0, "")
    assert contents(project) == before
    assert output.startswith("3 factors, 8 runs of pytest\n  before: recall@1 0.900, ndcg@3 0.900\n")
    assert "  chunk_size, embedder before: recall@1 0.900, ndcg@3 0.900\n" in output
    assert "  embedder, reranker before: recall@1 0.700, ndcg@3 0.700\n" in output
    [score] = json.loads(result.read_bytes())["scores"]
    low, high = score["change"][1:]
    assert low < -0.2 < high < 0
    assert score["change"] == score["shares"]["chunk_size"]
    assert score["changed"] == {"chunk_size": 12, "embedder": 0, "reranker": 0}
    assert (
        f"  chunk_size (400 → 800) explains -0.200 of -0.200 [{low:.3f}, {high:.3f}], 12 questions" in output
    )


@pytest.mark.slow
def test_a_run_pays_only_for_passages_that_no_run_before_had(tmp_path, monkeypatch):
    """Four runs, in two of which 15 of 60 questions get other passages."""
    conftest = """
        import pytest

        rageval_factors = {"kept": (60, 45), "reranker": (True, False)}

        @pytest.fixture(scope="session")
        def rageval_retriever(rageval_factor):
            def search(query):
                n = int(query[:-1].split("-")[1])
                return [{"id": n, "text": f"item-{n} has the code X{n}" if n < rageval_factor["kept"] else "nothing"}]
            return search
    """
    test = """
        import pytest

        QUESTIONS = [{"id": n, "question": f"Which code has item-{n}?", "reference": f"X{n}"} for n in range(60)]

        @pytest.mark.rageval_evalset(QUESTIONS)
        @pytest.mark.rageval_threshold("answer.em@1", min=0.5)
        def test_found():
            pass
    """
    write(tmp_path, dedent(conftest), dedent(test), "rageval_model = clerk\n")
    with LLMServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        status, output, errors = why(tmp_path)
    assert (status, errors) == (0, "")
    assert "\n  kept (60 → 45) explains -0.250 of -0.250 [" in output
    assert len(server.requests) == 60 + 15


@pytest.mark.slow
def test_a_run_that_pytest_cannot_end_is_shown(tmp_path: Path) -> None:
    write(tmp_path)
    status, output, errors = why(tmp_path, "--", "test_other.py")
    assert (status, output) == (2, "")
    assert "A run of pytest ended with status 4, before all tests had run:" in errors
    assert "    ERROR: file or directory not found: test_other.py\n" in errors
    assert errors.endswith("Repeat it with: pytest test_other.py --rageval factors_before=all\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("-n1",)])
def test_without_factors_no_test_runs(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write(tmp_path, conftest="", test="def test_it():\n    open('it_ran', 'w')\n")
    status, output, errors = why(tmp_path, *arguments)
    assert (status, output) == (2, "")
    assert errors.startswith(
        "There are no factors. Write their values before and after the change into the conftest.py"
    )
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.slow
def test_a_score_that_a_run_lacks_is_named_with_the_reason(tmp_path: Path) -> None:
    """The reranker cannot be left out; with pytest-xdist, whose workers load the conftest.py of a folder."""
    folder = tmp_path / "tests"
    folder.mkdir()
    conftest = CONFTEST.replace(
        "    kept", '    assert rageval_factor["reranker"], "no such index"\n    kept'
    )
    write(folder, conftest.replace('"embedder": ("e5", "bge"), ', ""))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -n1\n")
    status, output, errors = why(tmp_path, "--score", "recall@1")
    assert status == 2
    assert "  after: no score\n" in output
    assert errors.startswith(
        f"recall@1 of tests/{NODEID} cannot be explained: it has no value in the run 'after': "
    )
    assert "no such index" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ((), "800 bge False"),
        (("--rageval", "factors_before=reranker,chunk_size"), "400 bge True"),
        (("--rageval", "factors_before=all"), "400 e5 True"),
    ],
)
def test_an_ordinary_run_has_the_values_after(pytester, option, expected):
    write(pytester.path, test="def test_it(rageval_factor):\n    print(*rageval_factor.values())\n")
    result = pytester.runpytest_inprocess(*WITHOUT, "-s", *option)
    result.assert_outcomes(passed=1)
    assert expected in result.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conftest", "option", "expected"),
    [
        (
            CONFTEST,
            ("--rageval", "factors_before=chunksize"),
            "no factor 'chunksize'. Did you mean chunk_size?",
        ),
        (
            CONFTEST.replace("rageval_factors =", "x ="),
            ("--rageval", "factors_before=all"),
            "There are no factors. Write their values",
        ),
        (
            CONFTEST.replace('factor["chunk', 'factor["chunks'),
            (),
            "There is no factor 'chunks_size'. Did you mean",
        ),
        (CONFTEST.replace("(400, 800)", "400"), (), "chunk_size is 400, and must be two values"),
    ],
)
def test_a_mistake_is_an_error_of_each_test_with_the_fixture(pytester, conftest, option, expected):
    write(pytester.path, conftest)
    result = pytester.runpytest_inprocess(*WITHOUT, *option)
    result.assert_outcomes(errors=1)
    assert expected in result.stdout.str()


def _config(**tables: object) -> Any:
    modules: list[object] = [object()]
    for name, table in tables.items():
        module = ModuleType(name)
        vars(module).update(__file__=f"/{name}/conftest.py", rageval_factors=table)
        modules.append(module)
    return SimpleNamespace(pluginmanager=SimpleNamespace(get_plugins=lambda: modules))


def test_the_tables_of_all_files_are_joined() -> None:
    found = factors_of(_config(b={"x": [1, 2]}, a={"y": ("\n", None)}))
    assert {name: factor.texts for name, factor in found.items()} == {"y": ["'\\n'", "None"], "x": ["1", "2"]}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": {"x": (1, 2)}, "b": {"x": (1, 2)}}, "have the factor 'x'; one is in /b/conftest.py"),
        ({"a": {"x": (1, 1)}}, "/a/conftest.py: x is 1 before and after. Take it out"),
        ({"a": {"x": (1, 2, 3)}}, r"x is \(1, 2, 3\), and must be two values, before and after"),
        ({"a": {"x": "ab"}}, "x is 'ab', and must be two values"),
        ({"a": [("x", 1, 2)]}, "/a/conftest.py is of type list, and must be a table: rageval_factors = "),
        ({"a": {"x y": (1, 2)}}, "has the name 'x y': expected a word such as chunk_size, and not 'all'"),
        ({"a": {"all": (1, 2)}}, "has the name 'all'"),
        ({"a": {1: (1, 2)}}, "has the name 1"),
    ],
)
def test_a_table_that_cannot_be_used(tables: Mapping[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        factors_of(_config(**tables))


def _reports(factors: list[str], values: Mapping[str, Sequence[float | None]]) -> dict[Run, Any]:
    """Return reports in which a run has the values of the first factor that it has after the change, or of ""."""
    reports: dict[Run, Any] = {}
    for run in runs_of(factors):
        scores = values[next((name for name in factors if name in run and name in values), "")]
        examples = [{"id": f"q{n}", "score": score} for n, score in enumerate(scores)]
        entry: dict[str, Any] = {"spec": "recall@5", "where": {}, "examples": examples, "reason": None}
        reports[run] = {"tests": [{"nodeid": "t", "scores": [entry]}]}
    return reports


KEY = Key("t", "recall@5")


def test_of_many_factors_each_is_reverted_alone() -> None:
    factors = [*"abcde"]
    score = _explained(KEY, _reports(factors, {"": [1.0] * 60, "c": [1.0] * 40 + [0.0] * 20}), factors)
    assert (score.before, score.n) == (1, 60)
    assert score.shares["c"].mean == pytest.approx(-1 / 3)
    assert [score.changed[name] for name in factors] == [0, 0, 20, 0, 0]
    assert score.interaction.mean == 0
    lines = [*_lines(score, {name: ["0", "1"] for name in factors})]
    assert lines[0].startswith("recall@5 of t fell from 1.000 to 0.667: -0.333 [")
    assert lines[1].startswith("  c (0 → 1) explains -0.333 of -0.333 [")
    assert lines[-1] == "  interaction, the rest: nothing that could be shown"


def test_two_factors_that_each_lose_the_same_questions_have_an_interaction() -> None:
    """Neither is back if one alone is reverted: each has half of the loss, and all of it is interaction."""
    lost = [1.0] * 40 + [0.0] * 20
    score = _explained(KEY, _reports(["a", "b"], {"": [1.0] * 60, "a": lost, "b": lost}), ["a", "b"])
    assert score.shares["a"].mean == score.shares["b"].mean == pytest.approx(-1 / 6)
    assert score.interaction.mean == score.change.mean
    last = [*_lines(score, {name: ["0", "1"] for name in "ab"})][-1]
    assert last.startswith("  interaction, shared by the factors above: -0.333 [")


def test_a_rise_that_chance_could_explain() -> None:
    score = _explained(KEY, _reports(["a"], {"": [0.0] * 30, "a": [1.0] + [0.0] * 29}), ["a"])
    first, second = _lines(score, {"a": ["1", "2"]})
    assert first.endswith("30 questions, which chance could explain")
    assert second.startswith("  a (1 → 2): nothing that could be shown, +0.033 [-0.")
    assert second.endswith("], 1 question changed")


@pytest.mark.parametrize("missing", [3, 4])
def test_questions_without_a_value_are_left_out_and_too_many_are_an_error(missing: int) -> None:
    after = [None] * missing + [0.5] * (30 - missing)
    reports = _reports(["a"], {"": [1.0] * 30, "a": after})
    if missing == 4:
        with pytest.raises(
            InputError, match=r"4 of 30 questions lack a value in a run, and at most 10% may: q0, q1"
        ):
            _explained(KEY, reports, ["a"])
        return
    score = _explained(KEY, reports, ["a"])
    assert (score.n, score.missing, score.change.mean) == (27, 3, -0.5)
    assert "  3 questions without a value in a run: left out" in _lines(score, {"a": ["1", "2"]})
