"""The table of scores on a pseudo-terminal, where pytest knows the width and writes colours."""

import re
from pathlib import Path

import pytest

from tests.foreign_plugins import WITHOUT
from tests.integration.conftest import on_a_terminal

pytestmark = pytest.mark.slow

ESCAPES = re.compile(r"\x1b\[([\d;]*)m")

CONFTEST = """
import os
import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    lost = {f"doc-{n}" for n in range(12)} if os.environ.get("WORSE") else set()
    return lambda query, k: [{"id": n, "text": n} for n in [query.split()[-1], "other"] if n not in lost][:k]
"""

TESTS = """
import pytest
pytestmark = pytest.mark.rageval_evalset("evals.jsonl")

@pytest.mark.rageval_threshold("recall@3", min=0.9, max_drop=0.02, max_lost=3)
@pytest.mark.rageval_threshold("ndcg@3", min=0.1)
@pytest.mark.rageval_threshold("context.tokens@3", max=4000)
def test_the_passage_of_a_question_is_found_by_the_retriever():
    pass
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    lines = (
        f'{{"id": "q{n}", "question": "Where is doc-{n}", "gold": [{{"id": "doc-{n}"}}]}}' for n in range(30)
    )
    (folder / "evals.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    on_a_terminal(folder, *WITHOUT, "--rageval-update-baseline", columns=80)
    return folder


def _table(text: str) -> str:
    below = text[text.index("  verdict") :]
    lines = below[: below.index("\n=")].splitlines()
    return "\n".join(line for line in lines if re.match(r"  (verdict|pass|fail) ", line))


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_the_table_fits_a_terminal_of_any_width(project, monkeypatch, columns):
    """From 40 to 200 columns no row is wrapped: verdict, score, value with change and bound come first."""
    monkeypatch.setenv("WORSE", "1")
    coloured = on_a_terminal(project, *WITHOUT, columns=columns, status=1)
    table = coloured[coloured.index("  verdict") :]
    red, green = (
        [found.strip() for found in re.findall(rf"\x1b\[{code}m([^\x1b]*)\x1b\[0m", table)]
        for code in (31, 32)
    )
    assert red[:2] == ["fail", "0.600 (−0.400)"]
    assert green[0] == "pass"
    assert len([found for found in green if found != "pass"]) >= 2, green
    text = ESCAPES.sub("", coloured)
    below = text[text.index("  verdict") :]
    lines = [
        line for line in below[: below.index("\n=")].splitlines() if "::" not in line and "://" not in line
    ]
    assert max(map(len, lines)) <= columns, max(lines, key=len)
    joined = " ".join(line.strip() for line in lines)
    for part in (
        "recall@3",
        "0.600 (−0.400)",
        "≥ 0.9 ↓ 0.02 lost ≤ 3",
        "ndcg@3",
        "context.tokens@3",
        "≤ 4000",
    ):
        assert part in joined, part
    if columns >= 80:
        head, *rows = (re.split(r"  +", line.strip()) for line in _table(text).splitlines())
        assert head[:4] == ["verdict", "score", "value", "bound"]
        assert [row[:2] for row in rows] == [
            ["fail", "recall@3"],
            ["pass", "ndcg@3"],
            ["pass", "context.tokens@3"],
        ]
        assert rows[0][2:4] == ["0.600 (−0.400)", "≥ 0.9 ↓ 0.02 lost ≤ 3"]
        assert ("95% interval" in head) == (columns >= 100)
