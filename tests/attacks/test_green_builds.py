"""Ways to a green build with a broken retriever: none of them is silent.

The baseline of a small project was written with a good retriever. Then the retriever loses 8 of 20 questions, and
somebody changes something else, by mistake or to get past the gate. On a build server the run is red, or a line of its
output shows what was done. Each row names the line, so that no run is red for another reason.

What no test can see is left out: a command line that ignores the exit status, code that ends the process with status
0, and a retriever that reads the answers from the eval set. Merges are in `tests/unit/extensions/shards`, models and
cached replies in the other modules of this folder.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.integration.conftest import Project
from tests.integration.test_baseline_change import git

pytestmark = pytest.mark.slow

Change = Callable[[Project], object]

UPDATE = "--rageval-update-baseline"
GATE = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n'
CALL = "def test_gate(rageval):\n    {}\n"
SCORE = "rageval.score('recall@1', max_drop=0.02)"
TEST = "rag/test_it.py::test_gate"

JUDGED = """
@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        n = question.split("item-")[1].rstrip("?")
        code = f"c{n}x" if any(f'c{n}x' in str(each) for each in passages) else "c0x"
        return code + "!" * len(passages)
    return generate

@pytest.fixture(scope="session")
def rageval_judge():
    def judge(question, right, found):
        return found.rstrip("!") in right
    return judge

@pytest.mark.rageval_threshold("answer.correct@2", min=0.1)
@pytest.mark.rageval_threshold("answer.correct@1", max_drop=0.02)
def test_gate(): pass
"""

# What a run prints.
FAIL = "recall@1 fell from 1.000 to 0.600"
CAUGHT_TEXT = "A threshold failed, and the test caught the failure"
MISSING = (
    "1 of 1 gated test was not compared with the baseline, which --rageval require_baseline=true forbids*"
    + TEST
)
NOT_RUN = "1 of 1 gated test was not run"


@dataclass(frozen=True)
class Way:
    """A way past the gate.

    Attributes:
        changes: arguments of the command line, dictionaries of environment variables, and functions that change files.
        shown: pattern of what the run prints.
        red: whether the run fails.
        before: the body of the gated test when the baseline was written.
    """

    changes: tuple[str | dict[str, str] | Change, ...]
    shown: str
    red: bool
    before: str


def red(shown: str, *changes: Any, before: str = GATE) -> Way:
    return Way(changes, shown, red=True, before=before)


def visible(shown: str, *changes: Any, before: str = GATE) -> Way:
    return Way(changes, shown, red=False, before=before)


# Changes of the project's files.


def gate(body: str, name: str = "rag/test_it") -> Change:
    return lambda project: project.test(body, name=name)


def policy(body: str = GATE, **keys: Any) -> Change:
    def write(project: Project) -> None:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        (project.path / "pyproject.toml").write_text(f"[tool.rageval.policy.pr]\n{lines}", encoding="utf-8")
        project.test(body, name="rag/test_it")

    return write


def marked(mark: str) -> Change:
    return gate(f"import unittest\n@{mark}\n{GATE}")


def judged(verdict: str) -> Change:
    return gate(JUDGED.replace('found.rstrip("!") in right', verdict))


def file(name: str, text: str) -> Change:
    def write(project: Project) -> None:
        path = project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write


def delete(name: str) -> Change:
    return lambda project: (project.path / name).unlink()


def ini(*lines: str) -> Change:
    return file("pytest.ini", "\n".join(["[pytest]", *lines, ""]))


def conftest(text: str) -> Change:
    def add(project: Project) -> None:
        project.add(text)

    return add


def retriever(line: str) -> Change:
    return conftest(f"""
def broken(query, k):
    n = int(query.split("item-")[1].rstrip("?"))
    {line}
    return search(query, k)

@pytest.fixture(scope="session")
def rageval_retriever():
    return broken
