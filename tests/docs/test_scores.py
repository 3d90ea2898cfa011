"""The page of scores agrees with what the package computes."""

import json
import tomllib

import pytest

from pytest_rageval.run.registry import SCORES
from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT

FAMILIES = tomllib.loads((ROOT / "docs" / "reference" / "scores.toml").read_text(encoding="utf-8"))["family"]

CONFTEST = """
import json
from pathlib import Path
import pytest
from pytest_rageval import Retrieval, Step

CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
CASE = {}

def passages(names):
    texts = CASE.get("texts", {})
    return [{"id": name, "text": texts.get(name, f"Passage {name}.")} for name in names]

def search(query, k):
    found = passages(CASE["retrieved"][:k])
    steps = [Step(each["query"], passages(each["retrieved"])) for each in CASE.get("steps", [])]
    costs = {name: CASE[name] for name in ("cost", "seconds") if name in CASE}
    return Retrieval(found, steps or None, **costs) if costs or steps else found

def generate(question, passages):
    return CASE["says"][" ".join(passage.id for passage in passages)]

class Judge:
    def compare(self, question, references, prediction):
        return any(reference.lower() in prediction.lower() for reference in references)
    def relevant(self, question, passage):
        return any(passage == f"Passage {name}." for name in CASE["relevant"])
    def sufficient(self, question, passages):
        return CASE["enough"]
    def prefer(self, question, first, second):
        return 1 if first == CASE["record"][CASE["prefers"]] else 2
    def rate(self, criterion, question, rated, against):
        return CASE["grade"], "as in the case"
    def support(self, question, nuggets, passage):
        return CASE["supports"][passage]

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
from conftest import CASE, CASES

@pytest.mark.parametrize(
    ("number", "spec"),
    [
        pytest.param(number, spec, marks=pytest.mark.rageval_evalset([{"id": "q1", **case["record"]}]))
        for number, case in enumerate(CASES) for spec in case["values"]
    ],
    ids=str,
)
def test_value(rageval, number, spec):
    CASE.clear()
    CASE.update(CASES[number])
    assert float(rageval.score(spec)) == pytest.approx(CASE["values"][spec], abs=5e-5)
"""


def scores():
    """Return each score with its family."""
    return [(family, score) for family in FAMILIES for score in family["score"]]


def test_every_score_is_described_once():
    """The page describes each score of the package exactly once, and no other."""
    assert sorted(score["name"] for _, score in scores()) == sorted(SCORES)


@pytest.mark.parametrize(("family", "score"), scores(), ids=lambda entry: entry.get("name", ""))
def test_range_and_words_are_those_of_the_score(family, score):
    """The page's range and keywords are those of the score's definition."""
    definition = SCORES[score["name"]]
    assert tuple(score.get("range", family["range"])) == definition.scale
    # The page states once that every score that calls the generator accepts these keywords.
    drawn = {"temperature", "draws"} if definition.generates else set()
    assert {*score.get("keywords", family["keywords"]), *drawn} == definition.keywords


@pytest.mark.parametrize(("family", "score"), scores(), ids=lambda entry: entry.get("name", ""))
def test_needs_are_those_of_the_score(family, score):
    """The page's description of what a score needs agrees with the definition, which `rageval scores` prints."""
    definition = SCORES[score["name"]]
    prose = score.get("needs", family["needs"])
    requests = family["requests"]
    assert definition.family == family["title"]
    assert definition.definition
    for need in definition.needs:
        assert need.split()[-1].rstrip("s") in prose.replace("answer_set", "answers")
    assert ("generator" in definition.models) == ("generator" in prose)
    if "judge" in definition.models:
        assert "judge" in f"{prose} {requests} {definition.definition}"


def run_cases(pytester, families):
    """Compute the worked examples in a run of pytest, with the retriever, generator and judge of each case."""
    # Rankings are cached by question and k: two cases with the same question would share a ranking.
    cases = [
        {
            **family["case"],
            "record": {
                **family["case"]["record"],
                "question": f"{number}. {family['case']['record']['question']}",
            },
            "values": {spec: value for score in family["score"] for spec, value in score["value"].items()},
        }
        for number, family in enumerate(families)
    ]
    (pytester.path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_cases=TEST)
    result = pytester.runpytest_inprocess(*WITHOUT, "-q")
    result.assert_outcomes(passed=sum(len(case["values"]) for case in cases))


def without(extra):
    """Return the families without the scores that need an extra."""
    return [
        {**family, "score": [score for score in family["score"] if SCORES[score["name"]].extra != extra]}
        for family in FAMILIES
    ]


def test_the_worked_examples_are_right(pytester):
    """Every value on the page equals the value that the package computes from the page's example."""
    run_cases(pytester, without("dense"))


@pytest.mark.slow
def test_the_worked_examples_with_embeddings_are_right(pytester):
    """The same holds for scores that need the packaged encoder."""
    pytest.importorskip("sentence_transformers")
    dense = [
        {**family, "score": [score for score in family["score"] if SCORES[score["name"]].extra == "dense"]}
        for family in FAMILIES
    ]
    run_cases(pytester, [family for family in dense if family["score"]])
