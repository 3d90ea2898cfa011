"""`rageval gate`: a test in no file, by the real pytest."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_rageval.cli import main
from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT
from tests.unit.extensions.remote_retrievers.search_server import PASSAGES, SearchServer, found

EXAMPLE = ROOT / "example_project"

QUESTIONS = {
    "kb-1": "How many days do refunds take?",
    "kb-2": "Where are passwords reset?",
    "kb-3": "How long do parcels to Norway take?",
}

Gate = Callable[..., pytest.RunResult]


@pytest.fixture
def server(
    pytester: pytest.Pytester,  # noqa: ARG001 - it removes the variable
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SearchServer]:
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(WITHOUT))
    with SearchServer() as server:
        yield server


@pytest.fixture
def gate(pytester: pytest.Pytester, server: SearchServer) -> Gate:
    rows = [
        {"id": f"q{n}", "question": question if n < 4 else f"{question} {n}", "gold": [{"id": name}]}
        for n in range(10)
        for name, question in QUESTIONS.items()
    ]
    pytester.mkdir("evals").joinpath("questions.jsonl").write_text(
        "".join(f"{json.dumps({**row, 'id': f'q{n}'})}\n" for n, row in enumerate(rows)), encoding="utf-8"
    )

    def run(*arguments: str, retriever: str = "") -> pytest.RunResult:
        own = ["evals/questions.jsonl", "--retriever", retriever or server.url, "--score", "recall@1"]
        own += [] if retriever else ["--documents", "hits[*].source"]
        return pytester.run(sys.executable, "-m", "pytest_rageval", "gate", *own, *arguments)

    return run


def _files(folder: Path) -> set[str]:
    paths = (
        path for path in folder.rglob("*") if path.is_file() and "cache" not in str(path.relative_to(folder))
    )
    return {path.relative_to(folder).as_posix() for path in paths} - {"stdout", "stderr"}


@pytest.mark.slow
def test_a_project_in_which_warnings_are_errors(pytester: pytest.Pytester, gate: Gate) -> None:
    """No command that runs pytest lets it warn that the package is imported already."""
    # As pytest does for the packages of all plugins that are installed from a wheel.
    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('pytest_rageval')\n")
    pytester.makeini("[pytest]\nfilterwarnings = error::pytest.PytestAssertRewriteWarning\n")
    done = gate("--min", "0.9", "--", "-q")
    assert (done.ret, done.outlines[-1].partition(" in ")[0]) == (0, "1 passed"), done.outlines


@pytest.mark.slow
def test_green_red_and_accepted(pytester: pytest.Pytester, gate: Gate, server: SearchServer) -> None:
    """The same verdicts, baseline, reports and exit statuses as of a test in a file; nothing else is written."""
    green = gate("--min", "0.9", "--", "-v")
    assert green.ret == pytest.ExitCode.OK
    green.stdout.fnmatch_lines(
        [
            "evals/questions.jsonl::gate PASSED*",
            "*evals/questions.jsonl::gate  (questions.jsonl, 30)",
            "  pass     recall@1  1.000  * 0.9  30*",
            "*1 passed in*",
        ]
    )
    assert _files(pytester.path) == {"evals/questions.jsonl"}
    assert gate("--max-drop", "0.02", "--update-baseline").ret == pytest.ExitCode.OK
    baseline = pytester.path / "rageval_baseline.json"
    assert set(json.loads(baseline.read_text(encoding="utf-8"))["tests"]) == {"evals/questions.jsonl::gate"}

    def worse(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        hits = found(body["query"], 3)["hits"]
        return 200, {}, json.dumps({"hits": hits[::-1] if body["query"].endswith("?") else hits})

    good, server.answer = server.answer, worse
    red = gate("--max-drop", "0.02", "--", "--rageval-report", "report.md", "--rageval-report", "report.json")
    assert red.ret == pytest.ExitCode.TESTS_FAILED
    accept = "rageval gate evals/questions.jsonl … --update-baseline"
    red.stdout.fnmatch_lines(
        [
            "recall@1 fell from 1.000 to 0.600 (allowed 0.02): 12 of 30 questions worse, 0*",
            f"accept this drop and all other changes: {accept}",
            "evals/questions.jsonl:1: Failed",
            "FAILED evals/questions.jsonl::gate - recall@1 drop 0.400 > 0.02",
        ]
    )
    assert accept in (pytester.path / "report.md").read_text(encoding="utf-8")
    [test] = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["tests"]
    assert (test["nodeid"], test["outcome"]) == ("evals/questions.jsonl::gate", "failed")

    assert gate("--max-drop", "0.02", "--update-baseline").ret == pytest.ExitCode.OK
    assert gate("--max-drop", "0.02").ret == pytest.ExitCode.OK

    server.answer = good
    gate("--max-drop", "0.02").stdout.fnmatch_lines([f"*recall@1 gained 0.400*; lock it in: {accept}"])


@pytest.mark.slow
def test_a_changed_request_is_named_and_compared(pytester, gate, server):
    """It may be what is tested: it does not make the baseline stale. The baseline has no secrets."""
    server.answer = lambda _, body: (200, {}, json.dumps(found(body["query"], body["k"])))
    body = '{"query": "{query}", "k": "{k}", "api_key": "12345678", "mode": "%s"}'
    assert gate("--max-drop", "0.02", "--update-baseline", "--body", body % "exact").ret == pytest.ExitCode.OK
    baseline = pytester.path.joinpath("rageval_baseline.json").read_text(encoding="utf-8")
    assert "exact" in baseline
    assert "12345678" not in baseline
    same = gate("--max-drop", "0.02", "--body", (body % "exact").replace("12345678", "87654321"))
    same.stdout.no_fnmatch_line("*since the baseline*")
    changed = gate("--max-drop", "0.02", "--body", body % "fast")
    assert changed.ret == pytest.ExitCode.OK
    changed.stdout.fnmatch_lines(["*since the baseline: body was *exact*, and is *fast*"])
    gate("--max-drop", "0.02", "--update-baseline").stdout.no_fnmatch_line("*since the baseline*")


@pytest.mark.slow
def test_a_program_settings_and_fixtures_of_the_folder(pytester: pytest.Pytester, gate: Gate) -> None:
    """conftest.py and the ini file hold; workers of xdist are not needed."""
    # As pytest does for the packages of all plugins that are installed from a wheel.
    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('pytest_rageval')\n")
    pytester.makeini("[pytest]\nrageval_match_share = 0.6\n")
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef rageval_generator():\n"
        "    return lambda question, passages: passages[0].text\n"
        "@pytest.fixture\ndef rageval_retriever():\n    raise AssertionError\n"
    )
    program = pytester.makepyfile(search=(
        f"import json, sys\nPASSAGES = {PASSAGES!r}\nfor line in sys.stdin:\n    body = json.loads(line)\n"
        "    words = set(body['query'].lower().split())\n"
        "    key = lambda name: -len(words & set(PASSAGES[name].lower().strip('.').split()))\n"
        "    names = sorted(PASSAGES, key=key)[:body['k']]\n"
        "    rows = [{'key': name, 'text': PASSAGES[name]} for name in names]\n"
        "    print(json.dumps({'id': body['id'], 'rows': rows}), flush=True)\n"
    ))  # fmt: skip
    result = gate(
        "--min", "0.9", "--documents", "rows", "--id", "key", "--", "-n", "2", "--rageval-report", "r.json",
        retriever=f"{sys.executable} {program.name}",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    document = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))
    assert document["settings"]["match_share"] == 0.6


@pytest.mark.slow
@pytest.mark.usefixtures("node")
def test_the_example_in_typescript(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the step of its workflow it is green, red after one line of it changed, and green after that is accepted."""
    workflow = (EXAMPLE / "typescript" / "workflow.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "any-language.md").read_text(encoding="utf-8")
    assert f"```yaml\n# .github/workflows/search.yml\n{workflow}```" in page
    (step,) = (
        step["run"]
        for step in yaml.safe_load(workflow)["jobs"]["gate"]["steps"]
        if "gate" in step.get("run", "")
    )
    arguments = shlex.split(step.partition("rageval gate ")[2])
    folder = pytester.path / "typescript"
    shutil.copytree(EXAMPLE / "handbook", pytester.path / "handbook")
    shutil.copytree(EXAMPLE / "typescript", folder)
    monkeypatch.chdir(folder)
    run = partial(pytester.run, sys.executable, "-m", "pytest_rageval", "gate")
    assert run(*arguments).ret == pytest.ExitCode.OK
    source = folder / "search.ts"
    good = source.read_text(encoding="utf-8")
    source.write_text(
        good.replace("const terms = tokenize(query);", 'const terms = query.split(" ");'), encoding="utf-8"
    )
    red = run(*arguments)
    assert red.ret == pytest.ExitCode.TESTS_FAILED
    red.stdout.fnmatch_lines(["recall@3 fell from 0.918 to 0.632*"])
    assert "0.632" in (folder / "rageval.md").read_text(encoding="utf-8")
    assert run("--update-baseline", *arguments).ret == pytest.ExitCode.OK
    assert run(*arguments).ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_a_folder_is_an_eval_set_too(pytester: pytest.Pytester, server: SearchServer) -> None:
    """Its files are not collected: as those of BEIR."""
    folder = pytester.mkdir("beir")
    corpus = [{"_id": name, "text": text} for name, text in PASSAGES.items()]
    queries = [{"_id": name, "text": question} for name, question in QUESTIONS.items()]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "qrels").mkdir()
    lines = ["query-id\tcorpus-id\tscore", *(f"{name}\t{name}\t1" for name in QUESTIONS)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines), encoding="utf-8")
    result = pytester.run(
        sys.executable, "-m", "pytest_rageval", "gate", "beir", "--retriever", server.url,
        "--documents", "hits[*].source", "--score", "mrr@3", "--min", "0.9", "--", "-v",
    )  # fmt: skip
    result.stdout.fnmatch_lines(["beir::gate PASSED*"])
    assert len(server.requests) == len(QUESTIONS)


