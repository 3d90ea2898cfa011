"""The object that tests receive as `rageval`, and the parameters that make a system under test."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from pytest_rageval.errors import InputError, Planned, RagevalError, StaleBaselineError
from pytest_rageval.evaluations.context import ScoreRequest
from pytest_rageval.evaluations.label_agreement import ANNOTATORS, MEASURES, Agreement, AgreementRequest
from pytest_rageval.evaluations.scoring import uniform_judge
from pytest_rageval.gate.baseline import WRITE, baseline_entry
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, Ruling, rule
from pytest_rageval.model import EvalSet, Example, Ranking
from pytest_rageval.plugin.calibration_gate import CalibrationGate
from pytest_rageval.plugin.plan_stubs import (
    PlannedAgreement,
    PlannedScore,
    PlannedText,
    planned_ranking,
    planned_text,
)
from pytest_rageval.plugin.terminal import failure
from pytest_rageval.plugin.xdist import plain_nodeid
from pytest_rageval.reports.questions import failure_lines
from pytest_rageval.reports.results import (
    Notes,
    entry_name,
    error_entry,
    evalset_entry,
    ruling_entry,
    score_entry,
)
from pytest_rageval.scores import Score
from pytest_rageval.session import Components, Session
from pytest_rageval.stats.intervals import UNIT

__all__ = ["Rageval", "parametrization"]

PARTS: Final = ("rageval_retriever", "rageval_generator", "rageval_judge")


def parametrization(item: pytest.Item) -> dict[str, Any]:
    """The test function and its parameters, each with its id, as part of the item's results.

    A parameter belongs to the system where it is that of one of the three fixtures, or of a fixture that
    the function does not ask for itself, as one that `rageval_retriever` is made from.

    Returns:
        `function`, `system` and `parameters`, those of the function's own; nothing for an item without
        parameters. Names that were parametrized together have one id, and stand together.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    asked = inspect.signature(getattr(item, "function", lambda: None)).parameters
    system: dict[str, str] = {}
    own: dict[str, str] = {}
    for names, text in _ids(item, callspec):
        is_own = any(name in asked for name in names) and not any(name in PARTS for name in names)
        (own if is_own else system)[", ".join(names)] = text
    return {
        "function": item.nodeid.partition(f"[{callspec.id}]")[0],
        "system": system,
        "parameters": own,
    }


def _ids(item: pytest.Item, callspec: Any) -> list[tuple[tuple[str, ...], str]]:
    """The names of each parametrization with their id, or with their number where pytest hides one."""
    together = {names[0]: names for names in map(_names, item.iter_markers("parametrize"))}
    calls, left = [], list(callspec.params)
    while left:
        calls.append(together.get(left[0], (left[0],)))
        left = left[len(calls[-1]) :]
    # pytest has no public name for them.
    ids = getattr(callspec, "_idlist", ())
    if len(ids) != len(calls):
        ids = [f"{call[0]}{callspec.indices[call[0]]}" for call in calls]
    return list(zip(calls, ids, strict=True))


def _names(mark: pytest.Mark) -> tuple[str, ...]:
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return (
        tuple(name.strip() for name in names.split(",") if name.strip())
        if isinstance(names, str)
        else tuple(names)
    )


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

MARKER: Final = "rageval_evalset"

BOUNDS: Final = ("min", "max", "max_drop")


