"""Bad input is a clear error with a remedy and without frames of pytest_rageval; other tests are not affected."""

import pytest

from tests.llm_server import Fault, clerk

GATE = '@pytest.mark.rageval_threshold("{spec}", min=0.1)\ndef test_gate(): pass\ndef test_other(): pass\n'


def retriever(project, body):
    project.pytester.makeconftest(
        f'import pytest\n@pytest.fixture(scope="session")\ndef rageval_retriever():\n'
        f"    def search(query, k):\n        {body}\n    return search\n"
    )


def errors_with(result, *lines):
    """Assert that one test is an error with these lines, the other passes, and no frame of pytest_rageval is shown."""
    result.assert_outcomes(errors=1, passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(list(lines))
    result.stdout.no_fnmatch_line("*pytest_rageval/*")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_missing_retriever_shows_the_lines_to_write(project):
    project.pytester.makeconftest("")
    project.test(GATE.format(spec="recall@2"))
    errors_with(
        project.run(),
        "There is no fixture rageval_retriever, *",
        '    @pytest.fixture(scope="session")',
        "    def rageval_retriever():",
        "        return search  # (query, k) -> documents",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("recal@2", "There is no score 'recal'. Did you mean recall?"),
        ("answer.bleurt@2", "There is no score 'answer.bleurt'.*"),
        ("recall", "'recall' has no cut-off*"),
        ("recall@0", "'recall@0': the cut-off k is 0, *"),
        ("recall@-1", "'recall@-1': the cut-off k is -1, *"),
        ("recall at 5", "'recall at 5' is not a score. *"),
    ],
)
def test_a_score_that_is_none_is_named(project, spec, message):
    project.test(GATE.format(spec=spec))
    errors_with(project.run(), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "evals.jsonl contains no examples."),
        ("{]\n", "evals.jsonl line 1 is not JSON: *"),
        ('{"id": "a"}\n', 'evals.jsonl line 1: "question" is missing. Found: id.'),
        ('\n{"id": "a", "question": 7}\n', 'evals.jsonl line 2: "question" is 7, expected text.'),
    ],
)
def test_a_broken_eval_set_is_named_with_its_line(project, content, message):
    project.test(GATE.format(spec="recall@2"))
    (project.path / "evals.jsonl").write_text(content, encoding="utf-8")
    errors_with(project.run(), message)


def test_a_missing_eval_set_says_where_it_was_looked_for(project):
    project.test(GATE.format(spec="recall@2"))
    (project.path / "evals.jsonl").unlink()
    errors_with(project.run(), "There is no eval set 'evals.jsonl'.* Looked for:", "  */evals.jsonl")


@pytest.mark.parametrize(
    ("written", "there", "hint"),
    [
        ("evals/qs.jsonl", "evals/q.jsonl", " Did you mean evals/q.jsonl?"),
        ("q.jsonl", "evals/q.jsonl", " Did you mean evals/q.jsonl?"),
        ("data/q.jsonl", "evals/q.jsonl", " Did you mean evals/q.jsonl?"),
        ("quite/other.csv", "evals/q.jsonl", ""),
    ],
)
def test_a_mistyped_path_of_an_eval_set_names_a_similar_file(project, written, there, hint):
    (project.path / "evals").mkdir()
    (project.path / there).write_text("{}", encoding="utf-8")
    project.pytester.makepyfile(
        f'import pytest\n@pytest.mark.rageval_evalset("{written}")\n{GATE.format(spec="recall@2")}'
    )
    errors_with(project.run(), f"There is no eval set '{written}'.{hint} Looked for:")


def test_two_eval_sets_on_one_test_are_an_error(project):
    """Two marks on one function, or one module, are an error, since one would be ignored; an override is none."""
    mark = '@pytest.mark.rageval_evalset("evals.jsonl")\n'
    project.test(mark + GATE.format(spec="recall@2"))
    project.run(passed=2)
    project.evalset(3, "more.jsonl")
    project.test(mark + mark.replace("evals.", "more.") + GATE.format(spec="recall@2"))
    errors_with(
        project.run(), "test_it.py::test_gate has two marks rageval_evalset: 'more.jsonl' and 'evals.jsonl'."
    )
    marks = "".join(f'pytest.mark.rageval_evalset("{name}.jsonl"), ' for name in ("evals", "more"))
    project.pytester.makepyfile(
        test_it=f"import pytest\npytestmark = [{marks}]\n{GATE.format(spec='recall@2')}"
    )
    project.run(shows="test_it.py::test_gate has two marks rageval_evalset: *")


