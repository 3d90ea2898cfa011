"""`Rageval`, the object that tests receive as `rageval`; and the pytest item in the form that the session needs."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from pytest_rageval.datatypes import RETRIEVER_CONTEXT, Example, Ranking
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import example_from
from pytest_rageval.plugin.terminal import argument_of, failure, plain_nodeid
from pytest_rageval.scores import Score
from pytest_rageval.session import Session
from pytest_rageval.session.evaluated_test import EvaluatedTest, OutOfBoundsError
from pytest_rageval.session.pipelines import MarkedTest

if TYPE_CHECKING:
    from pytest_rageval.evaluations.label_agreement import Agreement

__all__ = ["Rageval", "marked_test", "parametrization"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

COMPONENTS: Final = frozenset({"rageval_retriever", "rageval_generator", "rageval_judge"})


class Rageval:
    """One test's view of the session: its eval set, its retriever and generator, its scores."""

    def __init__(self, session: Session, test: EvaluatedTest, *, finished: Callable[[], None]) -> None:
        self._session = session
        self._test = test
        self._finished = finished

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples of the test's eval set."""
        return self._shown(lambda: self._test.evalset.examples)

    def score(self, spec: str, **keywords: Any) -> Score:
        """A score of the test's eval set: its mean as a float, with the outcome of each example.

        Args:
            spec: its name, such as "recall@5".
            keywords: those of the marker `rageval_threshold`. With `min`, `max` or `max_drop` the test
                fails when the mean is out of these bounds; with `where` the score is that of the slice.
                `max_drop` is tested at its own `alpha`: only markers share one.

        Raises:
            RagevalError: it cannot be computed; the message has the remedy.
        """
        try:
            return self._shown(lambda: self._test.score(spec, keywords))
        except OutOfBoundsError as error:
            text, summary = str(error), error.summary
        raise failure(text, summary)

    def agreement(
        self,
        ks: Sequence[int] = (1, 3, 5, 10),
        *,
        annotators: Sequence[str] | None = None,
        measures: Sequence[str] | None = None,
        label: str | None = None,
    ) -> "Agreement":
        """How each way to label passages agrees with the answers that the generator gives from them.

        Over the questions of the test's eval set, Kendall's tau and Spearman's rho between each
        annotator × measure and `answer.correct`, at each k; the report shows them as a table.

        Args:
            ks: cut-offs.
            annotators: "erag" (the answer from that passage alone is right), "contains" (it contains a
                reference answer), "gold" (people say so) and "relevance" (the judge says so). Default: all four.
            measures: of the labels of a ranking: "p", "recall", "map", "mrr", "ndcg", "hit". Default: all.
            label: how an answer is scored, from one passage and from all: an expression such as
                "em" or "rougeL", or None for the default comparator. Where it grades, eRAG has p,
                ndcg and hit only.

        Returns:
            The table. What cannot be computed is missing, with its reason (no judge for relevance, too
            many unscored).

        Raises:
            InputError: a name is unknown.
            RagevalError: the answers from all passages cannot be scored.
        """
        from pytest_rageval.evaluations.label_agreement import (  # noqa: PLC0415 - few tests ask
            ANNOTATORS,
            MEASURES,
            AgreementRequest,
        )

        annotators = ANNOTATORS if annotators is None else annotators
        measures = MEASURES if measures is None else measures
        return self._shown(lambda: self._test.agreement(AgreementRequest(annotators, measures, ks, label)))

    def retrieve(self, query: str | Example, k: int, **context: Any) -> Ranking:
        """The ranking of the retriever under test for a query, when asked for k documents.

        Args:
            query: a text; or an example, whose history, filters and metadata the retriever receives too.
            k: the number of documents.
            context: `history`, `filters` or `metadata` with a query that is a text.
        """
        return self._shown(lambda: self._test.retrieve(_in_context(query, context), k))

    def answer(self, question: str | Example, k: int, **context: Any) -> str:
        """The generator's answer from the first k documents for the question; arguments as of `retrieve`."""
        return self._shown(lambda: self._test.answer(_in_context(question, context), k))

    def cached(self, function: F, *, version: str | None = None) -> F:
        """Your function, with each result computed once and kept, for later runs too.

        Args:
            function: sync or async; arguments and result are text, numbers, booleans, None, and
                lists and dicts of these; documents and dataclasses may be among the arguments.
            version: changes when the function's results do; without one they are kept within this
                run only.

        Raises:
            InputError: the version is not a text, or empty.
            CallableError: when called, with arguments or a result that cannot be kept.
        """
        return self._shown(lambda: self._session.llm.cached(function, version=version))

    def _shown(self, work: Callable[[], T]) -> T:
        """Do the work, and take the line of progress away."""
        try:
            return work()
        finally:
            self._finished()


