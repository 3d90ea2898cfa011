"""Early stopping: questions are evaluated in random order until the verdict on a drop is clear."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import Baseline
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.extensions.early_stop.early_stop import EarlyStopResult
from pytest_rageval.gate.judge import evaluate_thresholds
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput, ThresholdResult
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.notes import NOTE_TEXTS
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from tests.unit.gate.scored import before_of, numbered, score_of, threshold_of
from tests.unit.run.marked import NODEID, Judge, Mark, marked, threshold

pytestmark = pytest.mark.slow

N = 200
EVALSET = EvalSet("evals", tuple(Example(f"q{i}", f"question {i}", answers=("right",)) for i in range(N)))
GATE = threshold("answer.em@1", max_drop=0.02)


@dataclass
class Rag:
    """A retriever and a generator, for questions whose passages changed, and of these whose answer is wrong or missing.

    The generator was called with the questions in `asked`; without a fingerprint, its code may have changed.
    """

    changed: range = range(0)
    wrong: range = range(0)
    silent: range = range(0)
    failing: range = range(0)
    labels: str = "id"
    fingerprint: str | None = "generator 1"
    asked: list[str] = field(default_factory=list)

    def search(self, query: str, _k: int) -> list[dict[str, str]]:
        if number(query) in self.failing:
            raise ConnectionError("no index")
        name = f"d{number(query)}{'-new' if number(query) in self.changed else ''}"
        long = "the beginning of a text that is the same in all " * 3
        return [{"id": name, "text": f"{name} right"} if self.labels == "id" else {"text": f"{long}{name}"}]

    def generate(self, question: str, _passages: object) -> str:
        self.asked.append(question)
        if number(question) in self.silent:
            return ""
        return "wrong" if number(question) in self.wrong else "right"

    @property
    def components(self) -> Components:
        def generate(question: str, passages: object) -> str:
            return self.generate(question, passages)

        judge = Judge()
        if self.fingerprint is not None:
            generate.fingerprint = self.fingerprint
            judge.fingerprint = "judge 1"
        return Components(self.search, generate, judge)


def number(question: str) -> int:
    return int(question.split()[1])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    baseline = tmp_path / "rageval_baseline.json"
    return Settings(cache_dir=tmp_path / "cache", baseline=baseline, concurrency=4, early_stop=True)


@dataclass
class Run:
    test: TestRun
    problems: list[str]
    rag: Rag

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(self.test.results()["scores"])

    @property
    def entry(self) -> dict[str, Any]:
        [entry] = self.entries
        return entry


def _run(settings: Settings, rag: Rag, *marks: Mark, evalset: EvalSet = EVALSET, registry: Any = None) -> Run:
    session = Session(settings, registry=registry)
    given = [Mark("rageval_evalset", (evalset,)), *(marks or [GATE])]
    test = TestRun(session, rag.components, marked(settings.baseline.parent, given), sharing_alpha=[NODEID])
    problems = test.evaluate_markers()
    if settings.update_baseline:
        Baseline({NODEID: test.results()["baseline"]}).write(settings.baseline)
    session.close()
    return Run(test, problems, rag)


@pytest.fixture
def good(settings: Settings) -> Iterator[Settings]:
    """Settings with a baseline in which every answer is right; an update evaluates all questions."""
    run = _run(settings.replace(update_baseline=True), Rag())
    assert len(run.rag.asked) == N
    return settings


def test_as_few_changes_as_may_be_lost_cost_nothing(good: Settings) -> None:
    run = _run(good, Rag(changed=range(4), wrong=range(4)))
    assert run.rag.asked == []
    assert (run.entry["mean"], run.entry["ci95"], run.entry["baseline"]) == (None, None, None)
    assert run.entry["verdict"] == "pass"
    assert run.entry["reason"] == (
        "stopped early: 0 of 4 changed questions evaluated (196 unchanged): "
        "the remaining questions cannot raise the drop above the allowed 0.02"
    )
    assert (run.entry["early_stop"]["not_asked"], run.entry["early_stop"]["drop"]) == (4, None)
    states = [example.get("early_stop") for example in run.entry["examples"]]
    assert states == ["not asked"] * 4 + ["unchanged"] * (N - 4)
    assert [example["score"] for example in run.entry["examples"]] == [None] * 4 + [1.0] * (N - 4)


def test_changes_without_a_loss_pass_before_all_questions_are_evaluated(good: Settings) -> None:
    run = _run(good, Rag(changed=range(100)))
    assert run.entry["verdict"] == "pass"
    assert len(run.rag.asked) == run.entry["early_stop"]["asked"] < 100
    assert "the drop of all questions is at most the allowed 0.02" in run.entry["reason"]


def test_a_drop_beyond_what_is_allowed_can_be_asked_for(good: Settings) -> None:
    beyond = threshold("answer.em@1", max_drop=0.02, policy="beyond")
    good = good.replace(policy={"beyond": {"burden": "beyond", "cluster": "none"}})
    run = _run(good, Rag(changed=range(150), wrong=range(100)), beyond)
    assert run.entry["early_stop"]["verdict"] == "fail"
    assert len(run.rag.asked) < 75
    assert "a drop of more than 0.02 is significant with all questions (level 0.05)" in run.entry["reason"]


def test_what_is_not_clear_is_asked_in_full_and_tested_at_the_whole_level(good: Settings) -> None:
    run = _run(good, Rag(changed=range(12), wrong=range(5)))
    early = run.entry["early_stop"]
    assert (early["asked"], early["verdict"], early["not_asked"]) == (12, None, 0)
    assert (run.entry["verdict"], run.entry["mean"]) == ("fail", 0.975)
    assert run.entry["baseline"]["alpha"] == pytest.approx(0.05)
    assert run.entry["baseline"]["drop"] == pytest.approx(0.025)


def test_the_order_depends_on_seed_and_rankings(good: Settings) -> None:
    bad = {"changed": range(N), "wrong": range(100)}
    first, again = (_run(good, Rag(**bad)).rag.asked for _ in range(2))
    assert sorted(first) == sorted(again)
    other_seed = _run(good.replace(seed=1), Rag(**bad)).rag.asked
    other_retriever = _run(good, Rag(changed=range(1, N), wrong=range(1, 100))).rag.asked
    assert set(other_seed) != set(first)
    assert set(other_retriever) != set(first)


def test_a_generator_without_a_fingerprint_counts_as_changed(good: Settings) -> None:
    unseen = good.replace(baseline=good.baseline.with_name("unseen.json"))
    _run(unseen.replace(update_baseline=True), Rag(fingerprint=None))
    run = _run(unseen, Rag(fingerprint=None))
    assert (run.entry["verdict"], run.entry["early_stop"]["unchanged"]) == ("pass", 0)
    assert 0 < len(run.rag.asked) < N
    [warning] = run.test.results()["warnings"]
    assert "a change of your own generator and judge cannot be detected. Give it an attribute" in warning
    assert "warnings" not in _run(good, Rag()).test.results()


class Pool(Rag):
    """A retriever whose second passage becomes relevant for changed questions; the answer cites the first passage."""

    def search(self, query: str, k: int) -> list[dict[str, str]]:
        second = "right" if number(query) in self.changed else "of no use"
        return [{"id": "first", "text": "right"}, {"id": f"second {second}", "text": second}][:k]

    def generate(self, question: str, _passages: object) -> str:
        return f"{super().generate(question, _passages)} [1]"


def test_passages_beyond_the_prompt_count_where_labels_make_them_relevant(settings: Settings) -> None:
    gate = threshold("rel.citation@1", max_drop=0.02, relevant="contains@2")
    _run(settings.replace(update_baseline=True), Pool(), gate)
    run = _run(settings, Pool(changed=range(N)), gate)
    assert run.entry["verdict"] == "fail"
    assert 0 < len(run.rag.asked) < N


def test_passages_whose_name_is_cut_are_not_taken_for_unchanged(good: Settings) -> None:
    unnamed = good.replace(baseline=good.baseline.with_name("unnamed.json"))
    _run(unnamed.replace(update_baseline=True), Rag(labels="text"))
    run = _run(unnamed, Rag(labels="text", changed=range(N), wrong=range(N)))
    assert (run.entry["verdict"], run.entry["early_stop"]["unchanged"]) == ("fail", 0)


def test_questions_at_which_the_retriever_fails_are_lost(good: Settings) -> None:
    """Retriever failures count as losses without a generator call; more than max_unscored are an error."""
    few = _run(good, Rag(failing=range(90, 94)))
    assert (few.rag.asked, few.entry["verdict"]) == ([], "pass")
    some = _run(good, Rag(failing=range(90, 99)))
    assert (some.rag.asked, some.entry["verdict"]) == ([], "fail")
    assert some.entry["baseline"]["failed"] == [f"q{i}" for i in range(90, 99)]
    many = _run(good, Rag(failing=range(50)))
    assert "ConnectionError" in many.problems[0]
    assert many.rag.asked == []


def test_questions_without_an_answer_are_no_verdict(good: Settings) -> None:
    run = _run(good, Rag(changed=range(N), silent=range(100)))
    assert len(set(run.rag.asked)) == N
    assert "100 of 200 examples have no score" in run.problems[0]


def test_new_questions_are_evaluated_only_if_all_are(good: Settings) -> None:
    new = (Example(f"n{i}", f"new {900 + i}", ("right",)) for i in range(9))
    more = EvalSet("evals", (*EVALSET.examples, *new))
    assert len(_run(good, Rag(), evalset=more).rag.asked) == 9
    run = _run(good, Rag(changed=range(4)), evalset=more)
    assert run.rag.asked == []
    assert run.entry["early_stop"]["not_asked"] == 13
    [warning] = run.entry["warnings"]
    assert warning.startswith("a drop among 9 of 209 examples would not be seen; 9 have no score in the")


@pytest.mark.parametrize(
    "words",
    [
        {"min": 0.1},
        {"max": 1.0},
        {"max_lost": 200},
        {"policy": "release", "max_drop": 0.3},
        {"where": {"topic": "a"}},
        {"by": "topic"},
        {"policy": "groups"},
        {"policy": "total"},
        {"policy": "strict"},
    ],
)
def test_other_bounds_need_all_questions(good: Settings, words: dict[str, Any]) -> None:
    examples = enumerate(EVALSET.examples)
    tagged = [replace(each, tags={"topic": "a", "group": f"g{place % 40}"}) for place, each in examples]
    policies = {"groups": {"cluster": "group"}, "total": {"max_total_drop": 0.1}}
    policies |= {"strict": {"inconclusive": "fail"}}
    gate = threshold(**({"spec": "answer.em@1", "max_drop": 0.02} | words))
    evalset = EvalSet("evals", tuple(tagged))
    run = _run(good.replace(policy=policies), Rag(changed=range(2)), gate, evalset=evalset)
    assert run.problems == []
    assert len(run.rag.asked) == N
    assert "early_stop" not in run.entry


@pytest.mark.parametrize(
    "change", [{"early_stop": False}, {"replay": True}, {"repeat": 2}, {"update_baseline": True}]
)
def test_other_runs_need_all_questions(good: Settings, change: dict[str, Any]) -> None:
    run = _run(good.replace(**change), Rag(changed=range(2)))
    assert len(set(run.rag.asked)) == N
    assert "early_stop" not in run.entry


def test_two_thresholds_on_one_score_need_all_questions(good: Settings) -> None:
    run = _run(good, Rag(changed=range(2)), GATE, threshold("answer.em@1", min=0.1))
    assert len(run.rag.asked) == N


def test_a_comparator_of_a_plugin_counts_as_changed(good: Settings) -> None:
    registry = Registry()
    registry.add_comparator("mine", Judge())
    registry.add_answer_measure("length", lambda answer, _: float(len(answer) > 3))
    for gate in (
        threshold("answer.correct@1", max_drop=0.02, comparator="mine or em"),
        threshold("answer.length@1", max_drop=0.02),
    ):
        _run(good.replace(update_baseline=True), Rag(), gate, registry=registry)
        assert _run(good, Rag(), gate, registry=registry).entry["early_stop"]["unchanged"] == 0


def test_a_score_of_a_plugin_is_evaluated_in_full(good: Settings) -> None:
    """A plugin's score is evaluated in full, since its examples may depend on each other."""

    async def together(run: Any, examples: Any, _resolved: Any) -> list[Outcome]:
        batches.append(len(examples))
        found = [(each, Evidence(await run.ranking(each.question, 1))) for each in examples]
        return [Outcome(each, 1.0, evidence=evidence) for each, evidence in found]

    batches: list[int] = []
    registry = Registry()
    registry.add_score("together", together, asks=["generate"], scale=(0, 1))
    gate = threshold("together@1", max_drop=0.02)
    _run(good.replace(update_baseline=True), Rag(), gate, registry=registry)
    _run(good, Rag(changed=range(9)), gate, registry=registry)
    assert batches == [N, N]


