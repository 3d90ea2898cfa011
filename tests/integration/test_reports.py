"""Outputs of a run: the terminal, and the reports in JSON, Markdown and HTML."""

import pytest

from tests.integration.conftest import on_a_terminal

pytestmark = pytest.mark.slow

GATE = (
    '@pytest.mark.rageval_threshold("recall@2", min=0.9)\n'
    '@pytest.mark.rageval_threshold("llm_reteval@2", max=0.5, where={"topic": "odd"})\n'
    "def test_gate(): pass\n"
    "def test_own(rageval): assert rageval.score('mrr@2') > 0\n"
)


def test_the_json_report_is_of_schema_1(project, llm):
    project.use(llm)
    project.lose(3)
    project.test(GATE)
    project.run("--rageval-report=out/report.json", failed=1, passed=1)
    report = project.read("out/report.json")
    # The key "run" depends on git and CI.
    assert report.keys() - {"run"} == {
        *("schema", "package", "started", "duration_s", "stopped", "settings", "llm", "tests", "matrix"),
        "ratings",
    }
    assert (report["schema"], report["matrix"], report["ratings"]) == (1, [], [])
    assert report["llm"].keys() == {
        *("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd"),
        *("unpriced", "cut", "remarks", "servers"),
    }
    # No prices are configured.
    assert report["llm"]["cost_usd"] is None
    assert report["llm"]["unpriced"] == report["llm"]["live"]
    gate, own = report["tests"]
    assert gate["nodeid"] == "test_it.py::test_gate"
    assert gate["evalset"] == {"name": "evals.jsonl", "size": 4, "digest": gate["evalset"]["digest"]}
    assert len(gate["evalset"]["digest"]) == 64
    recall, reteval = gate["scores"]
    assert (recall["spec"], recall["mean"], recall["n"], recall["unscored"]) == ("recall@2", 0.75, 4, 0)
    assert [round(bound, 3) for bound in recall["ci95"]] == [0.301, 0.954]
    assert recall["threshold"] == {"min": 0.9, "max": None, "max_drop": None, "alpha": None}
    assert (recall["baseline"], recall["verdict"]) == (None, "fail")
    assert recall["reason"] == "0.750 is below the minimum 0.9"
    assert recall["examples"][2] == {"id": "q3", "score": 0.0, "unscored": None, "k": 2}
    assert (reteval["where"], reteval["verdict"]) == ({"topic": "odd"}, "pass")
    assert [example["id"] for example in reteval["examples"]] == ["q1", "q3"]
    # The question is lost because its passage is missing; recall is 0 too, so the two scores agree.
    assert reteval["examples"][1] == {
        "id": "q3",
        "score": 0.0,
        "unscored": None,
        "case": None,
        "lost_by": "retriever",
        "beside": {"recall@2": 0.0, "precision@2": 0.0, "f1@2": 0.0},
        "k": 2,
        "answer": "no answer in the documents",
        "expected": {"as": "with gold", "texts": ["c3x"]},
    }
    assert gate["questions"][2]["gold_ranks"] == {"doc-3": None}
    assert [passage["document"] for passage in gate["questions"][2]["retrieved"]] == ["doc-1", "doc-10"]
    assert reteval["prompts"] == ["generate", "compare"]
    assert gate["prompts"].keys() == {"generate", "compare"}
    assert gate["fingerprint"].items() <= reteval["fingerprint"].items()
    assert reteval["cases"] == {}
    assert reteval["spearman"] == {"all": pytest.approx(1.0), "refined": pytest.approx(1.0)}
    assert own["scores"][0]["verdict"] is None


