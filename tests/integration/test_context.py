"""Filters, histories and metadata of questions reach the retriever, the generator, the judge and the baseline."""

import json

import pytest

TENANTS = [
    {"id": f"{tenant}{n}", "question": f"What is the code of item-{n}?", "answers": [f"{tenant}{n}x"],
     "filters": {"tenant": tenant}, "gold": [{"id": f"{tenant}-{n}", "text": f"item-{n}: {tenant}{n}x."}]}
    for tenant in "ab" for n in (1, 2)
]  # fmt: skip

FILTERED = """
import pytest

CALLS = []

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k, filters):
        CALLS.append(filters["tenant"])
        n = query[-2]
        return [{"id": f"{filters['tenant']}-{n}", "text": f"item-{n}: {filters['tenant']}{n}x."}][:k]
    return search
"""


def _write(project, *records: dict) -> None:
    lines = "\n".join(json.dumps(record) for record in records)
    (project.path / "evals.jsonl").write_text(f"{lines}\n", encoding="utf-8")


def test_one_question_with_two_filters_is_asked_twice(project):
    _write(project, *TENANTS)
    project.pytester.makeconftest(FILTERED)
    project.test(
        """
@pytest.mark.rageval_threshold("recall@1", min=1.0)
def test_gate(rageval):
    from conftest import CALLS
    assert sorted(CALLS) == ["a", "a", "b", "b"]
    assert rageval.retrieve("item-1?", 1, filters={"tenant": "b"}).ids == ("b-1",)
    assert rageval.retrieve(rageval.examples[0], 1).ids == ("a-1",)
    with pytest.raises(Exception, match="A question has no tenant. It may have history, filters, metadata."):
        rageval.retrieve("item-1?", 1, tenant="b")
    with pytest.raises(Exception, match="filters='b' cannot be used"):
        rageval.retrieve("item-1?", 1, filters="b")
"""
    )
    project.run(passed=1)


def test_a_failure_shows_the_context_of_a_question(project):
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    _write(project, *({**record, "history": history, "gold": [{"id": "no"}]} for record in TENANTS))
    project.pytester.makeconftest(FILTERED)
    project.gate("recall@1 min=0.9")
    project.run(
        "--rageval-report=report.json",
        "--rageval-report=report.html",
        "-vv",
        shows=[
            "*b1  0 * What is the code of item-1?",
            "*after * User: Hello / Assistant: Hello!",
            '*filters * {"tenant": "b"}',
        ],
    )
    report = project.read()
    listed = report["tests"][0]["scores"][0]["questions"]["listed"]
    assert listed[2]["filters"] == {"tenant": "b"}
    assert listed[2]["history"] == ["User: Hello", "Assistant: Hello!"]
    assert "filters" in (project.path / "report.html").read_text(encoding="utf-8")


def test_filters_that_the_retriever_does_not_take_end_the_test(project):
    _write(project, *TENANTS)
    project.gate("recall@1 min=0.0")
    result = project.run(
        errors=1,
        shows=[
            "*The eval set has filters, and rageval_retriever does not take them: *",
            "*It affects 4 examples: a1, a2, b1, b2.*",
        ],
    )
    assert result.stdout.str().count("Name them in the signature") == 1


@pytest.mark.slow
def test_a_changed_filter_or_history_is_another_question_for_the_baseline(project):
    history = [{"role": "user", "content": "Hello"}]
    records = [{**record, "metadata": {"batch": 1}, "history": history} for record in TENANTS]
    _write(project, *records)
    project.pytester.makeconftest(FILTERED)
    project.gate("recall@1 max_drop=0.0")
    project.run("--rageval-update-baseline", passed=1)

    def left_out(*changed: dict) -> int:
        _write(project, *changed)
        project.run("--rageval-report=report.json")
        report = project.read()
        return report["tests"][0]["scores"][0]["baseline"]["left_out"]

    assert left_out(*records) == 0
    assert left_out({**records[0], "metadata": {"batch": 2}}, *records[1:]) == 0
    assert left_out({**records[0], "filters": {"tenant": "a", "lang": "en"}}, *records[1:]) == 1
    assert left_out({**records[0], "history": [*history, *history]}, *records[1:]) == 1
    project.pytester.makeconftest(FILTERED.replace("k, filters)", "k, filters, metadata)"))
    project.run(shows="*of 4 examples none is in the baseline*")


HISTORY = [{"role": "user", "content": "Do you ship?"}, {"role": "assistant", "content": "Yes, to Norway."}]


def test_a_conversation_is_in_the_prompts_and_separates_two_equal_questions(project, llm):
    project.use(llm)
    record = {"question": "And to Oslo?", "answers": ["yes"], "gold": [{"text": "We ship to Oslo."}]}
    _write(project, {"id": "bare", **record}, {"id": "after", **record, "history": HISTORY})
    project.pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef rageval_retriever():\n"
        "    return lambda query, k: ['We ship to Oslo.']\n"
    )
    project.gate("answer.abstained@1 min=0.0", "relevance.hit@1 min=0.0")
    result = project.run("-v")
    prompts = [request["messages"][0]["content"] for request in llm.requests]
    shown = [prompt for prompt in prompts if "User: Do you ship?\nAssistant: Yes, to Norway." in prompt]
    assert len(prompts) == 4
    assert len(shown) == 2
    result.stdout.fnmatch_lines(
        ["*: 1 question retrieved without their history: the retriever does not take one*"]
    )


def test_a_generator_and_a_judge_of_the_users_receive_the_history_that_they_name(project):
    record = {"question": "And to Oslo?", "answers": ["yes"]}
    _write(project, {"id": "bare", **record}, {"id": "after", **record, "history": HISTORY})
    project.pytester.makeconftest(
        """
import pytest

SEEN = []

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k, history: [f"{len(history)} messages"]

@pytest.fixture(scope="session")
def rageval_generator():
    async def generate(question, passages, *, history):
        SEEN.append(("generate", type(question) is str, [message["content"] for message in history]))
        return f"{question} {passages[0]}"
    return generate

class Judge:
    def compare(self, question, references, prediction, history):
        SEEN.append(("compare", type(question) is str, [message["content"] for message in history]))
        return prediction == "And to Oslo? 2 messages"
    def relevant(self, question, passage):
        return question == "And to Oslo?"

@pytest.fixture(scope="session")
def rageval_judge():
    return Judge()
"""
    )
    project.test(
        """
def test_it(rageval):
    from conftest import SEEN
    score = rageval.score("answer.correct@1")
    assert [outcome.value for outcome in score.outcomes] == [0.0, 1.0]
    said = ["Do you ship?", "Yes, to Norway."]
    assert sorted(SEEN) == [(part, True, seen) for part in ("compare", "generate") for seen in ([], said)]
    assert rageval.score("relevance.hit@1") == 1.0
"""
    )
    project.run(passed=1)
