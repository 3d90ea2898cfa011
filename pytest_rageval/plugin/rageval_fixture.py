"""`Rageval`, the object that tests receive as `rageval`; and the conversion of a pytest item to a `MarkedTest`."""

import inspect
import sys
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from pytest_rageval.core.errors import CallableError, InputError, ReplyPending
from pytest_rageval.core.evalset import RETRIEVER_CONTEXT, Example
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.evalsets.records import example_from
from pytest_rageval.plugin.terminal import argument_of, failure, plain_nodeid
from pytest_rageval.run import MarkedTest
from pytest_rageval.run.judged import OutOfBoundsError
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun

if TYPE_CHECKING:
    from pytest_rageval.scores.annotator_agreement import Agreement

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

REPETITION: Final = "__pytest_repeat_step_number"  # a parameter of tests that pytest-repeat repeats

PATCHES: Final = frozenset({"monkeypatch", "mocker"})
"""The fixtures with which the body of a test may change the retriever."""

COMPONENTS: Final = frozenset({"rageval_retriever", "rageval_generator", "rageval_judge"})
"""The fixtures whose parameters are part of the system under test."""


FIXTURE_EXCEPTIONS: Final = (
    Exception,
    pytest.fail.Exception,
    pytest.skip.Exception,
    KeyboardInterrupt,
    ReplyPending,
)
"""The exceptions that may leave a fixture: those that pytest expects, and the end of a test that waits for a batch."""


class Rageval:
    """The session as one test uses it: the test's eval set, retriever, generator and scores."""

    def __init__(self, session: Session, test: TestRun, *, clear_progress: Callable[[], None]) -> None:
        self._session = session
        self._test = test
        self._clear_progress = clear_progress

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples of the test's eval set."""
        return self._with_progress(lambda: self._test.evalset.examples)

    def score(self, spec: str, **keywords: Any) -> Score:
        """Return a score of the test's eval set: its mean as a float, with the outcome of each example.

        Args:
            spec: the name of the score, such as "recall@5".
            keywords: the keywords of the marker `rageval_threshold`. With a bound, such as `min`, `max` or `max_drop`,
                the test fails if the score is out of the bound. With `where` the score is that of the slice.
                `max_drop` is tested at its own `alpha`, which only markers share.

        Raises:
            RagevalError: the score cannot be computed; the message has the remedy.
        """
        try:
            return self._with_progress(lambda: self._test.score(spec, keywords))
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
        """Return how well each way to label passages agrees with the answers that the generator gives from them.

        The agreement is Kendall's tau and Spearman's rho between each annotator × measure and `answer.correct`, at each
        k, over the questions of the test's eval set. The report shows it as a table.

        Args:
            ks: cut-offs.
            annotators: "erag" (the answer from that passage alone is right), "contains" (the passage contains a
                reference answer), "gold" (people labelled the passage) and "relevance" (the judge labels the passage).
                Default: all four.
            measures: measures over the labels of a ranking: "p", "recall", "map", "mrr", "ndcg", "hit". Default: all.
            label: how an answer is scored, from one passage and from all passages: an expression such as "em" or
                "rougeL", or None for the default comparator. If it is graded, eRAG has only p, ndcg and hit.

        Returns:
            The table. A correlation that cannot be computed is missing, with its reason, such as no judge for
            "relevance" or too many unscored questions.

        Raises:
            InputError: a name is unknown.
            RagevalError: the answers from all passages cannot be scored.
        """
        from pytest_rageval.scores.annotator_agreement import ANNOTATORS, MEASURES, AgreementRequest  # noqa: PLC0415 - few tests call this

        annotators = ANNOTATORS if annotators is None else annotators
        measures = MEASURES if measures is None else measures
        request = AgreementRequest(annotators, measures, ks, label)
        return self._with_progress(lambda: self._test.agreement(request))

    def retrieve(self, query: str | Example, k: int, **context: Any) -> Ranking:
        """Return the ranking of the retriever under test for a query.

        Args:
            query: a text; or an example, whose history, filters and metadata the retriever receives too.
            k: the number of documents that the retriever is called with.
            context: `history`, `filters` or `metadata`, if the query is a text.
        """
        return self._with_progress(lambda: self._test.retrieve(_with_context(query, context), k))

    def answer(self, question: str | Example, k: int, **context: Any) -> str:
        """Return the generator's answer from the first k documents for a question; arguments as for `retrieve`."""
        return self._with_progress(lambda: self._test.answer(_with_context(question, context), k))

    def cached(self, function: F, *, version: str | None = None) -> F:
        """Return the function with a cache of its results, also for later runs.

        Args:
            function: the function, sync or async. Arguments and result are texts, numbers, booleans, None, and lists
                and dicts of these; arguments may also be documents and dataclasses.
            version: a text that you change when the function's results change; without one the results are cached
                within this run only.

        Raises:
            InputError: the version is not a text, or empty.
            CallableError: raised by the returned function, if its arguments or result cannot be cached.
        """
        return self._with_progress(lambda: self._session.llm.cached(function, version=version))

    def _with_progress(self, function: Callable[[], T]) -> T:
        """Return the result of a function that may display its progress; remove the progress line then."""
        try:
            return function()
        finally:
            self._clear_progress()


