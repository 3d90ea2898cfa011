"""A run with `--rageval k=own`."""

import json

import pytest

from pytest_rageval.cli import main
from tests.foreign_plugins import WITHOUT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("new_code")]


CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k=2):
        return [{"id": f"d{n}", "text": f"{n}"} for n in range(5)][:k]
    return search
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset("e.jsonl")
@pytest.mark.rageval_threshold("recall@5", min=0.9, max_drop=0.02)
def test_it():
    pass
"""


def _write(pytester: pytest.Pytester, conftest: str, test: str = TEST, questions: int = 4) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(test)
    records = [{"id": f"q{n}", "question": f"{n}?", "gold": [{"id": f"d{n % 4}"}]} for n in range(questions)]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


def test_a_halved_k_is_red_and_the_table_says_why(pytester: pytest.Pytester) -> None:
    _write(pytester, CONFTEST)
    assert pytester.runpytest(*WITHOUT, "--rageval-update-baseline").ret == 0
    result = pytester.runpytest(*WITHOUT, "--rageval", "k=own")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*recall@5*0.500*"])
    out = " ".join(result.stdout.str().split())
    assert "4 rankings of a call without k" in out
    # Scores of a retriever that was asked for five are no baseline.
    assert "other settings" in out, out


def _search(signature: str) -> str:
    """Return a conftest.py with retrievers of a signature, whose k a later edit changes."""
    return f"""
import pathlib, pytest

CALLS = []
DOCUMENTS = [{{"id": f"d{{n}}", "text": f"{{n}}"}} for n in range(5)]

def search({signature}):
    CALLS.append(query)
    return DOCUMENTS

def in_the_body(query, k=None):
    CALLS.append(query)
    return DOCUMENTS[:k or OWN]

def without_k(query):
    CALLS.append(query)
    return DOCUMENTS[:OWN]

def passed_on(*args, **kwargs):
    return in_the_body(*args, **kwargs)

class Search:
    def __call__(self, {signature}):
        return search(query)

    def retrieve(self, {signature}):
        return search(query)

OWN = 4

@pytest.fixture(scope="session")
def rageval_retriever():
    yield RETRIEVER
    pathlib.Path("calls").write_text(" ".join(sorted(CALLS)))
"""


EACH = "0? 1? 2? 3?"
UNASKED = "*test_it: called without k, the retriever returned 4 documents in the baseline, and 2 now"
BY_A_SEARCH = f"{UNASKED} (for q0).*"


@pytest.mark.parametrize(
    ("retriever", "signature", "calls", "warning"),
    [
        ("search", "query, k=4", EACH, ""),
        ("search", "query, *, filters=None, top_k=4", EACH, ""),
        ("Search()", "query, limit=4", EACH, ""),
        ("in_the_body", "query, k", f"0? {EACH}", BY_A_SEARCH),
        ("passed_on", "query, k", f"0? {EACH}", BY_A_SEARCH),
        (
            "without_k",
            "query, k",
            EACH,
            f"{UNASKED}. Scores look only at the first 1 document, so recall@1 may not show it. If it is meant, *",
        ),
    ],
)
def test_another_number_of_its_own_is_a_warning(pytester, retriever, signature, calls, warning):
    """K is passed, or the first @k count, so that no score shows that the application now gets fewer."""
    warning = (
        warning or "*test_it: the retriever was configured to return 4 documents in the baseline, and 2 now.*"
    )
    code = _search(signature).replace("RETRIEVER", retriever)
    _write(pytester, code, TEST.replace("recall@5", "recall@1").replace("min=0.9", "min=0.1"))
    assert pytester.runpytest(*WITHOUT, "--rageval-update-baseline").ret == 0
    assert pytester.path.joinpath("calls").read_text() == calls
    pytester.runpytest(*WITHOUT, "-q").stdout.no_fnmatch_line("*in the baseline*")
    pytester.makeconftest(code.replace("=4", "=2").replace("= 4", "= 2"))
    result = pytester.runpytest(*WITHOUT, "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines([warning])
    assert pytester.path.joinpath("calls").read_text() == calls


@pytest.mark.parametrize("bounds", ["min=0.9", "max_drop=0.02"])
def test_no_question_is_asked_again_where_no_baseline_has_the_number(pytester, bounds):
    _write(
        pytester,
        _search("query, k").replace("RETRIEVER", "in_the_body"),
        TEST.replace("min=0.9, max_drop=0.02", bounds),
    )
    pytester.runpytest(*WITHOUT, *(["--rageval-update-baseline"] if bounds == "min=0.9" else []))
    assert pytester.path.joinpath("calls").read_text() == EACH


def test_tests_share_the_search_and_its_failure_is_said(pytester: pytest.Pytester) -> None:
    code = _search("query, k").replace("RETRIEVER", "in_the_body")
    _write(pytester, code, f"{TEST}\n{TEST.replace('test_it', 'test_more')}")
    assert pytester.runpytest(*WITHOUT, "--rageval-update-baseline").ret == 0
    assert pytester.path.joinpath("calls").read_text() == f"0? {EACH}"
    pytester.makeconftest(code.replace("[:k or OWN]", "[:k or int('x')]"))
    result = pytester.runpytest(*WITHOUT, "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*test_it: a search without k, of q0, which the baseline has, fails now: *ValueError: invalid literal*"
        ]
    )


def test_with_the_own_k_a_smaller_one_is_the_cause_in_every_report(pytester: pytest.Pytester) -> None:
    """The advice of the warning is followed: the baseline is written with k=own too."""
    code = CONFTEST.replace("k=2", "k=4")
    _write(pytester, code, questions=8)
    own = ("--rageval", "k=own")
    assert pytester.runpytest_subprocess(*own, "--rageval-update-baseline").ret == 0
    pytester.makeconftest(code.replace("k=4", "k=2"))
    reports = [f"--rageval-report=r.{suffix}" for suffix in ("json", "md", "html")]
    result = pytester.runpytest_subprocess(*own, *reports)
    assert result.ret == 1
    cause = "the retriever now returns 2, 4 before"
    terminal = " ".join(result.stdout.str().split())
    assert f"Likely cause: {cause}" in terminal
    assert "4 documents in the baseline, and 2 now. The scores measure that (k=own)." in terminal
    json_report, markdown, page = (
        pytester.path.joinpath(f"r.{suffix}").read_text(encoding="utf-8") for suffix in ("json", "md", "html")
    )
    (test,) = json.loads(json_report)["tests"]
    assert test["cause"] == cause
    assert f"- **Likely cause**: `{cause}`" in markdown
    assert f"Likely cause: {cause}" in page


@pytest.mark.parametrize(("retriever", "place"), [("in_the_body", " (for q"), ("without_k", ". ")])
def test_a_merge_of_shards_has_the_number(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], retriever: str, place: str
) -> None:
    code = _search("query, k").replace("RETRIEVER", retriever)
    _write(pytester, code, TEST.replace("recall@5", "recall@1").replace("min=0.9", "min=0.1"))

    def merge(*options: str) -> str:
        for n in (1, 2):
            pytester.runpytest(*WITHOUT, f"--rageval-shard={n}/2", f"--rageval-report={n}.json")
        capsys.readouterr()
        assert main(["merge", "1.json", "2.json", *options]) == 0
        return capsys.readouterr().out

    merge("--update-baseline")
    assert "called without k" not in merge()
    pytester.makeconftest(code.replace("= 4", "= 2"))
    assert (
        f"called without k, the retriever returned 4 documents in the baseline, and 2 now{place}" in merge()
    )
