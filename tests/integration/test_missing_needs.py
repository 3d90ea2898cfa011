"""What a score needs and does not have is refused before the first call of the generator, which may be paid."""

import sys

import pytest

GENERATOR = """
@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        with open("calls", "a") as file:
            file.write("called\\n")
        return str(passages[0])
    return generate
"""


@pytest.fixture
def refused(project):
    """Return a function that runs a threshold on an eval set with these fields; it must end without a call."""

    def run(spec: str, keywords: str = "", shard: str | None = None, **fields: object) -> str:
        lowest = 1.5 if spec.startswith("judged.") else 0.1
        project.add(GENERATOR)
        project.evalset(30, **fields)
        project.test(
            f"@pytest.mark.rageval_threshold({spec!r}, min={lowest}{keywords})\ndef test_it(rageval): pass\n"
        )
        result = project.run(
            *(["--rageval-shard", shard, "--rageval-report", "s.json"] if shard else ()), errors=1
        )
        assert not (project.path / "calls").exists()
        return result.stdout.str()

    return run


@pytest.mark.parametrize(
    ("spec", "keywords", "decides", "scores"),
    [
        ("arena.win@3", "", "Which of two answers is better", "the scores arena.*."),
        ("answer.nuggets@3", "", "Which nuggets a text supports", "the scores nuggets.* and answer.nuggets."),
        ("judged.faithfulness@3", "", "A rating from 1 to 5", "the scores judged.*."),
        ("udcg@3", "", "Whether a passage is relevant", "the scores relevance.* and udcg, and the keyword"),
        (
            "rel_recall.citation@3",
            ", relevant='judge'",
            "Whether a passage is relevant",
            "the scores relevance",
        ),
        ("answer.correct@3", ", comparator='graded'", "How much an answer says of another", ""),
        ("erag.p@3", ", label='graded>=0.5'", "How much an answer says of another", ""),
    ],
)
def test_without_a_judge(refused, spec, keywords, decides, scores):
    shown = refused(spec, keywords, reference="A long story.", nuggets=["a code"])
    assert f"{decides} is decided by a model, and this run has no model as judge." in shown
    assert f"Name one with --rageval-judge-model, or {'leave out ' * bool(scores)}{scores}" in shown


@pytest.mark.parametrize(
    ("spec", "fields", "needs", "write"),
    [
        (
            "llm_reteval@3",
            {"gold": [{"source": "a.md", "start": 0, "end": 3}]},
            "gold passages with text",
            "gold, each with",
        ),
        ("answer.correct@3", {"answers": []}, "reference answers", "answers"),
        ("rel.citation@3", {"gold": []}, "gold passages", "gold"),
    ],
)
def test_without_the_data(refused, spec, fields, needs, write):
    shown = refused(spec, **fields)
    assert f"{spec} needs {needs}, and none of 30 examples has them." in shown
    assert f"Write {write}" in shown
    assert " into the records of the eval set, or leave the score out." in shown


def test_gold_whose_text_is_nowhere(refused):
    shown = refused("llm_reteval@3", gold=[{"id": "elsewhere"}])
    assert "llm_reteval@3 needs gold passages with text, and 30 of 30 examples have none, such as q" in shown
    assert "and no document of its id was retrieved" in shown
    assert 'rageval_evalset("…", corpus="docs/corpus.jsonl")' in shown


def test_a_retriever_that_fails_is_named_and_not_the_gold(project):
    project.pytester.makeconftest(
        "import pytest\n\n@pytest.fixture(scope='session')\ndef rageval_retriever():\n"
        "    def search(query, k):\n        raise ConnectionError('the index is down')\n    return search\n"
        + GENERATOR
    )
    project.evalset(30, gold=[{"id": "doc-1"}])
    project.test(
        "@pytest.mark.rageval_threshold('llm_reteval@3', min=0.1, comparator='em')\ndef test_it(): pass\n"
    )
    shown = project.run().stdout.str()
    assert "ConnectionError: the index is down" in shown
    assert "gold passages with text" not in shown


def test_gold_by_id_has_the_text_of_the_retrieved_document(project):
    project.add(GENERATOR)
    (project.path / "e.jsonl").write_text(
        '{"id": "q1", "question": "What is the code of item-1?", "gold": [{"id": "doc-1"}]}'
    )
    project.test(
        "import pytest\n\n\n@pytest.mark.rageval_evalset('e.jsonl')\n"
        "@pytest.mark.rageval_threshold('llm_reteval@1', min=1, comparator='em')\ndef test_it(): pass\n"
    )
    project.run("--rageval-shard", "1/1", "--rageval-report", "shard.json", passed=1)
    result = project.run(passed=1)
    assert "1 retrieved gold text" in result.stdout.str()
    assert (project.path / "calls").exists()


def test_a_shard_does_not_take_the_text_of_gold_from_a_part_of_the_rankings(refused):
    shown = refused("llm_reteval@3", gold=[{"id": "doc-1"}], shard="1/2")
    assert "--rageval-shard leaves out most questions" in shown
    assert 'rageval_evalset("…", corpus="docs/corpus.jsonl")' in shown


def test_without_an_extra(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    assert "pip install 'pytest-rageval[overlap]'" in refused("answer.rouge1@3").replace('"', "'")
