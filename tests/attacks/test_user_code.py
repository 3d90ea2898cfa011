"""Attack: the user's generator, judge or plugin has an error. Promise: only the questions at which it fails are lost.

One failed question is unscored, with the line of the code; too many are an error; a mistake that affects every question
is reported after the first few.
"""

from fnmatch import fnmatch

import pytest

pytestmark = pytest.mark.slow

N = 40
FIRST = 5
"""Number of questions that are evaluated first, to detect a mistake that affects all questions."""

GENERATOR = """
@pytest.fixture(scope="session")
def rageval_generator():
    {kind}def answer(question, passages):
        with open("asked", "a") as log: log.write(question + chr(10))
        {body}
        return passages[0].text.split()[-1].rstrip(".")
    return answer
"""

JUDGE = """
class Judge:
    def compare(self, question, references, prediction): {body}; return prediction in references
    def grade(self, question, references, prediction): {body}; return float(prediction in references)
    async def relevant(self, question, passage): {body}; return True
    def sufficient(self, question, passages): {body}; return True
    async def prefer(self, question, first, second): {body}; return 1
    def rate(self, criterion, question, rated, against): {body}; return 4
    def support(self, question, nuggets, passage): {body}; return ["support"] * len(nuggets)

@pytest.fixture(scope="session")
def rageval_judge(): return Judge()

@pytest.fixture(scope="session")
def rageval_generator():
    return lambda question, passages: passages[0].text.split()[-1].rstrip(".")
"""

RAISES = "1 / ('item-7?' not in question)"


def _write(project, code):
    source = (project.path / "conftest.py").read_text(encoding="utf-8").partition("\n# own\n")[0]
    project.pytester.makeconftest(source.replace("range(1, 21)", f"range(1, {N + 1})") + "\n# own\n" + code)
    project.evalset(N, reference="It is small.", nuggets=["It has a code"])


def _gate(spec, minimum=0.0, **words):
    more = "".join(f", {name}={value!r}" for name, value in words.items())
    return f'@pytest.mark.rageval_threshold("{spec}", min={minimum}{more})\ndef test_gate(): pass\n'


def _score(project, *arguments):
    result = project.run("--rageval-report=out.json", *arguments)
    report = project.read("out.json")
    (score,) = report["tests"][0]["scores"]
    return result, score


def _asked(project):
    file = project.path / "asked"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.parametrize("kind", ["", "async "])
@pytest.mark.parametrize("spec", ["answer.em@1", "answer.correct@1", "llm_reteval@1", "erag.p@1"])
def test_a_generator_that_raises_once_leaves_one_question_unscored(project, spec, kind):
    _write(project, GENERATOR.format(kind=kind, body=RAISES))
    project.test(_gate(spec))
    result, score = _score(project)
    result.assert_outcomes(passed=1)
    assert (score["n"], score["unscored"]) == (N - 1, 1)
    (reason,) = {example["unscored"] for example in score["examples"] if example["unscored"]}
    line = (project.path / "conftest.py").read_text(encoding="utf-8").splitlines().index(f"        {RAISES}")
    assert reason == f"rageval_generator raised ZeroDivisionError: division by zero (conftest.py:{line + 1})"
    result.stdout.fnmatch_lines(["*1 question at which the generator, the judge or an added part failed*"])


@pytest.mark.parametrize(
    ("spec", "method"),
    [
        ("answer.correct@1", "compare"),
        ("llm_reteval@1", "compare"),
        ("relevance.p@1", "relevant"),
        ("sufficient@1", "sufficient"),
        ("arena.win@1", "prefer"),
        ("judged.correctness@1", "rate"),
        ("nuggets.coverage@1", "support"),
    ],
)
def test_a_judge_that_raises_once_leaves_one_question_unscored(project, spec, method):
    _write(project, JUDGE.format(body=RAISES))
    project.test(_gate(spec, 1.0 if method == "rate" else 0.0))
    result, score = _score(project)
    result.assert_outcomes(passed=1)
    (reason,) = {example["unscored"] for example in score["examples"] if example["unscored"]}
    assert reason.startswith(
        f"rageval_judge.{method} raised ZeroDivisionError: division by zero (conftest.py:"
    )
    assert score["unscored"] == 1


def test_a_judge_that_grades_out_of_range_once_leaves_one_question_unscored(project):
    _write(project, JUDGE.format(body="\n        if 'item-7?' in question: return 17\n        pass"))
    project.test(_gate("answer.correct@1", comparator="graded"))
    result, score = _score(project)
    result.assert_outcomes(passed=1)
    assert [e["unscored"] for e in score["examples"] if e["unscored"]] == ["rageval_judge.grade returned 17"]


