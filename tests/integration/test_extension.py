"""`pytest_rageval_register`: another package adds scores, measures, comparators, adapters and reports."""

import os

import pytest

pytestmark = pytest.mark.slow

PACKAGE = '''
from pytest_rageval.core.outcome import Evidence, Outcome


class Library:
    """A retriever of a kind that nobody knows."""

    def find(self, text, limit):
        number = text.split("item-")[1].rstrip("?")
        return [{"id": f"doc-{number}", "text": f"Of all things, item-{number} has the code c{number}x."}]


class Lenient:
    async def compare(self, question, references, prediction):
        return 1.0


async def evaluate_length(run, examples, terms):
    """The length of what was retrieved."""
    outcomes = []
    for example in examples:
        ranking = await run.ranking(example.question, terms.k)
        outcomes.append(Outcome(example, len(ranking) / terms.k, None, Evidence(ranking)))
    return outcomes


def first_letter(prediction, references):
    return float(any(prediction[:1] == reference[:1] for reference in references))


def pytest_rageval_register(registry):
    registry.add_score("fill", evaluate_length)
    registry.add_answer_measure("initial", first_letter)
    registry.add_comparator("lenient", Lenient())
    registry.add_retriever_adapter(
        lambda it: isinstance(it, Library), lambda library: lambda query, k: library.find(query, limit=k)
    )
'''

TESTS = """
@pytest.mark.rageval_threshold("fill@2", min=0.5, max=0.5)
@pytest.mark.rageval_threshold("answer.initial@1", min=1)
@pytest.mark.rageval_threshold("answer.correct@1", min=1, comparator="lenient and initial")
@pytest.mark.rageval_threshold("erag.p@1", min=1, label="initial>=0.5")
def test_gate(): pass
"""

CONFTEST = """
import pytest
from shelves import Library

@pytest.fixture(scope="session")
def rageval_retriever():
    return Library()

@pytest.fixture(scope="session")
def rageval_generator():
    return lambda question, passages: passages[0].text.split()[-1].rstrip(".")
"""


def _install(project, monkeypatch, module=PACKAGE):
    site = project.path / "site"
    site.mkdir()
    (site / "shelves.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    project.pytester.makeconftest(CONFTEST)
    project.arguments += ["-p", "shelves"]


def test_another_package_adds_each_kind(project, monkeypatch):
    _install(project, monkeypatch)
    project.arguments = project.arguments[:-2]
    metadata = project.path / "site" / "pytest_shelves-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-shelves\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\nshelves = shelves\n")
    monkeypatch.setenv("PYTHONPATH", str(project.path / "site"), prepend=os.pathsep)
    project.test(TESTS)
    project.run_process(passed=1, shows=["plugins: *shelves-1.0*", "  pass     fill@2 *0.500  ≥ 0.5 ≤ 0.5 *"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("add_score('recall', print)", "There is a score 'recall' already. Choose another name."),
        ("add_score('recall@5', print)", "add_score('recall@5'): a score is added without its cut-off."),
        ("add_answer_measure('f1', print)", "There is a score 'answer.f1' already. Choose another name."),
        (
            "add_report('pdf', str)",
            "add_report('pdf'): expected the suffix of a file, such as '.xml', or a scheme, such as 'mlflow:'.",
        ),
    ],
)
def test_a_name_that_cannot_be_added_is_an_error(project, monkeypatch, call, message):
    _install(project, monkeypatch, f"{PACKAGE}    registry.{call}\n")
    project.test(TESTS)
    result = project.run()
    assert result.parseoutcomes().get("errors") == 1
    result.stdout.fnmatch_lines([message, "  *shelves.py:* in pytest_rageval_register"], consecutive=True)
    result.stdout.no_fnmatch_line("*pluggy*.py:*")
    result.stdout.no_fnmatch_line("*registry.py:*")


REPORTS = """
class Library: pass

def pytest_rageval_register(registry):
    registry.add_report(".txt", lambda document: "\\n".join(test["nodeid"] for test in document["tests"]))
    registry.add_report(".md", lambda document: f"schema {document['schema']}")
    registry.add_report(".bad", lambda document: document["nothing"])
"""


