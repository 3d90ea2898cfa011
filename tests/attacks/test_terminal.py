"""Foreign texts must not control the terminal, or the CI runner that reads the output of a run.

Attack: the server, the eval set, the passages and the user's retriever contain texts that clear the screen, hide a
link, change the reading direction, or are commands for the runners of GitHub and Azure. Promise: the output of a run
or of a command contains no such text in an effective form; control characters are escaped as in source code.
"""

import ast
import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import pytest_rageval
from pytest_rageval.cli import main
from pytest_rageval.models.cassette import write_cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from tests.integration.conftest import Project
from tests.llm_server import Cut, Fault, LLMServer, Said
from tests.unit.cli.folders import CacheFolder, entry

pytestmark = pytest.mark.slow

COMMANDS = (
    "::add-mask::m ::error file=a.py,line=1::e ##[group]g ##[error]x ##vso[task.setvariable variable=PATH]v "
    "##teamcity[testFailed name='t']"
)
SCREEN = (
    "\x1b[2J\x1b[1;1H \x1b]8;;https://x.example\x07link\x1b]8;;\x07 "
    "\x9b31m \x9d0;title\x9c \x08\x08 \x07 \u202edessap\u2066"
)
HOSTILE = (
    f"evil {SCREEN}{COMMANDS}\n::error::1\r::error::2\x85::error::3\u2028::error::4\n"
    "  ::stop-commands::5\n\t\u3000\u200b::group::6"
)
"""A hostile text that begins with a word, so that tests can check that the text is printed."""

WRAPPED = f"evil {'long ' * 12} ::error::of a line that is wrapped before it and goes on {HOSTILE}"

EVIL = {"text": HOSTILE, "wrapped": WRAPPED}


def _obeyed(printed: str) -> list[str]:
    """Return the lines of an output that a terminal or a CI runner would obey; lines end as in .NET and Python."""
    invisible = {"Cf", "Mn"}
    obeyed = [line for line in printed.split("\n") if any(_steers(character) for character in line)]
    for line in re.split("[\r\n]", printed):
        visible = "".join(character for character in line if unicodedata.category(character) not in invisible)
        if visible.lstrip().startswith("::") or re.search(r"##\w*\[", visible):
            obeyed.append(line)
    return obeyed


def _steers(character: str) -> bool:
    category = unicodedata.category(character)
    return (category in {"Cc", "Cs", "Zl", "Zp"} and character != "\t") or (
        unicodedata.bidirectional(character)
        in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    )


def test_the_search_finds_each_hostile_part() -> None:
    parts = [*SCREEN.split(" "), *re.split(r" (?=#)", COMMANDS), "  ::add-mask::x", "a\r", "\u2028"]
    for part in filter(lambda part: part not in {"", "dessap"}, parts):
        assert _obeyed(part), part
    assert len(_obeyed(HOSTILE)) >= 5
    assert not _obeyed("test_it.py::test_x\n  std::vector ## See [x]\n\ttabs\n")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(pytester, monkeypatch)
    made.evalset(4)
    path = made.path / "evals.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for n, record in enumerate(records, 1):
        record["id"] = f"q{n} {HOSTILE}"
        record["question"] = f"{WRAPPED} What is the code of item-{n}?"
        record["answers"] = [f"{HOSTILE} {n}"]
        record["gold"] = [{"id": f"doc-{n} {HOSTILE}", "text": f"{WRAPPED} {n}"}]
        record["tags"] = {"topic": f"odd {HOSTILE}" if n % 2 else "even", f"tag {HOSTILE}": "x"}
        record["referense"] = HOSTILE
        record[f"goldd {HOSTILE}"] = HOSTILE
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return made


RETRIEVER = """
import pytest

EVIL = {evil!r}

def search(query, k):
    if query == "raise":
        raise RuntimeError(EVIL)
    return [{{"id": f"doc-{{n}} {{EVIL}}", "text": f"{{EVIL}} {{n}}"}} for n in range(k)]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""

TESTS = """
TOPIC = {hostile!r}

@pytest.mark.rageval_threshold("recall@3", min=0.9)
@pytest.mark.rageval_threshold("answer.em@3", min=0.9, by="topic")
@pytest.mark.rageval_threshold("llm_reteval@3", min=0.9, max_drop=0.01)
@pytest.mark.rageval_threshold("answer.f1@3", max=-0.0, where={{"topic": "odd " + TOPIC}})
def test_thresholds(): pass

@pytest.mark.rageval_threshold("recall@3", min=0.9, where={{"topic": TOPIC}})
def test_no_such_slice(): pass

