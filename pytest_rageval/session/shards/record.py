"""Records the outcomes of a test in one shard, and what they depend on, for `rageval merge`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

from pytest_rageval.calibration import Bounds, Calibration
from pytest_rageval.config import Settings
from pytest_rageval.conversation import conversation_text, history_of
from pytest_rageval.datatypes import EvalSet
from pytest_rageval.digests import digest
from pytest_rageval.errors import RagevalError
from pytest_rageval.evalsets.subsets import subset_of
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.evaluations.registry import SCORES, PluginScore
from pytest_rageval.evaluations.scoring import ScoreDef
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.results import Notes, error_entry, evalset_entry, score_entry
from pytest_rageval.scores import Outcome, Score, Spec
from pytest_rageval.session.base import request_of
from pytest_rageval.session.calibration_gate import corrected_by
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.session.session import Session
from pytest_rageval.session.shards.plain_data import Writer
from pytest_rageval.stats.intervals import UNIT

__all__ = ["FORMAT", "JUDGING", "ShardRecord", "shard_entry"]

FORMAT: Final = 1
"""The parts of a shard's report that only a merge reads."""

JUDGING: Final = (
    "comparator", "match_share", "judge_votes", "both_orders", "max_unscored", "require_baseline", "family",
    "inconclusive", "repeat", "sample", "seed", "cutoffs", "draws", "llm_reteval_draws",
)  # fmt: skip
"""The settings that verdicts depend on."""

MARKERS: Final = ("rageval_threshold", "rageval_calibration")

Runs = Sequence[Sequence[Outcome]] | RagevalError


def shard_entry(settings: Settings, **found: Any) -> dict[str, Any]:
    """The key `shard` of a shard's report."""
    index, number = settings.shard or (1, 1)
    return {
        "format": FORMAT,
        "index": index,
        "of": number,
        "package": version("pytest-rageval"),
        "settings": {name: getattr(settings, name) for name in JUDGING},
        **found,
    }


