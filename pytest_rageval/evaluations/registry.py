"""The scores by name, and the registry that other plugins add to, with checks of what their functions return."""

import asyncio
import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain
from math import inf, isfinite
from typing import Any, Final, TypeVar, cast

from pytest_rageval.answers.comparators import MEASURES, AnswerMeasure
from pytest_rageval.answers.judge_protocol import Comparator
from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.concurrency.inline import require_loop
from pytest_rageval.config import KIND_PATTERN
from pytest_rageval.datatypes import Example
from pytest_rageval.errors import (
    CallableError,
    InputError,
    QueryError,
    RagevalError,
    Unscored,
    did_you_mean,
    similar_names,
    summary_line,
)
from pytest_rageval.evalsets import FORMATS, Format
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evaluations.pipeline import Evaluation, Pipeline, ResolvedScore, ScoreRequest
from pytest_rageval.evaluations.scoring import ASKABLE, ScoreDef
from pytest_rageval.lazy import Lazy
from pytest_rageval.llm.stores import STORES, StoreFactory
from pytest_rageval.plural import counted
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.scores import Outcome, Relevance, Spec
from pytest_rageval.secret import SCHEME
from pytest_rageval.user_code import InvalidResult, UserCallable, as_number, as_share, is_async

__all__ = [
    "CUTOFF",
    "METHODS",
    "SCORES",
    "PluginComparator",
    "PluginMeasure",
    "PluginScore",
    "Registry",
    "Report",
    "resolve",
]

METHODS: Final[Mapping[str, Collection[str]]] = {
    "ranking": ("recall", "precision", "f1", "map", "mrr", "ndcg", "hit", "full_recall"),
    "retrieval": ("steps", "retrieval", "context", "latency"),
    "llm_reteval": ("llm_reteval",),
    "answer": ("answer",),
    "arena": ("arena",),
    "passage_labels": ("erag", "contains", "relevance", "udcg", "provenance"),
    "sufficiency": ("sufficient",),
    "rel_prime": ("rel_recall", "rel"),
    "judged": ("judged",),
    "nuggets": ("nuggets", "answer.nuggets"),
}
"""The modules that define scores, with the first parts of their names, or whole names, in the order of messages."""


@cache
def _scores_of(method: str) -> Mapping[str, ScoreDef]:
    """The scores that a module defines, by name."""
    module = import_module(f"{__package__}.{method}")
    return {score.name: score for score in module.SCORES}


class _BuiltIn(Mapping[str, ScoreDef]):
    """The built-in scores by name; a method's module is imported when one of its scores is used."""

    def __getitem__(self, name: str) -> ScoreDef:
        # A whole name before its first part.
        for part in (name, name.partition(".")[0]):
            for method, parts in METHODS.items():
                if part in parts:
                    return _scores_of(method)[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(_scores_of, METHODS))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SCORES: Final[Mapping[str, ScoreDef]] = _BuiltIn()

Report = Callable[[Mapping[str, Any]], str | Iterable[str]] | Callable[[Mapping[str, Any], str], str | None]
"""Writes all results, as the JSON report holds them.

Of a file: returns its text, or the parts of it. Of an address: takes what follows the scheme, sends the report itself,
and may return what the summary says of it.
"""

WORD: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
OPERATORS: Final = frozenset({"and", "or", "not"})

T = TypeVar("T")


CUTOFF: Final = 5
"""The cut-off where neither a score has one nor any that is asked for with it."""


SIMILAR: Final = 5
"""The number of similar names that are listed for an unknown score."""


def resolve(
    request: ScoreRequest, scores: Mapping[str, ScoreDef] = SCORES, *, k: int = CUTOFF
) -> tuple[ResolvedScore, ScoreDef]:
    """Return the resolved score and its definition; `k` is the cut-off for a score that needs none.

    Raises:
        InputError: the name is unknown or has no cut-off; or the score does not take one of the keywords.
    """
    spec = Spec.parse(request.spec)
    score = scores.get(spec.measure)
    if score is None:
        hint = did_you_mean(spec.measure, scores)
        raise InputError(f"There is no score {spec.measure!r}.{hint}\n{_known(spec.measure, scores)}")
    if spec.k is None and score.needs_k:
        raise InputError(
            f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        )
    for keyword, text in request.keywords.items():
        if keyword not in score.keywords | score.ignores:
            takers = ", ".join(name for name, other in scores.items() if keyword in other.keywords)
            raise InputError(f"{str(spec)!r} does not take {keyword}={text!r}. These scores do: {takers}.")
    if Relevance.parse(request.relevant).by == "judge":
        score = replace(score, asks=score.dependencies | {"relevant"})
    order = request.order if "order" in score.keywords else "rank"
    return ResolvedScore(spec, spec.k or k, request.comparator, request.label, order, request.relevant), score