@pytest.mark.rageval_threshold("recall" + TOPIC, min=0.9)
def test_no_such_score(): pass

@pytest.mark.rageval_threshold("recall@3", min=0.9, comparator=TOPIC)
def test_no_such_comparator(): pass

def test_score(rageval):
    assert rageval.score("recall@3") > 0.5

def test_ranking(rageval):
    assert "kb" in rageval.retrieve("a " + TOPIC, k=2)

def test_retriever_raises(rageval):
    rageval.retrieve("raise", k=2)

def test_answer(rageval):
    rageval.answer("fault", k=2)

def test_complete(rageval_llm):
    rageval_llm.complete("fault 404", model="m " + TOPIC)

def test_parameter(rageval_llm):
    rageval_llm.complete([{{"role": TOPIC}}, TOPIC])

def test_unscored(rageval):
    rageval.score("answer.em@2")
    raise RuntimeError("mine") from None
"""


def _says(prompt: str) -> Said:
    """Reply with hostile answers, verdicts and errors, each for another question."""
    if "fault 404" in prompt:
        return Fault(404, message=HOSTILE)
    if "fault" in prompt or "item-2" in prompt:
        return Fault(400, message=WRAPPED)
    if "item-3" in prompt:
        return Cut("", finish_reason="stop", refusal=HOSTILE)
    return HOSTILE


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize(
    "options",
    [
        ["-vv", "-rA", "--tb=long", "--rageval=max_unscored=1"],
        ["-q", "--tb=short", "--rageval=max_unscored=1"],
        ["--tb=native", "--full-trace"],
        ["--tb=line"],
        ["--tb=no", "-rA", "--rageval-record", "--rageval-cassette=tape.jsonl", "--rageval-update-baseline"],
        ["--rageval-plan"],
    ],
    ids=" ".join,
)
def test_a_run_prints_no_control_sequences_or_ci_commands(project, options, text):
    """Failures, errors, tables, warnings and plans quote hostile texts only in escaped form."""
    project.pytester.makeconftest(RETRIEVER.format(evil=EVIL[text]))
    project.test(TESTS.format(hostile=HOSTILE))
    with LLMServer(_says) as llm:
        project.use(llm)
        result = project.run(*options, "--rageval=retries=0")
    printed = f"{result.stdout}\n{result.stderr}"
    assert not _obeyed(printed)
    assert printed.count("evil") >= {"--rageval-plan": 0, "--tb=no": 2}.get(options[0], 10)
    if options != ["--rageval-plan"]:
        assert r"\u001b[2J" in printed


@pytest.mark.parametrize("text", EVIL)
def test_annotations_are_the_only_commands_and_quote_none(project, monkeypatch, text):
    """Each annotation is one command for the GitHub runner, and its decoded parts contain no further command."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path))
    project.pytester.makeconftest(RETRIEVER.format(evil=EVIL[text]))
    project.test(TESTS.format(hostile=HOSTILE))
    with LLMServer(_says) as llm:
        project.use(llm)
        result = project.run("--rageval=retries=0", "--rageval=max_unscored=1")
    obeyed = _obeyed(f"{result.stdout}\n{result.stderr}")
    assert len(obeyed) >= 10
    for line in obeyed:
        match = re.fullmatch(r"::(?:error|warning) file=test_it\.py,line=\d+,title=([^,:]+)::(.*)", line)
        assert match, line
        assert not any(_obeyed(f"x{unquote(part)}") for part in match.groups())
    assert sum("evil" in line for line in obeyed) >= 8


def test_names_of_models_and_files_are_printed_without_control_sequences(project: Project) -> None:
    project.test("def test_it(rageval): rageval.score('llm_reteval@3')\n")
    with LLMServer(_says) as llm:
        project.use(llm)
        result = project.run(f"--rageval-model=m {HOSTILE}", f"--rageval-report=x {SCREEN}/none/r.md")
        bad = project.run(f"--rageval=concurrency={HOSTILE}")
        missing = project.run(f"--rageval=prompts={HOSTILE}")
    assert not _obeyed(
        f"{result.stdout}{result.stderr}{bad.stdout}{bad.stderr}{missing.stdout}{missing.stderr}"
    )
    assert r"generator m evil \u001b[2J" in str(result.stdout)


Command = Callable[..., str]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        with contextlib.suppress(SystemExit):
            main([*map(str, arguments)])
        return "".join(capsys.readouterr())

    return run


