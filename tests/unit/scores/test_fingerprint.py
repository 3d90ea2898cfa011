"""The fingerprint of a score: everything besides the retriever that the score depends on."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import SCORING_VERSION
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.models.generator import LLMGenerator
from pytest_rageval.models.prompt_rendering import Prompts
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.run.session import Session
from pytest_rageval.scores import SCORES
from pytest_rageval.scores.pipeline import Pipeline

GATEWAY: Any = SimpleNamespace(address=lambda _model, base_url: base_url)  # no reply is recorded elsewhere

BASE = Settings(model="m1", base_url="http://here/v1", api_key="sk-secret")

ALWAYS = {"package", "scoring", "match_share"}
GENERATES = {"generator", "generator temperature", "generator prompt to generate"}
CITES = {"generator", "generator temperature", "generator prompt to cite"}
EXPLAINS = {"generator", "generator temperature", "generator prompt to explain"}
JUDGES = {"judge", "judge votes", "judge max_tokens"}
RULES = {"comparator", "canonical rules"}
COMPARES = JUDGES | {"comparator", "judge prompt to compare"}


def found(spec: str, settings: Settings = BASE, **words: Any) -> dict[str, Any]:
    session = Session(settings)
    parts = Components(lambda _query, _k: [], DefaultGenerator(session.models), DefaultJudge(session.models))
    try:
        return session.dependencies(parts, ScoreRequest(spec, **words)).fingerprint
    finally:
        session.close()


@pytest.mark.parametrize(
    ("spec", "words", "names"),
    [
        *((f"{name}@5", {}, set()) for name in ("recall", "precision", "f1", "map", "mrr", "ndcg", "hit")),
        ("contains.ndcg@5", {}, set()),
        ("rel.coverage@5", {}, set()),
        ("relevance.p@5", {}, JUDGES | {"judge prompt to relevant"}),
        ("answer.em@5", {}, GENERATES),
        ("answer.abstained@5", {}, GENERATES),
        ("answer.correct@5", {}, GENERATES | COMPARES),
        ("llm_reteval@5", {}, GENERATES | COMPARES),
        ("erag.p@5", {}, GENERATES | COMPARES),
        ("llm_reteval@5", {"comparator": "em"}, GENERATES | {"comparator"}),
        ("llm_reteval@5", {"comparator": "canonical"}, GENERATES | RULES),
        ("llm_reteval@5", {"comparator": "canonical or em"}, GENERATES | RULES),
        ("llm_reteval@5", {"comparator": "judge or em"}, GENERATES | COMPARES),
        (
            "answer.correct@5",
            {"comparator": "graded"},
            GENERATES | JUDGES | {"comparator", "judge prompt to grade"},
        ),
        ("erag.p@5", {"label": "em"}, GENERATES | {"comparator"}),
        ("erag.p@5", {"label": "judge", "comparator": "em"}, GENERATES | COMPARES),
        *(
            (f"judged.{name}@5", {}, GENERATES | JUDGES | {f"judge prompt to rate {name}"})
            for name in ("correctness", "faithfulness")
        ),
        ("judged.context_quality@5", {}, JUDGES | {"judge prompt to rate context_quality"}),
        ("answer.nuggets@5", {}, EXPLAINS | JUDGES | {"judge prompt to support"}),
        *(
            (f"nuggets.{name}@5", {}, JUDGES | {"judge prompt to support"})
            for name in ("coverage", "vital", "ndcg")
        ),
        ("arena.win@5", {}, EXPLAINS | JUDGES | {"judge prompt to prefer", "seed", "both_orders"}),
        ("rel.answer@5", {}, CITES | RULES),
        ("rel_recall.answer@5", {"comparator": "judge"}, CITES | COMPARES),
        ("rel_recall.citation@5", {"order": "random"}, CITES | {"seed"}),
        ("rel.citation@5", {"order": "rank"}, CITES),
        ("rel.citation_precision@5", {"order": "random"}, CITES | {"seed"}),
        ("rel.answer_coverage@5", {}, set()),
        ("rel.coverage@5", {"relevant": "gold"}, set()),
        ("rel.coverage@5", {"relevant": "contains"}, {"relevant"}),
        ("rel.coverage@5", {"relevant": "judge"}, JUDGES | {"relevant", "judge prompt to relevant"}),
        ("rel.citation@5", {"relevant": "contains@9"}, CITES | {"relevant"}),
        ("recall@5", {"order": "random"}, set()),
    ],
)
def test_a_score_depends_on_what_it_asks(spec: str, words: dict[str, str], names: set[str]) -> None:
    """A fingerprint has only what the score's requests use, so that another judge makes no recall baseline stale."""
    assert found(spec, **words).keys() == ALWAYS | names