""")


def text_of(name: str, change: Callable[[str], str]) -> Change:
    def rewrite(project: Project) -> None:
        path = project.path / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    return rewrite


def baseline(change: Callable[[dict[str, Any]], object]) -> Change:
    def edit(text: str) -> str:
        document = json.loads(text)
        change(document["tests"][TEST])
        return json.dumps(document)

    return text_of("rageval_baseline.json", edit)


def scores(value: Any) -> Change:
    def lower(entry: dict[str, Any]) -> None:
        for n in range(13, 21):
            entry["questions"][f"q{n}"]["scores"]["recall@1"] = value

    return baseline(lower)


def evals(change: Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]) -> Change:
    def edit(text: str) -> str:
        records = change([json.loads(line) for line in text.splitlines()])
        return "".join(json.dumps(record) + "\n" for record in records)

    return text_of("evals.jsonl", edit)


def lost(change: Callable[[int], dict[str, Any]]) -> Change:
    return evals(
        lambda records: [*records[:12], *(record | change(n) for n, record in enumerate(records[12:], 13))]
    )


def branch(project: Project) -> None:
    for command in ("init -q -b main", "add .", "commit -qm good", "checkout -qb worse"):
        git(*command.split(), folder=project.path)


def process(project: Project) -> None:
    project.run = project.run_process  # type: ignore[method-assign]


def last_failed(project: Project) -> None:
    project.arguments.remove("-pno:cacheprovider")
    file(".pytest_cache/v/cache/lastfailed", '{"test_unit.py::test_unit": true}')(project)


# Tests that catch the failure of a threshold.
CAUGHT = {
    "except": "try: {}\n    except BaseException: pass",
    "suppress": "import contextlib\n    with contextlib.suppress(BaseException): {}",
    "raises": "with pytest.raises(BaseException): {}",
    "raises fail": "with pytest.raises(pytest.fail.Exception): {}",
    "skip": "try: {}\n    except BaseException: pytest.skip('never mind')",
    "finally": "try: {}\n    finally: return",
}

HOOK = "\n@pytest.hookimpl({})\ndef pytest_{}:\n    {}\n"

WAYS = {
    # Nothing but the broken retriever.
    "nothing": red(FAIL),
    # Skips.
    "mark skip": red(f"{MISSING}: skipped: no index", marked("pytest.mark.skip(reason='no index')")),
    "mark skipif": red(
        f"{MISSING}: skipped: no index", marked("pytest.mark.skipif(True, reason='no index')")
    ),
    "mark skipif as a string": red(f"{MISSING}: skipped:", marked("pytest.mark.skipif('1')")),
    "mark of the module": red(
        f"{MISSING}: skipped:", gate(f"pytestmark = [pytestmark, pytest.mark.skip]\n{GATE}")
    ),
    "unittest.skip": red(FAIL, marked("unittest.skip('no index')")),
    "SkipTest": red(FAIL, gate(GATE.replace("pass", "import unittest; raise unittest.SkipTest('no index')"))),
    "skip in the test": red(FAIL, gate(GATE.replace("pass", "pytest.skip('no index')"))),
    "skip before the score": red(
        f"{MISSING}: skipped: no index", gate(CALL.format(f"pytest.skip('no index'); {SCORE}"))
    ),
    "SkipTest before the score": red(
        f"{MISSING}: skipped: no index",
        gate("import unittest\n" + CALL.format(f"raise unittest.SkipTest('no index'); {SCORE}")),
    ),
    "skip of the module": red(
        f"{MISSING}: skipped: no index", gate(f"pytest.skip('no index', allow_module_level=True)\n{GATE}")
    ),
    "importorskip": red(
        f"{MISSING}: skipped: could not", gate(f"pytest.importorskip('no_such_index')\n{GATE}")
    ),
    "skip in the retriever": red("no index", retriever("pytest.skip('no index')")),
    "skip in the retriever for a lost question": red(
        "no index", retriever("n > 12 and pytest.skip('no index')")
    ),
    "skip in the fixture of the retriever": red(
        f"{MISSING}: skipped: no index",
        conftest("\n@pytest.fixture\ndef rageval_retriever(): pytest.skip('no index')\n"),
    ),
    "skip in an autouse fixture": red(
        f"{MISSING}: skipped: no index",
        conftest("\n@pytest.fixture(autouse=True)\ndef index(): pytest.skip('no index')\n"),
    ),
    "skip in a hook": red(
        f"{MISSING}: skipped: no index",
        conftest(HOOK.format("", "runtest_setup(item)", "pytest.skip('no index')")),
    ),
    "skip before the call": red(
        FAIL, conftest(HOOK.format("", "runtest_call(item)", "pytest.skip('no index')"))
    ),
    "a mark that a hook adds": red(
        f"{MISSING}: skipped:",
        conftest(
            HOOK.format("", "collection_modifyitems(items)", "[item.add_marker('skip') for item in items]")
        ),
    ),
    "xfail": red(f"{MISSING}: xfailed: known", marked("pytest.mark.xfail(reason='known')")),
    "xfail strict=False": red(f"{MISSING}: xfailed", marked("pytest.mark.xfail(strict=False)")),
    "xfail strict=True": red(f"{MISSING}: xfailed", marked("pytest.mark.xfail(strict=True)")),
    "xfail raises=": red(f"{MISSING}: xfailed", marked("pytest.mark.xfail(raises=BaseException)")),
    "xfail run=False": red(f"{MISSING}: xfailed", marked("pytest.mark.xfail(run=False)")),
    "pytest.xfail()": red(FAIL, gate(GATE.replace("pass", "pytest.xfail('known')"))),
    "pytest.xfail() before the score": red(
        f"{MISSING}: xfailed: known", gate(CALL.format(f"pytest.xfail('known'); {SCORE}"))
    ),
    "pytest.xfail() in a hook": red(
        f"{MISSING}: xfailed: known",
        conftest(HOOK.format("", "runtest_setup(item)", "pytest.xfail('known')")),
    ),
    "pytest.xfail() in the retriever": red("known", retriever("pytest.xfail('known')")),
    # Deselection on the command line is shown; in files it is red.
    "-k": visible(NOT_RUN, "-k", "unit"),
    "-m": visible(NOT_RUN, "-m", "not rageval_threshold"),
    "--deselect": visible(NOT_RUN, f"--deselect={TEST}"),
    "--ignore": visible(NOT_RUN, "--ignore=rag"),
    "--ignore-glob": visible(NOT_RUN, "--ignore-glob=ra*"),
    "another file": visible(NOT_RUN, "test_unit.py"),
    "PYTEST_ADDOPTS": visible(NOT_RUN, {"PYTEST_ADDOPTS": "-k unit"}),
    "--lf": visible(NOT_RUN, last_failed, "--lf"),
    "--ff": red(FAIL, last_failed, "--ff"),
    "--sw": red(FAIL, last_failed, "--sw"),
    "--collect-only": visible("2 tests collected", "--collect-only"),
    "--setup-plan": red(MISSING, "--setup-plan"),
    "--setup-only": red(MISSING, "--setup-only"),
    "addopts -k": red(MISSING, ini("addopts = -k unit")),
    "addopts -m": red(MISSING, ini("addopts = -m 'not rageval_threshold'")),
    "addopts --deselect": red(MISSING, ini(f"addopts = --deselect={TEST}")),
    "addopts --ignore": red(MISSING, ini("addopts = --ignore=rag")),
    "addopts --ignore-glob": red(MISSING, ini("addopts = --ignore-glob=ra*")),
    "addopts --lf": red(MISSING, last_failed, ini("addopts = --lf")),
    "addopts with a file": red(MISSING, ini("addopts = test_unit.py")),
    "addopts --collect-only": visible("2 tests collected", ini("addopts = --collect-only")),
    "addopts --setup-only": red(f"{MISSING}: its body did not run", ini("addopts = --setup-only")),
    "testpaths": red(MISSING, ini("testpaths = test_unit.py")),
    "norecursedirs": red(MISSING, ini("norecursedirs = rag")),
    "python_files": red(MISSING, ini("python_files = test_u*.py")),
    "python_functions": red(MISSING, ini("python_functions = test_u*")),
    "collect_ignore": red(MISSING, conftest("\ncollect_ignore = ['rag']\n")),
    "collect_ignore_glob": red(MISSING, conftest("\ncollect_ignore_glob = ['ra*']\n")),
    "a hook that ignores": red(
        MISSING,
        conftest(HOOK.format("", "ignore_collect(collection_path)", "return 'rag' in collection_path.name")),
    ),
    "a hook that deletes": red(
        MISSING,
        conftest(
            HOOK.format(
                "", "collection_modifyitems(items)", "items[:] = [i for i in items if 'unit' in i.name]"
            )
        ),
    ),
    "a hook that deselects": red(
        MISSING,
        conftest(
            HOOK.format(
                "",
                "collection_modifyitems(config, items)",
                "config.hook.pytest_deselected(items=items[:1]); del items[:1]",
            )
        ),
    ),
    "a removed test": red(MISSING, gate("def test_other(): pass\n")),
    "a removed file": red(MISSING, delete("rag/test_it.py")),
    "an emptied file": red(MISSING, file("rag/test_it.py", "")),
    "__test__": red(MISSING, gate(f"__test__ = False\n{GATE}")),
    "a renamed test": red(f"test_new*{TEST}", gate(GATE.replace("test_gate", "test_new"))),
    "a name that is not collected": red(MISSING, gate(GATE.replace("test_gate", "gate"))),
    "a renamed file": red(
        f"rag/test_new.py::test_gate*{TEST}", delete("rag/test_it.py"), gate(GATE, "rag/test_new")
    ),
    "a moved test": red(
        f"new/test_it.py::test_gate*{TEST}", delete("rag/test_it.py"), gate(GATE, "new/test_it")
    ),
    "a test moved into a class": red(
        f"TestAll*{TEST}",
        gate(f"class TestAll:\n    {GATE.replace(chr(10), chr(10) + '    ').replace('()', '(self)')}"),
    ),
    "fewer parameters": red(
        f"1 of 2 gated tests was not compared*{TEST}?b?: not collected",
        gate(f"@pytest.mark.parametrize('of', ['a'])\n{GATE.replace('0.02', '0.45').replace('()', '(of)')}"),
        before=f"@pytest.mark.parametrize('of', ['a', 'b'])\n{GATE.replace('0.02', '0.45').replace('()', '(of)')}",
    ),
    "no parameters": red(
        f"1 of 1 gated test was not compared*{TEST}?a?",
        gate(f"@pytest.mark.parametrize('of', [])\n{GATE.replace('()', '(of)')}"),
        before=f"@pytest.mark.parametrize('of', ['a'])\n{GATE.replace('()', '(of)')}",
    ),
    "another root directory": red("There is no fixture rageval_retriever", "--rootdir=rag"),
    # What is switched off.
    "-p no:rageval": visible("Unknown pytest.mark.rageval_threshold", process, "-pno:rageval"),
    "-p no:rageval with required_plugins": red(
        "Missing required plugins: pytest-rageval", "-pno:rageval", ini("required_plugins = pytest-rageval")
    ),
    "-p no:rageval with --strict-markers": red(
        "'rageval_evalset' not found in `markers`", process, "-pno:rageval", ini("addopts = --strict-markers")
    ),
    "addopts -p no:rageval": visible(
        "Unknown pytest.mark.rageval_threshold", process, ini("addopts = -p no:rageval")
    ),
    "-p no:rageval-standby": red(FAIL, "-pno:rageval-standby"),
    "-p no:rageval-evaluation": red(FAIL, "-pno:rageval-evaluation"),
    # It prints nothing.
    "-p no:terminal": red("", "-pno:terminal"),
    "-p no:runner": red("plugin runner cannot be disabled", "-pno:runner"),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": visible(
        "Unknown pytest.mark.rageval_threshold", process, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ),
    "a conftest that blocks the plugin": red(
        FAIL, conftest("\ndef pytest_configure(config): config.pluginmanager.set_blocked('rageval')\n")
    ),
    "a conftest that unregisters the plugin": red(
        FAIL, conftest("\ndef pytest_configure(config): config.pluginmanager.unregister(name='rageval')\n")
    ),
    "--noconftest": red("There is no fixture rageval_retriever", "--noconftest"),
    "-q --no-summary --tb=no": red("1 failed, 1 passed", "-q", "--no-summary", "--tb=no"),
    "-W ignore": red(FAIL, "-W", "ignore"),
    "--rageval-plan": visible("1 other test sends no requests.", "--rageval-plan"),
    "--rageval-sample": red("leaves none of the 20 examples", "--rageval-sample=0.1"),
    "--rageval-sample=0.6": red("5 of 11 questions worse", "--rageval-sample=0.6"),
    "--rageval-shard": visible(
        "no score is judged here; rageval merge judges",
        "-q",
        "--rageval-shard=1/2",
        "--rageval-report=s1.json",
    ),
    "--rageval=early_stop=true": red(FAIL, "--rageval=early_stop=true"),
    "--rageval max_unscored=SHARE": red(
        "8 have no score, since the retriever failed, and count as 0",
        "--rageval=max_unscored=1",
        retriever("if n > 12: raise ConnectionError('no index')"),
    ),
    "--rageval-update-baseline": red("is refused under CI=true", UPDATE),
    "--rageval-update-baseline in addopts": red("is refused under CI=true", ini(f"addopts = {UPDATE}")),
    "--rageval-update-baseline in PYTEST_ADDOPTS": red(
        "is refused under CI=true", {"PYTEST_ADDOPTS": UPDATE}
    ),
    "--rageval-update-baseline=force": visible("1.000 → 0.600, 8 of 20 worse", f"{UPDATE}=force", "-q"),
    "rageval_update_baseline in the ini file": red(
        "it is an option of the command line alone", ini("rageval_update_baseline = true")
    ),
    "--rageval=require_baseline=false": visible(
        "has no baseline yet to compare with",
        "--rageval=require_baseline=false",
        delete("rageval_baseline.json"),
    ),
    "CI=false": visible(
        "has no baseline yet to compare with", {"CI": "false"}, delete("rageval_baseline.json")
    ),
    "--rageval allow_missing=NODEID": visible(
        f"1 gated test is missing, as rageval_allow_missing allows: {TEST} (skipped: no index)",
        "--rageval=allow_missing=.",
        "-q",
        marked("pytest.mark.skip(reason='no index')"),
    ),
    # The baseline.
    "a deleted baseline": red("has no baseline yet to compare with", delete("rageval_baseline.json")),
    "an empty baseline": red("rageval_baseline.json", file("rageval_baseline.json", "")),
    "a baseline {}": red("rageval_baseline.json", file("rageval_baseline.json", "{}")),
    "a baseline without tests": red(
        "rageval_baseline.json",
        text_of("rageval_baseline.json", lambda text: json.dumps(json.loads(text) | {"tests": {}})),
    ),
    "a baseline without the score": red("recall@1", baseline(lambda entry: entry["scores"].clear())),
    "a path that is missing": red("new.json", "--rageval-baseline=new.json"),
    "rageval_baseline in the ini file": red("new.json", ini("rageval_baseline = new.json")),
    "a baseline of another name": visible(
        "the merge base has no such baseline",
        branch,
        scores(0.0),
        lambda project: (project.path / "rageval_baseline.json").rename(project.path / "new.json"),
        ini("rageval_baseline = new.json"),
    ),
    "a link to another baseline": visible(
        "the merge base has no such baseline",
        branch,
        scores(0.0),
        lambda project: (project.path / "rageval_baseline.json").rename(project.path / "new.json"),
        lambda project: (project.path / "rageval_baseline.json").symlink_to("new.json"),
    ),
    "a link that leads nowhere": red(
        "rageval_baseline.json",
        delete("rageval_baseline.json"),
        lambda project: (project.path / "rageval_baseline.json").symlink_to("new.json"),
    ),
    "a lowered baseline": visible("the baseline differs from the merge base's", branch, scores(0.0)),
    "a lowered baseline without git": visible(
        "whether this branch changed the baseline is not known", scores(0.0)
    ),
    "a baseline that the branch updated": visible(
        "1.000 → 0.600, 8 of 20 worse", branch, lambda project: project.run(f"{UPDATE}=force")
    ),
    "--rageval baseline_ref=REF": red(FAIL, branch, scores(0.0), "--rageval=baseline_ref=main"),
    "scores of None": visible("a drop among 8 of 20 examples would not be seen", scores(None)),
    "lost questions removed from the baseline": visible(
        "a drop among 8 of 20 examples would not be seen",
        baseline(lambda entry: [entry["questions"].pop(f"q{n}") for n in range(13, 21)]),
    ),
    "NaN": red("q13", scores(float("nan"))),
    "huge scores": red("q13", scores(1e308)),
    "negative scores": red("q13", scores(-1.0)),
    "scores as text": red("q13", scores("0")),
    "another fingerprint": red(
        "the baseline was made with other settings",
        baseline(lambda entry: entry["scores"]["recall@1"]["fingerprint"].update(k=7)),
    ),
    "a byte-order mark": red(FAIL, text_of("rageval_baseline.json", lambda text: "\ufeff" + text)),
    "marks of a merge conflict": red(
        "rageval_baseline.json",
        text_of("rageval_baseline.json", lambda text: f"<<<<<<< a\n{text}=======\n>>>>>>> b\n"),
    ),
    "a folder as the baseline": red(
        "rageval_baseline.json",
        delete("rageval_baseline.json"),
        lambda project: (project.path / "rageval_baseline.json").mkdir(),
    ),
    # The eval set.
    "one question": red(
        "19 of 20 questions of the baseline cannot be compared", evals(lambda records: records[-1:])
    ),
    "three questions": red("17 of 20 questions", evals(lambda records: records[-3:])),
    "without the lost questions": red("8 of 20 questions", evals(lambda records: records[:12])),
    "two lost questions removed": visible(
        "questions since the baseline: 2 removed, 0 new, 0 edited",
        conftest(
            "\nfor n in range(13, 19): CORPUS[f'doc-{n}'] = f'Of all things, item-{n} has the code c{n}x.'\n"
        ),
        evals(lambda records: records[:18]),
    ),
    "--rageval max_removed=SHARE": visible(
        "questions since the baseline: 8 removed",
        "--rageval=max_removed=1",
        evals(lambda records: records[:12]),
    ),
    "reworded questions": red("8 of 20 questions", lost(lambda n: {"question": f"The code of item-{n}?"})),
    "other ids": red("8 of 20 questions", lost(lambda n: {"id": f"new-{n}"})),
    "other gold": red("8 of 20 questions", lost(lambda _: {"gold": [{"id": "doc-1"}]})),
    "gold that is everywhere": red(
        "8 of 20 questions", lost(lambda n: {"gold": [{"id": f"doc-{n}"}, {"id": "doc-1"}]})
    ),
    "no gold": red("8 × no gold passages", lost(lambda _: {"gold": []})),
    "a duplicated id": red(
        'the id "q1" is already that of', evals(lambda records: [*records[:12], *records[:8]])
    ),
    "easy questions twice": red(
        "8 of 20 questions",
        evals(
            lambda records: [
                *records[:12],
                *(record | {"id": f"new-{record['id']}"} for record in records[:8]),
            ]
        ),
    ),
    "easy questions added": red(
        "recall@1 fell from 1.000 to 0.600",
        evals(
            lambda records: [
                *records,
                *(record | {"id": f"{record['id']}-{n}"} for n in range(40) for record in records[:12]),
            ]
        ),
    ),
    "other tags": red(
        "recall@1 where topic='even': * questions of the baseline cannot be compared",
        lost(lambda _: {"tags": {"topic": "none"}}),
        gate(GATE.replace("0.02", "0.02, where={'topic': 'even'}")),
        before=GATE.replace("0.02", "0.02, where={'topic': 'even'}"),
    ),
    "tags of no question": red(
        "no example has the tag by='topic'",
        evals(lambda records: [record | {"tags": {}} for record in records]),
        before=GATE.replace("0.02", "0.02, by='topic'"),
    ),
    "an empty eval set": red("evals.jsonl", file("evals.jsonl", "")),
    "no eval set": red("evals.jsonl", delete("evals.jsonl")),
    "another eval set": red(
        "8 of 20 questions",
        lambda project: project.evalset(12, "easy.jsonl"),
        gate(GATE.replace("@", "@pytest.mark.rageval_evalset('easy.jsonl')\n@", 1)),
    ),
    # The retriever.
    "it raises": red("no index", retriever("raise ConnectionError('no index')")),
    "it raises for the lost questions": red(
        "no index", retriever("if n > 12: raise ConnectionError('no index')")
    ),
    "it raises Unscored": red(
        "no index", retriever("if n > 12: import pytest_rageval; raise pytest_rageval.Unscored('no index')")
    ),
    "it raises Unscored for one": red(
        "8 of 20 questions worse",
        retriever("if n == 13: import pytest_rageval; raise pytest_rageval.Unscored('a')"),
    ),
    "it returns nothing": red("recall@1 fell from 1.000 to 0.000", retriever("return []")),
    "it returns nothing for the lost questions": red(FAIL, retriever("if n > 12: return []")),
    "it returns None": red("NoneType", retriever("if n > 12: return None")),
    "it returns an empty generator": red(FAIL, retriever("if n > 12: return (x for x in [])")),
    "it returns duplicates": red(FAIL, retriever("return search(query, k) * 20")),
    "it returns everything": red(FAIL, retriever("return search(query, 100)")),
    "it returns documents without ids": red(FAIL, retriever("if n > 12: return [{'text': 'x'}]")),
    "it returns the ids of all gold in one": red(
        "an id that is a list",
        retriever("if n > 12: return [{'id': [f'doc-{n}' for n in range(20)], 'text': 'x'}]"),
    ),
    "it calls sys.exit": red("SystemExit", retriever("import sys; sys.exit(0)")),
    "it calls pytest.exit": red("Exit: done", retriever("pytest.exit('done', 0)")),
    "it calls pytest.fail": red("no index", retriever("pytest.fail('no index')")),
    "it is interrupted": red("KeyboardInterrupt", process, retriever("raise KeyboardInterrupt")),
    # Thresholds.
    "no threshold": red(MISSING, gate("def test_gate(): pass\n")),
    "min for max_drop": red(
        f"{MISSING}: no threshold compared recall@1", gate(GATE.replace("max_drop=0.02", "min=0.1"))
    ),
    "a lower min": red(
        f"{MISSING}: no threshold",
        gate(GATE.replace("max_drop=0.02", "min=0")),
        before=GATE.replace("max_drop", "min=0.9, max_drop"),
    ),
    "where= of nothing": red("topic", gate(GATE.replace("0.02", "0.02, where={'topic': 'none'}"))),
    "where= of easy questions": visible(
        "pass recall@1 ?n=low? 1.000 (±0) ↓ 0.02 12 0.758 to 1.000",
        evals(
            lambda records: [
                record | {"tags": {"n": "low" if n < 12 else "high"}} for n, record in enumerate(records)
            ]
        ),
        gate(GATE.replace("0.02", "0.02, where={'n': 'low'}")),
    ),
    "by= of every question": red(
        "recall@1 where n='q13' fell from 1.000 to 0.000",
        evals(lambda records: [record | {"tags": {"n": record["id"]}} for record in records]),
        gate(GATE.replace("0.02", "0.02, by='n'")),
    ),
    "cluster= of two": red("2 clusters", policy(cluster="topic")),
    "a larger k": red("has no recall@20 of", gate(GATE.replace("@1", "@20"))),
    "another score": red("has no hit@1 of", gate(GATE.replace("recall", "hit"))),
    "max_drop=50": red("For 50% write max_drop=0.5.", gate(GATE.replace("0.02", "50"))),
    "max_drop=2 in a call": red(
        "For 2% write max_drop=0.02.", gate(CALL.format("rageval.score('recall@1', max_drop=2)"))
    ),
    "max_drop=2": red("For 2% write max_drop=0.02.", gate(GATE.replace("0.02", "2"))),
    "max_drop=0.9": red(
        "Give a max_drop that would matter, such as 0.02.", gate(GATE.replace("0.02", "0.9"))
    ),
    "max_drop=0.5": visible("lets a retriever lose 50% of the scale", gate(GATE.replace("0.02", "0.5"))),
    "max_lost=20": red("could not fail", gate(GATE.replace("max_drop=0.02", "max_lost=20"))),
    "max_lost=19": visible(
        "pass recall@1 0.600 (−0.400) lost ≤ 19 20 0.387 to 0.781 recall@1: baseline 1.000, drop 0.400 (8 of 20 worse)",
        gate(GATE.replace("max_drop=0.02", "max_lost=19")),
    ),
    "tolerance=1": red("could not fail", policy(GATE.replace("max_drop=0.02", "max_lost=0"), tolerance=1)),
    "alpha=0": red("alpha", policy(alpha=0)),
    "alpha=1e-9": red("could not fail", policy(alpha=1e-9, small_set_drop=False)),
    "alpha=1e-4": visible("inconclusive", policy(alpha=1e-4, small_set_drop=False)),
    "burden": visible("inconclusive", policy(GATE.replace("0.02", "0.35"), burden="beyond")),
    "a misspelt mark": red(
        "Did you mean rageval_threshold", "-W", "default", gate(GATE.replace("threshold", "treshold"))
    ),
    "a mark on an empty class": red(MISSING, gate(f"{GATE.partition(chr(10))[0]}\nclass TestAll: pass\n")),
    "a mark on a helper": red(
        MISSING, gate(GATE.replace("test_gate", "helper") + "def test_gate(): helper()\n")
    ),
    "a mark on a fixture": red(
        "to fixtures",
        gate(GATE.partition("\n")[0] + "\n@pytest.fixture\ndef f(): pass\ndef test_gate(f): pass\n"),
    ),
    # The test's code.
    **{
        f"{how} ({bound})": red(
            CAUGHT_TEXT, gate(CALL.format(code.format(f"rageval.score('recall@1', {bound})")))
        )
        for how, code in CAUGHT.items()
        for bound in ("max_drop=0.02", "min=0.9", "max=0.1", "min=0.9, by='topic'")
    },
    "return": red(MISSING, gate(CALL.format(f"return\n    {SCORE}"))),
    "if": red(MISSING, gate(CALL.format(f"import os\n    if not os.environ.get('CI'): {SCORE}"))),
    "no bound": red(MISSING, gate(CALL.format("rageval.score('recall@1')"))),
    "an assertion about another score": red(
        MISSING, gate(CALL.format("assert rageval.score('recall@20') >= 0"))
    ),
    "a thread": red(
        CAUGHT_TEXT,
        "-W",
        "ignore",
        gate(
            CALL.format(
                f"import threading\n    t = threading.Thread(target=lambda: {SCORE})\n    t.start(); t.join()"
            )
        ),
    ),
    "a coroutine": red("async def functions are not natively supported", gate("async " + CALL.format(SCORE))),
    "a generator": red("yield", gate(CALL.format(f"{SCORE}; yield"))),
    "a fixture of the same name": red(
        MISSING,
        conftest(
            "\n@pytest.fixture\ndef rageval():\n    from unittest.mock import MagicMock\n    return MagicMock()\n"
        ),
        gate(CALL.format(SCORE)),
    ),
    "pytest.exit in the test": red(FAIL, gate(GATE.replace("pass", "pytest.exit('done', 0)"))),
    "pytest.exit in a hook": red(
        MISSING, conftest(HOOK.format("", "runtest_setup(item)", "pytest.exit('no index', returncode=0)"))
    ),
    "pytest.exit before": red(
        MISSING, file("rag/test_a.py", "import pytest\ndef test_a(): pytest.exit('done', 0)\n")
    ),
    "a hook that changes the outcome": visible(
        "fail recall@1 0.600 (−0.400) ↓ 0.02 20 0.387 to 0.781",
        conftest(
            HOOK.format(
                "wrapper=True",
                "runtest_makereport(item)",
                "report = yield; report.outcome = 'passed'; return report",
            )
        ),
    ),
    "a hook that changes the status": visible(
        "1 failed", conftest(HOOK.format("trylast=True", "sessionfinish(session)", "session.exitstatus = 0"))
    ),
    # The judge.
    "a worse answer": red("answer.correct@1 fell from 1.000 to 0.600", before=JUDGED),
    "a judge that says yes": visible(
        "the judge said yes 40 times and never anything else", judged("True"), before=JUDGED
    ),
    "a judge that raises": red(
        "no index", judged("exec(\"raise ConnectionError('no index')\")"), before=JUDGED
    ),
    "a judge that has no verdict on what was lost": red(
        "8 × the judge gave no verdict", judged("True if found.rstrip('!') in right else None"), before=JUDGED
    ),
    "no verdict, and many may be unscored": visible(
        "8 examples had a score in the baseline and have none now",
        "--rageval=max_unscored=1",
        judged("True if found.rstrip('!') in right else None"),
        before=JUDGED,
    ),
    "a generator that knows the answers": visible(
        "the judge said yes 40 times and never anything else",
        gate(JUDGED.replace("any(f'c{n}x' in str(each) for each in passages)", "True")),
        before=JUDGED,
    ),
    # Recorded replies.
    "a recorded file that is missing": red("c.jsonl", "--rageval-cassette=c.jsonl", "--rageval-replay"),
    # Runs.
    "-x": red("stopping after 1 failures", "-x", file("rag/test_a.py", "def test_a(): assert 0\n")),
    "--maxfail": red(
        "stopping after 1 failures", "--maxfail=1", file("rag/test_a.py", "def test_a(): assert 0\n")
    ),
    "an interrupted run": red(
        "KeyboardInterrupt", process, file("rag/test_a.py", "def test_a(): raise KeyboardInterrupt\n")
    ),
    "a collection error": red(
        "no_such_module", "--continue-on-collection-errors", gate(f"import no_such_module\n{GATE}")
    ),
    "workers": red(FAIL, process, "-n2"),
    "a worker that crashes": red("crashed", process, "-n1", retriever("import os; os._exit(0)")),
}


@pytest.fixture(scope="session")
def _baselines() -> dict[str, str]:
    """Baselines that a good retriever wrote, by the body of the gated test."""
    return {}


@pytest.fixture
def broken(project: Project, _baselines: dict[str, str]) -> Callable[[str], Project]:
    def make(before: str) -> Project:
        project.evalset(20)
        project.test(before, name="rag/test_it")
        file("test_unit.py", "def test_unit(): pass\n")(project)
        path = project.path / "rageval_baseline.json"
        if before in _baselines:
            path.write_text(_baselines[before], encoding="utf-8")
        else:
            assert project.run(UPDATE).ret == 0
            _baselines[before] = path.read_text(encoding="utf-8")
        project.lose(*range(13, 21))
        return project

    return make


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_is_red_or_visible(way, broken, monkeypatch):
    project = broken(way.before)
    monkeypatch.setenv("CI", "true")
    arguments = []
    for change in way.changes:
        if isinstance(change, str):
            arguments.append(change)
        elif isinstance(change, dict):
            for name, value in change.items():
                monkeypatch.setenv(name, value)
        else:
            change(project)
    result = project.run(*arguments)
    text = " ".join(" ".join([*result.outlines, *result.errlines]).split())
    assert fnmatchcase(text, f"*{way.shown}*"), way.shown
    assert bool(result.ret) == way.red