@pytest.mark.parametrize("part", ["comparator", "measure"])
def test_what_a_plugin_added_costs_one_question_too(project, part):
    _write(project, JUDGE.format(body="pass"))
    project.add(
        f"class Strict:\n"
        f"    async def compare(self, question, references, prediction): {RAISES}; return True\n"
        "def measure(prediction, references): return 1 / (prediction != 'c7x')\n"
        "def pytest_rageval_register(registry):\n"
        "    registry.add_comparator('strict', Strict())\n"
        "    registry.add_answer_measure('stern', measure)\n"
    )
    spec = "answer.correct@1" if part == "comparator" else "answer.stern@1"
    project.test(_gate(spec, **({"comparator": "strict"} if part == "comparator" else {})))
    result, score = _score(project)
    result.assert_outcomes(passed=1)
    (reason,) = [example["unscored"] for example in score["examples"] if example["unscored"]]
    assert "raised ZeroDivisionError: division by zero (conftest.py:" in reason


@pytest.mark.parametrize("part", ["generator", "judge"])
def test_more_than_the_share_is_the_error(project, part):
    body = "1 / (not question.endswith('7?') and '3?' not in question)"
    code = GENERATOR.format(kind="", body=body) if part == "generator" else JUDGE.format(body=body)
    _write(project, code)
    project.test(_gate("answer.correct@1", comparator="judge"))
    project.run(
        errors=1,
        shows=[
            f"rageval_{part}* raised for *: ZeroDivisionError: division by zero",
            "  *conftest.py:* in *",
            "It affects 8 examples: q3, q7, *",
            "More than the allowed 5% of 40 examples have no score. *",
        ],
    )
    project.run("--rageval=max_unscored=0.2", passed=1)


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_mistake_that_hits_every_question_shows_after_the_first_few(project, kind):
    _write(project, GENERATOR.format(kind=kind, body="passages.text"))
    project.test(_gate("answer.em@1"))
    project.run(
        errors=1,
        shows=[
            "rageval_generator raised for *: AttributeError: 'list' object has no attribute 'text'",
            "  *conftest.py:* in answer",
            "It affects 40 examples: q1, q2, q3, q4, q5, ….",
        ],
    )
    assert len(_asked(project)) == FIRST


def test_a_mistake_after_a_reply_leads_to_few_further_requests(project, llm):
    """An async generator is called concurrently for all questions only after the first 5 have succeeded."""
    project.use(llm)
    _write(
        project,
        "@pytest.fixture(scope='session')\n"
        "def rageval_generator(rageval_llm):\n"
        "    async def answer(question, passages):\n"
        "        reply = await rageval_llm.acomplete(question)\n"
        "        return reply['text']\n"
        "    return answer\n",
    )
    project.test(_gate("answer.em@1"))
    project.run(errors=1)
    assert len(llm.requests) == FIRST


def test_a_judge_that_is_wrong_everywhere_is_called_a_few_times(project):
    _write(project, JUDGE.format(body="prediction.score"))
    project.test(_gate("answer.correct@1"))
    project.run(
        errors=1,
        shows=[
            "rageval_judge.compare raised for *: AttributeError: 'str' object has no attribute 'score'",
            "  *conftest.py:* in compare",
            "It affects 5 examples: *",
            "All of the first 5 of 40 examples failed, and the others were not evaluated.",
        ],
    )


def test_a_test_that_asks_one_question_gets_the_error(project):
    """`rageval.answer` raises the error of the generator, because a single call has no unscored examples."""
    _write(project, GENERATOR.format(kind="", body=RAISES))
    project.test(
        "def test_own(rageval):\n"
        "    assert rageval.answer('What is the code of item-8?', k=1) == 'c8x'\n"
        "    with pytest.raises(Exception, match='ZeroDivisionError'):\n"
        "        rageval.answer('What is the code of item-7?', k=1)\n"
        "    assert rageval.answer('What is the code of item-9?', k=1) == 'c9x'\n"
    )
    project.run(passed=1)


# Values without bounds, and objects whose methods raise.