@pytest.mark.slow
def test_a_retriever_that_fails_is_an_error(gate: Gate, server: SearchServer) -> None:
    server.answer = lambda *_: (200, {}, '{"hits": [{"sorce": 1}]}')
    result = gate("--min", "0.9")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    problem = "documents='hits[[]*].source': hits[[]0] of the reply has no 'source': it has sorce"
    result.stdout.fnmatch_lines([f"rageval_retriever raised for *ValueError: {problem}", "*1 error in*"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "rageval gate has no bound.\nGive one: --min, --max, --max-drop, --max-lost."),
        (["--min", "0.5", "--body", "{"], "--body is no JSON: "),
        (["--min", "0.5", "--header", "tok-12345678"], "--header is NAME:VALUE, such as"),
        (
            ["--min", "0.5", "--header", "A: ${MISSING}"],
            "headers['A'] needs the environment variable MISSING",
        ),
        (["--min", "0.5", "--retriever", "no-such-program x"], "there is no program 'no-such-program'"),
        (
            ["--min", "0.5", "--retriever", "ls", "--method", "GET"],
            "--method is of a request, and --retriever ls is a",
        ),
        (["--min", "0.5", "--retriever", "http:///x"], "cannot be used: expected a URL that begins with"),
    ],
)
def test_what_cannot_be_used_is_an_error(tmp_path, capsys, arguments, problem):
    evalset = tmp_path / "q.jsonl"
    evalset.write_text("{}", encoding="utf-8")
    own = ["gate", str(evalset), "--score", "recall@1", "--retriever", "http://localhost/"]
    assert main([*own, *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert "tok-12345678" not in error


def test_a_missing_eval_set_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--score", "recall@1", "--retriever", "http://localhost/", "--min", "1"]
    assert main(["gate", "no.jsonl", *arguments]) == 2
    assert "There is no eval set no.jsonl." in capsys.readouterr().err
