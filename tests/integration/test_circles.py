"""If the retriever uses the same model as the judge, the run prints a remark once; otherwise it prints none."""

import pytest

CIRCLE = "the retriever calls {}, which also judges: verdicts on what its own model found may be inflated"

RETRIEVER = """
@pytest.fixture
def rageval_retriever(rageval_llm):
    from concurrent.futures import ThreadPoolExecutor

    def ask(query):
        return rageval_llm.complete(f"Rewrite: {{query}}", {words})

    def find(query, k):
        {ask}
        return search(query, k)
    return find
"""
ASKS = "ask(query)"
IN_A_THREAD = "ThreadPoolExecutor(1).submit(ask, query).result()"
GENERATOR = """
@pytest.fixture
def rageval_generator(rageval_llm):
    return lambda question, passages: rageval_llm.complete(f"{question} {passages[0].text}").answer
"""
JUDGE = """
@pytest.fixture
def rageval_judge(rageval_llm):
    class Judge:
        def compare(self, question, references, prediction):
            return rageval_llm.complete(f"Is it {prediction}, {question}?", model="m3").answer != ""
    return Judge()
"""
HYDE = """
from pytest_rageval import HyDERetriever

@pytest.fixture
def rageval_retriever(rageval_llm):
    return HyDERetriever(lambda query, k: search("item-1?", k), rageval_llm)
"""


def remarks(project, code, spec="answer.correct@1", **ini):
    project.add(code)
    project.ini(**{"rageval_model": "m1", **ini})
    project.test(f"@pytest.mark.rageval_threshold('{spec}', min=0)\ndef test_gate(): pass\n")
    result = project.run("--rageval-report=r.json", passed=1)
    counts = project.read("r.json")["llm"]["remarks"]
    for remark, count in counts.items():
        assert result.outlines.count(f"{count} × {remark}") == 1
    return counts


@pytest.mark.parametrize(
    ("code", "ini", "model"),
    [
        (RETRIEVER.format(words="", ask=ASKS), {}, "m1"),
        (RETRIEVER.format(words="", ask=IN_A_THREAD), {}, "m1"),
        pytest.param(
            RETRIEVER.format(words="model='m2'", ask=ASKS),
            {"rageval_judge_model": "m2"},
            "m2",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            RETRIEVER.format(words="model='m3'", ask=ASKS) + JUDGE, {}, "m3", marks=pytest.mark.slow
        ),
        (HYDE, {}, "m1"),
        (RETRIEVER.format(words="", ask=ASKS), {"rageval_judge_model": "m2,m1,m3"}, "m1"),
    ],
    ids=["own", "thread", "named", "own judge", "hyde", "one of three judges"],
)
def test_waiting_is_reported_once_with_the_number_of_requests(project, llm, code, ini, model):
    project.use(llm)
    (entry,) = (
        (remark, count) for remark, count in remarks(project, code, **ini).items() if "judges" in remark
    )
    assert entry[0].startswith(CIRCLE.format(model))
    assert entry[1] == 4


@pytest.mark.parametrize(
    ("code", "spec", "ini"),
    [
        (RETRIEVER.format(words="", ask=ASKS), "answer.correct@1", {"rageval_judge_model": "m2"}),
        (RETRIEVER.format(words="", ask=ASKS), "recall@1", {}),
        pytest.param(RETRIEVER.format(words="", ask=ASKS), "answer.em@1", {}, marks=pytest.mark.slow),
        pytest.param(
            RETRIEVER.format(words="", ask=ASKS),
            "answer.correct@1",
            {"rageval_comparator": "canonical"},
            marks=pytest.mark.slow,
        ),
        (GENERATOR, "answer.correct@1", {}),
        pytest.param(
            RETRIEVER.format(words="", ask=ASKS) + JUDGE, "answer.correct@1", {}, marks=pytest.mark.slow
        ),
    ],
    ids=["another judge", "no model", "a measure", "rules", "the generator", "own judge"],
)
def test_it_is_not_reported_otherwise(project, llm, code, spec, ini):
    project.use(llm)
    assert not [remark for remark in remarks(project, code, spec, **ini) if "judges" in remark]


@pytest.mark.slow
def test_two_names_of_one_served_model_are_one(project, llm):
    llm.served = "m-2026-11"
    project.use(llm)
    code = RETRIEVER.format(words="model='alias'", ask=ASKS)
    assert [remark for remark in remarks(project, code) if remark.startswith(CIRCLE.format("alias"))]


@pytest.mark.slow
def test_a_run_that_stops_early_warns_too(project, llm):
    """A run with early_stop prints the remark too: it sends requests to the judge for changed rankings."""
    project.use(llm)
    project.ini(rageval_model="m1")
    project.gate("answer.correct@1 max_drop=0.5")
    project.run("--rageval-update-baseline", passed=1)
    elsewhere = RETRIEVER.format(words="", ask=ASKS).replace("search(query, k)", "search('item-1?', k)")
    project.add(elsewhere)
    project.run("--rageval=early_stop=true", shows=f"*{CIRCLE.format('m1')}*")


def test_a_judged_retriever_is_not_blamed_for_another(project, llm):
    project.use(llm)
    asks = RETRIEVER.format(words="", ask=ASKS).replace("rageval_retriever", "asking")
    choice = """
@pytest.fixture
def rageval_retriever(request, asking):
    return asking if "recall" in request.node.name else search
"""
    project.add(asks + choice)
    marked = "@pytest.mark.rageval_threshold('{}@1', min=0)\ndef test_{}(): pass\n"
    project.test(marked.format("recall", "recall") + marked.format("answer.correct", "answer"))
    result = project.run(passed=2)
    result.stdout.no_fnmatch_line("*which also judges*")


@pytest.mark.slow
@pytest.mark.parametrize(("part", "times"), [("retriever", 1), ("generator", 0)])
def test_with_the_gateway_only_the_part_that_runs_sends_requests(project, llm, part, times):
    pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
    pytest.importorskip("starlette", reason="the extra gateway is not installed")
    project.use(llm)
    called = {
        "retriever": "def part(query, k):\n        ask(query)\n        return search(query, k)",
        "generator": "def part(question, passages):\n        return ask(question + passages[0].text)",
    }[part]
    code = f"""
@pytest.fixture
def rageval_{part}(rageval_gateway):
    import openai
    client = openai.OpenAI(base_url=rageval_gateway.url, api_key=rageval_gateway.token, max_retries=0)
    def ask(text):
        made = client.chat.completions.create(model="m1", messages=[dict(role="user", content=text)])
        return made.choices[0].message.content
    {called}
    return part
"""
    counts = remarks(project, code)
    assert [remark.startswith(CIRCLE.format("m1")) for remark in counts if "judges" in remark] == [
        True
    ] * times