@contextmanager
def exceptions_as_failures() -> Generator[None, None, None]:
    """Convert exceptions that pytest does not expect in a fixture, such as CancelledError, to a failure.

    pytest does not tear down a fixture that such an exception has left, and the next test with the fixture fails.
    """
    try:
        yield
    except FIXTURE_EXCEPTIONS:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        description = "The evaluation of this test called code that raised an exception which is no Exception"
        problem = CallableError.from_exception(description, error)
        advice = "Raise a subclass of Exception: only its question is then unscored."
        raise failure(f"{problem}\n{advice}") from None


def _with_context(query: str | Example, context: dict[str, object]) -> str | Example:
    if not context:
        return query
    if not isinstance(query, str):
        raise InputError(
            f"{', '.join(context)} belong to a question that is a text, found {type(query).__name__}."
        )
    unknown = sorted(context.keys() - set(RETRIEVER_CONTEXT))
    if unknown:
        raise InputError(
            f"A question has no {', '.join(unknown)}. It may have {', '.join(RETRIEVER_CONTEXT)}."
        )
    example = example_from({"id": "query", "question": query, **context}, place="The question")
    # `example_from` puts a value of the wrong type into `extra`.
    invalid = [name for name in RETRIEVER_CONTEXT if example.extra.get(name)]
    if invalid:
        raise InputError(
            f"{invalid[0]}={example.extra[invalid[0]]!r:.60} cannot be used.\n"
            'history is a list of {"role": …, "content": …}; filters and metadata are dicts.'
        )
    return example


def marked_test(item: pytest.Item, reference: Callable[[], object]) -> MarkedTest:
    return MarkedTest(
        nodeid=plain_nodeid(item.nodeid),
        path=Path(item.path),
        root=item.config.rootpath,
        markers=lambda name: list(item.iter_markers(name)),
        collected=lambda: {plain_nodeid(other.nodeid) for other in item.session.items},
        record_property=lambda name, value: item.user_properties.append((_escape_unprintable(name), value)),
        argument=argument_of(item.config, plain_nodeid(item.nodeid)),
        reference=reference,
        repeated=REPETITION in getattr(getattr(item, "callspec", None), "params", ()),
        siblings=lambda: {
            plain_nodeid(other.nodeid): list(other.iter_markers("rageval_threshold"))
            for other in item.session.items
            if _function_and_evalset(other) == _function_and_evalset(item)
        },
    )


def configuration_of(item: pytest.Item) -> Hashable:
    """Return what differs between tests whose fixtures may configure the same retriever differently.

    These are the fixtures of the project that are not of the session, with their parameters, and the methods that set
    up a module, class or test. A test that can patch in its body has a configuration of its own.
    """
    info: Any = getattr(item, "_fixtureinfo", None)
    if info is None:
        return ()
    if not PATCHES.isdisjoint(info.argnames):
        return item.nodeid
    parameters: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    definitions = {name: each[-1] for name, each in info.name2fixturedefs.items() if each}
    return tuple(
        (each.func, *(id(parameters[key]) for key in sorted({name, *each.argnames} & parameters.keys())))
        for name, each in sorted(definitions.items())
        if _may_configure(name, each)
    )


def _may_configure(name: str, definition: Any) -> bool:
    if definition.scope == "session":
        return False
    module = getattr(definition.func, "__module__", "")
    if module.startswith(("_pytest.", "pytest_rageval.")):
        return name.startswith(("_xunit_setup_", "_unittest_setUp"))
    return "site-packages" not in Path(getattr(sys.modules.get(module), "__file__", None) or "").parts


def _function_and_evalset(item: pytest.Item) -> tuple[object, ...]:
    """Return the function of a test, and the arguments of its eval set's marker, as objects that can be compared."""
    marker = item.get_closest_marker("rageval_evalset")
    arguments = () if marker is None else (*marker.args, *marker.kwargs.items())
    # Objects such as data frames are compared by identity: `==` between data frames is no boolean.
    return item.nodeid.partition("[")[0], *(
        argument if isinstance(argument, str | Path | tuple) else id(argument) for argument in arguments
    )


def _escape_unprintable(name: str) -> str:
    """Return the name of a property without unprintable characters, which tags may contain and XML may not."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def parametrization(item: pytest.Item) -> dict[str, object]:
    """Return the keys `function`, `system` and `parameters` of the test's entry; empty without parameters.

    A parameter is part of the system under test if it belongs to a component's fixture, or to a fixture that the
    function does not request itself. Other parameters are the function's own. Names that are parametrized together have
    one id.
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
    """Return the names of each parametrization with their id; with their index if pytest does not provide the id."""
    names_by_first = {names[0]: names for names in map(_argnames, item.iter_markers("parametrize"))}
    groups, rest = [], list(callspec.params)
    while rest:
        groups.append(names_by_first.get(rest[0], (rest[0],)))
        rest = rest[len(groups[-1]) :]
    # pytest has no public attribute for the single ids. `callspec.id` joins them with "-", which ids may contain.
    ids = getattr(callspec, "_idlist", ())
    if len(ids) != len(groups):
        ids = [f"{names[0]}{callspec.indices[names[0]]}" for names in groups]
    return list(zip(groups, ids, strict=True))


def _argnames(mark: pytest.Mark) -> tuple[str, ...]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    if not isinstance(names, str):
        return tuple(names)
    return tuple(name.strip() for name in names.split(",") if name.strip())
