"""If the retriever or generator is parametrized, a run shows one matrix of systems × scores."""

import pytest

pytestmark = pytest.mark.slow

SYSTEMS = """
@pytest.fixture(scope="session", params=["all", "late", "none"])
def rageval_retriever(request):
    def find(query, k):
        ranked = search(query, 20)
        return {"all": ranked, "late": ranked[1:2] + ranked, "none": ranked[1:]}[request.param][:k]
    return find

@pytest.fixture(scope="session", params=["reads", "guesses"])
def rageval_generator(request):
    def generate(question, passages):
        return passages[0].text.split()[-1].rstrip(".") if request.param == "reads" else "c1x"
    return generate
"""
GATE = """
@pytest.mark.rageval_threshold("recall@2", min=0.0)
@pytest.mark.rageval_threshold("mrr@2", min=0.0, where={"topic": "odd"})
@pytest.mark.rageval_threshold("answer.em@1", min=0.0)
def test_gate(): pass
"""


@pytest.mark.parametrize("arguments", [(), ("-n2",)], ids=["alone", "two workers"])
def test_three_retrievers_by_two_generators(project, arguments):
    """The matrix has a row for each retriever and generator, on the terminal and in the JSON report."""
    project.evalset(12)
    project.add(SYSTEMS)
    project.test(GATE)
    run = project.run_process if arguments else project.run
    result = run("--rageval-report=report.json", *arguments)
    result.assert_outcomes(passed=6)
    # Six systems have 30 ordered pairs. p-values: 11 of 12 questions lost: 30 / 2^11 = 0.015; 6 of 6: 30 / 64.
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_gate  (evals.jsonl, 12)",
            "  retriever  generator  recall@2   mrr@2 [[]topic=odd]   answer.em@1",
            "  all        guesses       1.000[*]              1.000[*]        0.083",
            "  all        reads         1.000[*]              1.000[*]        1.000[*]",
            "  late       guesses       1.000[*]              0.500≈        0.083",
            "  late       reads         1.000[*]              0.500≈        0.000",
            "  none       guesses       0.000               0.000≈        0.083",
            "  none       reads         0.000               0.000≈        0.000",
            (
                "    highest of 3 columns: all × guesses 2, all × reads 3, late × guesses 1, late × reads 1, "
                "none × guesses 0, none × reads 0"
            ),
            "  [*] highest of its column; ≈ not significantly lower; others significantly lower",
            "    (paired randomisation test, p ≤ 0.05, Bonferroni over all pairs of rows)",
        ],
        consecutive=True,
    )
    report = project.read()
    assert report["tests"][0]["system"] == {"rageval_retriever": "all", "rageval_generator": "guesses"}
    (matrix,) = report["matrix"]
    assert matrix.keys() == {"test", "parameters", "evalset", "alpha", "scores", "rows"}
    assert matrix["scores"] == ["recall@2", "mrr@2 [topic=odd]", "answer.em@1"]
    last = matrix["rows"][-1]
    assert last["system"] == {"rageval_retriever": "none", "rageval_generator": "reads"}
    # The p-value of losing all n questions, times the 30 ordered pairs of six systems.
    assert last["cells"] == [
        {"mean": 0.0, "n": n, "best": False, "shared": n, "p_value": 30 / 2**n} for n in (12, 6, 12)
    ]


def test_the_system_is_what_the_test_does_not_ask_for_itself(project):
    project.add(
        """
@pytest.fixture(scope="session", params=[1, 2], ids=["short", "long"])
def chunks(request): return request.param

@pytest.fixture(scope="session")
def rageval_retriever(chunks): return lambda query, k: search(query, k)[chunks - 1:]
""",
    )
    project.test(
        "@pytest.mark.parametrize('spec, bound', [('recall@2', 0.0), ('mrr@2', 0)])\n"
        "def test_gate(rageval, spec, bound): rageval.score(spec, min=bound)\n"
    )
    project.run("--rageval-report=report.json", passed=4)
    report = project.read()
    assert report["tests"][0]["function"] == "test_it.py::test_gate"
    assert report["tests"][0]["system"] == {"chunks": "long"}
    assert report["tests"][0]["parameters"] == {"spec, bound": "mrr@2-0"}
    (matrix,) = report["matrix"]
    assert [row["system"] for row in matrix["rows"]] == [{"chunks": "long"}, {"chunks": "short"}]
    assert matrix["scores"] == ["mrr@2", "recall@2"]


def test_one_system_alone_has_no_matrix(project):
    project.test(
        "@pytest.mark.parametrize('k', [1, 2])\ndef test_own(rageval, k): rageval.score(f'recall@{k}')\n"
    )
    result = project.run(passed=2)
    result.stdout.no_fnmatch_line("*highest of its column*")