@pytest.mark.parametrize(
    ("first", "second", "is_error"),
    [
        ("min=0.5", "min=0.6", True),
        ("max_drop=0.1", "min=0.1, max_drop=0.02", True),
        ("min=0.5", "max_drop=0.02", False),
        ("max_drop=0.1", "max_drop=0.02, policy='release'", False),
        ("min=0.5", 'min=0.6, where={"topic": "odd"}', False),
        ("min=0.5", 'min=0.6, by="topic"', False),
    ],
)
def test_one_bound_of_a_score_twice_is_an_error(project, first, second, is_error):
    marks = "".join(f'@pytest.mark.rageval_threshold("recall@2", {bounds})\n' for bounds in (first, second))
    project.test(f"{marks}def test_gate(): pass\ndef test_other(): pass\n")
    result = project.run()
    if is_error:
        errors_with(
            result, "Two marks rageval_threshold bound recall@2: m*=0.* and m*=0.*. Keep one of them."
        )
    else:
        result.assert_outcomes(passed=2)


def test_a_long_list_of_fields_is_cut(project):
    fields = '**{f"field_{n}": n for n in range(90)}'
    project.change('"text": CORPUS[name]}', f'"text": CORPUS[name], {fields}}}')
    project.test(GATE.format(spec="recall@2"))
    result = project.run("--rageval=document_id=nothing")
    errors_with(result, "*it has id, field_0, field_1, *, field_10, ….")
    result.stdout.no_fnmatch_line("*field_11*")


def test_a_threshold_without_an_eval_set_shows_the_mark(project):
    project.pytester.makepyfile("import pytest\n" + GATE.format(spec="recall@2"))
    errors_with(project.run(), 'This test has no eval set to score. *rageval_evalset("evals/support.jsonl").')


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (
            '"recall@2"',
            "*has no bound: give min, *. To show the score and bound nothing, call rageval.score('recall@2') *",
        ),
        (
            '"recall@2", minimum=1',
            "*no keyword 'minimum'. Did you mean min? Allowed: min, max, max_drop, max_lost, *",
        ),
        ('"recall@2", min="1"', "*min='1' is not a number."),
        ('"recall@2", min=0.9, max=0.1', "*min=0.9 is above max=0.1."),
        ("min=0.9", "*needs the name of one score, *"),
        ('"recall@2", min=1, where={"topic": "none"}', "No example has topic='none'. The tags there are:"),
    ],
)
def test_a_threshold_that_makes_no_sense_is_named(project, marker, message):
    project.test(f"@pytest.mark.rageval_threshold({marker})\ndef test_gate(): pass\ndef test_other(): pass\n")
    errors_with(project.run(), message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "rageval_retriever returned NoneType for 'What is the code of item-1?'."),
        ("return 'doc'", "rageval_retriever returned str for *"),
        ("return {'id': 'doc'}", "rageval_retriever returned dict with the fields id for *"),
        ("return {'doc'}", "rageval_retriever returned set for *"),
        (
            "from pytest_rageval import Document; return [Document('doc', span=('a.md', 5))]",
            "*, at rank 1, a document that has an invalid span: ('a.md', 5).",
        ),
        ("return [{'name': 'doc'}]", "*, at rank 1, a document that has no text: dict with the keys name."),
        ("return [3]", "*, at rank 1, a document that has no text: int."),
        ("return 1 / 0", "rageval_retriever raised for *: ZeroDivisionError: division by zero"),
    ],
)
def test_a_retriever_that_returns_nonsense_or_raises_is_named(project, body, message):
    retriever(project, body)
    project.test(GATE.format(spec="recall@2"))
    result = project.run()
    errors_with(result, message)
    if "/" in body:
        result.stdout.fnmatch_lines(["  *conftest.py:5 in search"])


@pytest.mark.parametrize("reason", ["raised IndexError: list index out of range", "returned NoneType"])
def test_a_retriever_that_fails_at_one_question_leaves_it_unscored(project, reason):
    project.evalset(20)
    fails = "return None" if "None" in reason else "return [][0]"
    project.change("    wanted =", f"    if 'item-7?' in query: {fails}\n    wanted =")
    project.test(GATE.format(spec="recall@2").replace("min=0.1", "min=0.95"))
    project.run(
        "--rageval-report=report.json",
        passed=2,
        shows=[
            "  pass * recall@2  1.000 * ≥ 0.95 * 19 of 20*",
            "    recall@2: 1 question at which the retriever failed",
        ],
    )
    (test,) = project.read()["tests"]
    (score,) = test["scores"]
    assert score["oddities"] == {"failed": 1}
    assert score["examples"][6] == {
        "id": "q7",
        "score": None,
        "unscored": f"rageval_retriever {reason}{' (conftest.py:6)' if 'raised' in reason else ''}",
    }


