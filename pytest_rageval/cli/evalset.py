"""The arguments of `rageval evalset`; what its commands do is imported when one of them runs."""

import argparse
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config import OPTIONS, Option

__all__ = ["add_to"]

OF_MODELS: Final = (
    "model",
    "judge_model",
    "base_url",
    "max_tokens",
    "concurrency",
    "timeout",
    "cache_dir",
    "refresh",
    "replay",
    "cassette",
    "max_calls",
    "max_cost",
    "prices",
    "prompts",
    "seed",
)
"""The options of tests that `generate` has as well."""

CORPUS_HELP: Final = (
    "JSON lines of passages (id, text; source, start, end), a BEIR corpus.jsonl, or a folder of text and "
    "Markdown files"
)


def add_to(groups: Any) -> None:
    """Add the group to those of `rageval`."""
    group = groups.add_parser(
        "evalset",
        help="eval sets: check one, anchor its gold in files, or have one written",
        description="Looks after eval sets.",
        epilog="Exit status: 0; 1 where something was found or is left over; 2 where something cannot be used.",
    )
    group.set_defaults(run=_run)
    commands = group.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    _add_check(commands)
    _add_anchor(commands)
    _add_generate(commands)


def _run(options: argparse.Namespace) -> int:
    if options.command == "check":
        from pytest_rageval.cli.evalset_check import check as run  # noqa: PLC0415 - with what it needs
    elif options.command == "anchor":
        from pytest_rageval.cli.evalset_anchor import anchor_ as run  # noqa: PLC0415 - likewise
    else:
        from pytest_rageval.cli.evalset_generate import generate as run  # noqa: PLC0415 - models, too
    return run(options)


def _add_check(commands: Any) -> None:
    what = "look for what is wrong with an eval set, and say how small a drop it can show"
    check = _add(
        commands,
        "check",
        what,
        "Errors: the same question twice, and gold passages that are not in the corpus. "
        "Notes: near-duplicate questions, answers that stand in the question or in no gold passage, examples without "
        "gold passages or answers, keys that are not read and nearly have the name of one that is, and tags whose "
        "commonest value has over ten times the examples of the rarest. Only errors make the exit status 1.",
    )
    _add_evalset(check)
    check.add_argument(
        "--corpus", type=Path, metavar="CORPUS", help=f"to look for the gold in: {CORPUS_HELP}"
    )
    check.add_argument("--json", action="store_true", help="all findings, as JSON, for programs")


def _add_anchor(commands: Any) -> None:
    what = "turn gold by id, by text or by quoted answers into places in files, which survive re-chunking"
    anchor = _add(
        commands,
        "anchor",
        what,
        "Ids are looked up, texts found word for word, white space aside. Nothing is guessed: an example of which "
        "anything is at no place or at several is left over, and the exit status is 1.",
    )
    _add_evalset(anchor)
    _add_corpus(anchor)
    _add_out(anchor, "the anchored examples, in the native form")
    anchor.add_argument(
        "--unanchored", type=Path, metavar="REST", help="to write: the examples left over, with the reasons"
    )


def _add_generate(commands: Any) -> None:
    what = "have questions about a corpus written by a model, as candidates for review"
    generate = _add(
        commands,
        "generate",
        what,
        "Passages are drawn from all files of the corpus. Of each the model writes a question with an answer that "
        "is a quote; kept are those that it answers from the passage, and not without it. Replies are kept as in "
        "tests: the same command asks nothing anew. The exit status is 1 where there are fewer than N.",
    )
    _add_corpus(generate)
    generate.add_argument("--n", type=_number, metavar="N", required=True, help="questions, at least 1")
    _add_out(generate, "the candidates, in the native form")
    generate.add_argument(
        "--keep-rejected", type=Path, metavar="FILE", help="to write: what was rejected, and why"
    )
    for option in OPTIONS:
        if option.name in OF_MODELS:
            _add_option(generate, option)


def _add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    # By the name that it has in tests, too, which messages use.
    names = (f"--{option.name.replace('_', '-')}", option.flag)
    text = option.help.replace("%", "%%")
    if option.metavar:
        parser.add_argument(*names, dest=option.name, metavar=option.metavar, help=text)
    else:
        parser.add_argument(*names, dest=option.name, action="store_true", default=None, help=text)


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of questions, expected 1 or more")
    return int(text)


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", type=Path, metavar="CORPUS", required=True, help=CORPUS_HELP)


def _add_out(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--out", type=Path, metavar="OUT", required=True, help=f"to write: {what}")
    parser.add_argument("--force", action="store_true", help="replace files that exist")


def _add(commands: Any, name: str, what: str, more: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}. {more}"
    )
    return parser


def _add_evalset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the eval set, in any of the formats")
    parser.add_argument("--format", metavar="NAME", help="its format (default: by its shape)")
    parser.add_argument(
        "--field",
        action="append",
        metavar="OURS=THEIRS",
        help="how a field of ours is called there: question=query, gold.id=doc; may be repeated",
    )
    parser.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="an option of the format, by its name in the marker: separator=' | ', topics=topics.txt, texts=false; "
        "may be repeated",
    )