def test_a_report_that_cannot_be_written_ends_the_run_as_an_error(project):
    """If a report cannot be written, the run fails although its tests pass, since an old report may be in its place."""
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    (project.path / "taken").write_text("a file", encoding="utf-8")
    for quiet in ((), ("-q",)):
        result = project.run(
            "--rageval-report=taken/report.json",
            *quiet,
            passed=1,
            shows="The report *taken/report.json cannot be written: *",
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_run_without_scores_prints_no_table(project):
    project.pytester.makepyfile("def test_plain(): pass")
    project.run().stdout.no_fnmatch_line("*= rageval =*")


def test_quiet_runs_print_no_table(project):
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    project.run("-q").stdout.no_fnmatch_line("*mrr@2*")


def test_duplicates_are_counted_once_and_reported(project):
    project.change("ranked[:k]]", "[ranked[0], ranked[0], ranked[1]][:k]]")
    project.test("def test_own(rageval): assert rageval.score('precision@2') == 0.5\n")
    result = project.run()
    result.assert_outcomes(passed=1)
    # One of two documents is left, so each ranking is also shorter than k.
    result.stdout.fnmatch_lines(
        ["    precision@2: 4 duplicated documents counted once, 4 rankings of fewer than k documents"]
    )


def test_documents_without_text_are_ranked_and_not_read(project):
    project.change(', "text": CORPUS[name]', "")
    project.test(
        "@pytest.mark.rageval_threshold('recall@2', min=1.0)\ndef test_ranks(): pass\n"
        "@pytest.mark.rageval_threshold('contains.hit@2', min=1.0)\ndef test_reads(): pass\n"
    )
    project.run(
        passed=1,
        errors=1,
        shows=[
            "contains.hit@2: none of 4 examples has a score:",
            "  4 × a retrieved document has no text to read (q1, q2, q3, …)",
            "    recall@2: 8 documents without text",
        ],
    )


def test_what_is_beyond_k_is_cut_and_reported(project):
    project.change("(query, k)", "(query)")
    project.change("ranked[:k]", "ranked[:2]")
    project.test(
        "def test_own(rageval):\n"
        "    assert [rageval.score(f'{name}@1') for name in ('mrr', 'hit')] == [1.0, 1.0]\n"
        "    assert rageval.score('precision@2') == 0.5\n"
    )
    result = project.run(passed=1, shows="    mrr@1, hit@1: 4 rankings of more than k documents, cut")
    result.stdout.no_fnmatch_line("    precision@2: *")


def test_a_long_run_shows_progress_on_a_terminal_alone(project, llm):
    llm.latency_s = 0.2
    project.use(llm)
    project.evalset(8)
    project.gate("llm_reteval@1 min=0.9")
    shown = on_a_terminal(project.path, *project.arguments, "--rageval=concurrency=4", "--rageval-refresh")
    assert " replies (" in shown
    assert " replies (" not in on_a_terminal(
        project.path, *project.arguments, "-q", "--rageval=concurrency=4", "--rageval-refresh"
    )
    piped = project.run("--rageval=concurrency=4", "--rageval-refresh")
    # Without a terminal, progress lines are printed now and then, and never rewritten.
    assert "\r" not in piped.stdout.str()


LISTING = """
@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        return f"{passages[0].text.split()[-1]} [1], {question.split()[-1]} [9]"
    return generate
"""
GRID = (
    "@pytest.mark.parametrize('k', [1, 2])\n"
    "@pytest.mark.parametrize('order', ['rank', 'random'])\n"
    "def test_grid(rageval, k, order): rageval.score(f'rel_recall.answer@{k}', order=order)\n"
)


def test_a_grid_of_cutoffs_and_orders_is_ordinary_parametrizing(project):
    project.add(LISTING)
    project.test(GRID)
    result = project.run("--rageval-report=report.json")
    result.assert_outcomes(passed=4)
    # By rank the first passage is the gold one; the prompt never has a passage 9.
    result.stdout.fnmatch_lines(
        [
            "  - * rel_recall.answer@2 in random order * 0.250 *",
            "  - * rel_recall.answer@2 * 1.000 *",
            "    rel_recall.answer@2: 0 parametric answers, 4 hallucinated citations",
        ]
    )
    report = project.read()
    scores = [test["scores"][0] for test in report["tests"]]
    assert [score.get("order") for score in scores] == ["random", "random", None, None]
    assert all(score["counts"]["hallucinated_citations"] == 4 for score in scores)
    assert scores[0]["examples"][0]["counts"] == {"parametric_answers": 0, "hallucinated_citations": 1}


def test_the_report_says_what_generated_and_compared(project, llm):
    project.use(llm)
    project.ini(rageval_model="m1", rageval_comparator="f1>=0.5")
    project.test(
        """
class Own:
    @pytest.fixture(scope="class")
    def rageval_generator(self):
        return lambda question, passages: "c1x"

class TestOwn(Own):
    def test_a(self, rageval): rageval.score("answer.correct@1")

def test_b(rageval): rageval.score("answer.correct@1")
"""
    )
    project.run(
        "--rageval-report=report.json",
        "--rageval=seed=7",
        passed=2,
        shows="generator m1 at * (temperature 0.5), answers compared by f1>=0.5",
    )
    report = project.read()
    assert report["settings"] == {
        "generator": f"m1 at {llm.url}",
        "temperature": 0.5,
        "draws": 1,
        "llm_reteval_temperature": 0.5,
        "llm_reteval_draws": 3,
        "judge": "m1",
        "judge_votes": 1,
        "both_orders": False,
        "comparator": "f1>=0.5",
        "match_share": 0.5,
        "seed": 7,
    }
    assert [test.get("own") for test in report["tests"]] == [["generator"], None]


def test_a_retriever_that_loses_more_leaves_recall_of_what_was_shown_a_number(project):
    project.lose(1, 3)
    project.test(
        '@pytest.mark.rageval_threshold("rel_recall.answer@2", min=0.9)\ndef test_gate(): pass\n'
        '@pytest.fixture(scope="session")\n'
        "def rageval_generator():\n"
        "    return lambda question, passages: ', '.join(p.text.split()[-1][:-1] for p in passages)\n"
    )
    project.run(
        "--rageval-report",
        "report.json",
        passed=1,
        shows="    rel_recall.answer@2: 2 undefined: 2 × no relevant passage was in the prompt",
    )
    (entry,) = project.read()["tests"][0]["scores"]
    assert (entry["n"], entry["unscored"], entry["undefined"]) == (2, 0, 2)


def test_reports_of_each_kind_tell_the_same(project, llm):
    project.use(llm)
    project.lose(3)
    project.test(
        GATE + "def test_plain(rageval): assert not rageval.retrieve(rageval.examples[0].question, k=1)\n"
    )
    kinds = [f"--rageval-report=out.{suffix}" for suffix in ("json", "md", "html")]
    result = project.run_process("-n", "2", *kinds, failed=2, passed=1)
    # The failure names the first one, relative to the current folder.
    assert [line for line in result.outlines if line.startswith("report: ")] == [
        "report: out.json",
        *(f"report: {project.path / 'out'}.{suffix}" for suffix in ("json", "md", "html")),
    ]
    document = project.read("out.json")
    assert {test["nodeid"]: test["outcome"] for test in document["tests"]} == {
        "test_it.py::test_gate": "failed",
        "test_it.py::test_own": "passed",
        "test_it.py::test_plain": "failed",
    }
    (lost,) = document["tests"][0]["scores"][0]["questions"]["listed"]
    assert (lost["id"], lost["score"], lost["gold"]) == ("q3", 0.0, ["doc-3"])
    for suffix in ("md", "html"):
        text = (project.path / f"out.{suffix}").read_text(encoding="utf-8")
        assert "rageval: 1 of 2 thresholds failed, 1 passed, 1 other test failed" in text
        assert "q3" in text
        assert "test_it.py::test_plain" in text


def test_a_rerun_that_passes_is_a_test_that_passed(project):
    project.test(
        "import pytest\nTRIED = []\n"
        "@pytest.mark.parametrize('n', [0])\n"
        "def test_own(rageval, n):\n"
        "    assert rageval.score('mrr@2') > 0\n"
        "    TRIED.append(n)\n"
        "    assert len(TRIED) > 1\n"
    )
    again = (
        "\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    from _pytest.runner import runtestprotocol\n"
        "    for _ in range(2):\n"
        "        runtestprotocol(item, nextitem=nextitem)\n"
        "    return True\n"
    )
    conftest = project.path / "conftest.py"
    conftest.write_text("import pytest\n" + conftest.read_text(encoding="utf-8") + again, encoding="utf-8")
    project.run("--rageval-report=out.json")
    (test,) = project.read("out.json")["tests"]
    assert test["outcome"] == "passed"
    assert "message" not in test


ENDS = """
def no_index(): raise RuntimeError("no index")

@pytest.fixture
def broken(): no_index()

@pytest.fixture
def breaks_last():
    yield
    no_index()

@pytest.mark.rageval_threshold("recall@2", min=0.9)
def test_broken(broken): pass

@pytest.mark.rageval_threshold("recall@2", min=0.9)
def test_breaks_last(breaks_last): pytest.skip("never mind")

@pytest.mark.skip(reason="no key")
@pytest.mark.rageval_threshold("recall@2", min=0.9)
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
@pytest.mark.rageval_threshold("recall@2", max=0.5)
def test_expected(): pass

@pytest.mark.xfail(strict=True)
def test_unexpected(rageval): pass

def test_other(broken): pass
"""


def ends(project) -> dict[str, str]:
    document = project.read("out.json")
    return {test["nodeid"].partition("::")[2]: test["outcome"] for test in document["tests"]}


def test_each_test_with_scores_is_reported_however_it_ended(project):
    project.test(ENDS)
    project.run(
        "--rageval-report=out.json", "--rageval-report=out.md", failed=1, skipped=2, xfailed=1, errors=3
    )
    assert ends(project) == {
        "test_broken": "error",
        "test_breaks_last": "error",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_unexpected": "failed",
    }
    text = (project.path / "out.md").read_text(encoding="utf-8")
    # The scores are computed after the other fixtures: a test whose fixture cannot be set up has none.
    assert text.startswith(
        "### rageval: 1 of 2 thresholds failed as expected, 1 passed, 3 other tests failed, 1 other test skipped\n"
    )


def test_a_retriever_that_cannot_be_made_is_no_green_report(project):
    project.change("return search", "raise RuntimeError('no index')")
    project.test(GATE)
    result = project.run("--rageval-report=out.md", errors=2)
    result.stdout.no_fnmatch_line("*test_it.py::test_gate *(evals.jsonl*")
    text = (project.path / "out.md").read_text(encoding="utf-8")
    assert text.startswith("### rageval: 2 tests failed\n")
    assert text.count("RuntimeError: no index") == 2


def test_a_module_that_cannot_be_imported_is_no_green_report(project):
    project.test("import nowhere_to_be_found\n", "test_lost")
    project.test(GATE)
    project.run("--rageval-report=out.md")
    text = (project.path / "out.md").read_text(encoding="utf-8")
    assert text.startswith("### rageval: 1 test failed; the run was stopped early\n")
    assert "- ❗ `test_lost.py`<br>" in text
    assert "No module named 'nowhere_to_be_found'" in text


def test_a_worker_that_dies_is_no_green_report(project, llm):
    project.use(llm)
    project.test("import os\ndef test_dies(rageval): os._exit(3)\n" + GATE)
    project.run_process("-n", "1", "--rageval-report=out.md", "-k", "dies or gate")
    text = (project.path / "out.md").read_text(encoding="utf-8")
    assert "1 other test failed" in text.splitlines()[0]
    assert "crashed while running" in text


def test_a_run_without_results_writes_no_report(project):
    project.test(GATE)
    project.ini(rageval_report="out.md")
    project.run("--collect-only")
    project.run("--rageval-plan", shows="no report: a plan has no results")
    assert not (project.path / "out.md").exists()


def test_a_run_that_stops_at_the_first_failure_says_so(project, llm):
    """With -x the report says that the run was stopped early, since tests are missing in it."""
    project.use(llm)
    project.lose(1, 2, 3)
    project.test(GATE + "def test_after(rageval): rageval.score('mrr@2')\n")
    project.run("-x", "-k", "gate or after", "--rageval-report=out.md", "--rageval=max_unscored=1")
    assert "; the run was stopped early\n" in (project.path / "out.md").read_text(encoding="utf-8")
