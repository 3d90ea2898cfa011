"""The page "From the papers to the names here": its list of papers is written from the presets and the scores."""

import re
import tomllib
from itertools import groupby

from pytest_rageval.extensions.papers import PRESETS as PAPERS
from pytest_rageval.scores import SCORES
from tests.docs.pages import ROOT, UPDATE

PAGE = ROOT / "docs" / "explanation" / "papers.md"
LIST = re.compile(r"(?<=tests/docs/test_papers.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
PRESETS = tomllib.loads(PAPERS["han2024"].read_text(encoding="utf-8"))


def rows():
    yield from ("| paper | preset | scores |", "|---|---|---|")
    for name, preset in PRESETS.items():
        author = preset["source"].split()[0].rstrip(",")
        families = [
            f"{family.title}: {', '.join(f'`{score.name}`' for score in group)}"
            for family, group in groupby(SCORES.values(), key=lambda score: score.family)
            if author in family.source
        ]
        yield f"| {preset['source']} | `{name}` | {'; '.join(families) or 'the retrievers'} |"


def test_the_list_is_written_from_the_presets_and_the_scores():
    """The page has each preset with the scores of its paper."""
    page = PAGE.read_text(encoding="utf-8")
    written = LIST.sub(lambda _: "\n".join(["", *rows(), "", ""]), page)
    if UPDATE:
        PAGE.write_text(written, encoding="utf-8")
    else:
        assert page == written


def test_every_score_on_the_page_is_one():
    page = PAGE.read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)(?:@k|\.\*)`", page))
    assert names
    families = {name.partition(".")[0] for name in SCORES}
    assert not [name for name in names if name not in SCORES and name not in families]


def test_the_tables_have_the_shape_of_those_of_the_papers():
    page = PAGE.read_text(encoding="utf-8")
    outputs = dict(re.findall(r"### ([^\n]+)\n.*?```console\n(.*?)```", page, re.DOTALL))
    for title, parts in {
        "LLM-retEval, Table 1": (
            r"llm_reteval@1",
            r"llm_reteval@2",
            r"the generator answers \d+% right",
            r"recall@1",
            r"llm_reteval +@1 +@2\n",
            r"recall failures +1 +2\n +A: another passage has the answer +1 +1\n +C: gold retrieved, .* 0 +1\n",
            r"LLM-retEval failures +0 +0\n",
        ),
        "eRAG, Table 2": (
            r"requests +cached +live +tokens in +tokens out",
            r"test_cost\.py::test_labels\n +\S* ?30 ",
            r"test_cost\.py::test_end_to_end\n +\S* ?3 ",
        ),
        "eRAG, Table 1": (
            r"k = 1 +k = 2",
            r"at k = 2 by system\n +loose × brief +loose × wordy\n",
            r"erag p ",
            r"contains ndcg ",
            r"gold p ",
            r"relevance p ",
            r"brief",
            r"wordy",
        ),
        "Rel': the same scores on ASQA and ELI5": (
            r"asqa\.json, 1\)\n +- +rel\.answer@2 .* 1\.000 ",
            r"eli5\.json, 1\)\n +- +rel\.answer@2 .* 0\.500 ",
        ),
        "Rel': Rel of several retrievers": (r"rel\.jsonl: 4 of 6 examples; [1-9] passage.* of 2 systems",),
        "Rel', Tables 1 and 2": (r"rel\.citation@1", r"rel_recall\.citation@2", r"rank", r"random", r"wordy"),
        "RAG-QA Arena, Tables 3 and 9": (
            r"by domain, win, win or tie, no answer: science [\d.]+%",
            r"no answer \d",
        ),
        "RAG-QA Arena, Tables 6 and 10": (
            r"Elo scale",
            r"wordy@1 +\d+ ",
            r"wordy@2 +\d+ ",
            r"reference +\d+ ",
        ),
        "RAG-QA Arena, Tables 4 and 8": (
            r"the first +neither +the second +kappa +accuracy +pearson\n",
            r"people +[\d.]+% +[\d.]+% +[\d.]+% +-",
            r"gpt-4o +[\d.]+%",
            r"majority of 3 +[\d.]+%",
        ),
        "Gülsoy": (r"judged\.correctness@1", r"judged\.context_quality@1", r"highest of 3 columns"),
    }.items():
        (output,) = (text for name, text in outputs.items() if name.startswith(title))
        for part in parts:
            assert re.search(part, output), (title, part)