def _known(name: str, scores: Iterable[str]) -> str:
    """The names of scores that are similar to an unknown one, and where all of them are."""
    similar = similar_names(name, scores, limit=SIMILAR)
    listed = f"Similar names: {', '.join(similar)}. " if similar else ""
    added = [each for each in scores if each not in SCORES]
    others = f"; other plugins add {', '.join(added)}" if added else ""
    return f"{listed}`rageval scores` lists the built-in scores{others}."


class Registry:
    """The built-in objects and those that other plugins add with `pytest_rageval_register`.

    Attributes:
        scores: by name, without a cut-off.
        measures: of answers, by name.
        comparators: by name, without "judge", "graded" and "canonical".
        adapters: of retrievers, in the order in which they are tried.
        formats: of eval sets, by name.
        reports: the writers that were added, by the suffix of the file's name, such as ".xml", or the scheme of the
            address, such as "mlflow:".
        stores: of replies, by the scheme of their URLs.
    """

    def __init__(self) -> None:
        self.scores: ChainMap[str, ScoreDef] = ChainMap({}, cast("dict[str, ScoreDef]", SCORES))
        self.measures: dict[str, AnswerMeasure] = dict(MEASURES)
        self.comparators: dict[str, Comparator] = {}
        self.adapters: list[Adapter] = list(ADAPTERS)
        self.formats: dict[str, Format] = dict(FORMATS)
        self.reports: dict[str, Report] = {}
        self.stores: dict[str, StoreFactory] = dict(STORES)

    def add_score(
        self,
        name: str,
        evaluate: Evaluation,
        *,
        asks: Collection[str] | None = None,
        scale: tuple[float, float] | None = None,
        separable: bool = False,
    ) -> None:
        """Add a score.

        Args:
            name: as users type it, without the cut-off: NAME or NAME.PART.
            evaluate: an async function `(run, examples, resolved)` that returns one outcome per example.
            asks: the methods of generator and judge that it depends on, so that a change of any other leaves its
                baseline valid: "generate", "cite", "explain" of the generator, "compare" for `run.comparison`, also
                "label" where it reads `resolved.label`, and "relevant", "sufficient", "prefer", "support" and "rate
                CRITERION" of the judge. Default: it may depend on all.
            scale: the lowest and the highest value of an example. Values and bounds outside it are errors. Default:
                unknown.
            separable: whether an example scores the same whichever others are scored with it, so that they may be
                scored in parts: in shards, and until a verdict is clear.

        Raises:
            InputError: the name cannot be a score's, or is taken; or another argument cannot be used.
        """
        if Spec.parse(name).measure != name:
            raise InputError(f"add_score({name!r}): a score is added without its cut-off.")
        unknown = sorted(set(asks or ()) - ASKABLE)
        if unknown:
            raise InputError(
                f"add_score({name!r}): unknown asks: {', '.join(map(repr, unknown))}.\n"
                f"It can be: {', '.join(sorted(ASKABLE))}."
            )
        if scale is not None and not scale[0] < scale[1]:
            raise InputError(
                f"add_score({name!r}): scale={scale!r} must be the lowest and the highest value, such as (0, 1)."
            )
        asked = None if asks is None else frozenset(asks)
        # Its outcomes may have `Evidence.sizes`, which are pooled.
        notes = Lazy("evaluations.rel_prime", "pooled_notes")
        score = ScoreDef(
            name, PluginScore(name, evaluate, scale), asked, scale, separable=separable, notes=notes
        )
        _add(self.scores, "score", name, score)

    def add_answer_measure(self, name: str, measure: AnswerMeasure) -> None:
        """Add an answer measure: the score `answer.NAME`, and a name for comparators and labels.

        Args:
            name: a word.
            measure: a plain function `(prediction, references)` that returns a number in [0, 1].

        Raises:
            InputError: the name is no word, or taken; or the function is async.
        """
        _check_word("add_answer_measure", name)
        if is_async(measure):
            raise InputError(
                f"add_answer_measure({name!r}): the function is async, and an answer measure is a plain one.\n"
                "Add it with add_comparator, as an object with an async compare(question, references, prediction)."
            )
        _check_free(self.comparators, "comparator", name)
        score: ScoreDef = Lazy("evaluations.answer", "answer_measure_score")(name)
        _add(self.scores, "score", score.name, score)
        checked: AnswerMeasure = PluginMeasure(name, measure)
        _add(self.measures, "answer measure", name, checked)

    def add_comparator(self, name: str, comparator: Comparator) -> None:
        """Add a name for `comparator=` and `label=`.

        Args:
            name: a word.
            comparator: an object with `compare(question, references, prediction)`, sync or async, that returns a
                number in [0, 1], True or False, or None for "no verdict".

        Raises:
            InputError: the name is no word, or taken; or the method is missing.
        """
        _check_word("add_comparator", name)
        if not callable(getattr(comparator, "compare", None)):
            raise InputError(
                f"add_comparator({name!r}): {type(comparator).__name__} lacks the method "
                "compare(question, references, prediction). Add it, sync or async."
            )
        _check_free({*self.measures, "judge", "graded", "canonical"}, "comparator", name)
        _add(self.comparators, "comparator", name, comparator)

    def add_retriever_adapter(
        self, recognises: Callable[[object], bool], adapt: Callable[[Any], Callable[..., Any]]
    ) -> None:
        """Add a kind of retriever. The last added is tried first, the built-in ones come last.

        Args:
            recognises: whether an object is of the kind.
            adapt: makes a callable `(query, k)` of it, sync or async, that returns documents.
        """
        self.adapters.insert(0, (recognises, adapt))

    def add_format(
        self,
        name: str,
        recognises: Callable[[Shape], bool],
        read: Callable[..., Iterator[tuple[str, Any]]],
    ) -> None:
        """Add a format of eval sets. It is chosen by its shape, or with `format=NAME`.

        Args:
            name: a word.
            recognises: whether a path looks like this; a `Shape` has the path, the beginning of the file and its
                first record.
            read: a generator function of a path and, by name, options that users may write in the marker; yields
                pairs of a place for error messages ("faq.xml line 3") and a record of the native form. It is called
                again where the records are needed from the start.

        Raises:
            InputError: the name is taken.
        """
        _add(self.formats, "eval set format", name, Format(name, recognises, read))

    def add_report(self, kind: str, write: Report) -> None:
        """Add a report, or replace a built-in one: `--rageval-report results.xml`, `--rageval-report mlflow:NAME`.

        Args:
            kind: the suffix of the file's name, such as ".xml", or the scheme of an address, such as "mlflow:".
            write: of a suffix: a function of all results, as the JSON report holds them, that returns the text of the
                file, or the parts of it. If it raises, the run fails: an older file would be read as this run's.
                Of a scheme: a function of all results and of what follows the scheme, that sends them itself within a
                bounded time, and may return what the summary says of it. If it raises, that is a warning.

        Raises:
            InputError: the kind is not valid, or another plugin has added it.
        """
        if not KIND_PATTERN.fullmatch(kind):
            raise InputError(
                f"add_report({kind!r}): expected the suffix of a file, such as '.xml', or a scheme, such as 'mlflow:'."
            )
        _add(self.reports, "report", kind.lower() if kind.endswith(":") else kind, write)

    def add_store(self, scheme: str, factory: StoreFactory) -> None:
        """Add a store of replies: `--rageval-cache SCHEME://…`.

        Args:
            scheme: with which its URLs begin; lower-case letters, digits, plus, minus and dots, at least two.
            factory: a function `(url, namespace)` that opens the store, a
                `pytest_rageval.llm.stores.interface.ReplyStore`. It raises StoreError, or StoreAwayError where a
                server does not answer. `url.secret` is the whole URL, `url.public` the one for messages. Entries of
                the namespaces "replies" and "embeddings" are apart.

        Raises:
            InputError: the scheme is not valid, or taken.
        """
        if not SCHEME.fullmatch(f"{scheme}:"):
            raise InputError(
                f"add_store({scheme!r}): a scheme is the part before :// in a URL, such as 'redis'."
            )
        _add(self.stores, "store", scheme, factory)


