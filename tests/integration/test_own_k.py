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
