"""The scores by name: what computes each, what it depends on, and what other plugins add."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from pytest_rageval.answers.comparators import ASKED_OF_JUDGE, EMBEDDED, MEASURES, AnswerMeasure
from pytest_rageval.answers.judge_protocol import Comparator
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.evalsets import FORMATS, Format
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evaluations.answer import (
    evaluate_answer,
    evaluate_answer_abstained,
    evaluate_answer_correct,
)
from pytest_rageval.evaluations.arena import LEAST, evaluate_arena
from pytest_rageval.evaluations.context import Evaluation, Pipeline, ScoreRequest, Terms
from pytest_rageval.evaluations.judged import (
    GRADES,
    evaluate_context_quality,
    evaluate_correctness,
    evaluate_faithfulness,
)
from pytest_rageval.evaluations.llm_reteval import evaluate_llm_reteval
from pytest_rageval.evaluations.passage_labels import evaluate_contains, evaluate_erag, evaluate_relevance
from pytest_rageval.evaluations.plugin_objects import PluginMeasure, PluginScore
from pytest_rageval.evaluations.ranking import evaluate_ranking
from pytest_rageval.evaluations.rel_prime import (
    evaluate_answer_recall,
    evaluate_citation_precision,
    evaluate_citation_recall,
    evaluate_coverage,
)
from pytest_rageval.measures.spec import Spec
from pytest_rageval.prompts.templates import CRITERIA
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.scores import SCORING
from pytest_rageval.stats.intervals import UNIT
from pytest_rageval.user_code import is_async

__all__ = [
    "ASKABLE",
    "EVALUATIONS",
    "PASSAGE_PARTS",
    "Registry",
    "Report",
    "asks",
    "evaluation_of",
    "fingerprint",
    "scale_of",
    "words_of",
]

PASSAGE_PARTS: Final = ("p", "recall", "map", "mrr", "ndcg", "hit")
"""The measures over labels of passages; those of `measures.usefulness`, which brings numpy."""

EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    **dict.fromkeys(("recall", "precision", "f1", "map", "mrr", "ndcg", "hit"), evaluate_ranking),
    "llm_reteval": evaluate_llm_reteval,
    "answer.correct": evaluate_answer_correct,
    **{f"answer.{name}": evaluate_answer for name in MEASURES},
    "answer.abstained": evaluate_answer_abstained,
    **{f"arena.{part}": evaluate_arena for part in LEAST},
    **{f"erag.{part}": evaluate_erag for part in PASSAGE_PARTS},
    **{f"contains.{part}": evaluate_contains for part in PASSAGE_PARTS},
    **{f"relevance.{part}": evaluate_relevance for part in PASSAGE_PARTS},
    "rel_recall.answer": evaluate_answer_recall,
    "rel_recall.citation": evaluate_citation_recall,
    "rel.answer": evaluate_answer_recall,
    "rel.citation": evaluate_citation_recall,
    "rel.citation_precision": evaluate_citation_precision,
    "rel.coverage": evaluate_coverage,
    "judged.correctness": evaluate_correctness,
    "judged.faithfulness": evaluate_faithfulness,
    "judged.context_quality": evaluate_context_quality,
}
"""By the score's name without its cut-off."""

SCALES: Final[Mapping[Evaluation, tuple[float, float]]] = dict.fromkeys(
    (evaluate_correctness, evaluate_faithfulness, evaluate_context_quality), GRADES
)
"""The lowest and the highest value of those scores that are not in [0, 1]."""


def evaluation_of(
    wanted: ScoreRequest, evaluations: Mapping[str, Evaluation] = EVALUATIONS
) -> tuple[Terms, Evaluation]:
    """A score on its terms, and what computes it.

    Args:
        wanted: as a user asks for it.
        evaluations: the scores there are, by name.

    Raises:
        InputError: it is no score's name, an unknown one, or lacks the cut-off; or a word beside it is
            one that it does not know.
    """
    spec = Spec.parse(wanted.spec)
    if spec.measure not in evaluations:
        hint = did_you_mean(spec.measure, evaluations)
        message = f"There is no score {spec.measure!r}.{hint}\nThere are: {', '.join(evaluations)}."
        raise InputError(message)
    if spec.k is None:
        message = f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        raise InputError(message)
    evaluate = evaluations[spec.measure]
    for word, text in wanted.words.items():
        if word not in words_of(evaluate):
            knowing = ", ".join(name for name, other in evaluations.items() if word in words_of(other))
            message = f"{str(spec)!r} knows no {word}={text!r}. These scores do: {knowing}."
            raise InputError(message)
    return Terms(spec, spec.k, wanted.comparator, wanted.label, wanted.order), evaluate


def scale_of(evaluate: Evaluation) -> tuple[float, float] | None:
    """The lowest and the highest value that an evaluation gives; None where the plugin that added it does not say."""
    return evaluate.scale if isinstance(evaluate, PluginScore) else SCALES.get(evaluate, UNIT)


ANSWERS, CITED, EXPLAINED = "generate", "cite", "explain"
COMPARED, RELEVANT, PREFERRED = "compare", "relevant", "prefer"
LABELLED = "label"

