"""The `rageval` command. `main()` parses the arguments and imports only the module of the chosen command.

- Commands here: `scores`, `extensions`, and `rageval cache`: `cache_reading` (info, export) and `cache_writing`
  (import, prune, verify). `settings` is in `plugin.settings_command`, since it needs pytest.
- Every other command is declared by its extension, or another plugin, as `COMMANDS` (`options.command`).
- Printing, settings and session of commands that use models, and cache stores of plugins: `console`,
  `command_session` and `plugin_stores`.

The function of a command returns the exit status. It raises `RagevalError` for input that cannot be used.
"""

import argparse
import inspect
import json
import math
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, Final

from pytest_rageval import hookspecs
from pytest_rageval.cli.console import echo, echo_err, own_options
from pytest_rageval.core.errors import InputError, RagevalError, require
from pytest_rageval.core.extensions import installed, others
from pytest_rageval.options import all_options
from pytest_rageval.options.command import (
    JSON,
    SETTER,
    Argument,
    Command,
    Group,
    SetOption,
    switch,
    value,
    value_parser,
    with_plugin_names,
)
from pytest_rageval.options.parsers import parse_cache_option
from pytest_rageval.options.resolution import resolve_cache

EXIT_UNUSABLE = 2  # argparse's exit status for bad arguments, here also for files that cannot be used
EXIT_INTERRUPTED = 130
SHELLS: Final = ("bash", "zsh", "tcsh", "fish")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, by default those of the process.

    The exit status is 0; 1 if the command found damage or errors; 2 for unusable input; 130 after Ctrl-C. argparse
    exits with 2 for arguments that are not allowed, and with 0 after `--help` and `--version`.
    """
    for stream in (sys.stdout, sys.stderr):
        # The terminal's encoding may lack characters of the output, such as a model's name.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    own_options.clear()
    try:
        listed = _declared()
        parser = _parser(listed)
        options, rest = parser.parse_known_args(
            _with_default(sys.argv[1:] if arguments is None else arguments, listed)
        )
        if rest and "arguments" not in options:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        if "arguments" in options:
            # argparse returns pytest's options before the first positional argument in `rest`.
            options.arguments = [*rest, *options.arguments]
        status: int = options.run(options)
        sys.stdout.flush()
    except RagevalError as error:
        echo_err(str(error))
        return EXIT_UNUSABLE
    except BrokenPipeError:
        # The process that reads stdout, such as `head`, has closed it. The flush at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        echo_err(f"{type(error).__name__}: {error}")
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status


_parse_days: Final = value_parser(
    float, lambda days: 0 <= days < math.inf, "a number of days, expected 0 or more, such as 30 or 0.5"
)


def _parse_cache(text: str) -> Any:
    try:
        return parse_cache_option(text)
    except ValueError as error:
        # argparse's own message would print the text, which may contain a password.
        raise argparse.ArgumentTypeError(f"it cannot be used: {error}") from None


CACHE_FOLDER: Final = Path(".rageval_cache")
CACHE_URL_HELP: Final = (
    "folder, or URL of a shared store, such as redis://HOST/0 (default: RAGEVAL_CACHE_URL, the only place for a URL "
    "with a password, or --cache-dir)"
)
# An option that is absent after the name of the command keeps the value of the group.
CACHE_GROUP_OPTIONS, CACHE_COMMAND_OPTIONS = (
    with_plugin_names(
        value("--cache-dir", "DIR", f"cache (default: {CACHE_FOLDER})", default=default),
        value("--cache", "PLACE", CACHE_URL_HELP, _parse_cache, default=default),
    )
    for default in (None, argparse.SUPPRESS)
)

MODEL: Final = value(
    "--model", "NAME", "only replies of this model, named as in `rageval cache info`; may be repeated", str,
    action="append",
)  # fmt: skip

CACHE: Final = Group(
    "cache",
    "maintain the cache of replies and embeddings",
    "Maintains the cache of replies and embeddings, and cassettes (files of recorded replies).",
    "damage was found",
    CACHE_GROUP_OPTIONS,
)

# fmt: off
COMMANDS: Final = (
    Command("scores", "pytest_rageval.cli.scores:scores_command",
            "list all scores, with their range and what they need",
            "A score is named with a cut-off: recall@5 looks at the first five documents.",
            (value("name", "NAME", "describe this score in detail; or list the scores of this group, such as arena",
                   str, nargs="?"),
             (("--from",), {"dest": "other", "choices": ["ir_measures"], "help":
                "print which score a measure of this package is: all of them, or NAME, such as nDCG@10"}),
             JSON), place=3),
    Command("settings", "pytest_rageval.plugin.settings_command:settings_command",
            "list all options, with the value in force and where it comes from",
            "The values are those of a run of pytest with these arguments in this folder: command line, ini file, "
            "[tool.rageval] in pyproject.toml, environment, preset and default.",
            (JSON,
             (("-v", "--verbose"), {"action": "store_true", "help": "print what each option does"}),
             value("arguments", "ARGUMENT", "arguments of pytest: options, files, tests", str,
                   nargs=argparse.REMAINDER)), place=4),
    Command("extensions", "pytest_rageval.cli:extensions_command",
            "list the installed extensions, with what each adds",
            "Lists the extensions of this package, and the installed pytest plugins that require it. The ini key "
            "rageval_extensions switches extensions off.",
            (JSON,), place=10),
    Command("info", "pytest_rageval.cli.cache_reading:info_command",
            "show replies and tokens by model, the number of embeddings, dates and sizes", "",
            (*CACHE_COMMAND_OPTIONS, JSON), group=CACHE),
    Command("export", "pytest_rageval.cli.cache_reading:export_command",
            "write the replies to a cassette",
            "Damaged entries are reported and left out; the exit status is then 1.",
            (*CACHE_COMMAND_OPTIONS,
             value("file", "FILE", "cassette to write; compressed if it ends in .gz"),
             MODEL,
             switch("--force", "replace FILE if it exists")), group=CACHE),
    Command("import", "pytest_rageval.cli.cache_writing:import_command",
            "add the replies of cassettes to the cache",
            "The replies get the date of today. The folder is created if it is missing.",
            (*CACHE_COMMAND_OPTIONS,
             value("files", "FILE", "cassettes; if they have several replies to a request, the first is used",
                   nargs="+"),
             switch("--replace", "replace cached replies to the same requests")), group=CACHE),
    Command("prune", "pytest_rageval.cli.cache_writing:prune_command",
            "delete old replies and embeddings, or replies by model",
            "At least one condition is needed; all that are set must hold. The file is made smaller afterwards.",
            (*CACHE_COMMAND_OPTIONS,
             value("--older-than", "DAYS", "only entries older than DAYS days, such as 0.5", _parse_days),
             MODEL,
             switch("--cut", "only replies cut off by the token limit; no embeddings"),
             switch("--dry-run", "print what would be deleted, and delete nothing"),
             value("--cassette", "FILE", "delete from this file, not from the cache")), group=CACHE),
    Command("verify", "pytest_rageval.cli.cache_writing:verify_command",
            "look for damaged entries",
            "Repeated requests and lines out of order are reported too, but do not count as damage.",
            (*CACHE_COMMAND_OPTIONS,
             value("files", "FILE", "cassettes (default: the cache)", nargs="*"),
             switch("--repair", "delete damaged entries from the cache, and keep all others")), group=CACHE),
)
# fmt: on


class _Version(argparse.Action):
    """Print the version, which is looked up only when it is requested, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version  # noqa: PLC0415

        echo(f"rageval {version('pytest-rageval')}")
        parser.exit()


