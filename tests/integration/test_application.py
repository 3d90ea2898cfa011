"""A run with the fixture `rageval_application`."""

import json

import pytest

from tests.foreign_plugins import WITHOUT

CONFTEST = """
import pytest
from pytest_rageval import capture

class Store:
    def similarity_search(self, query, k):
        number = int(query.split()[-1].rstrip("?"))
        return [{"id": f"d{(number + n) % 9}", "text": f"Code {(number + n) % 9}."} for n in range(k)]

STORE, ASKED = Store(), []

def ask(question):
    ASKED.append(question)
    found = STORE.similarity_search(question, k=2)
    return f"It is {found[0]['text']}"

@pytest.fixture(scope="session")
def rageval_application():
    with capture(STORE, "similarity_search"):
        yield ask
    assert len(ASKED) == len(set(ASKED)) == 6
"""
TEST = """
import pytest

pytestmark = pytest.mark.rageval_evalset("e.jsonl")

@pytest.mark.rageval_threshold("recall@5", min=0.9)
@pytest.mark.rageval_threshold("recall@1", min=0.9)
@pytest.mark.rageval_threshold("answer.containment@5", min=0.9)
def test_it():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    records = [
        {
            "id": f"q{n}",
            "question": f"What is code {n}?",
            "answers": [f"Code {n}"],
            "gold": [{"id": f"d{n}", "text": f"Code {n}."}],
        }
        for n in range(6)
    ]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return pytester


def test_retriever_and_generator_are_the_application(project: pytest.Pytester) -> None:
    project.makepyfile(TEST)
    result = project.runpytest(*WITHOUT, "-p", "no:randomly")
    assert result.ret == 0, result.stdout.str()


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("answer.containment@1", "this score needs an answer from the first 1"),
        ("llm_reteval@5", "such as the gold passages"),
    ],
)
def test_a_score_that_needs_other_passages_says_so(project: pytest.Pytester, score: str, words: str) -> None:
    if score.startswith("llm"):
        path = project.path / "e.jsonl"
        path.write_text(path.read_text().replace('"text": "Code', '"text": "Another text: code'))
    project.makepyfile(TEST.replace("answer.containment@5", score))
    result = project.runpytest(*WITHOUT)
    assert result.ret == 1
    assert words in " ".join(result.stdout.str().split()), result.stdout.str()


def test_an_error_of_the_fixture_names_its_line(project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST.replace('similarity_search")', 'similarity_serch")'))
    project.makepyfile(TEST)
    result = project.runpytest(*WITHOUT)
    result.assert_outcomes(errors=1)
    lines = result.stdout.str()
    assert "\ncapture: conftest.Store.similarity_serch is no function or method. Did you mean sim" in lines
    assert "conftest.py:18 in rageval_application" in lines
    assert "fixturefunc" not in lines


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise KeyError(question)", "rageval_application raised for 'What is code 0?': KeyError"),
        ("return 'It is 1.', [{'id': {}}]", "rageval_application returned "),
    ],
)
def test_a_failure_names_the_fixture_of_the_user(project, body, words):
    project.makeconftest(CONFTEST.replace("found = STORE", f"{body}\n    found = STORE"))
    project.makepyfile(TEST)
    result = project.runpytest(*WITHOUT, "-p", "no:randomly", "--rageval-report=r.json")
    lines = result.stdout.str()
    assert words in lines
    assert "rageval_retriever" not in lines
    [test] = json.loads((project.path / "r.json").read_text())["tests"]
    assert "failed_otherwise" not in json.dumps(test)


def test_an_application_beside_a_retriever_is_not_asked_and_that_is_said(project):
    retriever = """
@pytest.fixture(scope="session")
def rageval_retriever():
    return STORE.similarity_search
"""
    project.makeconftest(f"{CONFTEST.replace('== 6', '== 0')}{retriever}")
    project.makepyfile(TEST)
    result = project.runpytest(*WITHOUT, "-p", "no:randomly")
    lines = " ".join(result.stdout.str().split())
    assert "ask was not asked: the passages are those of rageval_retriever" in lines


def test_the_header_names_no_generator_that_is_not_used(project, llm, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", llm.url)
    project.makepyfile(TEST.replace("answer.containment@5", "answer.correct@5"))
    result = project.runpytest(*WITHOUT, "--rageval-model=m1", "-p", "no:randomly")
    result.stdout.fnmatch_lines(["your own generator, answers judged by m1"])


@pytest.mark.parametrize(
    ("captured", "name"),
    [
        ("OTHER, 'similarity_search'", "conftest.Store.similarity_search"),
        ("Store(), 'similarity_search'", "conftest.Store.similarity_search"),
        ("'llama_index'", "llama_index"),
    ],
)
def test_an_application_of_which_no_search_is_seen_is_an_error(project, captured, name):
    """The method that is captured is not the one that it calls: its index is not empty."""
    if "index" in name:
        pytest.importorskip("llama_index.core")
    code = CONFTEST.replace('STORE, "similarity_search"', captured).replace("STORE, ASK", "OTHER, STORE, ASK")
    project.makeconftest(code.replace("= Store(), [", "= Store(), Store(), ["))
    project.makepyfile(TEST.replace('"recall@1", min=0.9', '"recall@1", max_drop=0.1'))
    result = project.runpytest(*WITHOUT, "-q")
    result.assert_outcomes(errors=1)
    lines = " ".join(result.stdout.str().split())
    assert "ask answered 6 questions, and no search was seen" in lines
    assert f"Captured was {name}: is that what the application calls, and the same object?" in lines
    assert "index built" not in lines
    assert "scores 0" not in lines


def test_small_talk_needs_no_search(project: pytest.Pytester) -> None:
    path = project.path / "e.jsonl"
    path.write_text(path.read_text().replace('"gold": [{', '"other": [{'))
    project.makeconftest(
        CONFTEST.replace("STORE.similarity_search(question, k=2)", "[{'text': question[-3:-1]}]")
    )
    project.makepyfile("""
        import pytest

        @pytest.mark.rageval_evalset("e.jsonl")
        @pytest.mark.rageval_threshold("answer.containment@5", min=0.0)
        def test_it():
            pass
    """)
    result = project.runpytest(*WITHOUT, "-q")
    assert result.ret == 0, result.stdout.str()