ASKED: Final[Mapping[Evaluation, frozenset[str]]] = {
    evaluate_ranking: frozenset(),
    evaluate_contains: frozenset(),
    evaluate_coverage: frozenset(),
    evaluate_relevance: frozenset({RELEVANT}),
    evaluate_answer: frozenset({ANSWERS}),
    evaluate_answer_abstained: frozenset({ANSWERS}),
    evaluate_answer_correct: frozenset({ANSWERS, COMPARED}),
    evaluate_erag: frozenset({ANSWERS, COMPARED, LABELLED}),
    evaluate_llm_reteval: frozenset({ANSWERS, COMPARED}),
    evaluate_answer_recall: frozenset({CITED}),
    evaluate_citation_recall: frozenset({CITED}),
    evaluate_citation_precision: frozenset({CITED}),
    evaluate_arena: frozenset({EXPLAINED, PREFERRED}),
    evaluate_correctness: frozenset({ANSWERS, "rate correctness"}),
    evaluate_faithfulness: frozenset({ANSWERS, "rate faithfulness"}),
    evaluate_context_quality: frozenset({"rate context_quality"}),
}
"""What each of our evaluations asks of generator, comparator and judge."""

RATED: Final = frozenset(f"rate {criterion}" for criterion in CRITERIA)

ASKABLE: Final = frozenset({ANSWERS, CITED, EXPLAINED, COMPARED, LABELLED, RELEVANT, PREFERRED}) | RATED
"""What an evaluation can ask: methods of generator and judge, and "label", the word for the answer from one passage."""

WORDS: Final = {"comparator": COMPARED, "label": LABELLED, "order": CITED}
"""What each word changes: how answers are compared, from all passages or from one; the passages to cite from."""


def words_of(evaluate: Evaluation) -> frozenset[str]:
    """The words that change what an evaluation gives."""
    asked = _asked(evaluate)
    return frozenset(word for word, changed in WORDS.items() if changed in asked)


def asks(evaluate: Evaluation) -> bool:
    """Whether it asks generator, comparator or judge anything; if not, asking them again changes nothing."""
    return bool(_asked(evaluate))


def fingerprint(run: Pipeline, terms: Terms, evaluate: Evaluation, *, package: str) -> dict[str, Any]:
    """By name, everything that moves the score where the retriever stays as it is.

    Args:
        run: whose generator and judge they are.
        terms: of the score.
        evaluate: what computes it.
        package: the version of this package, which is noted and not compared: what of it moves scores
            is `scoring`.
    """
    asked = _asked(evaluate)
    found: dict[str, Any] = {"package": package, "scoring": SCORING, "match_share": run.match_share}
    for method in sorted(asked & {ANSWERS, CITED, EXPLAINED}):
        found |= _named("generator", run.generator.identity(method))
    methods = asked & (RATED | {RELEVANT, PREFERRED})
    for word, text in _ways(terms, evaluate).items() if COMPARED in asked else ():
        comparison = run.comparison(text)
        found[word] = comparison.text
        methods |= {ASKED_OF_JUDGE[name] for name in comparison.names & ASKED_OF_JUDGE.keys()}
    for method in sorted(methods):
        found |= _named("judge", run.judge.identity(method))
    if not _measures(terms, evaluate, run).isdisjoint(EMBEDDED):
        found["encoder"] = _encoder()
    if evaluate is evaluate_arena:
        found["both_orders"] = run.both_orders
    balanced = evaluate is evaluate_arena and not run.both_orders
    if balanced or (CITED in asked and terms.order == "random"):
        found["seed"] = run.seed
    return found


def _ways(terms: Terms, evaluate: Evaluation) -> dict[str, str | None]:
    """How answers are compared, by the words of the threshold: eRAG alone reads `label`; who knows of others."""
    if evaluate is evaluate_erag:
        return {"comparator": terms.label or terms.comparator}
    compared = {"comparator": terms.comparator}
    return compared if terms.label is None else {**compared, "label": terms.label}


def _measures(terms: Terms, evaluate: Evaluation, run: Pipeline) -> frozenset[str]:
    """The answer measures and comparators that the score rests on, by name."""
    if evaluate is evaluate_answer:
        return frozenset({terms.spec.part or ""})
    compared = _ways(terms, evaluate).values() if COMPARED in _asked(evaluate) else ()
    return frozenset().union(*(run.comparison(text).names for text in compared))


def _encoder() -> str:
    """The encoder of the embedding measures; imported here, since it brings numpy."""
    from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415

    return shared_encoder().fingerprint


def _asked(evaluate: Evaluation) -> frozenset[str]:
    """What an evaluation asks; one that another plugin added and that does not say may ask all."""
    if isinstance(evaluate, PluginScore):
        return ASKABLE if evaluate.asks is None else evaluate.asks
    return ASKED[evaluate]


def _named(part: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity's names, each with whose it is; the one without a name is the part itself."""
    return {f"{part} {name}".strip(): value for name, value in identity.items()}


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
        added: Evaluation = PluginScore(name, evaluate, None if asks is None else frozenset(asks), scale)
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
        added: AnswerMeasure = PluginMeasure(name, measure)
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
