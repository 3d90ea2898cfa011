"""The arguments of `rageval cache`; what its commands do is imported when one of them runs."""

import argparse
import math
from pathlib import Path
from typing import Any, Final

__all__ = ["add_to"]

FOLDER: Final = Path(".rageval_cache")

MODEL_HELP: Final = "of this model alone, named as `rageval cache info` does; may be repeated"


def add_to(groups: Any) -> None:
    """Add the group to those of `rageval`."""
    group = groups.add_parser(
        "cache",
        help="the replies and embeddings that are kept",
        description="Looks after the cache of replies and embeddings, and the cassettes that the replies fill.",
        epilog="Exit status: 0; 1 where damage was found; 2 where something cannot be used.",
    )
    group.add_argument(
        "--cache-dir", type=Path, metavar="DIR", default=FOLDER, help="of the cache (default: %(default)s)"
    )
    group.set_defaults(run=_run)
    commands = group.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    _add_info(commands)
    _add_export(commands)
    _add_import(commands)
    _add_prune(commands)
    _add_verify(commands)


def _run(options: argparse.Namespace) -> int:
    from pytest_rageval.cli import cache_reading, cache_writing  # noqa: PLC0415 - they bring SQLite

    commands = {
        "info": cache_reading.info,
        "export": cache_reading.export,
        "import": cache_writing.import_,
        "prune": cache_writing.prune,
        "verify": cache_reading.verify,
    }
    return commands[options.command](options)


def _add_info(commands: Any) -> None:
    info = _add(
        commands,
        "info",
        "how much of which model is kept, how many embeddings, since when, and how large it is",
    )
    info.add_argument("--json", action="store_true", help="as JSON, for programs")


def _add_export(commands: Any) -> None:
    export = _add(
        commands,
        "export",
        "write the replies to a cassette",
        "Damaged entries are left out and named, and the exit status is 1.",
    )
    export.add_argument("file", type=Path, metavar="FILE", help="to write; compressed if it ends in .gz")
    export.add_argument("--model", action="append", metavar="NAME", help=f"replies {MODEL_HELP}")
    export.add_argument("--force", action="store_true", help="replace FILE if it exists")


def _add_import(commands: Any) -> None:
    import_ = _add(
        commands,
        "import",
        "take the replies of cassettes into the cache",
        "They count as written today. The folder is made if it is missing.",
    )
    import_.add_argument("files", type=Path, nargs="+", metavar="FILE", help="cassettes; of two replies to one "
                         "request, the first counts")  # fmt: skip
    import_.add_argument(
        "--replace", action="store_true", help="also where another reply to the same request is kept already"
    )


def _add_prune(commands: Any) -> None:
    prune = _add(
        commands,
        "prune",
        "delete replies, and by age alone embeddings too",
        "At least one condition is needed; of several, all must hold. The file is made smaller afterwards.",
    )
    prune.add_argument(
        "--older-than",
        type=_days,
        metavar="DAYS",
        help="replies, and embeddings, kept more days ago; 0.5 is allowed",
    )
    prune.add_argument("--model", action="append", metavar="NAME", help=f"replies {MODEL_HELP}")
    prune.add_argument("--cut", action="store_true", help="replies that the token limit ended")
    prune.add_argument("--dry-run", action="store_true", help="say what would go, and delete nothing")
    prune.add_argument(
        "--cassette", type=Path, metavar="FILE", help="delete from this file, not from the cache"
    )


def _add_verify(commands: Any) -> None:
    verify = _add(
        commands,
        "verify",
        "look for damage",
        "Other replies to one request and lines out of order are told, but are no damage.",
    )
    verify.add_argument("files", type=Path, nargs="*", metavar="FILE", help="cassettes; without, the cache")
    verify.add_argument(
        "--repair",
        action="store_true",
        help="delete the damaged entries from the cache; where the reply is whole, it stays",
    )


def _add(commands: Any, name: str, what: str, more: str = "") -> argparse.ArgumentParser:
    sentence = f"{what[0].upper()}{what[1:]}. {more}".rstrip()
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=sentence)
    # Here as well as before the command's name; where it is not given, the former stands.
    parser.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help=f"of the cache (default: {FOLDER})",
    )
    return parser


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of days, expected 0 or more, such as 30 or 0.5"
        )
    return days
