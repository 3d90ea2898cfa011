"""What a question gives away about the answer it wants."""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from pytest_rageval.answers.canonical.figures import Figure
from pytest_rageval.answers.canonical.parsing import parse
from pytest_rageval.answers.canonical.quantities import CURRENCIES, Unit, unit_named
from pytest_rageval.answers.canonical.words import NEGATORS, ROLES, Word, listed

__all__ = ["Question", "ask"]

_PERSON_WORDS = frozenset({"who", "whom", "whose", "whos"})
_PERSON_NOUNS = ROLES | listed(
    "person man woman boy girl musician composer painter poet novelist scientist physicist chemist mathematician "
    "explorer inventor politician philosopher quarterback pitcher rapper drummer guitarist producer host father mother "
    "wife husband brother sister son daughter character"
)
_POLAR = listed(
    "is are was were do does did can could will would should shall may might must has have had am"
)
_PRICES = listed("cost costs price fee salary budget worth pay paid earn allowance value money bonus fine")
_SHARES = listed("percentage percent share proportion fraction")


@dataclass(frozen=True, slots=True)
class Question:
    """A question as far as it matters for comparing answers.

    `stems` are the words it repeats and `figures` the figures it names; `understood` the dimensions that a bare
    number in an answer stands for; `counted` the unit after "how many".
    """

    stems: frozenset[str] = frozenset()
    figures: tuple[Figure, ...] = ()
    person: bool = False
    polar: bool = False
    negated: bool = False
    choice: bool = False
    year: bool = False
    place: bool = False
    understood: frozenset[str] = frozenset()
    counted: tuple[Unit, ...] = field(default=())


@lru_cache(maxsize=4096)
def ask(text: str) -> Question:
    """Read a question; an empty text gives nothing away.

    >>> ask("Who wrote Frankenstein?").person, ask("Is parking free?").polar
    (True, True)
    >>> sorted(ask("How many weeks does it take?").understood)
    ['seconds']
    """
    tokens = parse(text)
    forms = [token.form if isinstance(token, Word) else "" for token in tokens]
    words = [token for token in tokens if isinstance(token, Word)]
    return Question(
        stems=frozenset(stem for word in words if word.content for stem in (word.stem, word.alternative)),
        figures=tuple(token for token in tokens if isinstance(token, Figure)),
        person=_asks_person(forms),
        polar=bool(forms) and forms[0] in _POLAR,
        negated=not NEGATORS.isdisjoint(forms),
        choice="or" in forms,
        year=any(forms[at : at + 2] in (["what", "year"], ["which", "year"]) for at in range(len(forms))),
        place=forms[:1] in (["where"], ["wheres"]),
        understood=_understood(forms),
        counted=_counted(forms),
    )


def _asks_person(forms: list[str]) -> bool:
    if not _PERSON_WORDS.isdisjoint(forms):
        return True
    return any(
        first in {"which", "what"} and not _PERSON_NOUNS.isdisjoint(forms[at + 1 : at + 3])
        for at, first in enumerate(forms)
    )


def _understood(forms: list[str]) -> frozenset[str]:
    named = {unit.dimension for form in forms if len(form) > 1 for unit in unit_named(form)}
    if not _PRICES.isdisjoint(forms) or ("how", "much") in pairwise(forms):
        named |= CURRENCIES
    if not _SHARES.isdisjoint(forms):
        named.add("share")
    return frozenset(named)


def _counted(forms: list[str]) -> tuple[Unit, ...]:
    for at in range(len(forms) - 2):
        if forms[at : at + 2] == ["how", "many"]:
            return unit_named(forms[at + 2])
    return ()
