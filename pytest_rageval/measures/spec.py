"""The grammar of score names: `NAME[.PART][@K]`."""

import re
from dataclasses import dataclass

from pytest_rageval.errors import InputError

__all__ = ["Spec"]

_FORM = re.compile(r"(?P<name>[a-z]\w*)(?:\.(?P<part>[a-zA-Z]\w*))?(?:@(?P<k>-?\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spec:
    """The name of a score, taken apart.

    Attributes:
        name: the family, such as `recall`, `llm_reteval` or `answer`.
        part: the measure within the family, such as `f1` in `answer.f1`; or None.
        k: the rank cut-off, an integer ≥ 1; or None.
    """

    name: str
    part: str | None = None
    k: int | None = None

    @classmethod
    def parse(cls, text: object) -> "Spec":
        """Take a score name apart.

        Raises:
            InputError: it is not of the form, or k < 1.

        >>> Spec.parse("answer.f1@5")
        Spec(name='answer', part='f1', k=5)
        """
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(
                f"{text!r} is no score. A score is written NAME[.PART][@K], "
                "such as recall@5, llm_reteval@5 or answer.f1@5."
            )
        k = None if match["k"] is None else int(match["k"])
        if k is not None and k < 1:
            raise InputError(f"{text!r}: the cut-off k is {k}, but a ranking has at least rank 1.")
        return cls(match["name"], match["part"], k)

    @property
    def measure(self) -> str:
        """The score without its cut-off."""
        return self.name if self.part is None else f"{self.name}.{self.part}"

    def __str__(self) -> str:
        return self.measure if self.k is None else f"{self.measure}@{self.k}"
