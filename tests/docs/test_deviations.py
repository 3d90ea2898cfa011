"""The page of deviations has a table for each paper, and names only existing options, scores and prompts."""

import re
import tomllib

import pytest

from pytest_rageval.core.spec import Spec
from pytest_rageval.extensions.papers import PRESETS as PAPERS
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.models.prompts import TEMPLATES
from pytest_rageval.options import all_options
from pytest_rageval.scores import SCORES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "explanation" / "deviations.md").read_text(encoding="utf-8")
PRESETS = tomllib.loads(PAPERS["han2024"].read_text(encoding="utf-8"))
SECTIONS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE))


@pytest.mark.parametrize("preset", PRESETS)
def test_each_paper_has_a_table_with_four_filled_columns(preset: str) -> None:
    (section,) = (text for text in SECTIONS.values() if f"`--rageval preset={preset}`" in text)
    head, _, *rows = (line for line in section.splitlines() if line.startswith("|"))
    assert head == "| item | what we do | why | as published |"
    assert rows
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 4, row
        assert all(cells), row


def test_every_option_of_the_page_is_one() -> None:
    assert set(re.findall(r"--rageval[- ][a-z_-]+", PAGE)) <= {option.typed for option in all_options()}


def test_every_score_of_the_page_is_one() -> None:
    named = re.findall(
        r'[`"]((?:llm_reteval|answer|erag|rel|rel_recall|arena|judged)(?:\.\w+)?(?:@\d+)?)[`"]', PAGE
    )
    assert {Spec.parse(name).measure for name in named} - {"answer", "erag"} <= set(SCORES)


def test_every_keyword_of_the_page_is_one() -> None:
    """The page names only existing threshold keywords; those of retrievers are executed elsewhere."""
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    named = set(re.findall(r'`(\w+)="', rows))
    assert named
    assert named <= set(Threshold.keywords())


def test_every_prompt_that_may_be_replaced_is_one() -> None:
    named = re.findall(r"`--rageval prompts=FILE` replaces `(\w+)`", PAGE)
    assert named
    assert set(named) <= set(TEMPLATES)