HOSTILE = """
import pytest, pytest_rageval

def r(error): raise error

def hostile(*methods, base=object, error=ValueError):
    def boom(self, *_): r(error("boom"))
    return type("Hostile", (base,), dict.fromkeys(methods, boom))

def endless():
    while True: yield "x"

async def endless_async():
    while True: yield "x"

class Broken:
    def __iter__(self):
        yield "a"
        r(ValueError("boom"))

SHOWN = ["__str__", "__repr__"]
COMPARED = ["__eq__", "__hash__", "__bool__", "__len__", "__contains__", "__str__", "__repr__", "__lt__"]

KINDS = {
    "long exception": lambda: r(ValueError("x" * 50_000_000)),
    "exception without a text": lambda: r(hostile(*SHOWN, base=Exception)()),
    "exception that exits": lambda: r(hostile(*SHOWN, base=Exception, error=SystemExit)()),
    "unscored": lambda: r(pytest_rageval.Unscored("x" * 50_000_000)),
    "unscored without a text": lambda: r(pytest_rageval.Unscored(hostile(*SHOWN)())),
    "endless": endless,
    "endless async": endless_async,
    "many": lambda: ["x"] * 100_000,
    "long text": lambda: ["x" * 10_000_000] * 30,
    "long id": lambda: [{"id": "x" * 10_000_000, "text": "t"}],
    "many keys": lambda: [dict.fromkeys(range(1_000_000))],
    "attributes": lambda: [hostile("__getattribute__")()],
    "id": lambda: [{"id": hostile(*SHOWN)(), "text": "t"}],
    "id that exits": lambda: [{"id": hostile(*SHOWN, error=SystemExit)(), "text": "t"}],
    "get": lambda: [hostile("get", base=dict)(id="1", text="t")],
    "iterator": lambda: hostile("__iter__")(),
    "iterator in the middle": lambda: Broken(),
    "nested": lambda: [nested()],
    "passes: id": lambda: [{"id": hostile(*COMPARED, base=str)("doc-1"), "text": "t"}],
    "passes: text": lambda: [{"id": "doc-1", "text": hostile(*COMPARED, base=str)("t")}],
    "passes: string": lambda: [hostile(*COMPARED, base=str)("t")],
    "passes: metadata": lambda: [{"text": "t", "metadata": {"a": hostile(*COMPARED)()}}],
    "list": lambda: hostile("__len__", "__bool__", "__eq__", base=list)(["t"]),
}

def nested():
    pair = "x"
    for _ in range(100_000): pair = (pair, 1.0)
    return pair

@pytest.fixture(scope="session", params=KINDS)
def rageval_retriever(request):
    return lambda query, k: KINDS[request.param]()
"""

PROBLEMS = {
    "long exception": "ValueError: xxx*… (the first 2,000 of 50,000,000 characters)",
    "exception without a text": "Hostile: (Hostile, whose __str__ raises ValueError)",
    "exception that exits": "Hostile: (Hostile, whose __str__ raises SystemExit)",
    "unscored": "xxx*… (the first 2,000 of 50,000,000 characters)",
    "unscored without a text": "(Hostile, whose __str__ raises ValueError)",
    "endless async": "returned more than 10,000 items for *",
    "endless": "returned more than 10,000 items for *",
    "many": "returned more than 10,000 items for *",
    "long text": "returned a document of 10,000,000 characters *at most 1,000,000 characters.",
    "long id": "returned an id of 10,000,000 characters *at most 1,000,000 characters.",
    "many keys": "a document that has no text: dict with the keys 0, 1, *… (the first 500 of *Return strings*",
    "id that exits": "SystemExit: boom",
    "nested": "RecursionError: *",
}
"""What the error of a kind says; by default `ValueError: boom`."""


def test_no_value_of_a_retriever_is_too_large_or_too_hostile_for_a_report(project):
    """Each kind of value is an error of its own that names the limit or the exception, or is read as usual."""
    project.add(HOSTILE)
    project.gate("recall@2 min=0.0")
    result = project.run("--rageval-report=out.json", "-q")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    tests = project.read("out.json")["tests"]
    messages = {test["nodeid"].partition("[")[2].rstrip("]"): test.get("message", "") for test in tests}
    assert len(messages) == 23
    for kind, message in messages.items():
        wanted = "" if kind.startswith("passes") else f"*{PROBLEMS.get(kind, 'ValueError: boom')}*"
        assert fnmatch(" ".join(message.split()), wanted), (kind, message[:500])
        assert len(message) < 25_000
    assert PROBLEMS.keys() <= messages.keys()


def test_hostile_passages_and_answers_reach_no_report(project):
    project.add(
        f"{HOSTILE.partition('KINDS =')[0]}"
        "def find(query, k):\n"
        '    return [{**search(query, 1)[0], "metadata": {"a": hostile(*COMPARED)()}}]\n'
        "@pytest.fixture(scope='session')\n"
        "def rageval_retriever(): return find\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_generator():\n"
        "    def answer(question, passages):\n"
        "        if '1?' in question: return 'x' * 2_000_000\n"
        "        if '2?' in question: r(hostile(*SHOWN, base=Exception)())\n"
        "        return hostile(*COMPARED, base=str)(passages[0].text.split()[-1].rstrip('.'))\n"
        "    return answer\n"
    )
    project.gate("answer.em@1 min=1.0")
    project.run(
        "--rageval=max_unscored=0.5", "--rageval-report=out.json", "--rageval-report=out.html", passed=1
    )
    (score,) = project.read("out.json")["tests"][0]["scores"]
    reasons = [example["unscored"] for example in score["examples"]]
    assert reasons[0] == "rageval_generator returned an answer of 2,000,000 characters"
    assert reasons[1].startswith(
        "rageval_generator raised Hostile: (Hostile, whose __str__ raises ValueError)"
    )
    assert reasons[2:] == [None, None]
