"""The page of scores is written from the modules that define them, and their worked examples are computed."""

import re
import sys
from collections import Counter
from itertools import groupby
from math import inf

import pytest

from pytest_rageval import scores
from pytest_rageval.cli import main
from pytest_rageval.scores import MODULES, SCORES
from tests.docs.pages import ROOT, UPDATE
from tests.foreign_plugins import WITHOUT

PAGE = ROOT / "docs" / "reference" / "scores.md"

GENERATED = re.compile(r"(?<=tests/docs/test_scores.py -->\n).*(?=<!-- end -->\n)", re.DOTALL)

NEEDS = {
    "gold passages": "gold passages (`gold`)",
    "gold passages with text": "gold passages with `text`",
    "reference answers": "reference answers (`answers`, `answer_set` or `reference`)",
    "a long-form reference": "a long-form `reference`",
    "nuggets": "nuggets (`nuggets`)",
    "negatives": "`negatives`",
    "perturbations": "perturbations (`perturb`)",
    "generator": "a generator",
}
"""The needs of scores in the words of the page; "judge" is a model, or any judge if it only compares answers."""

CONFTEST = """
import pytest
from pytest_rageval import Retrieval, Stage, Step

CASE = []

def passages(ids):
    [case] = CASE
    return [
        {"id": id_, "text": case.texts.get(id_, f"Passage {id_}."), "metadata": case.metadata.get(id_, {})}
        for id_ in ids
    ]

def search(query, k):
    [case] = CASE
    others = dict(case.retrieval)
    steps = [Step(query, passages(ids)) for query, ids in others.pop("steps", ())]
    found = passages(case.others.get(query, case.retrieved)[:k])
    if case.stages:
        others["stages"] = [Stage(name, passages(ids)) for name, ids in case.stages.items()]
    return Retrieval(found, steps or None, **others) if steps or others else found

def generate(question, passages):
    return CASE[0].says[" ".join(passage.id for passage in passages)]

class Judge:
    def compare(self, question, references, prediction):
        return any(reference.lower() in prediction.lower() for reference in references)
    def relevant(self, question, passage):
        return passage in CASE[0].judge["relevant"]
    def sufficient(self, question, passages):
        return CASE[0].judge["sufficient"]
    def prefer(self, question, first, second):
        return 1 if first == CASE[0].judge["prefer"] else 2
    def rate(self, criterion, question, rated, against):
        return CASE[0].judge["rate"], "as in the example"
    def support(self, question, nuggets, passage):
        return CASE[0].judge["support"][passage]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search

@pytest.fixture(scope="session")
def rageval_generator():
    return generate

@pytest.fixture(scope="session")
def rageval_judge():
    return Judge()
"""

TEST = """
import pytest
from pytest_rageval.scores import SCORES
from conftest import CASE

def record_of(name):
    # Rankings are cached by question and k: two examples with the same question would share a ranking.
    family = SCORES[name].family
    record = family.example.record
    return {"id": "q1", **record, "question": f"{family.title}. {record['question']}"}

@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.rageval_evalset([record_of(name)])) for name in %s],
)
def test_value(rageval, name):
    score = SCORES[name]
    CASE[:] = [score.family.example]
    spec = f"{name}@{CASE[0].k}" if score.needs_k else name
    assert float(rageval.score(spec)) == pytest.approx(score.worked[0], abs=5e-5)
"""

TOY = '''"""How many letters has the question?

A toy.
"""

from pytest_rageval.scores.definition import Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.core.outcome import Evidence

@each_example
async def evaluate(pipeline, example, resolved):
    return float("T" in example.question), Evidence()

SCORES = (
    ScoreDef(
        "toy",
        evaluate,
        frozenset(),
        family=Family(
            "Toys",
            __doc__,
            requests="none",
            source="our own",
            example=WorkedExample(text="A question.", k=1, record={"question": "Why?"}, retrieved=("a",)),
        ),
        definition="1 if the question has a T, else 0.",
        worked=(1.0, "that of the title"),
    ),
)
'''