class _Completion(argparse.Action):
    """Print the script that makes a shell complete the arguments, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        shtab = require("shtab", extra="completion", purpose="--print-completion")
        _complete_files(parser, shtab.FILE)
        echo(shtab.complete(parser, shell=shell))  # nosec B604
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, completer: Any) -> None:
    """Set the completer of each argument whose value is a path, also in commands of the parser."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of actions
        if action.type is Path:
            action.complete = completer  # type: ignore[attr-defined] # read by shtab
        elif isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command_parser in action.choices.values():
                _complete_files(command_parser, completer)


def _with_default(arguments: Sequence[str], listed: Sequence[Command]) -> list[str]:
    """Insert the default command of a group, such as `rageval judge measure FILE` for `rageval judge FILE`."""
    members = [command for command in listed if command.group and [command.group.name] == [*arguments[:1]]]
    known = {command.name for command in members} | {"-h", "--help"}
    defaults = [command.group.default for command in members if command.group]
    if not any(defaults) or {*arguments[1:2]} & known:
        return [*arguments]
    return [arguments[0], defaults[0], *arguments[1:]]


def _parser(listed: Sequence[Command]) -> argparse.ArgumentParser:
    """Return the parser of the command line. It sets `run` to the function that runs the command."""
    main = argparse.ArgumentParser(
        prog="rageval",
        description="Commands in addition to the pytest plugin: start a project, compare runs, judge the shards of a "
        "run, measure a model as judge, and maintain caches, cassettes and eval sets.",
    )
    main.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    main.add_argument(
        "--print-completion",
        action=_Completion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a script that completes arguments in {', '.join(SHELLS[:-1])} or {SHELLS[-1]}, and exit",
    )
    commands = {"": main.add_subparsers(title="commands", metavar="COMMAND", required=True)}
    for group in sorted({command.group.name: command.group for command in listed if command.group}.values()):
        group_parser = commands[""].add_parser(
            group.name,
            help=group.summary,
            description=group.description,
            epilog=f"Exit status: 0; {f'1 if {group.status_1}; ' * bool(group.status_1)}2 if something cannot be used.",
        )
        for names, kwargs in group.arguments:
            group_parser.add_argument(*names, **kwargs)
        commands[group.name] = group_parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in listed:
        parser = commands[command.group.name if command.group else ""].add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}. {command.details}".rstrip(),
            epilog=command.epilog,
        )
        parser.set_defaults(run=partial(_run, command))
        for argument in command.arguments:
            names, kwargs = _plugin_option(argument) if isinstance(argument, str) else argument
            parser.add_argument(*names, **kwargs)
        if any(isinstance(argument, str) for argument in command.arguments):
            parser.add_argument(SETTER, action=SetOption)
    return main


