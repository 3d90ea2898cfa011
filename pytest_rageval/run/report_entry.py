"""`ReportEntryBuilder`: builds the entry of one test in the report: scores with their evidence, and warnings."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import printable
from pytest_rageval.reports.build import entry_name, order_keys, sliced_name
from pytest_rageval.run.base import BaseSession, TestRecord
from pytest_rageval.run.inputs import MarkedTest

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
        self.scores: list[Score] = []
        self._entries: dict[str, Mapping[str, Any]] = {}
        self._evidence: dict[str, Evidence] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add_score(self, score: Score, threshold: Threshold) -> None:
        """Add a score, whose rankings the entry describes.

        Scores whose rankings are in random order come last: for each question, the first ranking with the largest
        cut-off is described.
        """
        self.scores.insert(len(self.scores) if threshold.order == "random" else 0, score)

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
        rankings = longest_retrievals(self.scores) if describe or explain else {}
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
        evaluated = {outcome.example.id for score in self.scores for outcome in score.outcomes}
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
