"""`Threshold`: the bounds and keywords of one `rageval_threshold` marker, and their validation."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf, isinf
from typing import Any, Final

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.policy import BUILT_IN, DEFAULT, MOVED, Policy, find_policy, moved_text
from pytest_rageval.core.spec import SCORE_KEYWORDS, Relevance, ScoreRequest, score_name
from pytest_rageval.lib.foreign_values import plain_number
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.stats.intervals import UNIT

anchor_alpha: Final = Lazy("stats.sequential", "anchor_alpha")  # few thresholds have an anchor

BOUNDS: Final[Mapping[str, str]] = {
    "min": "≥",
    "max": "≤",
    "max_drop": "↓",
    "max_lost": "lost ≤",
    "max_ratio": "ratio ≤",
}
"""The keywords that can fail a test, each with its sign in reports."""

MAX_DROP_SHARE: Final = 0.5  # an allowed drop above this share of the scale's width is an error
WARN_DROP_SHARE: Final = 0.2  # above this share the run warns


@dataclass(frozen=True)
class Threshold:
    """Bounds on the mean of a score, and the policy by which they are decided. A bound that is not set is None.

    `where` limits the threshold to a slice; with `by`, it holds for the slice of each value of this tag. `ignored` is
    no keyword: it has the keywords of the marker that do not affect this score, with their values.
    """

    spec: str
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    max_lost: int | None = None
    max_ratio: float | None = None
    where: Mapping[str, object] = field(default_factory=dict)
    by: str | None = None
    policy: Policy = BUILT_IN[DEFAULT]
    comparator: str | None = None
    label: str | None = None
    order: str | None = None
    temperature: float | None = None
    draws: int | None = None
    relevant: str | None = None
    ignored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def keywords(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls) if f.name not in {"spec", "ignored"})

    @cached_property
    def request(self) -> ScoreRequest:
        keywords = {name: value for name in SCORE_KEYWORDS if (value := getattr(self, name)) is not None}
        return ScoreRequest(self.spec, **keywords)

    @cached_property
    def score_key(self) -> tuple[ScoreRequest, bool]:
        """The score, and whether the reference retriever is timed too."""
        return self.request, self.max_ratio is not None

    @cached_property
    def name(self) -> str:
        """The name of the score with the keywords that change its values; slices and bounds are not part of it."""
        return score_name(self.spec, {keyword: getattr(self, keyword) for keyword in SCORE_KEYWORDS})

    @property
    def has_bound(self) -> bool:
        return any(getattr(self, keyword) is not None for keyword in BOUNDS)

    @cached_property
    def max_total_drop(self) -> float | None:
        """The largest allowed drop from the anchor; None if any is allowed, or the threshold has no `max_drop`."""
        return None if self.max_drop is None else self.policy.max_total_drop

    @cached_property
    def uses_baseline(self) -> bool:
        return self.max_drop is not None or self.max_lost is not None

    @property
    def shares_alpha(self) -> bool:
        """True if the threshold shares the error rate `alpha` with the other tests of the run."""
        return self.max_drop is not None and not (self.policy.strict and self.max_total_drop is None)

    def without(self, *bounds: str) -> "Threshold":
        cleared: dict[str, Any] = dict.fromkeys(bounds)
        return replace(self, **cleared)

    def without_total_drop(self) -> "Threshold":
        return replace(self, policy=replace(self.policy, max_total_drop=None))

    def with_ignored(self, keywords: Collection[str]) -> "Threshold":
        """Return the threshold with these keywords moved to `ignored`."""
        ignored: dict[str, Any] = {keyword: getattr(self, keyword) for keyword in sorted(keywords)}
        cleared: dict[str, Any] = dict.fromkeys(ignored)
        return replace(self, **cleared, ignored=ignored) if ignored else self

    def total_drop_threshold(self, updates: int) -> "Threshold":
        """Return a threshold whose `max_drop` is the `max_total_drop` of this one.

        Its level depends on the number of updates of the baseline since the anchor was pinned.
        """
        policy = replace(
            self.policy,
            max_total_drop=None,
            max_lost=None,
            burden="drop" if self.policy.strict else self.policy.burden,
            small_set_drop=None,
            alpha=anchor_alpha(self.policy.alpha, updates + 1),
        )
        bounds = self.without("min", "max", "max_lost", "max_ratio")
        return replace(bounds, max_drop=self.max_total_drop or 0.0, policy=policy)

    @classmethod
    def parse(
        cls,
        args: tuple[Any, ...],
        kwargs: Mapping[str, object],
        *,
        optional: bool = False,
        policies: Mapping[str, Policy] = BUILT_IN,
    ) -> "Threshold":
        """Parse the arguments of the marker, or of `rageval.score`, where bounds are `optional`. None is no argument.

        Raises:
            InputError: a keyword is unknown or has a wrong value, or a required bound is missing.
        """
        caller = "rageval.score" if optional else "rageval_threshold"
        form = f'{caller}("recall@5", min=0.75)'
        unknown = sorted(set(kwargs) - set(cls.keywords()))
        if moved := next((keyword for keyword in unknown if keyword in MOVED), None):
            raise InputError(f"{caller}: {moved_text(moved, plain_number(kwargs[moved]))}")
        if unknown:
            if "spec" in unknown:
                raise InputError(f"{caller} takes the score without a keyword. Write {form}.")
            raise InputError(
                f"{caller} has no keyword {', '.join(map(repr, unknown))}.{did_you_mean(unknown[0], cls.keywords())} "
                f"Allowed: {', '.join(cls.keywords())}."
            )
        if len(args) != 1 or not isinstance(args[0], str):
            is_bound = len(args) == 2 and isinstance(args[1], int | float)  # noqa: PLR2004 - a score and its bound
            hint = " A bound is a keyword argument." if is_bound else ""
            raise InputError(f"{caller} needs the name of one score, found {args!r}.{hint} Write {form}.")
        spec = args[0]
        keywords = {keyword: plain_number(value) for keyword, value in kwargs.items() if value is not None}
        call = f"{caller}({spec!r})"
        try:
            policy = find_policy(keywords.get("policy", DEFAULT), policies)
        except ValueError as error:
            raise InputError(f"{call}: {error}") from None
        if policy.max_lost is not None and not keywords.keys().isdisjoint({"policy", "max_drop"}):
            keywords.setdefault("max_lost", policy.max_lost)
        if keywords.keys().isdisjoint(BOUNDS) and ("by" in keywords or not optional):
            shown = f" To show the score and bound nothing, call rageval.score({spec!r}) in the test." * (
                not optional
            )
            *most, last = BOUNDS
            raise InputError(f"{call} has no bound: give {', '.join(most)} or {last}, as in {form}.{shown}")
        if problem := next(_problems(keywords, policy), ""):
            raise InputError(f"{call}: {problem}")
        return cls(spec, **keywords | {"where": dict(keywords.get("where", {})), "policy": policy})

    def check_scale(
        self, scale: tuple[float, float] | None, *, is_cost: bool = False, is_time: bool = False
    ) -> None:
        """Refuse bounds that do not suit the score, whose `scale` is None if it is not declared.

        Raises:
            InputError: `min` or `max` is not on the scale; an allowed drop exceeds half of its width, as does a
                percentage in place of a share; a drop is to be excluded for a score without a scale, where an unseen
                example may lose any amount; or a bound does not exist for a cost or a time.
        """
        if self.max_ratio is not None and not is_time:
            raise InputError(
                f"{self.spec}: max_ratio compares the times of two retrievers, and this score is not a time.\n"
                "Give it to latency.p50 or latency.p95; here give min, max or max_drop."
            )
        if is_time and self.uses_baseline:
            raise InputError(
                f"{self.spec}: {self._baseline_keyword()} compares with the baseline, and times are not comparable "
                "between machines; the baseline has none.\n"
                "Give max, such as max=0.5 seconds; or max_ratio=1.2, against a retriever timed in the same run."
            )
        if is_cost:
            self._check_cost(scale)
        if self.policy.strict and self.max_drop is not None:
            self._check_exclusion(scale)
        if scale is None:
            return
        low, high = scale
        for keyword, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and not low <= bound <= high:
                remedy = _percentage_remedy(keyword, bound, scale, 2) or f"Give {keyword} between them"
                raise InputError(
                    f"{self.spec}: {keyword}={bound:g} is not on the score's scale, "
                    f"which goes from {low:g} to {high:g}.\n"
                    f"{remedy}."
                )
        width = high - low
        for keyword, drop in self._allowed_drops():
            if drop > MAX_DROP_SHARE * width:
                remedy = _percentage_remedy(keyword, drop, scale, 1)
                remedy = remedy or f"Give a {keyword} that would matter, such as {0.02 * width:g}"
                raise InputError(
                    f"{self.spec}: {keyword}={drop:g} allows the mean to lose more than half of its scale, which "
                    f"goes from {low:g} to {high:g}.\n{remedy}."
                )

    def _check_cost(self, scale: tuple[float, float] | None) -> None:
        if self.uses_baseline:
            raise InputError(
                f"{self.spec}: {self._baseline_keyword()} bounds a loss, and less of this score is better.\n"
                "Give max, such as max=3."
            )
        if scale == UNIT and self.min is not None and self.max is None:
            raise InputError(
                f"{self.spec}: min={self.min:g} allows all that is worse, since less of this score is better.\n"
                "Give max, such as max=0."
            )

    def _check_exclusion(self, scale: tuple[float, float] | None) -> None:
        begin = f"{self.spec}: the policy {self.policy.name!r} excludes a drop, and"
        if scale is None:
            raise InputError(
                f"{begin} the scale of this score is not declared.\n"
                "Its plugin declares it by registry.add_score(…, scale=(lowest, highest)); or give another policy."
            )
        if isinf(scale[1]):
            raise InputError(
                f"{begin} this score has no highest value: an unseen question may lose any amount.\n"
                "Give another policy."
            )

    def warnings(self, scale: tuple[float, float] | None) -> tuple[str, ...]:
        """Return warnings about allowed drops so large that they are probably a mistake."""
        if scale is None:
            return ()
        shares = ((keyword, drop, drop / (scale[1] - scale[0])) for keyword, drop in self._allowed_drops())
        return tuple(
            f"{keyword}={drop:g} lets a retriever lose {share:.0%} of the scale and pass; is that intended?"
            for keyword, drop, share in shares
            if share > WARN_DROP_SHARE
        )

    def _allowed_drops(self) -> list[tuple[str, float]]:
        drops = (("max_drop", self.max_drop), ("max_total_drop", self.max_total_drop))
        return [(keyword, drop) for keyword, drop in drops if drop is not None]

    def _baseline_keyword(self) -> str:
        return "max_lost" if self.max_drop is None else "max_drop"


def tests_a_drop(keywords: Mapping[str, object], policies: Mapping[str, Policy]) -> bool:
    """Whether a threshold with these keywords shares the error rate `alpha` with the other tests of the run."""
    name = keywords.get("policy")
    policy = policies.get(name, policies[DEFAULT]) if isinstance(name, str) else policies[DEFAULT]
    return keywords.get("max_drop") is not None and Threshold("", max_drop=0.0, policy=policy).shares_alpha


def level_shares(gated: int) -> int:
    """Return the number of shares of alpha of which each gated test has one; the test of the suite has half of alpha.

    With one gated test there is no test of the suite.
    """
    return 2 * gated if gated > 1 else 1


def _percentage_remedy(keyword: str, bound: float, scale: tuple[float, float], lowest: float) -> str:
    """Return the remedy for a percentage in place of a share, such as 85 for 0.85, from `lowest` on; else empty."""
    is_percentage = scale == UNIT and lowest <= bound <= 100  # noqa: PLR2004 - per cent
    return f"For {bound:g}% write {keyword}={bound / 100:g}" if is_percentage else ""


def _is_number(value: Any) -> bool:
    """Whether a value is a number, but neither NaN nor a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_relevance(value: Any) -> bool:
    try:
        Relevance.parse(value)
    except ValueError:
        return False
    return True


