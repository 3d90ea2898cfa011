"""Gold ids in another field than the id: the error that names it, and the setting that uses it."""

import pytest

from pytest_rageval import Document, Ranking
from pytest_rageval.retrievers.fields import FieldSample

SOURCES = """
import uuid
from types import SimpleNamespace
import pytest

def search(query, k):
    wanted = int(query.split("item-")[1].rstrip("?"))
    found = [wanted, *(n for n in range(1, 9) if n != wanted)]
    return [
        SimpleNamespace(id=str(uuid.uuid4()), page_content=f"item-{n}", metadata={"source": f"doc-{n}", "page": n})
        for n in found[:k]
    ]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""
GATE = """
@pytest.mark.rageval_threshold("recall@3", min=0.9)
def test_gate(rageval):
    assert "doc-2" in rageval.retrieve("item-2", k=3)
"""
LINE = 'rageval_document_id = "metadata.source"'


@pytest.fixture
def sources(project):
    project.pytester.makeconftest(SOURCES)
    project.test(GATE)
    return project


def test_the_field_with_the_gold_ids_is_an_error_with_the_line_to_write(sources):
    sources.run(
        errors=1,
        shows=[
            "*No retrieved document has the id of a gold passage: they have ids such as '*-*-*'.",
            "*Their field metadata.source has ids of gold passages, in 4 of 4 rankings: 'doc-1', 'doc-2', 'doc-3', …*",
            f"*To use it as the id, write in pytest.ini or under [[]tool.pytest.ini_options]: {LINE}",
        ],
    )


def test_documents_without_any_id_are_searched_for_the_gold_ids_too(sources):
    sources.pytester.makeconftest(SOURCES.replace("id=str(uuid.uuid4()), ", ""))
    sources.run(
        errors=1, shows=["*No retrieved document has the id of a gold passage: they have no ids.", f"*{LINE}"]
    )


def test_a_retriever_that_finds_nothing_scores_0(sources):
    sources.pytester.makeconftest(SOURCES.replace('"source": f"doc-{n}"', '"source": f"other-{n}"'))
    sources.gate("recall@3 min=0.9")
    result = sources.run(failed=1)
    result.stdout.no_fnmatch_line("*rageval_document_id*")


def test_a_field_with_the_gold_ids_in_another_form_is_shown_with_a_pair(sources):
    """Names of files in the eval set and their paths in a field are an error that shows one of each."""
    sources.evalset(4, gold=[{"id": "docs/doc-1.md"}])
    sources.pytester.makeconftest(SOURCES.replace('"source": f"doc-{n}"', '"source": f"DOCS\\\\doc-{n}"'))
    sources.run(
        errors=1,
        shows=[
            "*passage, and they have one like it in their field metadata.source: gold 'docs/doc-1.md', *'*doc-1*'.",
            'Write *. If the field is the id, write in pytest.ini *: rageval_document_id = "metadata.source".',
        ],
    )


def test_ids_in_another_form_are_shown_with_a_pair(project):
    project.evalset(1, gold=[{"id": "docs/doc-1"}])
    project.gate("recall@3 max_drop=0.02")
    project.run(
        "-q",
        errors=1,
        shows=[
            "*they have one like it: gold 'docs/doc-1', retrieved 'doc-1'.",
            "Write the ids in the eval set as the retriever returns them, *",
        ],
    )


@pytest.mark.parametrize(
    ("gold", "retrieved", "found"),
    [
        ("kb-1", "docs/kb-1.md", True),
        ("a/README.md", "README", True),
        ("a/README.md", "b/README.md", False),
        ("v1.2", "v1.3", False),
        ("1", "docs/1", False),
        ("", "x", False),
        (".md", ".txt", False),
    ],
)
def test_which_ids_are_of_one_file(gold, retrieved, found):
    """Ids are similar if one is the end of the other's path, whatever their suffixes; short numbers may be chance."""
    ranking = Ranking.of("q", [Document("t", retrieved)], 1)
    similar = FieldSample().similar_ids([(ranking, frozenset({gold}))])
    assert similar == (("", gold, retrieved) if found else None)


@pytest.mark.parametrize(
    ("file", "text"),
    [("pytest.ini", f"[pytest]\n{LINE}\n"), ("pyproject.toml", f"[tool.pytest.ini_options]\n{LINE}\n")],
)
def test_the_line_works_as_it_is_shown(sources, file, text):
    (sources.path / file).write_text(text, encoding="utf-8")
    sources.run(passed=1)


def test_the_setting_of_one_run(sources):
    sources.run("--rageval=document_id=metadata.source", passed=1)
    sources.run(
        "--rageval=document_id=metadata.url",
        errors=1,
        shows="*at rank 1, a document that has no field metadata.url: it has id, metadata.source, metadata.page.*",
    )


@pytest.mark.slow
def test_the_field_is_found_and_used_in_an_executor(sources):
    executor = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

@pytest.fixture(scope="session")
def rageval_executor():
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        yield executor
"""
    module = SOURCES.partition("@pytest.fixture")
    sources.pytester.makepyfile(my_search=module[0])
    sources.pytester.makeconftest(f"from my_search import *\nimport pytest\n{module[1]}{module[2]}{executor}")
    sources.run_process(errors=1, shows=f"*{LINE}")
    sources.run_process("--rageval=document_id=metadata.source", passed=1)


def test_what_the_retriever_was_recognised_as_is_said_with_v(project):
    project.gate("recall@3 min=0.9")
    assert "the retriever is" not in project.run("-v").stdout.str()
    conftest = (
        (project.path / "conftest.py").read_text(encoding="utf-8").replace("return search", "return Index()")
    )
    project.pytester.makeconftest(
        f"{conftest}\nclass Index:\n    def retrieve(self, query, k):\n        return search(query, k)\n"
    )
    project.run(
        "-v",
        "--rageval-report",
        "report.json",
        shows="*test_it.py::test_gate: the retriever is Index, by its method retrieve",
    )
    assert '"retriever": "Index, by its method retrieve"' in (project.path / "report.json").read_text(
        encoding="utf-8"
    )
