"""Scores: one module per scoring method. Each method computes one outcome per example.

- `definition`: `ScoreDef`, the definition of a score; `Family`, what the scores of a method have in common; the
  functions that score examples.
- `pipeline`: `Pipeline`, which generates and judges; what an example says is right. `rankings`: `Rankings`, which
  retrieves. All scores of a run share their results.
- `rel_prompt`: what of the ground truth is in a prompt, for Rel'-recall.
- Methods: the modules in `MODULES`. The module of a method is all that there is of it: its docstring is its text in the
  reference, `SCORES` has the definitions of its scores, and `FAMILY`, the family of each of these, its worked example.
- `passage_labels`: scores of rankings by labels of their passages, for the methods that differ in the labels.
- `annotator_agreement`: correlates passage labels with the quality of answers.
- `plugin_objects`: checks what the scores, comparators and answer measures of plugins return.
- `measures`: ranking measures. `gold_matching`: finds the gold passages in a ranking. `near_duplicates`: finds
  near-duplicate passages and questions.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.core.extensions import declared

if TYPE_CHECKING:
    from pytest_rageval.answers.judge import JudgeTask
    from pytest_rageval.scores.definition import ScoreDef

MODULES: Final[Mapping[str, Collection[str]]] = {
    "ranking": (
        *("recall", "precision", "f1", "map", "mrr", "ndcg", "hit", "full_recall"),
        *("dcg", "r_precision", "set", "judged", "condensed"),
    ),
    "searches": ("steps", "retrieval.calls"),
    "retrieval_cost": ("retrieval", "context", "latency"),
    "llm_reteval": ("llm_reteval",),
    "answer": ("answer",),
    "arena": ("arena",),
    "erag": ("erag",),
    "contains": ("contains",),
    "relevance": ("relevance",),
    "udcg": ("udcg",),
    "provenance": ("provenance",),
    "sufficiency": ("sufficient",),
    "rel_recall": ("rel_recall", "rel"),
    "judged": ("judged.correctness", "judged.faithfulness", "judged.context_quality"),
    "nuggets": ("nuggets", "answer.nuggets"),
}
"""For each module that defines scores, the first parts of their names, or whole names; in the order of messages."""


def modules(off: Collection[str] = ()) -> Mapping[str, Collection[str]]:
    """Return the modules that define scores as `MODULES` has them, at last those of extensions that are not off."""
    added = {name: parts for name, parts in declared("SCORES").items() if name.split(".")[1] not in off}
    return {**{f"scores.{name}": parts for name, parts in MODULES.items()}, **added}


@cache
def _scores_in(module_name: str) -> "Mapping[str, ScoreDef]":
    module = import_module(f"pytest_rageval.{module_name}")
    return {score.name: replace(score, family=score.family or module.FAMILY) for score in module.SCORES}


class BuiltInScores(Mapping[str, "ScoreDef"]):
    """The built-in scores by name, without those of extensions that are `off`.

    A module is imported when one of its scores is used.
    """

    def __init__(self, off: Collection[str] = ()) -> None:
        self._off = off

    def __getitem__(self, name: str) -> "ScoreDef":
        # A whole name takes precedence over its first part.
        for part in (name, name.partition(".")[0]):
            for module_name, parts in modules(self._off).items():
                if part in parts:
                    return _scores_in(module_name)[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(_scores_in, modules(self._off)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SCORES: "Final[Mapping[str, ScoreDef]]" = BuiltInScores()


@cache
def known_dependencies() -> "frozenset[str | JudgeTask[Any]]":
    """Return all that a score may ask.

    These are the methods of the generator, the judge's tasks of all built-in scores, "compare" for `run.comparison`,
    and "label" for `resolved.label`.
    """
    return frozenset(chain.from_iterable(score.asks for score in SCORES.values())) - {"match"}
