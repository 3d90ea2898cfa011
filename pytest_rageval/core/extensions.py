"""The extensions of this package: the folders in `pytest_rageval/extensions`, found by looking, known by no name.

An extension is imported in every run of pytest, so that the `__init__` of its folder imports only what
its declarations need. Deleting it removes the feature. Other plugins have the same hooks and
declarations, but for `OPTIONS`, `SCORES` and fields: they add options to pytest, and scores to the registry. Besides
hooks an extension may have:

- `OPTIONS`: its options, a tuple of `core.options.Option`.
- `MARKERS`: its markers, as pytest's ini key has them. They let a test be evaluated, as `rageval_threshold` does.
- `contradictions(settings)`: yields a message for each contradiction of its options with others.
- `COMMANDS`, see `core.command`.
- `PRESETS`: its presets by name, each with the path of its file, see `core.presets`.
- `SCORES`: for each of its modules with `SCORES`, as `scores.MODULES`. The name of a module begins at `extensions`.
- `FIELDS`: the fields of an example that it reads, by name, each with a function `(value, check)` that checks a value;
  `check` is an `evalsets.records.Check`. The values are in `Example.added`. As a keyword of the marker
  `rageval_evalset`, a field holds for each example: a list is added to the example's own, another value is its default.
- `GOLD_FIELDS`: the same for the fields of a gold passage, whose values are in `Gold.added`, without a keyword.

The options of the core and of all extensions are known here: `--rageval NAME=VALUE` sets any of them for one run, and a
flag that does not exist gets a message with the spelling that works.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_rageval.core.options import MOVED, OPTIONS, Option

PACKAGE: Final = "pytest_rageval.extensions"
FOLDER: Final = Path(__file__).parents[1] / "extensions"
OUR_REQUIREMENT: Final = re.compile(r"pytest[-_.]rageval\b", re.IGNORECASE)  # at the start of a requirement


@cache
def installed() -> Mapping[str, ModuleType]:
    """Return the extensions of this package by name, in alphabetical order."""
    names = sorted(file.parent.name for file in FOLDER.glob("*/__init__.py"))
    return {name: import_module(f"{PACKAGE}.{name}") for name in names}


@cache
def declared(name: str) -> Mapping[str, Any]:
    """Return the items of all mappings that the extensions of this package declare under a name, such as `SCORES`."""
    mappings: list[Mapping[str, object]] = [getattr(module, name, {}) for module in installed().values()]
    return {key: value for mapping in mappings for key, value in mapping.items()}


def others() -> Mapping[str, ModuleType]:
    """Return the installed pytest plugins whose package requires pytest-rageval, by name, in alphabetical order."""
    points = sorted(entry_points(group="pytest11"), key=lambda point: point.name)
    return {
        point.name: point.load()
        for point in points
        if point.dist is not None and any(map(OUR_REQUIREMENT.match, point.dist.requires or ()))
    }


@cache
def all_options() -> tuple[Option[Any], ...]:
    own = (getattr(module, "OPTIONS", ()) for module in installed().values())
    return (*OPTIONS, *chain.from_iterable(own))


SETTER: Final = "--rageval"
SETTER_HELP: Final = (
    "set any option for this run, such as timeout=120; may be repeated. `rageval settings` lists all options"
)

LIST: Final = "\n`rageval settings` lists all options."


class SetOption(argparse.Action):
    """The action of `--rageval NAME=VALUE`. It sets the attribute that a flag of the option would set.

    `attribute` is its name, with `{}` for that of the option.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, attribute: str = "{}", **_: object) -> None:
        super().__init__(option_strings, dest, metavar="NAME=VALUE", help=SETTER_HELP)
        self._attribute = attribute

    def __call__(self, _: object, namespace: argparse.Namespace, text: Any, *__: object) -> None:
        name, equals, text = str(text).partition("=")
        options = {option.name: option for option in all_options()}
        if name not in options:
            raise argparse.ArgumentError(self, f"there is no option {name!r}.{_similar(name)}{LIST}")
        option = options[name]
        if not equals:
            raise argparse.ArgumentError(self, f"{name!r} has no value: write {option.setter()}.")
        attribute = self._attribute.format(name)
        values = [*(getattr(namespace, attribute, None) or ()), text] if option.repeatable else text
        setattr(namespace, attribute, values)


def flag_problem(words: Sequence[str], is_known: Callable[[str], bool]) -> str:
    """Return what is wrong with a flag such as `--rageval-canary`, and the spelling that works; "" if nothing is.

    A flag that is like none of ours is left to pytest: conftest.py may have one.
    """
    ours = {f"{SETTER}-{option.name.replace('_', '-')}": option for option in all_options()}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        option = ours.get(flag)
        if not flag.startswith(f"{SETTER}-") or (option and option.is_flag):
            continue
        if option:
            value = value if equals else following if option.metavar and not following.startswith("-") else ""
            # The value may contain a password.
            return (
                f"{flag} is no flag, but a setting. Write {option.setter('' if option.private else value)}."
            )
        name = flag.removeprefix(f"{SETTER}-").replace("-", "_")
        if (similar := _similar(name)) and not is_known(flag):
            return f"There is no flag {flag}.{similar}{LIST}"
    return ""


def _similar(name: str) -> str:
    """Return a hint with the option that a name may mean, as it is typed on the command line; "" if there is none."""
    from pytest_rageval.core.errors import similar_names  # noqa: PLC0415 - every run of pytest imports this module

    options = {option.name: option for option in all_options()}
    if name in MOVED:
        return MOVED[name]
    similar = similar_names(name.replace("-", "_"), options, limit=1)
    return f" Did you mean {options[similar[0]].example()}?" if similar else ""
