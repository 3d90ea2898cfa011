"""`ReportEntryBuilder`: builds the entry of one test in the report: scores with their evidence, and warnings."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import printable
from pytest_rageval.reports.build import entry_name, order_keys, sliced_name
from pytest_rageval.run.base import BaseSession, TestRecord
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.scores.gold_matching import GoldMatch

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import Comparison
    from pytest_rageval.reports.evidence import Retrieval

stratify_answers: Final = Lazy("scores.sufficiency", "stratify_answers")
common_entry: Final = Lazy("reports.notes", "common_entry")
common_items: Final = Lazy("reports.evidence", "common_items")
evaluated_questions: Final = Lazy("reports.evidence", "evaluated_questions")
explained_examples: Final = Lazy("reports.evidence", "explained_examples")
retrieval_entry: Final = Lazy("reports.evidence", "retrieval_entry")
longest_retrievals: Final = Lazy("reports.evidence", "longest_retrievals")
retrieval_from_ranking: Final = Lazy("reports.evidence", "retrieval_from_ranking")

MIN_UNIFORM_VERDICTS: Final = 30
"""From this number of verdicts on, equal verdicts are unlikely to be chance."""


class Evidence(NamedTuple):
    """The evidence behind a score's entry in the report.

    Attributes:
        score: the score, of the slice of the entry.
        comparison: the comparison with the baseline; None if there is none.
        request: the request for the score.
    """

    score: Score
    comparison: "Comparison | None"
    request: ScoreRequest


class ReportEntryBuilder:
    """Collects the scores of a test, and builds its entry in the report. It is true if it has a score's entry."""

    def __init__(self, session: BaseSession, record: TestRecord, test: MarkedTest) -> None:
        self._session = session
        self._record = record
        self._test = test
        self._scores: list[Score] = []
        self._entries: dict[str, Mapping[str, Any]] = {}
        self._evidence: dict[str, Evidence] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add_score(self, score: Score, threshold: Threshold) -> None:
        """Add a score, whose rankings the entry describes.

        Scores whose rankings are in random order come last: for each question, the first ranking with the largest
        cut-off is described.
        """
        self._scores.insert(len(self._scores) if threshold.order == "random" else 0, score)

    def add_entry(self, entry: Mapping[str, Any], evidence: Evidence | None = None) -> None:
        """Add the entry of a score; it replaces an earlier entry of the same score and threshold."""
        name = f"{entry_name(entry)}{''.join(f' {tag}={value}' for tag, value in entry['where'].items())}"
        # With `by`, the entry is that of the worst slice. A threshold on that slice has a different key.
        key = f"{name} {entry['threshold']} {entry.get('by', {}).get('tag')}"
        if key not in self._entries and entry["mean"] is not None:
            # xdist cannot send a lone surrogate, and XML cannot contain control characters.
            self._test.record_property(printable(f"rageval {name}"), entry["mean"])
        self._entries[key] = entry
        if evidence is not None:
            self._evidence[key] = evidence

    def build(self, *, describe: bool = False, explain: bool = False) -> dict[str, Any]:
        self._add_strata()
        scores = [self._add_common(entry) for entry in self._entries.values()]
        results: dict[str, Any] = {"scores": scores}
        rankings = longest_retrievals(self._scores) if describe or explain else {}
        if describe and rankings:
            results["retrieval"] = retrieval_entry(rankings.values(), self._record.retriever)
        return {**results, **self._explained(rankings)} if explain else results

    def _add_strata(self) -> None:
        """Add to each entry of `sufficient` the key `strata`: verdicts on answers by the verdict on their context."""
        for key, context in self._evidence.items():
            spec = Spec.parse(context.score.spec)
            if spec.name != "sufficient" or "early_stop" in self._entries[key]:
                continue
            strata_entries = []
            for other_key, answers in self._evidence.items():
                entry, k = self._entries[other_key], Spec.parse(answers.score.spec).k
                same_context = k == spec.k and context.score.slice in ({}, answers.score.slice)
                is_complete = "early_stop" not in entry
                if (
                    same_context
                    and is_complete
                    and self._session.definition(answers.request).has_answer_verdicts
                ):
                    counts = stratify_answers(context.score.outcomes, answers.score.outcomes)
                    strata_entries.append({"score": sliced_name(entry), **counts})
            if strata_entries:
                self._entries[key] = {**self._entries[key], "strata": strata_entries}

    def _explained(self, rankings: "Mapping[str, Retrieval]") -> dict[str, Any]:
        scores: list[Mapping[str, Any]] = []
        prompts: dict[str, str] = {}
        for key, entry in zip(self._entries, map(self._add_common, self._entries.values()), strict=True):
            if key not in self._evidence:
                scores.append(entry)
                continue
            score, comparison, request = self._evidence[key]
            examples = explained_examples(
                entry["examples"], score, comparison, rankings, spool=self._session.spool
            )
            depends: dict[str, Any] = {}
            # A plugin's score may name a model that is not configured, and send no request to it.
            with suppress(RagevalError):
                known = self._record.dependencies_of(request)
                prompts |= known.prompts
                depends = {"fingerprint": known.fingerprint, "prompts": list(known.prompts)}
            scores.append(
                {**entry, "examples": examples, **{name: value for name, value in depends.items() if value}}
            )
        evaluated = {outcome.example.id for score in self._scores for outcome in score.outcomes}
        evaluated_examples = [item for item in self._record.examples if item.id in evaluated]
        # An unscored example, for instance without a verdict of the judge, has a ranking too.
        largest_k = max((item.ranking.k for item in rankings.values()), default=0)
        unscored = {
            item.id: retrieval_from_ranking(ranking)
            for item in evaluated_examples
            if item.id not in rankings and (ranking := self._record.ranking_of(item, largest_k)) is not None
        }
        questions = evaluated_questions(
            evaluated_examples,
            {**unscored, **rankings},
            match_share=self._session.settings.match_share,
            spool=self._session.spool,
        )
        fingerprint = common_items(entry["fingerprint"] for entry in scores if "fingerprint" in entry)
        optional = {"questions": questions, "prompts": prompts, "fingerprint": fingerprint}
        return {"scores": scores, **{name: value for name, value in optional.items() if value}}

    def _add_common(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an entry with both means over the common questions, if the test has the score's `ScoreDef.pair`."""
        if entry["mean"] is None or "early_stop" in entry:
            return entry
        spec, pair = (
            Spec.parse(entry["spec"]),
            self._session.definition(ScoreRequest(entry["spec"])).paired_score,
        )
        name = sliced_name({**entry, "spec": f"{pair}@{spec.k}"})
        other = next((item for item in self._entries.values() if sliced_name(item) == name), None)
        if not pair or other is None or other["mean"] is None or "early_stop" in other:
            return entry
        return order_keys({**entry, **common_entry(entry, name, other)})

    def served(self, results: Iterable[ThresholdResult]) -> dict[str, list[str]]:
        """Return the names that servers reported, by model, of the models that this test's thresholds depend on."""
        served = self._record.served
        if not served:
            return {}
        requests = {result.threshold.request for result in results}
        fingerprints = [self._record.dependencies_of(request).fingerprint for request in requests]
        values = {str(value) for fingerprint in fingerprints for value in fingerprint.values()}
        # A fingerprint contains "model at address", or "model, model at address". A key of `served` is the model, or
        # "model at address" if two servers have a model of the same name.
        models = values | {name for value in values for name in value.rpartition(" at ")[0].split(", ")}
        return {model: names for model, names in served.items() if model in models}

    def warnings(
        self, results: Collection[ThresholdResult], served: Mapping[str, list[str]]
    ) -> Iterator[str]:
        """Yield the warnings about the test as a whole; warnings about a score are in its own entry."""
        comparisons = [result.comparison for result in results if result.comparison]
        for changes in dict.fromkeys(str(result.changes) for result in results if result.changes):
            yield f"questions since the baseline: {changes}; they are not compared"
        if self._scores:
            changed_questions = {
                change.outcome.example.full_question
                for comparison in comparisons
                for change in comparison.changed_pairs
            }
            if self._record.verdicts and (
                text := _uniform_judge_warning(
                    self._record.verdicts,
                    self._scores,
                    changed_questions,
                    match_share=self._session.settings.match_share,
                )
            ):
                yield text
        if comparisons:
            own_k_before = self._session.baseline.tests[self._test.nodeid].get("own_k")
            own_k = self._record.own_k
            if own_k_before not in {None, own_k}:
                yield (
                    f"the retriever was configured to return {own_k_before} documents in the baseline, and "
                    f"{'no fixed number' if own_k is None else own_k} now. Scores do not show it where they ask for "
                    "as many as their cut-off (@k); --rageval k=own measures it as it ships. If it is meant, write a "
                    "new baseline"
                )
        if served and comparisons:
            before = self._session.baseline.tests[self._test.nodeid].get("served", {})
            changed = [
                f"{model} was served as {', '.join(then)} in the baseline and is as {', '.join(now)} now"
                for model, now in served.items()
                if (then := before.get(model)) and not {*then} & {*now}
            ]
            if changed:
                yield f"{'; '.join(changed)}: this may be the cause of a drop, which --rageval canary=20 tests"
        if any(result.early for result in results) and self._record.lacks_fingerprint:
            yield (
                "--rageval early_stop=true evaluates questions with unchanged passages too: a change of your own "
                f"{' and '.join(self._record.own)} cannot be detected. Give it an attribute fingerprint, "
                "a text that you change with its code"
            )


def _uniform_judge_warning(
    verdicts: Sequence[tuple[str, float]],
    scores: Iterable[Score],
    moved: Collection[str],
    *,
    match_share: float,
) -> str:
    """Return a warning if the judge gave the same verdict on everything; otherwise an empty text.

    There is no warning if all rankings have the same recall and no question moved, because then the verdicts may be
    right. `verdicts` have their questions. `moved` are the questions of which a score differs from its baseline.
    """
    scores = list(scores)
    questions = {outcome.example.full_question for score in scores for outcome in score.outcomes}
    count, values = 0, set[float]()
    for question, verdict in verdicts:
        if question in questions:
            count += 1
            values.add(verdict)
    if count < MIN_UNIFORM_VERDICTS or len(values) > 1 or not values <= {0.0, 1.0}:
        return ""
    judged = questions.intersection(question for question, _ in verdicts)
    if judged.isdisjoint(moved):
        outcomes = (outcome for score in scores for outcome in score.outcomes)
        recalls = _recalls(
            (outcome for outcome in outcomes if outcome.example.full_question in judged), match_share
        )
        first = next(recalls, None)
        if all(recall == first for recall in recalls):
            return ""
    word = "yes" if values.pop() else "no"
    return (
        f"the judge said {word} {count} times and never anything else, although the rankings differ in what "
        "they find: it may not tell right from wrong. Compare it with human labels (rageval_calibration), or choose "
        "another judge with --rageval-judge-model or --rageval comparator=EXPRESSION"
    )


def _recalls(outcomes: Iterable[Outcome], match_share: float) -> Iterator[float]:
    """Yield the recall of each ranking once; several scores may have the same ranking."""
    # Hashes, since 100,000 pairs would take 12 MB more.
    seen: set[int] = set()
    for outcome in outcomes:
        example, ranking = outcome.example, outcome.evidence.ranking
        if ranking is None or (pair := hash((id(example), id(ranking)))) in seen:
            continue
        seen.add(pair)
        if outcome.evidence.recall is not None:
            yield outcome.evidence.recall
        elif relevant := example.relevant:
            labels = GoldMatch(ranking, example.gold, match_share).labels
            yield len([label for label in labels if label > 0]) / len(relevant)
