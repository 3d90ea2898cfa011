"""The scores by name, and the registry that other plugins add to."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

from pytest_rageval.answers.comparators import MEASURES, AnswerMeasure
from pytest_rageval.answers.judge_protocol import Comparator
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.evalsets import FORMATS, Format
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evaluations import (
    answer,
    arena,
    judged,
    llm_reteval,
    passage_labels,
    ranking,
    rel_prime,
)
from pytest_rageval.evaluations.context import Evaluation, ScoreRequest, Terms
from pytest_rageval.evaluations.plugin_objects import PluginMeasure, PluginScore
from pytest_rageval.evaluations.score_def import ASKABLE, ScoreDef
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.scores import Spec
from pytest_rageval.user_code import is_async

__all__ = ["SCORES", "Registry", "Report", "resolve"]

METHODS: Final = (ranking, llm_reteval, answer, arena, passage_labels, rel_prime, judged)
"""The modules that define scores; messages list the scores in this order."""

SCORES: Final[Mapping[str, ScoreDef]] = {
    score.name: score for score in chain.from_iterable(method.SCORES for method in METHODS)
}
"""The built-in scores by name."""

Report = Callable[[Mapping[str, Any]], str]
"""From all results, as the JSON report holds them, to the text of a file."""

SUFFIX: Final = re.compile(r"\.\w+")
WORD: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
OPERATORS: Final = frozenset({"and", "or", "not"})

T = TypeVar("T")


def resolve(request: ScoreRequest, scores: Mapping[str, ScoreDef] = SCORES) -> tuple[Terms, ScoreDef]:
    """Return the terms and the definition of a score.

    Args:
        request: of a user.
        scores: the known scores, by name.

    Raises:
        InputError: the name is no score's, unknown, or without a cut-off; or the score does not take one
            of the keywords.
    """
    spec = Spec.parse(request.spec)
    score = scores.get(spec.measure)
    if score is None:
        hint = did_you_mean(spec.measure, scores)
        raise InputError(f"There is no score {spec.measure!r}.{hint}\nThe scores are: {', '.join(scores)}.")
    if spec.k is None:
        raise InputError(
            f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        )
    for word, text in request.words.items():
        if word not in score.words:
            takers = ", ".join(name for name, other in scores.items() if word in other.words)
            raise InputError(f"{str(spec)!r} does not take {word}={text!r}. These scores do: {takers}.")
    return Terms(spec, spec.k, request.comparator, request.label, request.order), score


class Registry:
    """The built-in objects and those that other plugins add with `pytest_rageval_register`.

    Attributes:
        scores: the definition of each, by the score's name without its cut-off.
        measures: of answers, by name.
        comparators: beside "judge", "graded" and "canonical", by name.
        adapters: of retrievers, in the order in which they are tried: a predicate, and a function that
            makes a callable `(query, k)`.
        formats: of eval sets, by name.
        reports: the writer of each, by the suffix of the file's name, such as ".xml".
    """

    def __init__(self) -> None:
        self.scores: dict[str, ScoreDef] = dict(SCORES)
        self.measures: dict[str, AnswerMeasure] = dict(MEASURES)
        self.comparators: dict[str, Comparator] = {}
        self.adapters: list[Adapter] = list(ADAPTERS)
        self.formats: dict[str, Format] = dict(FORMATS)
        self.reports: dict[str, Report] = {}

    def add_score(
        self,
        name: str,
        evaluate: Evaluation,
        *,
        asks: Collection[str] | None = None,
        scale: tuple[float, float] | None = None,
    ) -> None:
        """Add a score.

        Args:
            name: as users type it, without the cut-off: NAME or NAME.PART.
            evaluate: an async function `(run, examples, terms)` that returns one outcome an example.
            asks: the methods of generator and judge that it depends on, so that a change of any other
                leaves its baseline valid: "generate", "cite", "explain" of the generator, "compare" for
                `run.comparison`, also "label" where it reads `terms.label`, and "relevant",
                "prefer" and "rate CRITERION" of the judge. Default: it may depend on all.
            scale: the lowest and the highest value of an example. Values and bounds outside it are
                errors. Default: unknown.

        Raises:
            InputError: the name cannot be a score's, or is taken; a dependency is unknown; or the scale
                is not in ascending order.
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
        checked = PluginScore(name, evaluate, scale)
        asked = None if asks is None else frozenset(asks)
        # Its outcomes may have `Evidence.sizes`, which are pooled.
        score = ScoreDef(name, checked, asked, scale, separable=False, notes=rel_prime.pooled_notes)
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
        if name in self.comparators:
            raise _taken("comparator", name)
        score = answer.answer_measure_score(name)
        _add(self.scores, "score", score.name, score)
        checked: AnswerMeasure = PluginMeasure(name, measure)
        _add(self.measures, "answer measure", name, checked)

    def add_comparator(self, name: str, comparator: Comparator) -> None:
        """Add a name for `comparator=` and `label=`.

        Args:
            name: a word.
            comparator: an object with `compare(question, references, prediction)`, sync or async, that
                returns a number in [0, 1], True or False, or None for "no verdict".

        Raises:
            InputError: the name is no word, or taken; or the method is missing.
        """
        _check_word("add_comparator", name)
        if not callable(getattr(comparator, "compare", None)):
            raise InputError(
                f"add_comparator({name!r}): {type(comparator).__name__} lacks the method "
                "compare(question, references, prediction). Add it, sync or async."
            )
        if name in {*self.measures, "judge", "graded", "canonical"}:
            raise _taken("comparator", name)
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
            recognises: whether a path looks like this; a `Shape` has the path, the beginning of the
                file and its first record.
            read: a generator function of a path and, by name, options that users may write in the
                marker; yields pairs of a place for error messages ("faq.xml line 3") and a record of
                the native form. It is called again where the records are needed from the start.

        Raises:
            InputError: the name is taken.
        """
        _add(self.formats, "eval set format", name, Format(name, recognises, read))

    def add_report(self, suffix: str, write: Report) -> None:
        """Add a report, or replace a built-in one: `--rageval-report results.xml`.

        Args:
            suffix: of the file's name, such as ".xml".
            write: from all results, as the JSON report holds them, to the text of the file.

        Raises:
            InputError: the suffix is not valid, or another plugin has added it.
        """
        if not SUFFIX.fullmatch(suffix):
            raise InputError(
                f"add_report({suffix!r}): a suffix is a dot with what follows it, such as '.xml'."
            )
        _add(self.reports, "report", suffix, write)


def _check_word(call: str, name: object) -> None:
    """Raise InputError unless a name can stand in an expression."""
    if not isinstance(name, str) or not WORD.fullmatch(name) or name.lower() in OPERATORS:
        raise InputError(
            f"{call}({name!r}): the name cannot be used in an expression such as 'judge or em'.\n"
            "A name is letters, digits and underscores, begins with a letter, and is none of "
            f"{', '.join(sorted(OPERATORS))}. Choose another name."
        )


def _add(known: dict[str, T], kind: str, name: str, thing: T) -> None:
    if name in known:
        raise _taken(kind, name)
    known[name] = thing


def _taken(kind: str, name: str) -> InputError:
    article = "an" if kind[0] in "aeiou" else "a"
    return InputError(f"There is {article} {kind} {name!r} already. Choose another name.")