Rule = tuple[str, Callable[[Any], bool], str]

KEYWORD_RULES: Final[tuple[Rule, ...]] = (
    *((keyword, _is_number, "is not a number") for keyword in ("min", "max", "max_drop")),
    (
        "max_drop",
        lambda drop: drop >= 0,
        "is below 0.\nIt is how far the mean may fall below the baseline, such as max_drop=0.02",
    ),
    (
        "max_ratio",
        lambda ratio: _is_number(ratio) and 0 < ratio < inf,
        "is not a number above 0, such as max_ratio=1.2",
    ),
    (
        "max_lost",
        lambda number: type(number) is int and number >= 0,
        "is not a number of examples, such as max_lost=0",
    ),
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
        'is none of "gold", "gold_grade>=2", "contains" and "judge", nor one with another number, as "contains@100"',
    ),
)
"""Rules for the values of keywords: the keyword, a test of its value, and the problem of a value that fails the test.

The first rule that fails is reported.
"""


def _problems(keywords: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield the problems of the keywords that are set; later ones may be a consequence of the first."""
    for keyword, is_valid, problem in KEYWORD_RULES:
        if keyword in keywords and not is_valid(keywords[keyword]):
            yield f"{keyword}={keywords[keyword]!r} {problem}."
    if "min" in keywords and "max" in keywords and keywords["min"] > keywords["max"]:
        yield f"min={keywords['min']} is above max={keywords['max']}."
    if policy.strict and keywords.get("max_drop") == 0:
        yield (
            "no number of examples excludes every drop above 0.\n"
            f"With the policy {policy.name!r} give a max_drop that would matter, such as 0.02."
        )
    if policy.strict and "policy" in keywords and "max_drop" not in keywords:
        yield f"the policy {policy.name!r} says how max_drop is decided, and there is no max_drop."
