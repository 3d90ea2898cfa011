"""Resolves scores; the registry to which extensions and other plugins add."""

import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pluggy

from pytest_rageval import hookspecs
from pytest_rageval.core.errors import (
    InputError,
    did_you_mean,
    similar_names,
)
from pytest_rageval.core.extensions import installed
from pytest_rageval.core.spec import Relevance, ScoreRequest, Spec
from pytest_rageval.evalsets import FORMATS, Format
from pytest_rageval.evalsets.formats import Shape
from pytest_rageval.lib.foreign_values import is_async
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options.parsers import KIND_PATTERN
from pytest_rageval.reports import KINDS
from pytest_rageval.reports.layout import AddedSection, AddedTable
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.scores import SCORES, BuiltInScores
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.scores.pipeline import Evaluation, ResolvedScore

if TYPE_CHECKING:
    from pytest_rageval.answers.comparators import AnswerMeasure
    from pytest_rageval.models import Provider, ProviderRequest
    from pytest_rageval.models.client import Server
    from pytest_rageval.models.stores.interface import StoreFactory
    from pytest_rageval.scores.plugin_objects import UserComparator

Report = (
    Callable[[Mapping[str, object]], str | Iterable[str]] | Callable[[Mapping[str, object], str], str | None]
)
"""A function that writes a report from all results, in the structure of the JSON report.

The function for a file returns the text of the file, or an iterable of its parts. The function for an address also
receives the text after the scheme; it sends the report, and may return a text for the summary.
"""

# Few runs have a plugin that adds one.
PluginMeasure: Final = Lazy("scores.plugin_objects", "PluginMeasure")
plugin_score: Final = Lazy("scores.plugin_objects", "plugin_score")

WORD_PATTERN: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
"""The names that can be used in the expression of a comparator."""

STORE_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+")

OPERATORS: Final = frozenset({"and", "or", "not"})

T = TypeVar("T")

DEFAULT_CUTOFF: Final = 5
"""The cut-off if neither the score nor any score that is requested with it has a cut-off."""

MAX_SIMILAR_NAMES: Final = 5
"""The number of similar names that are listed for an unknown score."""


def _takes(score: ScoreDef, keyword: str, rule: str) -> bool:
    """Return whether a keyword changes a score; `rule` is that of the keyword `relevant`."""
    return keyword in score.keywords and (keyword != "relevant" or rule in score.takes_relevant)


def resolve(
    score_request: ScoreRequest, scores: Mapping[str, ScoreDef] = SCORES
) -> tuple[ResolvedScore, ScoreDef]:
    """Return the resolved score and its definition; InputError if the score does not exist like this."""
    spec = Spec.parse(score_request.spec)
    score = scores.get(spec.measure)
    if score is None:
        hint = did_you_mean(spec.measure, scores)
        raise InputError(f"There is no score {spec.measure!r}.{hint}\n{_known_names(spec.measure, scores)}")
    if spec.k is None and score.needs_k:
        raise InputError(
            f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        )
    for keyword, text in score_request.keywords.items():
        rule = Relevance.parse(text).by if keyword == "relevant" else ""
        if not _takes(score, keyword, rule) and keyword not in score.ignores:
            takers = ", ".join(name for name, other in scores.items() if _takes(other, keyword, rule))
            raise InputError(f"{str(spec)!r} does not take {keyword}={text!r}. These scores do: {takers}.")
    if Relevance.parse(score_request.relevant).by == "judge":
        from pytest_rageval.scores.relevance import RELEVANT  # noqa: PLC0415 - with prompts, which few scores need

        score = replace(score, asks=score.asks | {RELEVANT})
    resolved = ResolvedScore(
        spec,
        spec.k or DEFAULT_CUTOFF,
        score_request.comparator,
        score_request.label,
        score_request.order if "order" in score.keywords else "rank",
        score_request.relevant,
    )
    return resolved, score


def _known_names(name: str, scores: Iterable[str]) -> str:
    similar = similar_names(name, scores, limit=MAX_SIMILAR_NAMES)
    hint = f"Similar names: {', '.join(similar)}. " if similar else ""
    added = [score for score in scores if score not in SCORES]
    others = f"; other plugins add {', '.join(added)}" if added else ""
    return f"{hint}`rageval scores` lists the built-in scores{others}."


@cache
def extension_hooks() -> pluggy.HookRelay:
    manager = pluggy.PluginManager("pytest")
    manager.add_hookspecs(hookspecs)
    for name, extension in installed().items():
        manager.register(extension, name)
    return manager.hook