def test_each_watched_threshold_has_its_own_share_of_the_level(good: Settings) -> None:
    """Thresholds that are decided by their rankings take no share."""
    gates = [threshold(name, max_drop=0.02) for name in ("answer.em@1", "answer.f1@1", "answer.correct@1")]
    recall = threshold("contains.hit@1", max_drop=0.02)
    _run(good.replace(update_baseline=True), Rag(), *gates, recall)
    clear = _run(good, Rag(), *gates, recall).entries
    assert clear[-1]["baseline"]["alpha"] == pytest.approx(0.05)
    unclear = _run(good, Rag(changed=range(12), wrong=range(5)), *gates, recall).entries
    levels = [entry["baseline"] and round(entry["baseline"]["alpha"], 6) for entry in unclear]
    assert levels[:2] == [0.05 / 4] * 2
    assert levels[3] == 0.05 / 4


@pytest.mark.parametrize(
    ("drop", "certain", "status"),
    [(0.02, False, "pass"), (0.05, False, "inconclusive"), (0.05, True, "pass"), (None, True, "pass")],
)
def test_an_early_stop_with_a_drop_that_is_not_significant_is_unsure(*, drop, certain, status):
    """A larger drop than allowed, which all questions would not show to be significant, is no plain pass."""
    states = {f"q{n}": "asked" if n < 4 else "not asked" for n in range(20)}
    early = EarlyStopResult(0.05, None, states, 20, "pass", drop, certain)
    known = score_of(numbered(3, 1))
    baseline = BaselineLookup({}, before_of(numbered(20, 0)))
    given = ThresholdInput(known, threshold_of("recall@5", max_drop=0.02), baseline, early)
    [result] = evaluate_thresholds([given])
    assert isinstance(result, ThresholdResult)
    assert result.verdict.status == status
    is_unsure = status == "inconclusive"
    expected = "UNSURE: drop about 0.050 > 0.02, stopped early: 4 of 20" if is_unsure else "stopped early: "
    assert result.verdict.reason.startswith(expected)
    assert (result.verdict.reason in result.verdict.warnings) == is_unsure


@pytest.mark.parametrize(("drop", "text"), [(0.1, "drop about 0.100"), (-0.1, "gain about 0.100")])
def test_a_gain_of_an_early_stop_is_no_drop(drop: float, text: str) -> None:
    early = {"verdict": "pass", "asked": 3, "changed": 5, "unchanged": 4, "drop": drop}
    entry: Any = {"early_stop": early}
    assert NOTE_TEXTS["early_stop"](entry).endswith(f"(4 unchanged), {text}")