class Rageval:
    """One test's view of the session: its eval set, its parts, its results."""

    def __init__(  # noqa: PLR0913 - what a test's view is made of
        self,
        session: Session,
        parts: Components,
        item: pytest.Item,
        *,
        limit: int | None,
        family: int,
        finished: Callable[[], None],
    ) -> None:
        self._session = session
        self._parts = parts
        self._item = item
        self._limit = limit
        self._family = family
        self._finished = finished
        self._entries: dict[str, dict[str, Any]] = {}
        self._agreements: list[dict[str, Any]] = []
        self._rulings: list[Ruling] = []
        self._scores: list[Score] = []
        self._unkept: list[str] = []
        self._kept: dict[str, tuple[Score, dict[str, Any]]] = {}
        self._calibrating = CalibrationGate(session, parts, item)
        self.stood_in = False
        """Whether the test was given what only stands for a result, as in a plan."""

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples of the test's eval set."""
        return self._shown(lambda: self._evalset().examples)

    def score(self, spec: str, **words: Any) -> Score:
        """A score of the test's eval set: its mean as a float, with all that led to it.

        Args:
            spec: its name, such as "recall@5".
            words: those of the marker `rageval_threshold`; with `min`, `max` or `max_drop` the test
                fails when the mean is out of these bounds, with `where` the score is that of the slice.
                `max_drop` is tested at `alpha` of its own: only markers share one.

        Raises:
            RagevalError: it cannot be computed; what to do.
        """
        try:
            return self._shown(lambda: self._score(spec, words))
        except (RagevalError, pytest.fail.Exception) as error:
            if any(words.get(bound) is not None for bound in BOUNDS):
                self._unkept.append(str(error))
            raise

    def agreement(
        self,
        ks: Sequence[int] = (1, 3, 5, 10),
        *,
        annotators: Sequence[str] = ANNOTATORS,
        measures: Sequence[str] = MEASURES,
        label: str | None = None,
    ) -> Agreement:
        """How each way to label passages agrees with the answers that the generator gives from them.

        Over the questions of the test's eval set, Kendall's tau and Spearman's rho between each
        annotator × measure and `answer.correct`, at each k; the report shows them as a table.

        Args:
            ks: cut-offs.
            annotators: "erag" (the answer from that passage alone is right), "contains" (it contains a
                reference answer), "gold" (people say so) and "relevance" (the judge says so).
            measures: of the labels of a ranking: "p", "recall", "map", "mrr", "ndcg", "hit".
            label: how an answer is scored, from one passage and from all: an expression such as
                "em" or "rougeL", or None for the comparator in force. Where it grades, eRAG has p,
                ndcg and hit only.

        Returns:
            The table. What could not be computed is missing, with its reason (no judge for relevance, too
            many unscored).

        Raises:
            InputError: a name is unknown.
            RagevalError: the answers from all passages cannot be scored.
        """
        return self._shown(lambda: self._agreement(AgreementRequest(annotators, measures, ks, label)))

    def retrieve(self, query: str, k: int) -> Ranking:
        """What the retriever under test returns for a query when asked for k documents."""
        ranking = self._shown(lambda: self._session.retrieve(self._parts, query, k))
        return planned_ranking(ranking) if self._session.settings.plan else ranking

    def answer(self, question: str, k: int) -> str:
        """The generator's answer from the first k documents for the question."""
        try:
            answer = self._shown(lambda: self._session.answer(self._parts, question, k))
        except Planned as planned:
            self.stood_in = True
            return PlannedText(planned)
        if not self._session.settings.plan:
            return answer
        self.stood_in = True
        return planned_text(answer)

    def cached(self, function: F, *, version: str | None = None) -> F:
        """A function of yours that computes each result once and then finds it, in later runs too.

        Args:
            function: sync or async; arguments and result are text, numbers, booleans, None, and
                lists and dicts of these; documents and dataclasses may be among the arguments.
            version: changes when the function's results do; without one they are kept within this
                run only.

        Raises:
            InputError: the version is no text, or empty.
            CallableError: when called, with arguments or a result that cannot be kept.
        """
        return self._shown(lambda: self._session.llm.cached(function, version=version))

    def measure(self) -> None:
        """Compute every score that the test's markers bound, all at once, and how the judge agrees with people.

        Any that cannot be had ends the test as an error, which is not a verdict on the retriever.
        """
        try:
            problems = self._measure()
        except RagevalError as error:
            problems = [str(error)]
        finally:
            self._finished()
        if problems:
            # What is out of its bounds is not hidden by what could not be had.
            raise failure("\n\n".join([*dict.fromkeys(problems), *self._failures()]))

    def enforce(self) -> None:
        """Fail the test when a score is out of its bounds."""
        failures = self._failures()
        if failures:
            raise failure("\n\n".join(failures))

    def enforce_asked(self) -> None:
        """Fail the test that has come to its end where a threshold that it asked for was not kept.

        Its statements caught the exception, as `except BaseException` and `pytest.raises` do.
        """
        unkept = list(dict.fromkeys(self._unkept))
        if unkept:
            what = "A threshold was not kept, and the test caught the failure, or skipped itself behind it"
            remedy = "Where that is meant, leave out the bound and assert on the score."
            raise failure("\n\n".join([f"{what}.\n{remedy}", *unkept]))

    def results(self) -> dict[str, Any]:
        """The test's part of the JSON report."""
        evalset = None
        if (self._entries or self._agreements) and self._item.get_closest_marker(MARKER):
            try:
                loaded = self._evalset()
                evalset = evalset_entry(loaded)
            except InputError:
                evalset = None
        return {
            "nodeid": plain_nodeid(self._item.nodeid),
            "evalset": evalset,
            **parametrization(self._item),
            **({"own": own} if (own := self._parts.own) else {}),
            **self._warned(),
            "scores": list(self._entries.values()),
            **self._calibrating.results(),
            **({"agreement": self._agreements} if self._agreements else {}),
            **self._remembered(),
        }

    def _warned(self) -> dict[str, Any]:
        """What a reader should know of all scores of the test; nothing where there is nothing to know."""
        if not self._scores:
            return {}
        comparisons = [ruling.comparison for ruling in self._rulings if ruling.comparison is not None]
        moved = {each.outcome.example.question for one in comparisons for each in one.changes if each.drop}
        warning = uniform_judge(self._session.runs.of(self._parts), self._scores, moved)
        return {"warnings": [warning]} if warning else {}

    def _remembered(self) -> dict[str, Any]:
        """What an update of the baseline keeps, and which of it is out of its bounds; nothing in other runs."""
        if not self._kept:
            return {}
        return {
            "baseline": baseline_entry(self._evalset().examples, self._kept),
            "out_of_bounds": sorted(
                {ruling.threshold.name for ruling in map(_failed, self._rulings) if ruling}
            ),
        }

    def _failures(self) -> list[str]:
        failed = filter(None, map(_failed, self._rulings))
        return [
            *self._calibrating.failures(limit=self._limit),
            *("\n".join(failure_lines(each, limit=self._limit)) for each in failed),
        ]

    def _measure(self) -> list[str]:
        """Record every score and verdict; return what kept a score from being had."""
        # The closest marker comes first; read from top to bottom they were written the other way.
        markers = reversed(list(self._item.iter_markers("rageval_threshold")))
        thresholds, mistakes = [], []
        for marker in markers:
            try:
                thresholds.append(self._parsed(marker.args, marker.kwargs))
            except InputError as error:
                mistakes.append(str(error))
        if mistakes:
            # Before anything is asked: the test ends as an error whatever its other scores are.
            return mistakes
        problems = self._calibrating.measure()
        if not thresholds:
            return problems
        wanted = list(dict.fromkeys(map(_wanted, thresholds)))
        if self._session.settings.plan:
            for threshold in thresholds:
                self._calibrating.plan(threshold)
            planned = self._session.plan(self._parts, self._evalset(), wanted)
            return [*problems, *map(str, planned)]
        scores = self._session.score(self._parts, self._evalset(), wanted)
        for threshold in thresholds:
            try:
                # One of the family: all drops that this run tests for share the error rate.
                ruling = self._ruled(scores[_wanted(threshold)], threshold, tests=self._family)
            except RagevalError as error:
                problems.append(str(error))
                self._record(error_entry(threshold.spec, threshold, str(error), self._notes(threshold)))
            else:
                problems += [ruling.verdict.reason] if ruling.verdict.status == "error" else []
        return problems

    def _parsed(
        self, args: tuple[Any, ...], words: Mapping[str, Any], *, optional: bool = False
    ) -> Threshold:
        """A threshold whose bounds mean something, which is known before anything is asked."""
        threshold = Threshold.parse(args, words, optional=optional)
        threshold.check_scale(self._session.scale(_wanted(threshold)))
        return threshold

    def _ruled(self, score: Score | RagevalError, threshold: Threshold, *, tests: int) -> Ruling:
        """Hold a threshold against its score, and keep what the reports and the baseline need."""
        if isinstance(score, RagevalError):
            raise score
        ruling = rule(score, threshold, self._memory(threshold), alpha=threshold.alpha / max(1, tests))
        doubts = threshold.doubts(self._session.scale(_wanted(threshold)))
        verdict = replace(ruling.verdict, warnings=(*ruling.verdict.warnings, *doubts))
        ruling = replace(ruling, verdict=verdict)
        self._scores.append(score)
        entry = ruling_entry(ruling, self._notes(threshold))
        self._record(entry | self._calibrating.corrected(ruling.score, threshold))
        self._rulings.append(ruling)
        if threshold.max_drop is not None and self._session.settings.update_baseline:
            self._kept[threshold.name] = score, self._session.fingerprint(self._parts, _wanted(threshold))
        return ruling

    def _notes(self, threshold: Threshold) -> Notes:
        return self._session.definition(_wanted(threshold)).notes

    def _memory(self, threshold: Threshold) -> BaselineLookup:
        """What is known of a score from before; only `max_drop` asks for it."""
        settings = self._session.settings
        if threshold.max_drop is None or settings.update_baseline:
            return BaselineLookup({}, None, updating=bool(settings.update_baseline))
        nodeid, name = plain_nodeid(self._item.nodeid), threshold.name
        baseline = self._session.baseline
        if baseline.path is None:
            self._check_root()
        before = baseline.before(nodeid, name, self._session.scale(_wanted(threshold)))
        now = self._session.fingerprint(self._parts, _wanted(threshold))
        missing = ""
        if before is None:
            present = {plain_nodeid(each.nodeid) for each in self._item.session.items}
            missing = baseline.missing(nodeid, name, present)
        return BaselineLookup(now, before, required=settings.require_baseline, missing=missing)

    def _check_root(self) -> None:
        """Let pass that there is no baseline yet: one above the test is that of another root directory.

        Raises:
            InputError: there is one.
        """
        here = self._session.settings.baseline
        for folder in Path(self._item.path).parents:
            if folder != here.parent and (folder / here.name).is_file():
                message = (
                    f"There is no baseline in {here.parent}, the root directory, and there is one in {folder}.\n"
                    "Run pytest with that root directory (--rootdir), or name the baseline with --rageval-baseline; "
                    f"or write one here: {WRITE}"
                )
                raise InputError(message)

    def _score(self, spec: str, words: dict[str, Any]) -> Score:
        threshold = self._parsed((spec,), words, optional=True)
        if self._session.settings.plan:
            self._calibrating.plan(threshold)
            for error in self._session.plan(self._parts, self._evalset(), [_wanted(threshold)]):
                raise error
            return _sliced(self._planned(_wanted(threshold)), threshold)
        wanted = _wanted(threshold)
        score = self._session.score(self._parts, self._evalset(), [wanted])[wanted]
        if not threshold.bounds:
            asked = _sliced(score, threshold)
            self._scores.append(asked)
            entry = score_entry(asked, threshold, None, self._notes(threshold))
            self._record(entry | self._calibrating.corrected(asked, threshold))
            return asked
        # What a test asks for as it goes is in no family: nobody knows beforehand how much it will be.
        ruling = self._ruled(score, threshold, tests=1)
        if ruling.verdict.status == "error":
            raise StaleBaselineError(ruling.verdict.reason)
        if ruling.verdict.status == "fail":
            raise failure("\n".join(failure_lines(ruling, limit=self._limit)))
        return _sliced(score, threshold)

    def _planned(self, wanted: ScoreRequest) -> Score:
        """What stands for a score."""
        self.stood_in = True
        scale = self._session.scale(wanted) or UNIT
        repeats = self._session.settings.repeat - 1
        return PlannedScore.over(self._evalset().examples, wanted.spec, repeats, scale)

    def _agreement(self, compared: AgreementRequest) -> Agreement:
        if self._session.settings.plan:
            # What cannot be had in a run is not asked for there either.
            self._session.plan(self._parts, self._evalset(), compared.wanted)
            self.stood_in = True
            return PlannedAgreement.over(compared, len(self._evalset()))
        scores = self._session.score(self._parts, self._evalset(), compared.wanted)
        agreement = compared.agreement(scores)
        self._agreements.append(agreement.entry())
        return agreement

    def _evalset(self) -> EvalSet:
        marker = self._item.get_closest_marker(MARKER)
        form = 'pytest.mark.rageval_evalset("evals/support.jsonl")'
        if marker is None:
            message = f"This test has no eval set to score. Mark it, its class or its module with {form}."
            raise InputError(message)
        if len(marker.args) != 1:
            given = [*map(repr, marker.args), *(f"{k}={v!r}" for k, v in marker.kwargs.items())]
            message = f"{MARKER} wants one path, found ({', '.join(given)}). Write {form}."
            raise InputError(message)
        bases = (self._item.config.rootpath, Path(self._item.path).parent)
        return self._session.sources.evalset(marker.args[0], bases=bases, words=marker.kwargs)

    def _record(self, entry: dict[str, Any]) -> None:
        name = f"{entry_name(entry)}{''.join(f' {tag}={value}' for tag, value in entry['where'].items())}"
        # The worst slice of a threshold on all values of a tag is no threshold on that slice.
        key = f"{name} {entry['threshold']} {entry.get('by', {}).get('tag')}"
        if key not in self._entries and entry["mean"] is not None:
            self._item.user_properties.append((f"rageval {name}", entry["mean"]))
        self._entries[key] = entry

    def _shown(self, work: Callable[[], T]) -> T:
        """Do it, while the progress of it is shown."""
        try:
            return work()
        finally:
            self._finished()


def _failed(ruling: Ruling) -> Ruling | None:
    """The ruling, or the worst of its slices, that is out of its bounds: a slice in error does not hide it."""
    return next((each for each in (ruling, *ruling.slices) if each.verdict.status == "fail"), None)


def _wanted(threshold: Threshold) -> ScoreRequest:
    return ScoreRequest(threshold.spec, threshold.comparator, threshold.label, threshold.order or "rank")


def _sliced(score: Score | RagevalError, threshold: Threshold) -> Score:
    if isinstance(score, RagevalError):
        raise score
    return score.where(**threshold.where) if threshold.where else score