def test_another_package_writes_reports(project, monkeypatch):
    _install(project, monkeypatch, REPORTS)
    project.pytester.makeconftest(
        "import pytest\n@pytest.fixture\ndef rageval_retriever(): return lambda query, k: []\n"
    )
    project.test(
        "def test_own(rageval): assert rageval.examples\ndef test_bad(rageval): assert not rageval.examples"
    )
    suffixes = ("bad", "txt", "md", "json")
    project.run(
        *(f"--rageval-report=out.{suffix}" for suffix in suffixes),
        passed=1,
        failed=1,
        shows=[
            "report: *out.txt",
            "report: *out.md",
            "The report *out.bad cannot be written: KeyError: 'nothing'.",
        ],
    )
    assert (project.path / "out.txt").read_text(encoding="utf-8") == "test_it.py::test_bad"
    assert (project.path / "out.md").read_text(encoding="utf-8") == "schema 1"
    assert (project.path / "out.json").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("", "ERROR: --rageval-report is 'out.pdf': expected * of one of these kinds: .bad, *.txt, otlp:."),
        # The error of a plugin is reported by the tests, not here.
        (
            "add_report('pdf', str)",
            "ERROR: --rageval-report is 'out.pdf': expected a file name or an address of*",
        ),
    ],
)
def test_an_unknown_kind_of_report_is_refused_before_the_run(project, monkeypatch, call, message):
    _install(project, monkeypatch, f"{REPORTS}    registry.{call}\n" if call else REPORTS)
    project.test("def test_own(rageval): assert rageval.examples")
    result = project.run("--rageval-report=out.pdf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


SENDING = """
import pathlib

class Library: pass

def say(document, address):
    pathlib.Path("said").write_text(f"{address} {[test['outcome'] for test in document['tests']]}")

def tell(document, address):
    return f"{address} has {len(document['tests'])} test"

def fail(document, address):
    raise TimeoutError("no answer in 5 s")

def pytest_rageval_register(registry):
    registry.add_report("say:", say)
    registry.add_report("Tell:", tell)
    registry.add_report("fail:", fail)
    registry.add_report(".parts", lambda document: (str(n) for n in range(3)))
"""


def test_another_package_sends_reports(project, monkeypatch):
    _install(project, monkeypatch, SENDING)
    project.pytester.makeconftest(
        "import pytest\n@pytest.fixture\ndef rageval_retriever(): return lambda query, k: []\n"
    )
    project.test("def test_own(rageval): assert rageval.score('recall@2') == 0")
    places = ("fail:https://me:secret@h/x", "say:a b:1", "tell:all", "out.parts")
    result = project.run(*(f"--rageval-report={place}" for place in places), passed=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["report: *out.parts", "report: say:a b:1", "report: all has 1 test"])
    result.stdout.fnmatch_lines(["The report fail:https://h/x was not sent: no answer in 5 s."])
    result.stdout.no_fnmatch_line("*secret*")
    assert (project.path / "said").read_text(encoding="utf-8") == "a b:1 ['passed']"
    assert (project.path / "out.parts").read_text(encoding="utf-8") == "012"


BROKEN = """
class Sync:
    def compare(self, question, references, prediction):
        return prediction in references

class Seven:
    async def compare(self, question, references, prediction):
        return 7

async def floats(run, examples, terms):
    return [0.5 for _ in examples]

def pytest_rageval_register(registry):
    registry.add_comparator("plain", Sync())
    registry.add_comparator("seven", Seven())
    registry.add_answer_measure("lost", lambda prediction, references: float("nan"))
    registry.add_answer_measure("raising", lambda prediction, references: references[9])
    registry.add_score("floats", floats)
"""


STRUCTURED = """
import asyncio
from pytest_rageval.core.outcome import Evidence, Outcome

async def outcomes(run, examples, terms):
    rankings = await asyncio.gather(*(run.ranking(each, terms.k) for each in examples))
    return [Outcome(example, 1.0, None, Evidence(ranking))
            for example, ranking in zip(examples, rankings, strict=True)]

async def bounded(run, examples, terms):
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)
    except TimeoutError:
        pass
    async with asyncio.timeout(30):
        return await outcomes(run, examples, terms)

async def grouped(run, examples, terms):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outcomes(run, examples, terms))
    return task.result()

def pytest_rageval_register(registry):
    for each in (outcomes, bounded, grouped):
        registry.add_score(each.__name__, each, asks=(), scale=(0, 1))
"""


def test_a_plugins_score_may_bound_and_group_what_it_waits_for(project, monkeypatch):
    """`asyncio.timeout` and `TaskGroup` in a plugin's score cancel only its own work, not other scores of the test."""
    project.pytester.makepyfile(structured=STRUCTURED)
    monkeypatch.syspath_prepend(project.path)
    project.test(
        "".join(
            f'@pytest.mark.rageval_threshold("{name}@2", min=1.0)\n'
            for name in ("outcomes", "bounded", "grouped", "recall")
        )
        + "def test_gate(): pass\n"
    )
    project.run("-p", "structured", passed=1)


def test_results_of_a_plugin_are_checked(project, monkeypatch):
    _install(project, monkeypatch, BROKEN + "class Library: pass\n")
    project.pytester.makeconftest(
        """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: [{"id": "doc-1", "text": f"Of all things, {query}"}]

@pytest.fixture(scope="session")
def rageval_generator():
    return lambda question, passages: "c1x"
"""
    )
    project.test(
        """
@pytest.mark.parametrize(("spec", "words"), [
    ("answer.correct@1", {"comparator": "plain"}),
    ("answer.correct@1", {"comparator": "seven"}),
    ("answer.correct@1", {"comparator": "lost"}),
    ("answer.lost@1", {}),
    ("answer.raising@1", {}),
    ("floats@1", {}),
])
def test_each(rageval, spec, words):
    print(rageval.score(spec, **words))
"""
    )
    result = project.run(
        "-s",
        passed=1,
        failed=5,
        shows=[
            "*0.25*",
            "E *.CallableError: comparator 'seven' returned 7 for 'What is the code of item-*",
            "E *.CallableError: answer measure 'lost' returned nan.",
            "E * It affects 4 examples: q1, q2, q3, q4.",
            "E *.CallableError: answer measure 'lost' returned nan.",
            "E * It affects 4 examples: q1, q2, q3, q4.",
            "E *.CallableError: answer measure 'raising' raised: IndexError: *",
            "E * *shelves.py:* in <lambda>",
            "E *.CallableError: score 'floats' returned a list with float in it, and not a list of Outcome.",
        ],
    )
    result.stdout.no_fnmatch_line("*pytest_rageval/*.py:*")


FINISHED = """
import pytest
from pytest_rageval import RagevalError

@pytest.fixture
def rageval_retriever(): return lambda query, k: []

def pytest_rageval_register(registry):
    registry.add_markdown_section("Board", "line", lambda document: [f"on {document['board']} board"])

def pytest_rageval_run_finished(run):
    run.notes.append(f"{len(run.document['tests'])} test of {sorted(run.collected)}")
    if not run.settings.report:
        raise RagevalError("no board answers")
    return {"board": len(run.usage_of)}
"""


def test_a_hook_adds_keys_to_the_report_and_may_fail_the_run(project):
    project.pytester.makeconftest(FINISHED)
    project.gate("recall@1 min=0")
    result = project.run("--rageval-report=out.json", "--rageval-report=out.md")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 test of [[]'test_it.py::test_gate']", "report: *out.json"])
    assert project.read("out.json")["board"] == 1
    assert "<details><summary>Board</summary>" in (project.path / "out.md").read_text(encoding="utf-8")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no board answers"])


MODE = """
def pytest_addoption(parser):
    parser.addoption("--bounds-only", action="store_true")

class Mode:
    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.line("a run in the mode of shelves")

def pytest_rageval_start(config, settings):
    return [Mode()] if config.option.bounds_only else None

def pytest_rageval_failures(test, limit):
    return ["shelves: too few shelves"]

def pytest_rageval_test_entry(test):
    return {"warnings": ["a warning of shelves"]}

def pytest_rageval_run_finished(run):
    run.notes.append("a note of shelves")
    return {"shelves": len(run.document["tests"])}
"""


def test_another_package_adds_a_mode(project, monkeypatch):
    _install(project, monkeypatch, f"{PACKAGE}{MODE}")
    project.test(TESTS)
    result = project.run(
        "--bounds-only", "--rageval-report=report.json", failed=1, shows="shelves: too few shelves"
    )
    result.stdout.fnmatch_lines(["a note of shelves"])
    result.stdout.fnmatch_lines(["a run in the mode of shelves"])
    assert project.read()["shelves"] == 1
