"""A threshold as the marker declares it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.scores import CHANGING, Relevance, score_name
from pytest_rageval.stats.intervals import UNIT
from pytest_rageval.stats.sequential import anchor_alpha

__all__ = ["BOUNDS", "Threshold"]

ALPHA: Final = 0.05

DROPS: Final = ("max_drop", "max_total_drop")

BOUNDS: Final = ("min", "max", *DROPS, "max_lost", "max_ratio")  # the keywords that can fail a test

LARGEST_DROP: Final = 0.5
LARGE_DROP: Final = 0.2  # above these shares of the scale's width a `max_drop` is a mistake, or probably one


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bounds on the mean of a score; None for no bound.

    Attributes:
        spec: the score's name, such as "recall@5".
        min: lowest mean that passes.
        max: highest mean that passes.
        max_drop: largest allowed drop of the mean from the baseline's, over the same examples.
        max_total_drop: largest allowed drop of the mean from the anchor's, which updates of the baseline do not change.
        max_lost: largest number of examples that score less than in the baseline, without a significance test.
        max_ratio: of a time, the largest multiple of the time of the reference retriever, which is timed beside it.
        where: tags that limit it to a slice, such as `{"topic": "billing"}`.
        by: a tag; the threshold holds for the slice of each of its values.
        alpha: probability that the `max_drop` thresholds of a run fail though nothing got worse, in (0, 0.5]; and
            that those with `max_total_drop` do, in all runs that compare with one anchor.
        burden: what must be significant for `max_drop` and `max_total_drop` to fail: "drop", any drop; or
            "beyond", a drop of more than is allowed.
        strict: whether `max_drop` passes only where a larger drop is excluded.
        inconclusive: whether a drop that is larger than allowed and not significant is a "warn"-ing or is to "fail";
            None for the option `--rageval-inconclusive`.
        cluster: examples that share a value of this tag, or "gold.source", gain and lose together; None where
            they are independent.
        tolerance: an example is lost to `max_lost` if it scores less by more than this, at least 0.
        comparator: how two answers are compared, such as "judge or em"; None for the default comparator.
        label: how the answer from one passage is compared in eRAG; None for the comparator.
        order: of the passages in the prompt of Rel'-recall: "random" or "rank"; None is "rank".
        temperature: of the generator; None for that of the settings.
        draws: how often an answer is drawn; in LLM-retEval the one from the gold passages; None as above.
        relevant: which passages are relevant in Rel'-recall, such as "contains" or "judge@20"; None is "gold".
        ignored: keywords that were given and change nothing about the score; no keyword of the marker.
    """

    spec: str
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    max_total_drop: float | None = None
    max_lost: int | None = None
    max_ratio: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    alpha: float = ALPHA
    burden: str = "drop"
    strict: bool = False
    inconclusive: str | None = None
    cluster: str | None = None
    tolerance: float = 0.0
    comparator: str | None = None
    label: str | None = None
    order: str | None = None
    temperature: float | None = None
    draws: int | None = None
    relevant: str | None = None
    ignored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def keywords(cls) -> tuple[str, ...]:
        """The keywords of the marker."""
        return tuple(f.name for f in fields(cls) if f.name not in {"spec", "ignored"})

    @property
    def name(self) -> str:
        """The score with the keywords that change it; slices and bounds are not part of it."""
        return score_name(self.spec, {keyword: getattr(self, keyword) for keyword in CHANGING})

    @property
    def bounds(self) -> bool:
        """True if the threshold has a bound."""
        return any(getattr(self, keyword) is not None for keyword in BOUNDS)

    @property
    def compares(self) -> bool:
        """True if a bound compares with the baseline or its anchor."""
        return not (self.max_drop is None and self.max_total_drop is None and self.max_lost is None)

    @property
    def may_stop_early(self) -> bool:
        """True if `max_drop` of the whole set is the only bound, so that the evaluation may stop early."""
        others = (self.min, self.max, self.max_total_drop, self.max_lost, self.by, self.cluster)
        return self.shares_alpha and not self.where and all(each is None for each in others)

    @property
    def shares_alpha(self) -> bool:
        """True if the threshold shares the error rate `alpha` with the other tests of the run."""
        return (self.max_drop is not None and not self.strict) or self.max_total_drop is not None

    def without(self, keywords: Collection[str]) -> "Threshold":
        """The threshold in which these keywords are noted as ignored."""
        ignored: dict[str, Any] = {keyword: getattr(self, keyword) for keyword in sorted(keywords)}
        without: dict[str, Any] = dict.fromkeys(ignored)
        return replace(self, **without, ignored=ignored) if ignored else self

    def since_anchor(self, updates: int) -> "Threshold":
        """The bound on the total drop as a `max_drop` below an anchor that was pinned so many updates ago."""
        return replace(
            self,
            min=None,
            max=None,
            max_drop=self.max_total_drop or 0.0,
            max_total_drop=None,
            max_lost=None,
            max_ratio=None,
            strict=False,
            alpha=anchor_alpha(self.alpha, updates + 1),
        )

    @classmethod
    def parse(
        cls, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, optional: bool = False
    ) -> "Threshold":
        """Read the arguments of the marker; or of `rageval.score`, where bounds are optional.

        Raises:
            InputError: a keyword is unknown or has a wrong value, or there is no bound.
        """
        caller = "rageval.score" if optional else "rageval_threshold"
        form = f'{caller}("recall@5", min=0.75)'
        unknown = sorted(set(kwargs) - set(cls.keywords()))
        if unknown:
            raise InputError(
                f"{caller} has no keyword {', '.join(map(repr, unknown))}. Allowed: {', '.join(cls.keywords())}."
            )
        if len(args) != 1 or not isinstance(args[0], str):
            raise InputError(f"{caller} needs the name of one score, found {args!r}. Write {form}.")
        spec = args[0]
        keywords = {keyword: value for keyword, value in kwargs.items() if value is not None}
        call = f"{caller}({spec!r})"
        if keywords.keys().isdisjoint(BOUNDS) and ("by" in keywords or not optional):
            raise InputError(
                f"{call} has no bound: give {', '.join(BOUNDS[:-1])} or {BOUNDS[-1]}, as in {form}."
            )
        if problem := next(_problems(keywords), ""):
            raise InputError(f"{call}: {problem}")
        return cls(spec, **(keywords | {"where": dict(keywords.get("where", {}))}))

    def check_scale(
        self, scale: tuple[float, float] | None, *, is_cost: bool = False, is_time: bool = False
    ) -> None:
        """Refuse bounds that every score on the scale (None: not declared) satisfies, or none does.

        A lower cost is better, so a drop is not a loss. Only times are compared with those of a reference.

        Raises:
            InputError: `min` or `max` is not on the scale, or an allowed drop exceeds half of its width, as a
                percentage does that was meant as a share; or `strict` has no scale, without which no drop
                can be excluded: an unseen example may lose any amount.
        """
        if self.max_ratio is not None and not is_time:
            raise InputError(
                f"{self.spec}: max_ratio compares the times of two retrievers, and this score is not a time.\n"
                "Give it to latency.p50 or latency.p95; here give min, max or max_drop."
            )
        if is_time and self.compares:
            keyword = next(keyword for keyword in (*DROPS, "max_lost") if getattr(self, keyword) is not None)
            raise InputError(
                f"{self.spec}: {keyword} compares with the baseline, and times are not comparable between machines; "
                "the baseline has none.\n"
                "Give max, such as max=0.5 seconds; or max_ratio=1.2, against a retriever timed in the same run."
            )
        if is_cost and self.compares:
            keyword = next(keyword for keyword in (*DROPS, "max_lost") if getattr(self, keyword) is not None)
            raise InputError(
                f"{self.spec}: {keyword} bounds a loss, and less of this score is better.\nGive max, such as max=3."
            )
        if scale is None:
            if self.strict:
                raise InputError(
                    f"{self.spec}: strict=True excludes a drop, and the scale of this score is not declared.\n"
                    "Its plugin declares it by registry.add_score(…, scale=(lowest, highest)); or leave strict out."
                )
            return
        low, high = scale
        for keyword, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and not low <= bound <= high:
                remedy = _percentage(keyword, bound, scale, 2) or f"Give {keyword} between them"
                raise InputError(
                    f"{self.spec}: {keyword}={bound:g} is not on the score's scale, "
                    f"which goes from {low:g} to {high:g}.\n"
                    f"{remedy}."
                )
        width = high - low
        for keyword, drop in self._drops():
            if drop > LARGEST_DROP * width:
                remedy = _percentage(keyword, drop, scale, 1)
                remedy = remedy or f"Give a {keyword} that would matter, such as {0.02 * width:g}"
                raise InputError(
                    f"{self.spec}: {keyword}={drop:g} allows the mean to lose more than half of its scale, which "
                    f"goes from {low:g} to {high:g}.\n{remedy}."
                )

    def doubts(self, scale: tuple[float, float] | None) -> tuple[str, ...]:
        """Warnings about bounds that are probably not meant; `scale` as for `check_scale`."""
        if scale is None:
            return ()
        shares = ((keyword, drop, drop / (scale[1] - scale[0])) for keyword, drop in self._drops())
        return tuple(
            f"{keyword}={drop:g} lets a retriever lose {share:.0%} of the scale and pass; is that intended?"
            for keyword, drop, share in shares
            if share > LARGE_DROP
        )

    def _drops(self) -> list[tuple[str, float]]:
        """The drops that are bounded, with their keywords."""
        drops = ((keyword, getattr(self, keyword)) for keyword in DROPS)
        return [(keyword, drop) for keyword, drop in drops if drop is not None]


