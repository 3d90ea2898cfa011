"""What is typed: `--rageval NAME=VALUE` sets any option for one run; and what a command of `rageval` is made of.

Extensions and other plugins declare their commands as `COMMANDS`. A flag that does not exist gets a message with the
spelling that works. What an extension stores in the cache folder, it declares as `CACHE_FILES`, for `rageval cache`.
An extension's `__init__` imports this module, and so does every run of pytest: it imports only what declarations need.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.options import MOVED, OPTIONS, all_options

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

    Any other flag is left to pytest: conftest.py may declare it.
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


Argument = tuple[tuple[str, ...], dict[str, Any]]
"""The positional and the keyword arguments of `argparse.ArgumentParser.add_argument`."""


class Group(NamedTuple):
    """A group of commands, such as `rageval cache`.

    Attributes:
        name: the name.
        summary: the help in the list of commands.
        description: the first text of its own help.
        status_1: the meaning of the exit status 1; "" if there is none.
        arguments: arguments between the name of the group and that of the command.
        default: the command that is meant if none is named; "" for none.
    """

    name: str
    summary: str
    description: str
    status_1: str
    arguments: tuple[Argument, ...] = ()
    default: str = ""


class Command(NamedTuple):
    """A command.

    Attributes:
        name: the name of the command.
        run: the function that runs it, as "MODULE:NAME"; it receives the parsed arguments, and returns the exit status.
        summary: the help in the list of commands.
        details: the further help of the command.
        arguments: its arguments. A string is the name of an option of the plugin that the command has too.
        epilog: the end of its help, such as the exit status; None if there is none.
        group: its group.
        stands_for: the options of the plugin, by name, that arguments of its own stand for: {"judge_model": "--model"}.
        place: its place in the list of commands, from low to high; equal ones follow in the order of the extensions.
    """

    name: str
    run: str
    summary: str
    details: str
    arguments: tuple[Argument | str, ...]
    epilog: str | None = None
    group: Group | None = None
    place: int = 100
    stands_for: Mapping[str, str] = {}

    @property
    def title(self) -> str:
        """The name after that of the group: "cache info"."""
        return f"{self.group.name} {self.name}" if self.group else self.name


class CacheFile(NamedTuple):
    """A file in the cache folder beside that of the replies, which the commands of `rageval cache` maintain.

    Attributes:
        noun: what an entry of the file is called, such as "embedding". Its plural is the namespace of the entries in
            the stores that machines share, and their key in JSON.
        replacement: how runs replace lost entries, such as "encode their texts again".
        module: the module with `FILE`, the name of the file, and these functions, which raise StoreError if the file
            cannot be used: `survey(folder)` returns a `Survey`, or None without a file; `delete_older(folder, time)`,
            with a time in seconds since 1970, returns the number of deleted entries; `delete_damaged(folder)`.
    """

    noun: str
    replacement: str
    module: str

    @property
    def functions(self) -> Any:
        """The module, which is imported only now."""
        return import_module(self.module)

    @property
    def name(self) -> str:
        return str(self.functions.FILE)

    @property
    def namespace(self) -> str:
        return f"{self.noun}s"


class Survey(NamedTuple):
    """The contents of such a file; `written` are the times of the good entries in seconds since 1970, ascending."""

    good: int
    damaged: int
    written: list[float]
    bytes: int | None  # None of a store that machines share


def value(names: str, metavar: str, text: str, parse: Callable[[str], Any] = Path, **kwargs: Any) -> Argument:
    """Return an argument or an option with a value; `names` are separated by spaces, `text` is the help."""
    return tuple(names.split()), {"metavar": metavar, "help": text, "type": parse, **kwargs}


def switch(name: str, text: str) -> Argument:
    """Return an option without a value; `text` is the help."""
    return (name,), {"action": "store_true", "help": text}


def with_plugin_names(*arguments: Argument) -> tuple[Argument, ...]:
    """Add to each option the plugin's flag, such as --rageval-cache, which messages use, if there is one."""
    flags = {option.typed for option in OPTIONS if option.is_flag}
    return tuple(
        ((*names, *sorted({f"--rageval-{names[0].removeprefix('--')}"} & flags)), kwargs)
        for names, kwargs in arguments
    )


def value_parser(
    convert: Callable[[str], Any], is_valid: Callable[[Any], bool], expected: str
) -> Callable[[str], Any]:
    """Return a function that parses the value of an argument, or raises argparse's error with what is `expected`."""

    def parse(text: str) -> Any:
        with suppress(ValueError):
            value = convert(text)
            if is_valid(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")

    return parse


def one_or_more(what: str) -> Callable[[str], Any]:
    """Return a function that parses a whole number of at least 1; `what` is named in its error."""
    return value_parser(int, lambda number: number >= 1, f"{what}, expected 1 or more")


REPLY_OPTIONS: Final = (
    "cache", "cache_dir", "refresh", "replay", "cassette", "max_calls", "max_cost", "prices",
)  # fmt: skip
"""Options of the plugin that commands have which request replies of models."""

JUDGE_OPTIONS: Final = (
    "judge_model", "judge_base_url", "base_url", "judge_parameters", "judge_votes", "concurrency", "timeout", "flex",
    *REPLY_OPTIONS, "prompts",
)  # fmt: skip
"""Those of commands in which a judge alone is asked."""

JSON: Final = switch("--json", "print JSON")
FORCE: Final = switch("--force", "replace files that exist")
EVALSET: Final = Group(
    "evalset",
    "check an eval set, anchor its gold passages in files, or make an eval set",
    "Maintains eval sets.",
    "errors were found or examples are missing",
)
"""The group of commands about eval sets, which several extensions have."""

BASELINE_GROUP: Final = Group(
    "baseline",
    "merge the baselines of two branches, or pin the scores of a release",
    "Maintains the baseline.",
    "both branches changed a test",
)
"""The group of commands about the baseline, which several extensions have."""