class ShardRecord:
    """One test in one shard; `whole` is its eval set, of which the shard has a part."""

    def __init__(
        self, session: Session, components: Components, test: MarkedTest, whole: EvalSet, warning: str = ""
    ) -> None:
        self._session = session
        self._components = components
        self._test = test
        self._index, self._number = session.settings.shard or (1, 1)
        self._sampled = subset_of(whole, sample=session.settings.sample)
        self._part = session.part_of(whole)
        self._warning = warning
        self._writer = Writer()
        self._scores: dict[tuple[ScoreRequest, bool], Mapping[str, Any]] = {}
        self._calibrations: list[Mapping[str, Any]] = []
        self._calls: list[Mapping[str, Any]] = []
        self._explained: set[str] = set()
        self._longest = 0
        self.problems: list[str] = []
        self.is_whole = False
        """Whether the evaluation came to its end, so that each score is there or its error."""

    def score(self, request: ScoreRequest, runs: Runs, *, compared: bool) -> None:
        """Keep the outcomes of a score, or its error; `compared` where a reference was timed beside."""
        found = {"request": list(request), "compared": compared, **self._definition(request)}
        try:
            fingerprint = self._session.fingerprint(self._components, request)
            text = self._session.pipelines.of(self._components).comparison(request.comparator).text
            prompts = self._session.prompts(self._components, request)
        except RagevalError as error:
            runs = runs if isinstance(runs, RagevalError) else error
        else:
            found |= {"fingerprint": self._writer.plain(fingerprint), "comparison": text, "prompts": prompts}
        if isinstance(runs, RagevalError):
            self.problems.append(str(runs))
            found["error"] = str(runs)
        else:
            found["runs"] = [self._writer.plain(list(run)) for run in runs]
            for outcome in runs[0]:
                ranking = outcome.evidence.ranking
                if ranking is not None:
                    self._longest = max(self._longest, ranking.k)
                    self._explained.add(outcome.example.id)
        self._scores[request, compared] = found

    def call(self, spec: str, keywords: Mapping[str, Any]) -> None:
        """Keep a call of `rageval.score`."""
        self.is_whole = True
        self._calls.append({"spec": spec, "keywords": self._writer.plain(keywords)})

    def calibrations(self, thresholds: Sequence[Threshold]) -> None:
        """Ask the judge about people's labels, in the first shard alone: they are no questions of the set."""
        option = self._session.settings.calibration
        corrected: dict[tuple[str | Any, str | None], set[str]] = {}
        for marker in reversed(self._test.markers("rageval_calibration")):
            bounds = Bounds.parse(marker.args, marker.kwargs)
            corrected[bounds.labels, bounds.comparator] = {"answers", "pairs", "passages"}
        for each in thresholds if option is not None else ():
            kind = corrected_by(self._session, each)
            if kind is not None:
                # As in `CalibrationGate.by_option`: retrieved passages have been judged.
                corrected.setdefault((option, each.comparator), set()).update({kind} - {"passages"})
        for (source, comparator), kinds in corrected.items() if self._index == 1 else ():
            labels = self._session.sources.labels(source, bases=self._test.bases)
            run = self._session.pipelines.of(self._components)
            found = {
                "source": str(source),
                "comparator": comparator,
                "comparison": run.comparison(comparator).text,
            }
            try:
                calibration = (
                    self._session.calibrate(self._components, labels, comparator)
                    if labels.kind in kinds
                    else Calibration(labels, ())
                )
            except RagevalError as error:
                self.problems.append(str(error))
                self._calibrations.append({**found, "error": str(error)})
            else:
                outcomes = self._writer.plain(list(calibration.outcomes))
                labelled = self._writer.plain(calibration.labels)
                self._calibrations.append({**found, "labels": labelled, "outcomes": outcomes})

    def entry(self, threshold: Threshold, runs: Runs, notes: Notes) -> dict[str, Any]:
        """The entry of a score for the report of this shard: of its questions, without a verdict."""
        judged = f"shard {self._index}/{self._number}: judged after the merge"
        if isinstance(runs, RagevalError):
            return error_entry(threshold.spec, threshold, str(runs), notes)
        outcomes, *repeats = runs
        definition = self._session.definition(request_of(threshold))
        try:
            score = Score(
                threshold.spec,
                outcomes,
                seed=self._session.settings.seed,
                repeats=repeats,
                scale=definition.scale or UNIT,
                statistic=definition.statistic,
            )
            score = score.where(**threshold.where) if threshold.where else score
        except RagevalError:
            # The shard has no question, or none of the slice.
            return {**error_entry(threshold.spec, threshold, judged, notes), "verdict": None}
        entry = score_entry(score, threshold, None, notes, spool=self._session.spool)
        return {**entry, "reason": judged}

    def plain(self, *, shares_alpha: bool) -> dict[str, Any]:
        """The recorded test as plain data."""
        places = {example.id: place for place, example in enumerate(self._sampled.examples)}
        entry = evalset_entry(self._sampled)
        if self._warning:
            entry = {**entry, "warnings": [*entry.get("warnings", ()), self._warning]}
        found = {
            "file": self._test.path.relative_to(self._test.root).as_posix()
            if self._test.path.is_relative_to(self._test.root)
            else self._test.path.name,
            "evalset": entry,
            "places": [places[example.id] for example in self._part.examples],
            "examples": self._writer.plain(list(self._part.examples)),
            "markers": {
                name: [
                    {"args": self._writer.plain(list(each.args)), "kwargs": self._writer.plain(each.kwargs)}
                    for each in self._test.markers(name)
                ]
                for name in MARKERS
            },
            "shares_alpha": shares_alpha,
            "scores": list(self._scores.values()),
            "calibrations": self._calibrations,
            "calls": self._calls,
            "served": {model: sorted(names) for model, names in self._session.served.items()},
        }
        # An invalid retriever has been reported for each score.
        with suppress(RagevalError):
            found["received"] = sorted(self._session.received(self._components))
            found["verdicts"] = self._verdicts()
            found["rankings"] = self._rankings()
        return {**found, "table": self._writer.table}

    def _rankings(self) -> list[list[Any]]:
        """Return the rankings of examples whose scores do not contain them, each with the example's index."""
        run = self._session.pipelines.of(self._components)
        return [
            [place, self._writer.plain(ranking)]
            for place, example in enumerate(self._part.examples)
            if example.id not in self._explained
            and (ranking := run.known_ranking(example, self._longest)) is not None
        ]

    def _verdicts(self) -> list[list[Any]]:
        """The judge's verdicts on these questions: a digest of what was judged, the example's place, the verdict."""
        places = {example.full_question: place for place, example in enumerate(self._part.examples)}
        judged = self._session.pipelines.of(self._components).judged
        return [
            [digest([*map(str, what), conversation_text(history_of(what[0]))])[:16], places[what[0]], verdict]
            for what, verdict in judged.items()
            if what[0] in places
        ]

    def _definition(self, request: ScoreRequest) -> dict[str, Any]:
        """Return the definition of a plugin's score, since a merge loads no plugins; empty for a built-in score."""
        name = Spec.parse(request.spec).measure
        if name in SCORES:
            return {}
        score: ScoreDef = self._session.definition(request)
        return {
            "definition": {
                "name": name,
                "asks": None if score.asks is None else sorted(score.asks),
                "scale": self._writer.plain(score.scale),
                "corrected_by": score.corrected_by,
                "pooled": isinstance(score.evaluate, PluginScore),
            }
        }