def test_a_retriever_that_fails_at_more_than_may_be_unscored_is_an_error(project):
    project.change("    wanted =", "    if 'item-2?' in query: return [][0]\n    wanted =")
    project.test(GATE.format(spec="recall@2"))
    errors_with(
        project.run(),
        "rageval_retriever raised for 'What is the code of item-2?': IndexError: list index out of range",
        "  *conftest.py:* in search",
        "It affects 1 example: q2.",
        "More than the allowed 5% of 4 examples have no score. Fix it, or * --rageval max_unscored=SHARE.",
    )
    project.run("--rageval=max_unscored=0.25", passed=2)


def test_a_query_that_fails_is_an_error_where_it_is_asked_for_itself(project):
    retriever(project, "return [][0]")
    project.test(
        "from pytest_rageval.core.errors import CallableError\n"
        "def test_it(rageval):\n"
        "    with pytest.raises(CallableError, match='raised for .why..: IndexError'):\n"
        "        rageval.retrieve('why?', k=1)\n"
        "    rageval.retrieve('how?', k=1)\n"
    )
    result = project.run(
        failed=1, shows=[">*rageval.retrieve('how?', k=1)", "E*rageval_retriever raised for 'how?': *"]
    )
    result.stdout.no_fnmatch_line("*pytest_rageval/*")


def test_a_retriever_that_is_no_callable_is_named(project):
    project.pytester.makeconftest(
        'import pytest\n@pytest.fixture(scope="session")\ndef rageval_retriever():\n    return ["doc"]\n'
    )
    project.test(GATE.format(spec="recall@2"))
    errors_with(project.run(), "rageval_retriever is list, which cannot be called.")


@pytest.mark.parametrize("fixture", ["retriever", "generator", "judge", "executor"])
def test_an_unusable_fixture_ends_its_test_and_not_the_run_that_writes_a_report(project, fixture):
    project.add(f"@pytest.fixture(scope='session')\ndef rageval_{fixture}():\n    return [1]")
    project.test(GATE.format(spec="recall@1"))
    project.run("--rageval-report=report.json", "--rageval-report=report.html", passed=1, errors=1)
    (entry,) = project.read()["tests"]
    (score,) = entry["scores"]
    assert (entry["outcome"], score["verdict"], score["examples"]) == ("error", "error", [])
    assert score["reason"].startswith(f"rageval_{fixture} is list")