def sections(definitions):
    """Yield the lines of the page: a section for each family."""
    for family, members in groupby(definitions, key=lambda score: score.family):
        group = list(members)
        question, _, text = family.doc.strip().partition("\n\n")
        shared_needs = Counter(map(needs, group)).most_common(1)[0][0]
        keywords = sorted(
            frozenset[str]().union(*(score.keywords for score in group)) - {"temperature", "draws"}
        )
        yield from (f"## {family.title}", "", f"*{question}*", "", text, "")
        yield f"- Needs: {shared_needs}."
        yield f"- Requests for one question: {family.requests}."
        yield f"- Range: {scale(group[0])}."
        if keywords:
            yield f"- Keywords: {', '.join(f'`{name}`' for name in keywords)}."
        yield from (f"- Source: {family.source}", "", f"Worked example: {family.example.text}", "")
        yield from ("| score | definition | in the example |", "|---|---|---|")
        for score in group:
            name, spec = (
                f"{score.name}{k}" if score.needs_k else score.name for k in ("@k", f"@{family.example.k}")
            )
            remarks = [
                *([f"Needs {needs(score)}."] if needs(score) != shared_needs else ()),
                *([f"Needs the extra `{score.extra}`."] if score.extra else ()),
                *([f"Range: {scale(score)}."] if score.scale != group[0].scale else ()),
            ]
            value, how = score.worked
            yield f"| `{name}` | {' '.join((score.definition, *remarks))} | `{spec}` = {value:.3f}: {how} |"
        yield ""


def needs(score):
    judge = "a judge" if all(isinstance(ask, str) for ask in score.asks) else "a model that judges"
    words = {**NEEDS, "judge": judge}
    return ", ".join(words.get(need, need) for need in (*score.needs, *score.models)) or "nothing"


def scale(score):
    low, high = score.scale
    return f"{low:g} to {high:.3g}" if high < inf else f"{low:g} or more"


def test_the_page_is_written_from_the_scores():
    """The page has what the modules of the scores say, in the order of `rageval scores`."""
    page = PAGE.read_text(encoding="utf-8")
    written = GENERATED.sub(lambda _: "\n".join(sections(SCORES.values())), page)
    if UPDATE:
        PAGE.write_text(written, encoding="utf-8")
    else:
        assert page == written


def test_every_family_is_described():
    for score in SCORES.values():
        question, _, text = score.family.doc.strip().partition("\n\n")
        assert "?" in question
        assert "\n" not in question
        assert text
        assert score.definition
        assert score.worked[1]


def run_examples(pytester, names):
    """Compute worked examples in a run of pytest, with the retriever, generator and judge of each example."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_examples=TEST % names)
    result = pytester.runpytest_inprocess(*WITHOUT, "-q")
    result.assert_outcomes(passed=len(names))


@pytest.mark.slow
def test_the_worked_examples_are_right(pytester):
    """The value of every score in its worked example is the one that the package computes."""
    run_examples(
        pytester,
        [name for name, score in SCORES.items() if score.extra != "dense" and score.family.example.retrieved],
    )


@pytest.mark.slow
def test_the_worked_examples_with_embeddings_are_right(pytester):
    """The same holds for scores that need the packaged encoder."""
    pytest.importorskip("sentence_transformers")
    run_examples(pytester, [name for name, score in SCORES.items() if score.extra == "dense"])


def test_a_score_is_one_file_and_one_line(tmp_path, monkeypatch, pytester, capsys):
    """A new module and its line in the table are a score that is listed, described, computed and put on the page."""
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(scores, "__path__", [*scores.__path__, str(tmp_path)])
    monkeypatch.setitem(MODULES, "toy", ("toy",))
    monkeypatch.delitem(sys.modules, "pytest_rageval.scores.toy", raising=False)
    assert "# Toys" in "\n".join(sections(SCORES.values()))
    assert main(["scores", "toy"]) == 0
    assert "toy@k (Toys)" in capsys.readouterr().out
    run_examples(pytester, ["toy", "recall"])
