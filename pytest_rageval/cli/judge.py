"""The arguments of `rageval judge`; what it does is imported when it runs."""

import argparse
from pathlib import Path
from typing import Any, Final

__all__ = ["add_to"]

FOLDER: Final = Path(".rageval_cache")


def add_to(groups: Any) -> None:
    """Add the command to those of `rageval`."""
    judge = groups.add_parser(
        "judge",
        help="how far a model as judge agrees with people, and with itself",
        description="Asks a model about answers that people labelled: how far it agrees with them, and how many of "
        "its verdicts change from vote to vote, with the order of what it reads, with the words of the question, and "
        "where a text tells it what to say.",
        epilog="Replies are kept in the cache, and a run of pytest finds them there. The key is read from "
        "OPENAI_API_KEY. Exit status: 0; 2 where something cannot be used.",
    )
    judge.add_argument("labels", type=Path, metavar="LABELS", help="labelled answers or pairs, JSON lines")
    judge.add_argument("--model", required=True, metavar="NAME", help="as the server knows it")
    judge.add_argument(
        "--base-url",
        type=_url,
        metavar="URL",
        help="OpenAI-compatible server (default: OPENAI_BASE_URL, or OpenAI's own)",
    )
    judge.add_argument(
        "--votes",
        type=_odd,
        metavar="N",
        default=1,
        help="ask for each verdict this often, at temperature 0.5; the majority counts (default: 1, at 0)",
    )
    judge.add_argument(
        "--swap",
        action="store_true",
        help="ask again with the references, or the two answers, in reverse order",
    )
    judge.add_argument("--paraphrase", action="store_true", help="ask again in other words")
    judge.add_argument(
        "--injections",
        action="store_true",
        help="ask about texts of the package's own that tell a judge what to say, and about the same without that; "
        "with the fences around what it reads, and without them",
    )
    judge.add_argument(
        "--prompts",
        "--rageval-prompts",
        type=Path,
        metavar="FILE",
        help="prompts (TOML), by name, in place of the package's own, as tests have them",
    )
    judge.add_argument(
        "--cache-dir", type=Path, metavar="DIR", default=FOLDER, help="of the cache (default: %(default)s)"
    )
    judge.add_argument(
        "--replay", action="store_true", help="ask nothing: a reply that is not kept is an error"
    )
    judge.add_argument("--json", action="store_true", help="as JSON, for programs")
    judge.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pytest_rageval.cli import judging  # noqa: PLC0415 - it brings models and their clients

    return judging.judge(options)


def _odd(text: str) -> int:
    votes = int(text) if text.isdecimal() else 0
    if votes % 2 == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no odd number of votes; an even one may be tied")
    return votes


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL that begins with http:// or https://")
    return text