def _check_word(call: str, name: object) -> None:
    """Raise InputError unless a name can be part of an expression."""
    if not isinstance(name, str) or not WORD.fullmatch(name) or name.lower() in OPERATORS:
        raise InputError(
            f"{call}({name!r}): the name cannot be used in an expression such as 'judge or em'.\n"
            "A name is letters, digits and underscores, begins with a letter, and is none of "
            f"{', '.join(sorted(OPERATORS))}. Choose another name."
        )


def _check_free(known: Collection[str], kind: str, name: str) -> None:
    if name in known:
        article = "an" if kind[0] in "aeiou" else "a"
        raise InputError(f"There is {article} {kind} {name!r} already. Choose another name.")


def _add(known: MutableMapping[str, T], kind: str, name: str, thing: T) -> None:
    _check_free(known, kind, name)
    known[name] = thing


class PluginComparator:
    """A plugin's comparator: `compare` is sync or async, and gives a bool, a number in [0, 1], or None: no verdict."""

    def __init__(self, name: str, comparator: Comparator, loop: BackgroundEventLoop) -> None:
        named = f"comparator {name!r}"
        self._user = UserCallable(named, comparator.compare, loop, read=partial(_verdict, named))

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """As for a `Comparator`; a QueryError where it raised, or returned something else."""
        return cast("float", await self._user.call(question, list(references), prediction))


