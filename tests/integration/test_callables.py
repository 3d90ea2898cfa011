"""Retrievers, generators and judges of users: sync and async functions, and objects."""

import pytest

GATE = '@pytest.mark.rageval_threshold("{spec}", min=1.0)\ndef test_gate(): pass\n'


def test_threads_are_used_where_they_are_allowed(project):
    project.pytester.makeconftest(
        "import threading, pytest\n"
        "together = threading.Barrier(4)\n"
        "def search(query, k):\n"
        "    together.wait(60)\n"
        "    return [{'id': 'doc-' + query.split('item-')[1].rstrip('?'), 'text': 'x'}]\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_retriever(): return search\n"
    )
    project.test(GATE.format(spec="recall@1"))
    project.run("--rageval=threads=4", passed=1)


@pytest.mark.parametrize("document", ["Document('x', n)", "{'id': float(n), 'text': 'x'}"])
def test_ids_of_documents_may_be_numbers(project, document):
    """Numeric ids match gold passages. The baseline stores them as strings, which the next run can read."""
    project.evalset(4)
    path = project.path / "evals.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"doc-', '"'), encoding="utf-8")
    project.pytester.makeconftest(
        "import pytest\n"
        "from pytest_rageval import Document\n"
        "def search(query, k):\n"
        "    n = int(query.split('item-')[1].rstrip('?'))\n"
        f"    return [{document}]\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_retriever(): return search\n"
    )
    project.test(GATE.format(spec="recall@1").replace("min=1.0", "min=1.0, max_drop=0.1"))
    for arguments in (["--rageval-update-baseline"], ["-v"]):
        project.run(*arguments, passed=1)


def test_the_retriever_is_called_once_in_every_run(project):
    """The retriever is called once per question in every run: its results are not cached on disk."""
    project.change(
        "def search(query, k):", "def search(query, k):\n    with open('asked', 'a') as log: log.write('.')"
    )
    project.test(GATE.format(spec="recall@2") + GATE.format(spec="mrr@2").replace("test_gate", "test_again"))
    project.run(passed=2)
    assert len((project.path / "asked").read_text()) == 4
    project.run()
    assert len((project.path / "asked").read_text()) == 8


def test_a_generator_and_a_judge_of_the_users_need_no_server(project):
    project.add(
        "@pytest.fixture(scope='session')\n"
        "def rageval_generator():\n"
        "    def answer(question, passages): return ' '.join(map(str, passages)).split()[-1]\n"
        "    return answer\n"
        "class Judge:\n"
        "    async def compare(self, question, references, prediction): return prediction in references\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_judge(): return Judge()\n"
    )
    project.test(GATE.format(spec="llm_reteval@1"))
    result = project.run(passed=1)
    result.stdout.no_fnmatch_line("*replies:*")


OWN_JUDGE = """

@pytest.fixture(scope="session")
def rageval_judge():
    class Judge:
        {0}def compare(self, question, references, prediction):
            if question.endswith({1!r}):
                raise LookupError("no such table")
            return True
    return Judge()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "async "])
def test_a_judge_that_fails_at_one_question_leaves_it_unscored(project, llm, kind):
    project.use(llm)
    llm.model = lambda _prompt: "c1x"
    project.evalset(40)
    project.add(OWN_JUDGE.format(kind, "item-7?"))
    project.gate("answer.correct@1 min=0.9")
    project.run(
        passed=1,
        shows=[
            "  pass     answer.correct@1  1.000  ≥ 0.9  39 of 40  *",
            "*1 × rageval_judge.compare raised LookupError: no such table (conftest.py:*)",
        ],
    )
    assert len(llm.requests) == 40


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_judge_that_fails_at_the_first_few_ends_the_test_before_the_others_are_paid_for(project, llm, kind):
    project.use(llm)
    llm.model = lambda _prompt: "c1x"
    project.evalset(40)
    project.add(OWN_JUDGE.format(kind, "?"))
    project.gate("answer.correct@1 min=0.9")
    project.run(
        errors=1,
        shows=["rageval_judge.compare raised for * LookupError: no such table", "*conftest.py:* in compare"],
    )
    assert len(llm.requests) == 5


def test_a_judge_may_be_a_function(project, llm):
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    judge = "\ndef same({}): return prediction in references\n"
    fixture = "@pytest.fixture(scope='session')\ndef rageval_judge(): return same\n"
    project.use(llm)
    project.gate("answer.correct@1 max_drop=0.1")
    project.pytester.makeconftest(f"{source}{judge.format('question, prediction')}{fixture}")
    project.run(
        errors=1,
        shows=[
            "rageval_judge is same(question, prediction), and is called with three arguments: compare(*).",
            "Give it these parameters.",
        ],
    )
    assert not llm.requests
    project.pytester.makeconftest(f"{source}{judge.format('question, references, prediction')}{fixture}")
    project.run("--rageval-update-baseline", passed=1)
    baseline = (project.path / "rageval_baseline.json").read_text(encoding="utf-8")
    assert "conftest.same" in baseline
