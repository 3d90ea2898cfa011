"""The names of scores: `Spec`, what users write; `ScoreRequest`, a score with the keywords that distinguish it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.text import counted

SCORE_KEYWORDS: Final = ("comparator", "label", "order", "relevant", "temperature", "draws")
"""The keywords of a threshold that, together with the spec, determine which score it bounds."""

MAX_CUTOFF_DIGITS: Final = 18
"""The most digits of a cut-off: any such number fits in 64 bits."""

_RELEVANCE_PATTERN: Final = re.compile(
    r"(gold)(?:_grade>=([1-9][0-9]?))?|(contains|judge)(?:@([1-9][0-9]{0,4}))?", re.ASCII
)
_SPEC_PATTERN: Final = re.compile(
    r"(?P<name>[a-z]\w*)(?:\.(?P<part>[a-zA-Z]\w*(?:\.[a-zA-Z]\w*)?))?(?:@(?P<k>-?\d+))?", re.ASCII
)


def score_name(spec: str, keywords: Mapping[str, Any]) -> str:
    """Return a spec followed by the keywords that distinguish the score from other scores of the same spec.

    >>> score_name("answer.f1@5", {"label": None, "temperature": 0.0, "draws": 3})
    'answer.f1@5 at temperature 0 in 3 draws'
    """
    parts = [f"by {keywords[keyword]}" for keyword in ("comparator", "label") if keywords.get(keyword)]
    parts += [f"relevant by {keywords['relevant']}"] if keywords.get("relevant") not in {None, "gold"} else []
    parts += ["in random order"] if keywords.get("order") == "random" else []
    parts += [] if keywords.get("temperature") is None else [f"at temperature {keywords['temperature']:g}"]
    parts += [f"in {counted(keywords['draws'], 'draw')}"] if keywords.get("draws") else []
    return " ".join([spec, *parts])


@dataclass(frozen=True, slots=True)
class Spec:
    """The parsed name of a score, `NAME[.PART][@K]`; `k` is at least 1. A part may have two words: "a.b"."""

    name: str
    part: str | None = None
    k: int | None = None

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parse the name of a score; InputError if it does not have this form, or k < 1.

        >>> Spec.parse("answer.f1@5")
        Spec(name='answer', part='f1', k=5)
        """
        match = _SPEC_PATTERN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(
                f"{text!r} is not a score.{_spelling_hint(text)} A score is written NAME[.PART][@K], "
                "such as recall@5, llm_reteval@5 or answer.f1@5."
            )
        if len(match["k"] or "") > MAX_CUTOFF_DIGITS:
            raise InputError(
                f"{f'{match[0]:.60}…'!r}: the cut-off k has {len(match['k'])} digits, and at most "
                f"{MAX_CUTOFF_DIGITS} are allowed."
            )
        k = None if match["k"] is None else int(match["k"])
        if k is not None and k < 1:
            raise InputError(f"{text!r}: the cut-off k is {k}, but a ranking has at least rank 1.")
        return cls(match["name"], match["part"], k)

    @property
    def measure(self) -> str:
        """The name of the score without its cut-off."""
        return self.name if self.part is None else f"{self.name}.{self.part}"

    def __str__(self) -> str:
        return self.measure if self.k is None else f"{self.measure}@{self.k}"


def _spelling_hint(text: object) -> str:
    if not isinstance(text, str):
        return ""
    name, *rest = re.split(r"\s*([.@])\s*", text.strip())
    spelling = "".join([name.lower(), *rest])
    return f" Did you mean {spelling}?" if _SPEC_PATTERN.fullmatch(spelling) else ""


class Relevance(NamedTuple):
    """The parsed value of the keyword `relevant`, such as "gold", "gold_grade>=2", "contains" or "judge@20".

    `by` is the rule by which a passage is relevant: it is a gold passage of at least this `grade`, it contains a wanted
    answer, or the judge calls it relevant. `depth` passages are labelled for scores that count passages beyond the
    prompt.
    """

    by: str
    depth: int | None = None
    grade: int = 1

    @classmethod
    def parse(cls, text: object) -> "Relevance":
        """Parse the value of the keyword.

        Raises:
            ValueError: the value names none of the rules.

        >>> Relevance.parse("judge@20")
        Relevance(by='judge', depth=20, grade=1)
        >>> Relevance.parse("gold_grade>=2")
        Relevance(by='gold', depth=None, grade=2)
        """
        match = _RELEVANCE_PATTERN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"{text!r} is no rule of relevance")
        gold, grade, by, depth = match.groups()
        return cls(gold or by, int(depth) if depth else None, int(grade or 1))


class ScoreRequest(NamedTuple):
    """A score as the user writes it, with the keywords that distinguish it; see `ResolvedScore` and `ScoreDef`."""

    spec: str
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"
    relevant: str = "gold"
    temperature: float | None = None
    draws: int | None = None

    @property
    def keywords(self) -> dict[str, object]:
        """The keywords that differ from their defaults."""
        defaults = self._field_defaults
        return {
            keyword: value
            for keyword, value in self._asdict().items()
            if value != defaults.get(keyword, value)
        }
