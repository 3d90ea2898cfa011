"""A run with `--rageval k=own`."""

import json

import pytest

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


@pytest.mark.slow
def test_a_halved_k_is_red_and_the_table_says_why(pytester: pytest.Pytester) -> None:
    """As many as the cut-off are found; of the two that the retriever returns when it ships, a part is missing."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    records = [{"id": f"q{n}", "question": f"{n}?", "gold": [{"id": f"d{n}"}]} for n in range(4)]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert pytester.runpytest("--rageval-update-baseline").ret == 0
    result = pytester.runpytest("--rageval", "k=own")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*recall@5*0.500*"])
    out = " ".join(result.stdout.str().split())
    assert "4 rankings of a call without k" in out
    # Scores of a retriever that was asked for five are no baseline.
    assert "other settings" in out, out


def _search(signature: str) -> str:
    """Return a conftest.py with a retriever of a signature, whose k a later edit changes."""
    return f"""
import pytest

CALLS = []
DOCUMENTS = [{{"id": f"d{{n}}", "text": f"{{n}}"}} for n in range(5)]

def search({signature}):
    CALLS.append(query)
    return DOCUMENTS

class Search:
    def __call__(self, {signature}):
        return search(query)

    def retrieve(self, {signature}):
        return search(query)

@pytest.fixture(scope="session")
def rageval_retriever():
    yield RETRIEVER
    assert sorted(CALLS) == [f"{{n}}?" for n in range(4)]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retriever", "signature", "is_known"),
    [
        ("search", "query, k=4", True),
        ("search", "query, *, filters=None, top_k=4", True),
        ("Search()", "query, limit=4", True),
        ("search", "query, **kwargs", False),
        ("search", "query, k=None", False),
    ],
)
def test_another_default_of_k_is_a_warning(
    pytester: pytest.Pytester, retriever: str, signature: str, *, is_known: bool
) -> None:
    """K is passed, so that no score shows that the application now gets fewer; and no question is asked again."""
    code = _search(signature).replace("RETRIEVER", retriever)
    pytester.makeconftest(code)
    pytester.makepyfile(TEST)
    records = [{"id": f"q{n}", "question": f"{n}?", "gold": [{"id": f"d{n}"}]} for n in range(4)]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert pytester.runpytest_subprocess("--rageval-update-baseline").ret == 0
    pytester.runpytest_subprocess("-q").stdout.no_fnmatch_line("*was configured to return*")
    pytester.makeconftest(code.replace("=4", "=2"))
    result = pytester.runpytest_subprocess("-q")
    assert result.ret == 0
    warning = "*test_it: the retriever was configured to return 4 documents in the baseline, and 2 now.*"
    (result.stdout.fnmatch_lines if is_known else result.stdout.no_fnmatch_line)(
        [warning] if is_known else warning
    )