def test_every_built_in_score_declares_its_requests() -> None:
    """Every built-in score declares its requests: a score that does not would depend on every prompt."""
    for name in SCORES:
        if SCORES[name].extra == "dense" and find_spec("sentence_transformers") is None:
            continue
        fingerprint = found(f"{name}@5")
        assert not {"generator prompt to generate", "generator prompt to cite"} <= fingerprint.keys(), name


async def _added(*_: object) -> list[Any]:
    return []


def _added_found(words: Mapping[str, str], asks: Collection[str] | None) -> dict[str, Any]:
    registry = Registry()
    registry.add_score("new", _added, asks=asks)
    resolved, score = resolve(ScoreRequest("new@5", **words), registry.scores)
    models = Session(BASE).models
    run = Pipeline(
        SimpleNamespace(settings={}), DefaultGenerator(models), DefaultJudge(models), comparator="f1"
    )
    return score.fingerprint(run, resolved, package="1")


@pytest.mark.parametrize(
    ("asks", "names"),
    [
        ((), set()),
        (["generate"], GENERATES),
        (["generate", "compare"], GENERATES | {"comparator"}),
        (["relevant"], JUDGES | {"judge prompt to relevant"}),
    ],
)
def test_an_added_score_depends_on_what_it_says_that_it_asks(asks: Collection[str], names: set[str]) -> None:
    assert _added_found({}, asks).keys() == ALWAYS | names


def test_an_added_score_refuses_keywords_without_effect() -> None:
    with pytest.raises(InputError, match=r"'new@5' does not take label='em'"):
        _added_found({"label": "em"}, ["compare"])


def test_a_score_that_another_plugin_added_may_ask_all() -> None:
    fingerprint = _added_found({"label": "em"}, None)
    assert {
        "generator prompt to generate",
        "generator prompt to cite",
        "judge prompt to relevant",
    } <= fingerprint.keys()
    assert (fingerprint["comparator"], fingerprint["label"], fingerprint["package"]) == ("f1", "em", "1")


ASKING = ("answer.em@5", "llm_reteval@5", "relevance.p@5", "rel.answer@5")


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"model": "m2"}, {"answer.em@5", "llm_reteval@5", "relevance.p@5", "rel.answer@5"}),
        ({"model": "m2", "judge_model": "m1"}, {"answer.em@5", "llm_reteval@5", "rel.answer@5"}),
        ({"judge_model": "m2"}, {"llm_reteval@5", "relevance.p@5"}),
        ({"judge_votes": 3}, {"llm_reteval@5", "relevance.p@5"}),
        ({"base_url": "http://there/v1"}, set(ASKING)),
        ({"base_url": "http://here/v1?deployment=b"}, set(ASKING)),
        ({"max_tokens": 64}, set(ASKING)),
        ({"comparator": "judge or em"}, {"llm_reteval@5"}),
        ({"comparator": "em"}, {"llm_reteval@5", "rel.answer@5"}),
        ({"match_share": 0.9}, {"recall@5", *ASKING}),
        ({"seed": 7}, set()),
        ({"api_key": "sk-other"}, set()),
        ({"base_url": "http://me:secret@here/v1"}, set()),
        ({"timeout": 1.0, "retries": 0, "concurrency": 1, "rpm": 1.0, "tpm": 1.0, "threads": 4}, set()),
        ({"max_cost": 1.0, "max_calls": 9, "max_unscored": 0.5, "repeat": 3, "refresh": True}, set()),
    ],
)
def test_what_moves_a_score_changes_its_fingerprint(changes: Mapping[str, Any], changed: set[str]) -> None:
    other = BASE.replace(**changes)
    differ = {spec for spec in ("recall@5", *ASKING) if found(spec) != found(spec, other)}
    assert differ == changed