def _percentage(keyword: str, bound: float, scale: tuple[float, float], lowest: float) -> str:
    """The remedy for a percentage that was meant as a share, as 85 for 0.85; empty for other numbers."""
    is_percentage = scale == UNIT and lowest <= bound <= 100  # noqa: PLR2004 - per cent
    return f"For {bound:g}% write {keyword}={bound / 100:g}" if is_percentage else ""


def _is_number(value: Any) -> bool:
    """Return True for a number that is neither NaN nor a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_relevance(value: Any) -> bool:
    try:
        Relevance.parse(value)
    except ValueError:
        return False
    return True


VALUES: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    *((keyword, _is_number, "is not a number") for keyword in ("min", "max", *DROPS)),
    *(
        (
            keyword,
            lambda drop: drop >= 0,
            f"is below 0.\nIt is how far the mean may fall below the {below}, such as {keyword}=0.02",
        )
        for keyword, below in zip(DROPS, ("baseline", "anchor"), strict=True)
    ),
    # Above, a false alarm is likelier than not.
    ("alpha", lambda alpha: _is_number(alpha) and 0 < alpha <= 0.5, "must be above 0 and at most 0.5"),  # noqa: PLR2004
    ("strict", lambda strict: isinstance(strict, bool), "is neither True nor False"),
    ("burden", ("drop", "beyond").__contains__, "is neither 'drop' nor 'beyond'"),
    ("inconclusive", ("warn", "fail").__contains__, "is neither 'warn' nor 'fail'"),
    (
        "max_ratio",
        lambda ratio: _is_number(ratio) and 0 < ratio < inf,
        "is not a number above 0, such as max_ratio=1.2",
    ),
    ("cluster", _is_text, 'is not the name of a tag, such as cluster="document"'),
    (
        "max_lost",
        lambda number: type(number) is int and number >= 0,
        "is not a number of examples, such as max_lost=0",
    ),
    ("tolerance", lambda number: _is_number(number) and number >= 0, "is not a number of at least 0"),
    (
        "where",
        lambda tags: isinstance(tags, Mapping),
        'is not a dict of tags, such as where={"topic": "billing"}',
    ),
    ("by", lambda tag: isinstance(tag, str), 'is not the name of a tag, such as by="topic"'),
    *(
        (keyword, _is_text, 'names no comparison, such as "judge or em" or "f1>=0.5"')
        for keyword in ("comparator", "label")
    ),
    ("order", ("rank", "random").__contains__, 'is neither "rank" nor "random"'),
    ("temperature", lambda value: _is_number(value) and 0 <= value < inf, "is not a number of at least 0"),
    (
        "draws",
        lambda number: type(number) is int and number >= 1,
        "is not a number of draws, such as draws=3",
    ),
    (
        "relevant",
        _is_relevance,
        'is none of "gold", "contains" and "judge", nor one with a number of labelled passages, as "contains@100"',
    ),
)
"""What the value of a keyword has to fulfil, and what is wrong with one that does not; the first that fails counts."""


def _problems(keywords: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the keywords that are set; those after the first may follow from it."""
    for keyword, fits, problem in VALUES:
        if keyword in keywords and not fits(keywords[keyword]):
            yield f"{keyword}={keywords[keyword]!r} {problem}."
    if "min" in keywords and "max" in keywords and keywords["min"] > keywords["max"]:
        yield f"min={keywords['min']} is above max={keywords['max']}."
    if "tolerance" in keywords and "max_lost" not in keywords:
        yield "tolerance says which examples count for max_lost, and there is no max_lost."
    yield from _test_problems(keywords)


def _test_problems(keywords: Mapping[str, Any]) -> Iterator[str]:
    """Keywords of a test that is not made, or in which they have no effect."""
    testing = (
        ["strict"]
        if "max_total_drop" in keywords
        else ["alpha", "burden", "strict", "inconclusive", "cluster"]
    )
    for keyword in testing if "max_drop" not in keywords else ():
        if keyword in keywords:
            yield f"{keyword} says how max_drop is tested, and there is no max_drop."
    if keywords.get("strict"):
        for keyword in () if "max_total_drop" in keywords else ("burden", "inconclusive", "cluster"):
            if keyword in keywords:
                yield (
                    f"{keyword} has no effect with strict=True, which fails unless a drop of max_drop is excluded.\n"
                    f"Leave out {keyword} or strict."
                )
        if keywords["max_drop"] == 0:
            yield (
                "no number of examples excludes every drop above 0.\n"
                "With strict=True give a max_drop that would matter, such as 0.02."
            )
