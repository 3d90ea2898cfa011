"""What there is to name: what is built in, and what other plugins add."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from pytest_rageval.answers.compare import Comparator
from pytest_rageval.answers.measures import MEASURES, AnswerMeasure
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import FORMATS, Format
from pytest_rageval.evalsets.shape import Shape
from pytest_rageval.evaluations.added import AddedMeasure, AddedScore
from pytest_rageval.evaluations.answer import evaluate_answer
from pytest_rageval.evaluations.catalogue import EVALUATIONS
from pytest_rageval.evaluations.dependencies import ASKABLE
from pytest_rageval.evaluations.run import Evaluation
from pytest_rageval.measures.spec import Spec
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.usercode import is_async

__all__ = ["Registry", "Report"]

T = TypeVar("T")

Report = Callable[[Mapping[str, Any]], str]
"""From all results, as the JSON report holds them, to the text of a file."""

SUFFIX: Final = re.compile(r"\.\w+")
"""What the name of a report's file ends in."""

WORD: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
OPERATORS: Final = frozenset({"and", "or", "not"})
"""What a name in an expression is made of, and which words it is not."""


class Registry:
    """What there is: built in, and added by other plugins through `pytest_rageval_register`.

    Attributes:
        scores: what computes each, by the score's name without its cut-off.
        measures: of answers, by name.
        comparators: beside "judge", "graded" and "canonical", by name.
        adapters: of retrievers: what recognises one, and what makes a callable `(query, k)` of it;
            tried in this order.
        formats: of eval sets, by name.
        reports: what writes each, by what the file's name ends in, such as ".xml".
    """

    def __init__(self) -> None:
        self.scores: dict[str, Evaluation] = dict(EVALUATIONS)
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
            evaluate: an async function `(run, examples, terms)` to one outcome an example.
            asks: the methods of generator and judge that it depends on, so that a change of any other
                leaves its baseline valid: "generate", "cite", "explain" of the generator, "compare" for
                `run.comparison`, "label" beside it where it reads `terms.label`, and "relevant",
                "prefer" and "rate CRITERION" of the judge. Default: it may depend on all.
            scale: the lowest and the highest value of an example, which every value is held to and no
                bound may lie beyond. Default: nobody can say.

        Raises:
            InputError: the name is no score's name, or taken; what it asks cannot be asked; or the scale is none.
        """
        if Spec.parse(name).measure != name:
            message = f"add_score({name!r}): a score is added without its cut-off."
            raise InputError(message)
        unknown = sorted(set(asks or ()) - ASKABLE)
        if unknown:
            message = (
                f"add_score({name!r}): nobody can be asked {', '.join(map(repr, unknown))}.\n"
                f"There are: {', '.join(sorted(ASKABLE))}."
            )
            raise InputError(message)
        if scale is not None and not scale[0] < scale[1]:
            message = f"add_score({name!r}): scale={scale!r} is no lowest and highest value, such as (0, 1)."
            raise InputError(message)
        added: Evaluation = AddedScore(name, evaluate, None if asks is None else frozenset(asks), scale)
        _add(self.scores, "score", name, added)

    def add_answer_measure(self, name: str, measure: AnswerMeasure) -> None:
        """Add an answer measure: the score `answer.NAME`, and a name for comparators and labels.

        Args:
            name: a word.
            measure: a plain function `(prediction, references)` to a number in [0, 1].

        Raises:
            InputError: the name is no word, or taken; or the function is async.
        """
        if not _is_word(name):
            raise _no_word("add_answer_measure", name)
        if is_async(measure):
            message = (
                f"add_answer_measure({name!r}): the function is async, and an answer measure is a plain one.\n"
                "Add it with add_comparator, as an object with an async compare(question, references, prediction)."
            )
            raise InputError(message)
        if name in self.comparators:
            raise _taken("comparator", name)
        _add(self.scores, "score", f"answer.{name}", evaluate_answer)
        added: AnswerMeasure = AddedMeasure(name, measure)
        _add(self.measures, "answer measure", name, added)

    def add_comparator(self, name: str, comparator: Comparator) -> None:
        """Add a name for `comparator=` and `label=`.

        Args:
            name: a word.
            comparator: an object with `compare(question, references, prediction)`, sync or async, to a
                number in [0, 1], True or False, or None for "no verdict".

        Raises:
            InputError: the name is no word, or taken; or there is no such method.
        """
        if not _is_word(name):
            raise _no_word("add_comparator", name)
        if not callable(getattr(comparator, "compare", None)):
            message = (
                f"add_comparator({name!r}): {type(comparator).__name__} lacks the method "
                "compare(question, references, prediction). Add it, sync or async."
            )
            raise InputError(message)
        if name in {*self.measures, "judge", "graded", "canonical"}:
            raise _taken("comparator", name)
        _add(self.comparators, "comparator", name, comparator)

    def add_retriever_adapter(
        self, recognises: Callable[[object], bool], adapt: Callable[[Any], Callable[..., Any]]
    ) -> None:
        """Add a kind of retriever; of several that recognise one, the last added rules, the built-in come last.

        Args:
            recognises: whether an object is of the kind.
            adapt: from the object to a callable `(query, k)`, sync or async, that gives documents.
        """
        self.adapters.insert(0, (recognises, adapt))

    def add_format(
        self,
        name: str,
        recognises: Callable[[Shape], bool],
        read: Callable[..., Iterator[tuple[str, Any]]],
    ) -> None:
        """Add a format of eval sets: it is chosen by its shape, or with `format=NAME`.

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
        """Add a report, or have another one written for a suffix that is known: `--rageval-report results.xml`.

        Args:
            suffix: what the file's name ends in, such as ".xml".
            write: from all results, as the JSON report holds them, to the text of the file.

        Raises:
            InputError: the suffix is none, or another plugin has added it.
        """
        if not SUFFIX.fullmatch(suffix):
            message = f"add_report({suffix!r}): a suffix is a dot with what follows it, such as '.xml'."
            raise InputError(message)
        _add(self.reports, "report", suffix, write)


def _no_word(call: str, name: object) -> InputError:
    return InputError(
        f"{call}({name!r}): this can be no part of an expression such as 'judge or em'.\n"
        "A name is letters, digits and underscores, begins with a letter, and is none of "
        f"{', '.join(sorted(OPERATORS))}. Choose another name."
    )


def _is_word(name: object) -> bool:
    """Whether a name can stand in an expression."""
    return isinstance(name, str) and WORD.fullmatch(name) is not None and name.lower() not in OPERATORS


def _add(there: dict[str, T], what: str, name: str, thing: T) -> None:
    if name in there:
        raise _taken(what, name)
    there[name] = thing


def _taken(what: str, name: str) -> InputError:
    article = "an" if what[0] in "aeiou" else "a"
    return InputError(f"There is {article} {what} {name!r} already. Choose another name.")