def test_no_secret_is_in_a_fingerprint() -> None:
    """A fingerprint is committed to the repository, so it contains no secret."""
    base_url = "http://me:secret@here/v1?key=hidden"
    text = str(found("llm_reteval@5", BASE.replace(base_url=base_url, api_key="sk-secret")))
    assert "secret" not in text
    assert "hidden" not in text
    assert "m1 at http://here/v1" in text


@pytest.mark.parametrize(
    ("prompt", "changed"),
    [
        ("answer", {"answer.em@5", "llm_reteval@5"}),
        ("citing", {"rel.answer@5"}),
        ("same_answer", {"llm_reteval@5"}),
        ("graded_answer", set()),
        ("relevance", {"relevance.p@5"}),
    ],
)
def test_a_changed_word_of_a_prompt_changes_the_fingerprint(monkeypatch, prompt, changed):
    before = {spec: found(spec) for spec in ASKING}
    written = Prompts.fill

    def fill(prompts: Prompts, name: str, *texts: object) -> str:
        return "Please. " * (name == prompt) + written(prompts, name, *texts)

    monkeypatch.setattr(Prompts, "fill", fill)
    assert {spec for spec in ASKING if found(spec) != before[spec]} == changed


def test_a_seed_is_part_of_a_random_order_alone() -> None:
    """The seed is part of the fingerprint only with a random order, because the seed then changes the prompt."""
    other = BASE.replace(seed=7)
    random, rank = ({"order": order} for order in ("random", "rank"))
    assert found("rel.answer@5", other, **random) != found("rel.answer@5", **random)
    assert found("rel.answer@5", other, **rank) == found("rel.answer@5", **rank)


def test_both_orders_of_a_battle_have_no_seed() -> None:
    one, both = (found("arena.win@5", BASE.replace(seed=7, both_orders=on)) for on in (False, True))
    assert (one["seed"], one["both_orders"], both["both_orders"]) == (7, False, True)
    assert one.keys() - both.keys() == {"seed"}


def test_another_temperature_is_another_generator() -> None:
    """A generator's identity includes its temperature, which no option but a user's fixture can set."""
    cold = LLMGenerator(GATEWAY, RemoteServer("http://here/v1"), "m1", temperature=0.0)
    assert cold.identity("generate") != replace(cold, temperature=0.5).identity("generate")


def test_the_users_own_functions_are_known_by_name_or_by_their_fingerprint() -> None:
    def generate(question: str, passages: list[object]) -> str:
        return f"{question} {passages}"

    class Judge:
        def compare(self, *_: object) -> bool:
            return True

        relevant = compare

    def found(spec: str) -> dict[str, Any]:
        session = Session(BASE.replace(model=None))
        parts = Components(lambda _query, _k: [], generate, Judge())
        return session.dependencies(parts, ScoreRequest(spec)).fingerprint

    first = found("llm_reteval@5")
    assert first["generator"].endswith("<locals>.generate")
    assert first["judge"].endswith("<locals>.Judge.compare")
    assert first.keys() == ALWAYS | {"generator", "judge", "comparator"}
    generate.fingerprint = "prompt 2"
    Judge.fingerprint = "rules 3"
    assert (found("llm_reteval@5")["generator"], found("relevance.p@5")["judge"]) == ("prompt 2", "rules 3")


def test_no_model_to_name_is_an_error_of_what_asks_one() -> None:
    """With an API key but no model, a score that calls a model raises InputError; a ranking measure does not."""
    settings = Settings(api_key="sk-secret")
    assert found("recall@5", settings)["scoring"] == SCORING_VERSION
    with pytest.raises(InputError, match="no model is named"):
        found("answer.em@5", settings)