def _in_context(asked: str | Example, context: dict[str, Any]) -> str | Example:
    if not context:
        return asked
    if not isinstance(asked, str):
        raise InputError(
            f"{', '.join(context)} belong to a question that is a text, found {type(asked).__name__}."
        )
    unknown = sorted(context.keys() - set(RETRIEVER_CONTEXT))
    if unknown:
        raise InputError(
            f"A question has no {', '.join(unknown)}. It may have {', '.join(RETRIEVER_CONTEXT)}."
        )
    example = example_from({"id": "query", "question": asked, **context}, place="The question")
    unread = [name for name in RETRIEVER_CONTEXT if example.extra.get(name)]
    if unread:
        raise InputError(
            f"{unread[0]}={example.extra[unread[0]]!r:.60} cannot be used.\n"
            'history is a list of {"role": …, "content": …}; filters and metadata are dicts.'
        )
    return example


def marked_test(item: pytest.Item, reference: Callable[[], object]) -> MarkedTest:
    """A pytest item as the session reads it, with what returns the value of its `rageval_reference_retriever`."""
    return MarkedTest(
        nodeid=plain_nodeid(item.nodeid),
        path=Path(item.path),
        root=item.config.rootpath,
        markers=lambda name: list(item.iter_markers(name)),
        collected=lambda: {plain_nodeid(each.nodeid) for each in item.session.items},
        record_property=lambda name, value: item.user_properties.append((_shown(name), value)),
        argument=argument_of(item.config, plain_nodeid(item.nodeid)),
        reference=reference,
        siblings=lambda: {
            plain_nodeid(each.nodeid): list(each.iter_markers("rageval_threshold"))
            for each in item.session.items
            if _scored_by(each) == _scored_by(item)
        },
    )


def _scored_by(item: pytest.Item) -> tuple[object, ...]:
    """The function of a test, and the eval set that its marker names."""
    marker = item.get_closest_marker("rageval_evalset")
    named = () if marker is None else (*marker.args, *marker.kwargs.items())
    # A data frame has no one answer to whether it equals another.
    return item.nodeid.partition("[")[0], *(
        each if isinstance(each, str | Path | tuple) else id(each) for each in named
    )


def _shown(name: str) -> str:
    """A name without characters that XML does not have: tags in it may have any."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name)


def parametrization(item: pytest.Item) -> dict[str, Any]:
    """The test function and the ids of its parameters, for the item's results; empty without parameters.

    A parameter is part of the system under test (`system`) where it is that of a component's fixture, or of
    a fixture that the function does not request itself; else it is the function's own (`parameters`).
    Names that are parametrized together have one id.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    requested = inspect.signature(getattr(item, "function", lambda: None)).parameters
    system: dict[str, str] = {}
    own: dict[str, str] = {}
    for names, text in _ids(item, callspec):
        is_own = not requested.keys().isdisjoint(names) and COMPONENTS.isdisjoint(names)
        (own if is_own else system)[", ".join(names)] = text
    function = item.nodeid.partition(f"[{callspec.id}]")[0]
    return {"function": function, "system": system, "parameters": own}


def _ids(item: pytest.Item, callspec: Any) -> list[tuple[tuple[str, ...], str]]:
    """The names of each parametrization with their id, or with their index where pytest hides the id."""
    groups = {names[0]: names for names in map(_argnames, item.iter_markers("parametrize"))}
    calls, rest = [], list(callspec.params)
    while rest:
        calls.append(groups.get(rest[0], (rest[0],)))
        rest = rest[len(calls[-1]) :]
    # pytest has no public name for the single ids: `callspec.id` joins them with "-", which ids contain too.
    ids = getattr(callspec, "_idlist", ())
    if len(ids) != len(calls):
        ids = [f"{names[0]}{callspec.indices[names[0]]}" for names in calls]
    return list(zip(calls, ids, strict=True))


def _argnames(mark: pytest.Mark) -> tuple[str, ...]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    if not isinstance(names, str):
        return tuple(names)
    return tuple(name.strip() for name in names.split(",") if name.strip())
