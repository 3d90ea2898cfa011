"""Merging the reports of shards: the reports that are accepted or rejected, and the merged scores."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.extensions.shards.merge import MergedRun
from pytest_rageval.extensions.shards.record import Shard
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.definition import each_example
from tests.unit.extensions.shards.sharded import (
    evaluate_merged,
    evaluated_in,
    shard_of,
    shards_of,
)
from tests.unit.run.marked import EVALS, NODEID, Mark, components, evalset_of, evaluated, marked, threshold

DROP = threshold(max_drop=0.02)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", baseline=tmp_path / "rageval_baseline.json")


@pytest.fixture
def four(settings: Settings, tmp_path: Path) -> Callable[..., list[Shard]]:
    """Return a function that runs four shards of 20 questions, with a retriever that misses the questions `lost`."""

    def run(*lost: int, marks: tuple[Mark, ...] = (EVALS, DROP), **changes: Any) -> list[Shard]:
        return shards_of(settings.replace(**changes), tmp_path, marks, 4, lambda: components(*lost))

    return run


def test_a_shard_judges_nothing(four: Callable[..., list[Shard]], settings: Settings, tmp_path: Path) -> None:
    """A shard passes even if every bound is violated; its report says that the merge gives the verdict."""
    shards = four(*range(20), marks=(EVALS, threshold(min=0.9)))
    for index, shard in enumerate(shards, 1):
        test = shard.tests[NODEID]
        assert test["outcome"] == "passed"
        (score,) = test["scores"]
        assert (score["mean"], score["verdict"]) == (0.0, None)
        assert score["reason"] == f"shard {index}/4: judged after the merge"
        assert test["evalset"]["shard"] == f"{index}/4"
        assert (test["evalset"]["size"], test["evalset"]["of"]) == (score["n"], 20)
    assert evaluate_merged(shards, settings, tmp_path).entry["outcome"] == "failed"


def test_a_shard_may_have_no_question(settings: Settings, tmp_path: Path) -> None:
    evalset = evalset_of(2)
    marks = (Mark("rageval_evalset", (evalset,)), threshold(min=0.5), threshold("latency.p50", max=5))
    shards = shards_of(settings, tmp_path, marks, 8, components)
    sizes = [len(shard.tests[NODEID]["shard"]["value"]["places"]) for shard in shards]
    assert sum(sizes) == 2
    assert min(sizes) == 0
    assert {shard.tests[NODEID]["outcome"] for shard in shards} == {"passed"}
    assert [score["n"] for score in evaluate_merged(shards, settings, tmp_path).entry["scores"]] == [2, 2]


def test_a_missing_shard_is_an_error(four: Callable[..., list[Shard]]) -> None:
    shards = four()
    with pytest.raises(InputError, match=r"The report of shard 2/4, 3/4 is missing"):
        MergedRun([shards[0], shards[3]])


@pytest.mark.parametrize("number", [1, 4])
def test_a_shard_that_is_there_twice_is_an_error(four: Callable[..., list[Shard]], number: int) -> None:
    shards = four()[:number]
    again = replace(shards[0], path="again.json")
    message = r"Shard 1/4 is given twice, as 1-4.json and again.json: the questions of .*test_gate.* would count twice"
    with pytest.raises(InputError, match=message):
        MergedRun([*shards, again])


def test_shards_of_another_number_do_not_join(four, settings, tmp_path):
    """Shards of different totals cannot be merged, because their questions overlap."""
    whole = shard_of(settings.replace(shard=(1, 1)), tmp_path, [EVALS, DROP], components())
    with pytest.raises(InputError, match="its questions would count twice"):
        evaluate_merged([*four(), whole], settings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"max_unscored": 0.5}, "differ in the settings: max_unscored: 0.05 and 0.5"),
        ({"seed": 3}, "differ in the settings: seed: 0 and 3"),
        ({"sample": 0.9}, "differ in the settings: sample: 1.0 and 0.9"),
    ],
)
def test_other_settings_in_one_shard_are_an_error(four, changes, problem):
    shards = four()
    shards[2] = four(**changes)[2]
    with pytest.raises(InputError) as error:
        MergedRun(shards)
    assert problem in str(error.value)
    assert "shard 1/4 (1-4.json) and shard 3/4 (3-4.json)" in str(error.value)


def _generate(_question: str, _passages: object) -> str:
    return "short"


_generate.fingerprint = "2"
ANSWERS = (
    Mark("rageval_evalset", (evalset_of(20, answers=("a",)),)),
    threshold("answer.correct@1", min=0.0),
)


@pytest.mark.parametrize(
    ("marks", "other", "problem"),
    [
        (
            (EVALS, DROP),
            {"marks": (Mark("rageval_evalset", (evalset_of(21),)), DROP)},
            "evalset of test_it.py::test_gate: size: 20 and 21",
        ),
        ((EVALS, DROP), {"marks": (EVALS, threshold(max_drop=0.1))}, "thresholds of test_it.py::test_gate"),
        ((EVALS, DROP), {"package": "0.0.1"}, "the version of pytest-rageval: "),
        (
            ANSWERS,
            {"parts": replace(components(), generator=_generate)},
            "fingerprint of answer.correct@1 of test_it.py::test_gate",
        ),
    ],
    ids=["eval set", "thresholds", "package", "application"],
)
def test_a_job_with_anything_else_is_an_error(tmp_path, marks, other, problem):
    """As if a job ran another version of the tests, of the package, or of the application."""
    settings = Settings(cache_dir=tmp_path / "cache")
    shards = shards_of(settings, tmp_path, marks, 4)
    made = {"marks": marks, "parts": components(), **other}
    shards[3] = shard_of(settings.replace(shard=(4, 4)), tmp_path, **made)
    with pytest.raises(InputError) as error:
        evaluate_merged(shards, settings, tmp_path)
    assert f"differ in {problem}" in str(error.value)


def test_a_report_of_a_whole_run_is_refused() -> None:
    with pytest.raises(InputError, match=r"whole.json is not the report of a shard"):
        Shard("whole.json", {"schema": 1, "tests": []})
    with pytest.raises(InputError, match="has the format 99 of shards"):
        Shard("later.json", {"schema": 1, "tests": [], "shard": {"format": 99}})


def test_a_report_that_was_cut_is_refused(four: Callable[..., list[Shard]]) -> None:
    shard = four()[0]
    for key in ("index", "package", "collected", "usage", "calibration"):
        about = {name: value for name, value in shard.entry.items() if name != key}
        if key == "calibration":
            about[key] = 3
        with pytest.raises(InputError, match=rf"1-4.json is not a complete report of a shard: shard.*{key}"):
            Shard("1-4.json", {**shard.document, "shard": about})
    for index in (0, 5, -1):
        with pytest.raises(InputError, match="index"):
            Shard("1-4.json", {**shard.document, "shard": {**shard.entry, "index": index}})
    tests = [{name: entry[name] for name in entry if name != "outcome"} for entry in shard.document["tests"]]
    for changed, place in (({"tests": tests}, "outcome"), ({"settings": {"judge": {}}}, "settings.judge")):
        with pytest.raises(InputError, match=f"1-4.json is not a complete report of a shard: .*{place}"):
            Shard("1-4.json", {**shard.document, **changed})
    many = Shard("1-4.json", {**shard.document, "shard": {**shard.entry, "of": 10**12}})
    with pytest.raises(
        InputError, match="shard 2/1000000000000, 3/1000000000000, 4/1000000000000 is missing"
    ):
        MergedRun([many])


def test_what_no_shard_wrote_is_refused(four, settings, tmp_path):
    """A report with foreign objects raises InputError; only data classes of the package are created from it."""
    shards = four()
    part = shards[1].tests[NODEID]["shard"]
    record = part["value"]["record"]
    examples, record["examples"] = record["examples"], [{"~": "Path", "of": ["/etc/passwd"]}]
    with pytest.raises(InputError, match=r"2-4.json.*cannot be read \(TypeError"):
        evaluate_merged(shards, settings, tmp_path)
    record["examples"] = examples
    record["added"] = {"calibration": {"~": "Path", "of": "/etc/passwd"}}
    with pytest.raises(InputError, match=r"2-4.json.*cannot be read \(KeyError: 'Path'"):
        evaluate_merged(shards, settings, tmp_path)
    record["added"] = {}
    part["tables"]["Ranking"] = [{"query": "q", "documents": [], "steps": [0]}]
    record["rankings"] = {"q0": 0}
    with pytest.raises(InputError, match=r"2-4.json.*cannot be read \(RecursionError"):
        evaluate_merged(shards, settings, tmp_path)


def test_an_error_in_one_shard_is_an_error_of_the_test(four, settings, tmp_path):
    """An error in one shard makes the merged test an error, since the other shards have only part of the questions."""
    shards = four()
    broken = replace(components(), retriever="no retriever")
    shards[2] = shard_of(settings.replace(shard=(3, 4)), tmp_path, [EVALS, DROP], broken)
    assert shards[2].tests[NODEID]["outcome"] == "error"
    entry = evaluate_merged(shards, settings, tmp_path).entry
    assert entry["outcome"] == "error"
    assert entry["message"].startswith("shard 3/4: ")


def test_a_test_that_a_stopped_shard_did_not_run_is_an_error(four, settings, tmp_path):
    shards = four()
    document = {**shards[1].document, "tests": [], "stopped": True}
    document["shard"] = {**document["shard"], "ran": []}
    shards[1] = Shard("2-4.json", document)
    assert MergedRun(shards).stopped
    entry = evaluate_merged(shards, settings, tmp_path).entry
    assert entry["outcome"] == "error"
    assert entry["message"] == "shard 2/4 has no scores of this test"


def test_tests_that_ran_in_no_job_are_an_error(settings: Settings, tmp_path: Path) -> None:
    other = "test_it.py::test_other"
    whole = settings.replace(shard=(1, 1))
    shard = shard_of(whole, tmp_path, [EVALS, DROP], components(), collected=[NODEID, other])
    with pytest.raises(InputError, match=f"1 test ran in no shard: {other}; collected in "):
        MergedRun([shard])
    run = MergedRun([shard], partial=True)
    assert run.left_out == ["1 test deselected"]


def test_a_score_in_a_test_has_all_questions(settings: Settings, tmp_path: Path) -> None:
    session = Session(settings.replace(shard=(2, 4)))
    test = evaluated(session, tmp_path)
    for call in (lambda: test.score("recall@1", {"min": 0.5}), lambda: test.score("recall@1", {})):
        with pytest.raises(
            InputError,
            match=r"(?s)rageval.score\(\) needs the results of all questions, .* --rageval-shard 1/1",
        ):
            call()
    session.close()
    session = Session(settings.replace(shard=(1, 1)))
    assert evaluated(session, tmp_path, lost=[1]).score("recall@1", {"min": 0.5}) == 0.95
    session.close()


def test_a_score_that_a_test_asked_for_is_in_the_merged_report(settings: Settings, tmp_path: Path) -> None:
    def asked(shard: tuple[int, int] | None) -> dict[str, Any]:
        session = Session(settings.replace(shard=shard))
        test = TestRun(session, components(3), marked(tmp_path, [EVALS]))
        test.evaluate_markers()
        test.score("recall@1", {"min": 0.5, "where": {"topic": "odd"}})
        test.score("mrr@1", {})
        results = test.results(describe=True)
        session.close()
        return results

    whole = asked(None)
    shard = shard_of(settings.replace(shard=(1, 1)), tmp_path, [EVALS], components(3))
    shard.tests[NODEID] |= asked((1, 1))
    merged = evaluate_merged([shard], settings, tmp_path).entry
    assert merged["scores"] == whole["scores"]


def test_a_score_that_may_depend_on_other_questions_is_refused(settings: Settings, tmp_path: Path) -> None:
    @each_example
    async def found(run: Any, example: Any, terms: Any) -> Any:
        ranking = await run.ranking(example, terms.k)
        return float(bool(ranking)), Evidence(ranking)

    for separable in (False, True):
        registry = Registry()
        registry.add_score("found", found, scale=(0, 1), separable=separable)
        session = Session(settings.replace(shard=(1, 2)), registry=registry)
        test = evaluated(session, tmp_path, threshold("found@1", min=0.5))
        problems = test.evaluate_markers()
        if separable:
            assert problems == []
        else:
            (problem,) = problems
            assert "found@1: the score of a question may depend on the others" in problem
        session.close()


def test_a_plugins_score_is_judged_without_the_plugin(settings: Settings, tmp_path: Path) -> None:
    """The merge uses the scale and notes stored in the shards, so the plugin need not be installed."""

    @each_example
    async def stars(run: Any, example: Any, terms: Any) -> Any:
        ranking = await run.ranking(example, terms.k)
        hit = ranking[0].id == example.gold[0].id
        return 1.0 + 4 * hit, Evidence(ranking, sizes={"relevant": 2, "shown": 1, "found": int(hit)})

    def registry() -> Registry:
        made = Registry()
        made.add_score("stars", stars, asks=(), scale=(1, 5), separable=True)
        return made

    marks = [EVALS, threshold("stars@1", min=3.0)]
    _, _, whole = evaluated_in(settings, tmp_path, marks, components(1, 2), registry=registry())
    shards = [
        shard_of(settings.replace(shard=(index, 3)), tmp_path, marks, components(1, 2), registry=registry())
        for index in (1, 2, 3)
    ]
    assert evaluate_merged(shards, settings, tmp_path).entry["scores"] == whole["scores"]
    assert whole["scores"][0]["pooled"]["found"] == 18


def test_scores_of_used_passages_are_those_of_the_whole_set(settings: Settings, tmp_path: Path) -> None:
    marks = [
        Mark("rageval_evalset", (evalset_of(20, answers=("text",)),)),
        threshold("rel.citation@1", min=0.5),
        threshold("rel_recall.citation@1", min=0.5),
        threshold("rel.citation@1", min=0.5, relevant="contains"),
        threshold("rel.coverage@1", min=0.5, order="random"),
    ]

    def parts() -> Components:
        return replace(components(1, 2), generator=lambda _question, _passages: "text [1]")

    _, _, whole = evaluated_in(settings, tmp_path, marks, parts())
    shards = [shard_of(settings.replace(shard=(index, 3)), tmp_path, marks, parts()) for index in (1, 2, 3)]
    assert evaluate_merged(shards, settings, tmp_path).entry["scores"] == whole["scores"]
    cited, used, labelled, covered = whole["scores"]
    assert (cited["mean"], used["mean"], labelled["mean"], covered["mean"]) == (0.9, 1.0, 1.0, 0.9)
    assert used["common"] == {"with": "rel.citation@1", "n": 18, "mean": 1.0, "other": 1.0}
    assert labelled["relevant"] == "contains"
    assert covered["ignored"] == {"order": "random"}
    assert not {"order", "common"} & covered.keys()


def test_a_judge_with_constant_verdicts_is_reported_after_the_merge(settings, tmp_path):
    """The warning about constant verdicts uses the verdicts of all shards, since one shard has too few."""
    answers = evalset_of(40, answers=("a",))
    marks = [Mark("rageval_evalset", (answers,)), threshold("answer.correct@1", min=0.0)]
    _, _, whole = evaluated_in(settings, tmp_path, marks, components(1, 2))
    shards = shards_of(settings, tmp_path, marks, 4, lambda: components(1, 2))
    entry = evaluate_merged(shards, settings, tmp_path).entry
    assert entry["warnings"] == whole["warnings"]
    assert "the judge said yes 40 times" in entry["warnings"][0]
    assert not any("warnings" in shard.tests[NODEID] for shard in shards)