def _verdict(name: str, verdict: object) -> float:
    """A comparator's return value as a number in [0, 1]."""
    if verdict is None:
        raise Unscored(f"{name} gave no verdict")
    value = as_share(verdict)
    if value is None:
        raise InvalidResult(
            f"returned {verdict!r:.60}",
            f"returned {verdict!r} for {{question}}.\n"
            "Return True or False, a number between 0 and 1, or None for no verdict.",
        )
    return value


@dataclass(frozen=True)
class PluginMeasure:
    """A plugin's answer measure."""

    name: str
    measure: AnswerMeasure

    def __call__(self, prediction: str, references: Sequence[str]) -> float:
        """As for an `AnswerMeasure`; a QueryError where it raised, or returned no number in [0, 1]."""
        part = f"answer measure {self.name!r}"
        try:
            returned = self.measure(prediction, references)
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit) as error:
            # SystemExit would end the thread of the loop, and the test would wait for ever.
            message = str(CallableError.from_exception(f"{part} raised", error))
            raise QueryError(message, f"{part} raised {summary_line(error)}", part=part) from error
        value = as_share(returned)
        if value is None:
            found = f"{part} returned {returned!r}"
            raise QueryError(f"{found}.\nReturn a number between 0 and 1.", found, part=part)
        return value


@dataclass(frozen=True)
class PluginScore:
    """The evaluation of a plugin's score, by an async function."""

    name: str
    evaluate: Callable[[Pipeline, Sequence[Example], ResolvedScore], Any]
    scale: tuple[float, float] | None = None

    async def __call__(
        self, pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        """One outcome per example, in their order, each with a finite value or a reason.

        Raises:
            CallableError: the function raised, or returned anything else.
        """
        try:
            await require_loop()
            returned = self.evaluate(pipeline, examples, resolved)
            is_async = inspect.isawaitable(returned)
            # It may use `asyncio.timeout`, which needs a task of its own.
            outcomes = await asyncio.ensure_future(returned) if is_async else None
        except (RagevalError, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as error:
            raise CallableError.from_exception(f"score {self.name!r} raised", error) from error
        if not is_async:
            raise self._unusable(f"is not async: it returned {type(returned).__name__}")
        if not isinstance(outcomes, list | tuple):
            raise self._unusable(f"returned {type(outcomes).__name__}, and not a list of Outcome")
        others = [type(one).__name__ for one in outcomes if not isinstance(one, Outcome)]
        if others:
            kinds = f"a {type(outcomes).__name__} with {others[0]} in it"
            raise self._unusable(f"returned {kinds}, and not a list of Outcome")
        if [outcome.example.id for outcome in outcomes] != [example.id for example in examples]:
            raise self._unusable(
                f"returned {counted(len(outcomes), 'outcome')} for {counted(len(examples), 'example')}, "
                "or not in their order"
            )
        return [self._finite(outcome) for outcome in outcomes]

    def _finite(self, outcome: Outcome) -> Outcome:
        """The outcome, with its value as a float."""
        if outcome.value is None and (outcome.unscored or outcome.undefined) is not None:
            return outcome
        value = as_number(outcome.value)
        low, high = self.scale or (-inf, inf)
        if value is None or not isfinite(value) or not low <= value <= high:
            raise self._unusable(f"returned {outcome.value!r} for example {outcome.example.id}")
        return replace(outcome, value=value)

    def _unusable(self, found: str) -> CallableError:
        where = "" if self.scale is None else " from {:g} to {:g}".format(*self.scale)
        return CallableError(
            f"score {self.name!r} {found}.\nIts function is async (run, examples, resolved), and returns one Outcome "
            f"an example, in their order: with a finite value{where}, or with None and the reason as `unscored` or "
            "`undefined`."
        )