def _hostile_entries() -> Iterator[Entry]:
    yield entry(1, model=HOSTILE, summary={"model": f"m {HOSTILE}", "base_url": f"http://x/{HOSTILE}"})
    yield entry(2, model=WRAPPED, summary={})
    yield Entry("k", Reply(HOSTILE, HOSTILE), {"model": HOSTILE})


@pytest.mark.parametrize(
    "arguments",
    [
        "info",
        "info --json",
        "export out.jsonl",
        "export out.jsonl --model none",
        "verify",
        "verify --repair",
        "prune --model none",
    ],
)
def test_cache_commands_print_no_control_sequences(command: Command, tmp_path: Path, arguments: str) -> None:
    cache = CacheFolder(tmp_path / "cache")
    cache.put(_hostile_entries())
    cache.sql("UPDATE replies SET text = 'other', key = ? WHERE key = 'k'", f"k {HOSTILE}")
    printed = command("cache", "--cache-dir", "cache", *arguments.split())
    assert "evil" in printed
    assert not _obeyed(printed)
    if "--json" in arguments:
        assert {use["model"] for use in json.loads(printed)["models"]} >= {f"m {HOSTILE}", WRAPPED}


def test_messages_about_a_cassette_contain_no_escape_sequences(command: Command, tmp_path: Path) -> None:
    tape = tmp_path / f"tape {SCREEN.replace('/', '')}.jsonl"
    write_cassette(tape, _hostile_entries())
    lines = [json.dumps({"key": HOSTILE}), json.dumps({"key": "k", "text": [HOSTILE], "model": "m"}), HOSTILE]
    with tape.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    printed = command("cache", "verify", tape) + command("cache", "--cache-dir", "new", "import", tape)
    assert r"\u001b" in printed
    assert not _obeyed(printed)


def _evalset_records() -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{n} {HOSTILE}",
            "question": HOSTILE if n < 3 else f"{n} {WRAPPED}",
            "answers": [HOSTILE],
            "gold": [{"id": f"d {HOSTILE}", "text": WRAPPED}],
            "tags": {HOSTILE: HOSTILE},
            "anwers": HOSTILE,
        }
        for n in range(1, 5)
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        "check evals.jsonl",
        "check evals.jsonl --json",
        "check evals.jsonl --corpus corpus.jsonl",
        "check broken.jsonl",
        "anchor evals.jsonl --corpus corpus.jsonl --out new.jsonl",
    ],
)
def test_evalset_commands_print_no_control_sequences(command, tmp_path, arguments):
    corpus = [{"id": f"d {HOSTILE}", "text": HOSTILE}, {"id": "e", "text": WRAPPED}]
    broken = [{"id": HOSTILE, "question": 3, HOSTILE: HOSTILE}]
    for name, records in (("evals", _evalset_records()), ("corpus", corpus), ("broken", broken)):
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    printed = command("evalset", *arguments.split())
    assert printed
    assert not _obeyed(printed)
    if "--json" in arguments:
        assert f"q1 {HOSTILE}" in str(json.loads(printed)) or json.loads(printed)


def test_the_judge_command_prints_no_control_sequences(command, tmp_path, monkeypatch):
    labels = [
        {
            "id": f"l{n} {HOSTILE}",
            "question": HOSTILE,
            "references": [WRAPPED],
            "prediction": f"{n} {HOSTILE}",
            "human": [bool(n % 2)],
        }
        for n in range(4)
    ]
    (tmp_path / "labels.jsonl").write_text(
        "".join(f"{json.dumps(label)}\n" for label in labels), encoding="utf-8"
    )
    with LLMServer(lambda _: HOSTILE) as llm:
        monkeypatch.setenv("OPENAI_BASE_URL", llm.url)
        printed = command("judge", "labels.jsonl", "--model", f"m {HOSTILE}")
    assert "evil" in printed
    assert not _obeyed(printed)


PRINTING = {
    *("plugin/terminal.py", "plugin/settings_command.py", "cli/console.py"),
    "extensions/providers/embedded_server.py",  # a process of its own, which prints its address
}
"""The modules that may print."""


def test_there_is_one_way_to_print() -> None:
    """No other module prints: the plugin and the commands print only through the functions that escape texts."""
    package = Path(pytest_rageval.__file__).parent
    calls = {
        f"{name}: {ast.unparse(node)[:60]}"
        for path in package.rglob("*.py")
        if (name := path.relative_to(package).as_posix()) not in PRINTING
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and re.search(
            r"^(print|warnings\.warn|pytest\.(fail|skip|exit|xfail)|sys\.std(out|err)\.write|\w*reporter\.(line|write\w*))$",
            ast.unparse(node.func),
        )
    }
    assert calls == set()