def _declared() -> list[Command]:
    """Return the commands of this package, of its extensions and of other plugins, in the order of the help."""
    commands = {command.title: command for command in COMMANDS}
    for name, plugin in {**installed(), **others()}.items():
        declared: Sequence[Command] = getattr(plugin, "COMMANDS", ())
        for command in declared:
            if commands.setdefault(command.title, command) is not command:
                raise InputError(
                    f"The plugin {name} has a command `rageval {command.title}`, which there is already."
                )
    return sorted(commands.values(), key=lambda command: command.place)


def _plugin_option(name: str) -> Argument:
    """Return a plugin option as an option of a command, also under its name in pytest, which messages use."""
    option = next(option for option in all_options() if option.name == name)
    names = (f"--{option.name.replace('_', '-')}", *([option.typed] if option.is_flag else []))
    kwargs: dict[str, object] = {"action": "store_true", "default": None}
    if option.metavar:
        kwargs = {"metavar": option.metavar}
    return names, {"dest": option.name, "help": option.help.replace("%", "%%"), **kwargs}


def _run(command: Command, options: argparse.Namespace) -> int:
    """Run a command. Its module is imported only now, since it may import SQLite, clients of models or NumPy."""
    own_options.update(_own_options(command))
    if command.group == CACHE:
        _resolve_cache(options)
    status: int = resolve_name(command.run)(options)
    return status


def _own_options(command: Command) -> dict[str, str]:
    """Return the options of a command by the spelling of the plugin's options that they are or stand for."""
    named = {name: f"--{name.replace('_', '-')}" for name in command.arguments if isinstance(name, str)}
    spellings: dict[str, str] = {}
    for option in all_options():
        if own := {**named, **command.stands_for}.get(option.name):
            spellings |= {option.typed: own} if option.is_flag else {}
            spellings |= {f"{SETTER} {option.name}": own, f"{SETTER} {option.name}=true": own}
    return spellings


def _resolve_cache(options: argparse.Namespace) -> None:
    """Set `cache_dir` to the folder of the cache, and `cache` to the URL of a shared store or None."""
    if options.cache is None and options.cache_dir is not None:
        return
    place = resolve_cache(options.cache, os.environ, Path.cwd())
    if isinstance(place, Path):
        options.cache_dir, options.cache = place, None
    else:
        options.cache_dir, options.cache = options.cache_dir or CACHE_FOLDER, place


def extensions_command(options: argparse.Namespace) -> int:
    entries = [_entry(name, module) for name, module in {**installed(), **others()}.items()]
    if options.json:
        echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return 0
    for entry in entries:
        echo(f"{entry['name']}: {entry['summary']}")
        for kind in ("commands", "options", "presets", "scores", "fields", "hooks"):
            if entry[kind]:
                echo(f"  {kind}: {', '.join(entry[kind])}")
    return 0


def _entry(name: str, module: ModuleType) -> dict[str, Any]:
    return {
        "name": name,
        "module": module.__name__,
        "summary": (inspect.getdoc(module) or "").partition("\n")[0],
        "commands": [f"rageval {command.title}" for command in getattr(module, "COMMANDS", ())],
        "options": [option.typed for option in getattr(module, "OPTIONS", ())],
        "presets": list(getattr(module, "PRESETS", ())),
        "scores": [name for names in getattr(module, "SCORES", {}).values() for name in names],
        "fields": [
            *getattr(module, "FIELDS", ()),
            *(f"gold.{name}" for name in getattr(module, "GOLD_FIELDS", ())),
        ],
        "hooks": [
            hook for hook in vars(hookspecs) if hook.startswith("pytest_rageval_") and hasattr(module, hook)
        ],
    }
