"""`rageval_evalset("…", format=…, sample=…, fields=…)`: eval sets in formats other than the native one."""

import pytest

GATE = """
@pytest.mark.rageval_evalset({marker})
@pytest.mark.rageval_threshold("recall@2", min=1)
def test_gate(): pass
"""
TABLE = "n,query,doc,kind\n" + "".join(
    f"{i},What is the code of item-{i}?,doc-{i},{'odd' if i % 2 else 'even'}\n" for i in range(1, 11)
)
FIELDS = 'fields={"id": "n", "question": "query", "gold.id": "doc", "tags.topic": "kind"}'
QUERIES = "".join(f"{i}\tWhat is the code of item-{i}?\n" for i in range(1, 4))
QRELS = "".join(f"{i} 0 doc-{i} 1\n" for i in range(1, 4))
RUN = """
import pytest
from pathlib import Path
from pytest_rageval.evalsets import LoadOptions, load
from pytest_rageval.extensions.baseline_retrievers.trec_run import TrecRun

@pytest.fixture(scope="session")
def rageval_retriever():
    return TrecRun(Path(__file__).parent / "a.run", load(Path(__file__).parent / "trec"))
"""
PLUGIN = """
def pytest_rageval_register(registry):
    def read(path, *, separator="?"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            question, _, document = line.partition(separator)
            yield f"{path.name} line {number}", {"id": number, "question": question + "?", "gold": [{"id": document}]}

    registry.add_format("faq", lambda shape: shape.suffix == ".faq", read)
"""


def _write(project, name, content):
    path = project.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _run(project, marker):
    project.pytester.makepyfile("import pytest\n" + GATE.format(marker=marker))
    return project.run()


EVALSET = """
import pytest
from pytest_rageval import EvalSet, Example, Gold

def example(n, **fields):
    values = {{"id": n, "question": f"What is the code of item-{{n}}?", "gold": [Gold(f"doc-{{n}}")]}}
    return Example(**values | fields)

@pytest.mark.rageval_evalset(EvalSet("mine", [{examples}]))
@pytest.mark.rageval_threshold("recall@2", min=1, max_drop=0.1)
def test_gate(): pass
"""


def test_an_eval_set_in_python_is_checked_as_a_file_is(project):
    """Integer ids of an `EvalSet` are stored as strings in the baseline."""
    project.pytester.makepyfile(EVALSET.format(examples="example(1), example(2)"))
    for arguments in (["--rageval-update-baseline"], []):
        project.run(*arguments, passed=1)
    for second, message in (
        (
            "example(1)",
            "EvalSet 'mine', example 2: the id \"1\" is already that of EvalSet 'mine', example 1.",
        ),
        (
            "example(2, gold='doc-2')",
            "EvalSet 'mine', example 2: \"gold\" is the text 'doc-2', expected a list.",
        ),
    ):
        project.pytester.makepyfile(EVALSET.format(examples=f"example(1), {second}"))
        result = project.run(errors=1, shows=message.replace("[", "[[]"))
        result.stdout.no_fnmatch_line("*pytest_rageval/*")


@pytest.mark.parametrize(
    ("arguments", "count"), [(FIELDS, 10), (f"{FIELDS}, sample=4", 4), (f'format="table", {FIELDS}', 10)]
)
def test_a_table_with_a_field_map(project, arguments, count):
    _write(project, "evals.csv", TABLE)
    body = f'@pytest.mark.rageval_evalset("evals.csv", {arguments})\ndef test_it(rageval):\n'
    body += f"    assert rageval.score('recall@2') == 1.0\n    assert len(rageval.examples) == {count}\n"
    body += f"    assert sum(e.tags['topic'] == 'odd' for e in rageval.examples) == {count // 2}\n"
    project.pytester.makepyfile("import pytest\n" + body)
    project.run(passed=1)


def test_two_tests_with_other_words_have_other_sets(project):
    body = "".join(
        f'@pytest.mark.rageval_evalset("evals.jsonl", sample={n})\n'
        f"def test_{n}(rageval):\n    assert len(rageval.examples) == {n}\n"
        for n in (2, 3)
    )
    project.pytester.makepyfile("import pytest\n" + body)
    project.run(passed=2)


def test_records_and_data_frames_take_a_field_map_too(project):
    records = '[{"n": 1, "query": "What is the code of item-1?", "doc": "doc-1", "kind": "odd"}]'
    _run(project, f"{records}, {FIELDS}").assert_outcomes(passed=1)


def test_a_folder_with_topics_and_a_recorded_run(project):
    _write(project, "trec/topics.tsv", QUERIES)
    _write(project, "trec/qrels.txt", QRELS)
    _write(project, "a.run", "1 Q0 doc-1 1 9 me\n2 Q0 doc-2 1 9 me\n3 Q0 doc-9 1 9 me\n")
    project.pytester.makeconftest(RUN)
    result = _run(project, '"trec"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  fail *recall@2 *0.667 *"])


def test_another_plugin_adds_a_format(project):
    """A plugin adds a format that is recognized by the file's suffix and has an option of its own."""
    project.add(PLUGIN)
    _write(project, "a.faq", "What is the code of item-1?doc-1\n")
    _run(project, '"a.faq"').assert_outcomes(passed=1)
    _write(project, "b.faq", "What is the code of item-1|doc-1\n")
    _run(project, '"b.faq", separator="|"').assert_outcomes(passed=1)


def test_a_format_of_a_taken_name_is_an_error(project):
    project.add(PLUGIN.replace('"faq"', '"beir"'))
    result = _run(project, '"evals.jsonl"')
    result.stdout.fnmatch_lines(["*There is an eval set format 'beir' already. Choose another name.*"])


def test_a_key_that_resembles_a_known_one_is_reported_once(project):
    _write(
        project, "e.jsonl", '{"id": 1, "question": "Where?", "golds": [{"id": "doc-1"}], "author": "Ann"}\n'
    )
    marked = GATE.format(marker='"e.jsonl"')
    project.pytester.makepyfile("import pytest\n" + marked + marked.replace("test_gate", "test_again"))
    lines = project.run().stdout.str().splitlines()
    (line,) = (line for line in lines if line.startswith("warning: "))
    assert line.startswith(
        'warning: e.jsonl: the key "golds" is not read (in 1 of 1 example). Was "gold" meant? '
    )
    assert line.endswith('name it in the marker: rageval_evalset("…", fields={"gold": "golds"}).')


@pytest.mark.parametrize("arguments", [(), ("-q",)])
def test_a_file_beside_the_test_that_is_not_read_is_named(project, arguments):
    marked = GATE.format(marker='"evals.jsonl"')
    _write(
        project, "service/test_it.py", "import pytest\n" + marked + marked.replace("test_gate", "test_again")
    )
    other = '{"id": 1, "question": "Where?", "gold": [{"id": "doc-1"}]}\n'
    _write(project, "service/evals.jsonl", other)
    warning = (
        "warning: evals.jsonl: evals.jsonl is read, from the root directory, and service/evals.jsonl, beside the test, "
        'is not. To read that one, write rageval_evalset("service/evals.jsonl")'
    )
    result = project.run(*arguments, "service", passed=2)
    assert str(result.stdout).splitlines().count(warning) == 1
    (project.path / "service" / "test_it.py").write_text(
        (project.path / "service" / "test_it.py")
        .read_text(encoding="utf-8")
        .replace("evals.jsonl", "service/evals.jsonl"),
        encoding="utf-8",
    )
    assert "warning: " not in str(project.run(*arguments, "service").stdout)
