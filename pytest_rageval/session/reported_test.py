"""The entry of one test in the report: its scores with their evidence, and its warnings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.datatypes import EvalSet, Example
from pytest_rageval.errors import RagevalError
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.evaluations.scoring import uniform_judge
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.threshold_results import ThresholdResult
from pytest_rageval.lazy import Lazy
from pytest_rageval.printable import printable
from pytest_rageval.reports.results import entry_name, order_keys, sliced_name
from pytest_rageval.scores import Score, Spec
from pytest_rageval.session.base import request_of
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.session.session import Session

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import Comparison
    from pytest_rageval.reports.retrieval import Retrieval

__all__ = ["Evidence", "ReportedTest"]

strata: Final = Lazy("evaluations.sufficiency", "strata")
common_entry: Final = Lazy("reports.notes", "common_entry")
common_items: Final = Lazy("reports.evidence", "common_items")
evaluated_questions: Final = Lazy("reports.evidence", "evaluated_questions")
explained_examples: Final = Lazy("reports.evidence", "explained_examples")
longest_retrievals: Final = Lazy("reports.retrieval", "longest_retrievals")
retrieval_entry: Final = Lazy("reports.retrieval", "retrieval_entry")
retrieval_from_ranking: Final = Lazy("reports.retrieval", "retrieval_from_ranking")


class Evidence(NamedTuple):
    """The evidence behind an entry of the report."""

    score: Score
    comparison: "Comparison | None"
    request: ScoreRequest


class ReportedTest:
    """The scores of a test for its entry in the report; true where there is any.

    Args:
        session: that the test runs in.
        components: the user's retriever, generator and judge.
        test: the test and its markers.
    """

    def __init__(self, session: Session, components: Components, test: MarkedTest) -> None:
        self._session = session
        self._components = components
        self._test = test
        self._scores: list[Score] = []
        self._entries: dict[str, Mapping[str, Any]] = {}
        self._evidence: dict[str, Evidence] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, score: Score, threshold: Threshold) -> None:
        """Note a score; those whose rankings are in another order than the retriever's come last."""
        self._scores.insert(len(self._scores) if threshold.order == "random" else 0, score)

    def record(self, entry: Mapping[str, Any], evidence: Evidence | None = None) -> None:
        """Keep an entry for the report; a later one of the same score and threshold takes its place."""
        name = f"{entry_name(entry)}{''.join(f' {tag}={value}' for tag, value in entry['where'].items())}"
        # With `by` the entry is that of the worst slice: it is another threshold than one on that slice.
        key = f"{name} {entry['threshold']} {entry.get('by', {}).get('tag')}"
        if key not in self._entries and entry["mean"] is not None:
            # xdist sends no half of a surrogate pair, and XML has no control characters.
            self._test.record_property(printable(f"rageval {name}"), entry["mean"])
        self._entries[key] = entry
        if evidence is not None:
            self._evidence[key] = evidence

    def scores(
        self, evalset: Callable[[], EvalSet], *, describe: bool = False, explain: bool = False
    ) -> dict[str, Any]:
        """The keys `scores` and, with `describe` and `explain`, what the retrievals took and all of every question."""
        self._stratify()
        results: dict[str, Any] = {"scores": [self._with_common(entry) for entry in self._entries.values()]}
        found = longest_retrievals(self._scores) if describe or explain else {}
        if describe and (entry := retrieval_entry(found.values())):
            results["retrieval"] = entry
        return {**results, **self._explained(evalset, found)} if explain else results

    def _stratify(self) -> None:
        """Add to each score of contexts how the verdicts on answers from these are spread over its own."""
        for key, context in self._evidence.items():
            spec = Spec.parse(context.score.spec)
            if spec.name != "sufficient" or "early_stop" in self._entries[key]:
                continue
            found = []
            for other, answers in self._evidence.items():
                entry, k = self._entries[other], Spec.parse(answers.score.spec).k
                alike = k == spec.k and context.score.slice in ({}, answers.score.slice)
                whole = "early_stop" not in entry
                if alike and whole and self._session.definition(answers.request).verdicts:
                    of_context = strata(context.score.outcomes, answers.score.outcomes)
                    found.append({"score": sliced_name(entry), **of_context})
            if found:
                self._entries[key] = {**self._entries[key], "strata": found}

    def _explained(self, evalset: Callable[[], EvalSet], found: "Mapping[str, Retrieval]") -> dict[str, Any]:
        """The questions of the scores, with all that was retrieved, and the scores with their evidence."""
        scores: list[Mapping[str, Any]] = []
        prompts: dict[str, str] = {}
        for key, entry in zip(self._entries, map(self._with_common, self._entries.values()), strict=True):
            if key not in self._evidence:
                scores.append(entry)
                continue
            score, comparison, request = self._evidence[key]
            examples = explained_examples(
                entry["examples"], score, comparison, found, spool=self._session.spool
            )
            fingerprint, templates = self._dependencies(request)
            prompts |= templates
            depends = {"fingerprint": fingerprint, "prompts": list(templates)}
            scores.append(
                {**entry, "examples": examples, **{name: value for name, value in depends.items() if value}}
            )
        evaluated = {outcome.example.id for score in self._scores for outcome in score.outcomes}
        asked = [each for each in evalset() if each.id in evaluated] if evaluated else []
        questions = evaluated_questions(
            asked,
            {**self._unscored(asked, found), **found},
            match_share=self._session.settings.match_share,
            spool=self._session.spool,
        )
        fingerprint = common_items(entry["fingerprint"] for entry in scores if "fingerprint" in entry)
        optional = {"questions": questions, "prompts": prompts, "fingerprint": fingerprint}
        return {"scores": scores, **{name: value for name, value in optional.items() if value}}

    def _unscored(
        self, examples: Iterable[Example], found: "Mapping[str, Retrieval]"
    ) -> "dict[str, Retrieval]":
        """Return the rankings of unscored examples, for instance those without a verdict of the judge."""
        pipeline = self._session.pipelines.of(self._components)
        longest = max((each.ranking.k for each in found.values()), default=0)
        rankings = (
            (each.id, pipeline.known_ranking(each, longest)) for each in examples if each.id not in found
        )
        return {name: retrieval_from_ranking(ranking) for name, ranking in rankings if ranking is not None}

    def _dependencies(self, request: ScoreRequest) -> tuple[dict[str, Any], dict[str, str]]:
        """The fingerprint of a score and its prompts; empty where it names a model that is not there.

        The requests of a plugin's score are not known, so it may send none of those it names.
        """
        try:
            fingerprint = self._session.fingerprint(self._components, request)
            return fingerprint, self._session.prompts(self._components, request)
        except RagevalError:
            return {}, {}

    def _with_common(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """The entry and, where the test has the score that it is read beside, both over their common questions."""
        if entry["mean"] is None or "early_stop" in entry:
            return entry
        spec, pair = Spec.parse(entry["spec"]), self._session.definition(ScoreRequest(entry["spec"])).pair
        name = sliced_name({**entry, "spec": f"{pair}@{spec.k}"})
        other = next((each for each in self._entries.values() if sliced_name(each) == name), None)
        if not pair or other is None or other["mean"] is None or "early_stop" in other:
            return entry
        return order_keys({**entry, **common_entry(entry, name, other)})

    def served(self, rulings: Iterable[ThresholdResult]) -> dict[str, list[str]]:
        """The names that servers gave the models of this test's scores, by model: those of other tests are left out."""
        found = {model: sorted(names) for model, names in self._session.served.items() if names}
        if not found:
            return {}
        requests = {request_of(ruling.threshold) for ruling in rulings}
        prints = [self._session.fingerprint(self._components, request) for request in requests]
        # A model is named with its server where another server has one of the same name.
        values = {str(value) for each in prints for value in each.values()}
        asked = values | {name for value in values for name in value.rpartition(" at ")[0].split(", ")}
        return {model: names for model, names in found.items() if model in asked}

    def warnings(
        self, rulings: Collection[ThresholdResult], served: Mapping[str, Sequence[str]]
    ) -> Iterator[str]:
        """Yield the warnings of the test, other than those on single scores."""
        comparisons = [one.comparison for one in rulings if one.comparison]
        if self._scores:
            moved = {
                change.outcome.example.full_question
                for comparison in comparisons
                for change in comparison.moved
            }
            # A judge that gave one verdict for everything; empty without one.
            if text := uniform_judge(self._session.pipelines.of(self._components), self._scores, moved):
                yield text
        if served and comparisons:
            before = self._session.baseline.tests[self._test.nodeid].get("served", {})
            changed = [
                f"{model} was served as {', '.join(then)} in the baseline and is as {', '.join(now)} now"
                for model, now in served.items()
                if (then := before.get(model)) and not {*then} & {*now}
            ]
            if changed:
                yield f"{'; '.join(changed)}: a drop may be its doing, which --rageval-canary 20 tests"
        if any(one.early for one in rulings) and self._components.undescribed:
            yield (
                "--rageval-early-stop asks about questions whose passages did not change too: your own "
                f"{' and '.join(self._components.own)} may have changed unseen. Give it an attribute fingerprint, a "
                "text that you change with what it does"
            )