@pytest.mark.parametrize(
    ("fixture", "message"),
    [
        (
            "def rageval_retriever(query, k):\n    return []",
            "The fixture rageval_retriever has the argument query: the arguments of a fixture are other fixtures. *",
        ),
        (
            "async def rageval_retriever():\n    return lambda query, k: []",
            "The fixture rageval_retriever is an async function, which nothing awaits. *",
        ),
        (
            "async def rageval_retriever():\n    yield lambda query, k: []",
            "The fixture rageval_retriever is an async function, which nothing awaits. *",
        ),
        (
            "def rageval_retriever():\n    async def search(query, k): ...\n    return search('a', 1)",
            "rageval_retriever is a coroutine: the fixture is async, or calls the async function.",
        ),
        (
            "def rageval_retriever():\n    def search(top_k, question): return []\n    return search",
            "The retriever search(top_k, question) has the number of documents first, *",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine.*was never awaited")
def test_a_fixture_or_function_of_another_form_is_named(project, fixture, message):
    project.pytester.makeconftest(f"import pytest\n@pytest.fixture(scope='session')\n{fixture}\n")
    project.test(GATE.format(spec="recall@1"))
    project.run("-W", "ignore", errors=1, passed=1, shows=message)


def test_a_generator_with_the_passages_first_is_named(project):
    project.add(
        "@pytest.fixture(scope='session')\ndef rageval_generator():\n"
        "    return lambda passages, question: 'no'\n"
    )
    project.test(GATE.format(spec="answer.em@1"))
    project.run(
        errors=1, passed=1, shows="rageval_generator is a function (passages, question), and is called with *"
    )


def test_an_error_in_an_assert_style_test_shows_the_line_and_not_our_frames(project):
    project.test("def test_it(rageval):\n    assert rageval.score('recal@2') > 0\n")
    result = project.run(failed=1, shows=[">*rageval.score('recal@2')*", "E*There is no score 'recal'.*"])
    result.stdout.no_fnmatch_line("*pytest_rageval/*")


def test_k_below_one_is_an_error_in_retrieve(project):
    project.test("def test_it(rageval):\n    rageval.retrieve('item-1?', k=0)\n")
    project.run(shows="E*k = 0: the number of documents is an integer, at least 1.")


def test_k_may_be_an_integer_of_numpy(project):
    project.test(
        "import numpy\ndef test_it(rageval):\n    assert len(rageval.retrieve('item-1?', k=numpy.int64(2))) == 2\n"
    )
    project.run(passed=1)


@pytest.mark.parametrize("call", ["retrieve(['why?', 'how?'], k=1)", "answer(['why?', 'how?'], k=1)"])
def test_a_question_is_one_text(project, call):
    project.test(f"def test_it(rageval):\n    rageval.{call}\n")
    result = project.run(shows="E*: it is one text or one example, found list.")
    result.stdout.no_fnmatch_line("*unhashable*")


def test_a_judge_without_its_method_is_named(project, llm):
    project.use(llm)
    project.add('@pytest.fixture(scope="session")\ndef rageval_judge():\n    return object()')
    project.test(GATE.format(spec="llm_reteval@1"))
    errors_with(
        project.run(),
        "rageval_judge is object, which is not a function, and lacks the method compare(question, references, *",
    )


def test_no_server_is_an_error_that_says_so_once(project, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    project.ini(rageval_model="m1", rageval_retries="0")
    project.test(
        '@pytest.mark.rageval_threshold("recall@2", min=0.1)\n'
        '@pytest.mark.rageval_threshold("llm_reteval@2", min=0.1)\n'
        "def test_gate(): pass\ndef test_other(): pass\n"
    )
    result = project.run()
    errors_with(result, "No server answers at http://127.0.0.1:9/v1 (*", "Start it, or name another with *")
    result.stdout.fnmatch_lines(["  pass *recall@2 *1.000*", "  error *llm_reteval@2 *"])


def test_a_wrong_key_is_an_error_that_names_the_variable_and_not_the_key(project, llm):
    llm.model = lambda _: Fault(401)
    project.use(llm)
    project.evalset(20)
    project.test(GATE.format(spec="llm_reteval@1"))
    result = project.run("--rageval=concurrency=2")
    errors_with(result, "The server at * refused the key in OPENAI_API_KEY (status 401).")
    result.stdout.no_fnmatch_line("*sk-secret*")
    assert len(llm.requests) <= 2


def test_an_unknown_model_is_named(project, llm):
    llm.model = lambda _: Fault(404, message="model not found")
    project.use(llm, model="gtp-4")
    project.test(GATE.format(spec="llm_reteval@1"))
    errors_with(project.run(), "The server at * does not know the model 'gtp-4' or the path: *")


def test_a_key_without_a_model_is_an_error_for_what_needs_one_alone(project, monkeypatch):
    """No model is chosen by default, because it costs money."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    project.test(
        '@pytest.mark.rageval_threshold("recall@2", min=0.1)\ndef test_ranking(): pass\n'
        '@pytest.mark.rageval_threshold("llm_reteval@2", min=0.1)\ndef test_answers(): pass\n'
    )
    errors_with(project.run(), "OPENAI_API_KEY is set, but no model is named.")


def test_what_was_paid_before_an_error_is_in_the_cache(project, llm):
    project.use(llm)
    project.evalset(6)
    served = []

    def dies(prompt):
        if len(served) >= 5:
            return Fault(401)
        served.append(prompt)
        return clerk(prompt)

    llm.model = dies
    project.gate("llm_reteval@1 min=0.1")
    project.run("--rageval=concurrency=1", errors=1)
    first = len(llm.requests)
    llm.model = clerk
    project.run(passed=1)
    assert (
        len(llm.requests) - first == 6 * 3 + 6 - 5
    )  # three samples and one verdict per question, less the five cached replies


@pytest.mark.slow
def test_an_error_ends_at_the_users_own_line(project):
    project.evalset(1)
    project.pytester.makeconftest(
        """
import pytest
from pytest_rageval import BM25Retriever

@pytest.fixture(scope="session")
def rageval_retriever():
    return BM25Retriever("corpus.jsonl")
"""
    )
    project.test(
        "from pytest_rageval import BM25Retriever, TrecRun\n"
        "def test_asked(rageval): pass\n"
        "def test_made(): BM25Retriever([])\n"
        "def test_read(): TrecRun('nowhere.run', [])\n"
    )
    result = project.run(
        errors=1,
        failed=2,
        shows=[
            '>       return BM25Retriever("corpus.jsonl")',
            "E       *InputError: Passages are given as a list, found str: 'corpus.jsonl'",
            ">*test_made(): BM25Retriever([[][]])",
            "E *InputError: BM25 needs passages with words*",
            ">*TrecRun('nowhere.run'*",
            "E *InputError: *nowhere.run*",
        ],
    )
    result.stdout.no_fnmatch_line("*pytest_rageval/*.py:*")
    result.stdout.no_fnmatch_line("*exception was the direct cause*")
