"""Reports have no code for a particular score, so that a new score needs no change in them."""

import ast
from pathlib import Path

import pytest

from pytest_rageval import reports
from pytest_rageval.scores import SCORES


@pytest.mark.parametrize(
    "path", sorted(Path(reports.__file__).parent.rglob("*.py")), ids=lambda path: path.stem
)
def test_no_report_has_code_for_a_score_by_name(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert texts.isdisjoint(SCORES)