class Registry:
    """The objects of the core, and the objects that extensions and other plugins add with `pytest_rageval_register`.

    Args:
        hook: the hooks of pytest's plugins; default: those of this package's extensions, outside of a run of pytest.

    Attributes:
        scores: the scores by name, without a cut-off.
        measures: the added answer measures by name.
        comparators: the added comparators by name. "judge", "graded" and "canonical" are not among them.
        adapters: the adapters of retrievers, in the order in which they are tried.
        formats: the formats of eval sets by name.
        reports: the added writers of reports, by the suffix of the file's name, such as ".xml", or by the scheme of the
            address, such as "mlflow:".
        markdown_sections: the added sections of the Markdown report.
        tables: the added tables of all reports.
        stores: the factories of reply stores, by the scheme of their URLs.
        providers: the providers of model servers, in the order in which they are tried.
    """

    def __init__(self, hook: Any = None, *, off: Collection[str] = ()) -> None:
        self.hook: Any = hook or extension_hooks()
        self.scores: ChainMap[str, ScoreDef] = ChainMap({}, cast("dict[str, ScoreDef]", BuiltInScores(off)))
        self.measures: dict[str, AnswerMeasure] = {}
        self.comparators: dict[str, UserComparator] = {}
        self.adapters: list[Adapter] = list(ADAPTERS)
        self.formats: dict[str, Format] = dict(FORMATS)
        self.reports: dict[str, Report] = {}
        self.stores: dict[str, StoreFactory] = {}
        self.providers: list[Provider] = []
        self.markdown_sections: list[AddedSection] = []
        self.tables: list[AddedTable] = []
        self.hook.pytest_rageval_register(registry=self)

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
            name: the name that users write, without the cut-off: NAME or NAME.PART.
            evaluate: an async function `(run, examples, resolved)` that returns one outcome per example.
            asks: the methods that the score depends on. A change of any other method leaves its baseline valid. The
                values are "generate", "cite" and "explain" of the generator; "relevant", "sufficient", "prefer",
                "support" and "rate CRITERION" of the judge; "compare" if the score uses `run.comparison`; and "label"
                if it reads `resolved.label`. Default: the score may depend on all methods.
            scale: the lowest and the highest value of an example. Values and bounds outside the scale are errors.
                Default: the scale is unknown.
            separable: whether the score of an example does not depend on the other examples, so that examples may be
                scored in parts, as in shards and with early stop.

        Raises:
            InputError: the name is taken or not valid as the name of a score; or another argument is not valid.
        """
        if Spec.parse(name).measure != name:
            raise InputError(f"add_score({name!r}): a score is added without its cut-off.")
        score = plugin_score(name, evaluate, asks, scale, separable=separable)
        _add(self.scores, "score", name, score)

    def add_answer_measure(self, name: str, measure: "AnswerMeasure") -> None:
        """Add an answer measure: the score `answer.NAME`, and NAME for comparators and labels.

        Args:
            name: the name, which must be a word.
            measure: a plain function `(prediction, references)` that returns a number in [0, 1]; or a
                `pytest_rageval.answers.comparators.Measure`, if it depends on options of the run.

        Raises:
            InputError: the name is taken or not a word; or the function is async.
        """
        from pytest_rageval.answers.comparators import MEASURES, Measure  # noqa: PLC0415 - ranking scores compare no answers

        _check_word("add_answer_measure", name)
        if is_async(measure):
            raise InputError(
                f"add_answer_measure({name!r}): the function is async, and an answer measure is a plain one.\n"
                "Add it with add_comparator, as an object with an async compare(question, references, prediction)."
            )
        _check_free(self.comparators, "comparator", name)
        score: ScoreDef = Lazy("scores.answer", "answer_measure_score")(name)
        _add(self.scores, "score", score.name, score)
        checked: AnswerMeasure = (
            replace(measure, compute=PluginMeasure(name, measure.compute))
            if isinstance(measure, Measure)
            else PluginMeasure(name, measure)
        )
        _check_free(MEASURES, "answer measure", name)
        _add(self.measures, "answer measure", name, checked)

    def add_comparator(self, name: str, comparator: "UserComparator") -> None:
        """Add a comparator, whose name can be used in `comparator=` and `label=`.

        Args:
            name: the name, which must be a word.
            comparator: an object with the method `compare(question, references, prediction)`, sync or async, which
                returns a number in [0, 1], True, False, or None for "no verdict".

        Raises:
            InputError: the name is taken or not a word; or the method is missing.
        """
        from pytest_rageval.answers.comparators import MEASURES  # noqa: PLC0415 - as above

        _check_word("add_comparator", name)
        if not callable(getattr(comparator, "compare", None)):
            raise InputError(
                f"add_comparator({name!r}): {type(comparator).__name__} lacks the method "
                "compare(question, references, prediction). Add it, sync or async."
            )
        _check_free({*MEASURES, *self.measures, "judge", "graded", "canonical"}, "comparator", name)
        _add(self.comparators, "comparator", name, comparator)

    def add_retriever_adapter(
        self, recognises: Callable[[object], bool], adapt: Callable[[Any], Callable[..., Any]]
    ) -> None:
        """Add an adapter for a kind of retriever. Adapters added later are tried first, built-in adapters last.

        Args:
            recognises: a function that returns whether an object is a retriever of this kind.
            adapt: a function that returns, for such an object, a callable `(query, k)`, sync or async, that returns
                documents.
        """
        self.adapters.insert(0, (recognises, adapt))

    def add_format(
        self,
        name: str,
        recognises: Callable[[Shape], bool],
        read: Callable[..., Iterator[tuple[str, Any]]],
    ) -> None:
        """Add a format of eval sets. A format is recognised by the shape of a file, or chosen with `format=NAME`.

        Args:
            name: the name, which must be a word.
            recognises: a function that returns whether a `Shape` is of this format. A `Shape` has the path, the
                beginning of the file and its first record.
            read: a generator function of a path and of keyword options that users may write in the marker. It yields
                pairs of a place for error messages ("faq.xml line 3") and a record in the native form. It is called
                again if the records are needed from the start.

        Raises:
            InputError: the name is taken.
        """
        _add(self.formats, "eval set format", name, Format(name, recognises, read))

    def add_report(self, kind: str, write: Report) -> None:
        """Add a report, or replace a built-in one: `--rageval-report results.xml`, `--rageval-report mlflow:NAME`.

        Args:
            kind: the suffix of the file's name, such as ".xml", or the scheme of an address, such as "mlflow:".
            write: for a suffix, a function of all results, in the structure of the JSON report, that returns the text
                of the file or an iterable of its parts. If it raises, the run fails, because an older file could be
                mistaken for a report of this run. For a scheme, a function of all results and of the text after the
                scheme; it sends the results within a bounded time, and may return a text for the summary. If it raises,
                the run warns.

        Raises:
            InputError: the kind is not valid, or another plugin has added it.
        """
        if not KIND_PATTERN.fullmatch(kind):
            raise InputError(
                f"add_report({kind!r}): expected the suffix of a file, such as '.xml', or a scheme, such as 'mlflow:'."
            )
        _add(self.reports, "report", kind.lower() if kind.endswith(":") else kind, write)

    def add_markdown_section(
        self, summary: str, noun: str, lines: Callable[[Mapping[str, object]], Sequence[str]]
    ) -> None:
        """Add a folded section to the Markdown report. It is left out if the report would be too long with it.

        Args:
            summary: the line that is always shown.
            noun: the noun for a line, to count the lines that are left out.
            lines: a function of all results, in the structure of the JSON report, that returns lines of Markdown;
                without lines there is no section.
        """
        self.markdown_sections.append(AddedSection(summary, noun, lines))

    def add_table(
        self, title: str, rows: Callable[[Sequence[Mapping[str, object]]], Sequence[Sequence[str]]]
    ) -> None:
        """Add a table to the HTML report, as a folded section to the Markdown report, and with -v to the terminal.

        Args:
            title: its title.
            rows: a function of the tests in the JSON report that returns the rows, of texts; the first are the heads of
                the columns. Without rows there is no table.
        """
        self.tables.append(AddedTable(title, rows))

    @property
    def writers(self) -> dict[str, Report]:
        """The writers of reports by kind: the built-in ones, and the added ones, which may replace them."""
        sections = [*self.markdown_sections, *(table.section for table in self.tables)]
        ours = {
            ".md": partial(KINDS[".md"], added=sections),
            ".html": partial(KINDS[".html"], added=self.tables),
        }
        return {**KINDS, **ours, **self.reports}

    def add_store(self, scheme: str, factory: "StoreFactory") -> None:
        """Add a store of replies: `--rageval-cache SCHEME://…`.

        Args:
            scheme: the scheme of the store's URLs: two or more lower-case letters, digits, plus signs, minus signs and
                dots.
            factory: a function `(url, namespace)` that opens the store, a
                `pytest_rageval.models.stores.interface.ReplyStore`. It raises StoreError, or StoreAwayError if a server
                does not answer. `url.secret` is the whole URL, `url.public` the URL for messages. The namespaces
                "replies" and "embeddings" must be stored separately.

        Raises:
            InputError: the scheme is taken or not valid.
        """
        if not STORE_SCHEME.fullmatch(scheme):
            raise InputError(
                f"add_store({scheme!r}): a scheme is the part before :// in a URL, such as 'redis'."
            )
        _add(self.stores, "store", scheme, factory)

    def add_provider(
        self, matches: "Callable[[ProviderRequest], bool]", server: "Callable[[ProviderRequest], Server]"
    ) -> None:
        """Add a provider of models that are not at a URL: a kind of client in `rageval_client`, or names of models.

        Providers added later are tried first. Without one that matches, requests go to the server of the options.

        Args:
            matches: a function that returns whether the provider makes the server of a
                `pytest_rageval.models.ProviderRequest`.
            server: a function that makes it, a `pytest_rageval.models.client.Server`. It is called once for each role.
        """
        self.providers.insert(0, (matches, server))


def _check_word(call: str, name: object) -> None:
    if not isinstance(name, str) or not WORD_PATTERN.fullmatch(name) or name.lower() in OPERATORS:
        raise InputError(
            f"{call}({name!r}): the name cannot be used in an expression such as 'judge or em'.\n"
            "A name is letters, digits and underscores, begins with a letter, and is none of "
            f"{', '.join(sorted(OPERATORS))}. Choose another name."
        )


def _check_free(known: Collection[str], kind: str, name: str) -> None:
    if name in known:
        article = "an" if kind[0] in "aeiou" else "a"
        raise InputError(f"There is {article} {kind} {name!r} already. Choose another name.")


def _add(known: MutableMapping[str, T], kind: str, name: str, item: T) -> None:
    _check_free(known, kind, name)
    known[name] = item
