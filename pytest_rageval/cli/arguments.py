"""The arguments of every `rageval` command. A command's own module is imported only when it runs."""

import argparse
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config import OPTIONS, Option

__all__ = ["parser"]

CACHE_FOLDER: Final = Path(".rageval_cache")
CACHE_HELP: Final = f"cache (default: {CACHE_FOLDER})"

MODEL_HELP: Final = "only replies of this model, named as in `rageval cache info`; may be repeated"

CORPUS_HELP: Final = (
    "JSON lines of passages (id, text; source, start, end), a BEIR corpus.jsonl, or a folder of text and "
    "Markdown files"
)

GENERATE_OPTIONS: Final = (
    "model", "judge_model", "base_url", "max_tokens", "concurrency", "timeout", "cache_dir", "refresh", "replay",
    "cassette", "max_calls", "max_cost", "prices", "prompts", "seed",
)  # fmt: skip
"""The plugin's options that `evalset generate` shares."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it sets `run`, the function that executes the command."""
    main = argparse.ArgumentParser(
        prog="rageval", description="Maintains caches, cassettes and eval sets, and tests a model as a judge."
    )
    groups = main.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_cache(groups)
    _add_evalset(groups)
    _add_judge(groups)
    return main


def _add_command(group: Any, name: str, module: str, summary: str, details: str) -> argparse.ArgumentParser:
    """Add a command that is a function of a module of this package."""
    description = f"{summary[0].upper()}{summary[1:]}. {details}".rstrip()
    command: argparse.ArgumentParser = group.add_parser(name, help=summary, description=description)
    command.set_defaults(run=_deferred(module, f"{name}_command"))
    return command


def _deferred(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A function that is imported when it is called: commands need SQLite, models or NumPy."""

    def run(options: argparse.Namespace) -> int:
        status: int = getattr(import_module(f"pytest_rageval.cli.{module}"), function)(options)
        return status

    return run


def _add_cache(groups: Any) -> None:
    group = groups.add_parser(
        "cache",
        help="maintain the cache of replies and embeddings",
        description="Maintains the cache of replies and embeddings, and cassettes of replies.",
        epilog="Exit status: 0; 1 if damage was found; 2 if something cannot be used.",
    )
    group.add_argument("--cache-dir", type=Path, metavar="DIR", default=CACHE_FOLDER, help=CACHE_HELP)
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = _add_cache_command(
        commands,
        "info",
        "cache_reading",
        "show replies and tokens by model, the number of embeddings, dates and sizes",
        "",
    )
    info.add_argument("--json", action="store_true", help="print JSON")

    export = _add_cache_command(
        commands,
        "export",
        "cache_reading",
        "write the replies to a cassette",
        "Damaged entries are named and left out, and the exit status is 1.",
    )
    export.add_argument("file", type=Path, metavar="FILE", help="to write; compressed if it ends in .gz")
    export.add_argument("--model", action="append", metavar="NAME", help=MODEL_HELP)
    export.add_argument("--force", action="store_true", help="replace FILE if it exists")

    import_ = _add_cache_command(
        commands,
        "import",
        "cache_writing",
        "add the replies of cassettes to the cache",
        "Their date is today. The folder is made if it is missing.",
    )
    import_.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="cassettes; the first reply to a request counts"
    )
    import_.add_argument("--replace", action="store_true", help="replace cached replies to the same requests")

    prune = _add_cache_command(
        commands,
        "prune",
        "cache_writing",
        "delete replies, and embeddings by age alone",
        "At least one condition is needed; all that are set must hold. The file is made smaller afterwards.",
    )
    prune.add_argument(
        "--older-than",
        type=_days,
        metavar="DAYS",
        help="only what was stored over DAYS days ago, such as 0.5",
    )
    prune.add_argument("--model", action="append", metavar="NAME", help=MODEL_HELP)
    prune.add_argument("--cut", action="store_true", help="only replies that the token limit ended")
    prune.add_argument("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    prune.add_argument(
        "--cassette", type=Path, metavar="FILE", help="delete from this file, not from the cache"
    )

    verify = _add_cache_command(
        commands,
        "verify",
        "cache_verify",
        "look for damage",
        "Repeated requests and lines out of order are reported, but are no damage.",
    )
    verify.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="cassettes; without any, the cache"
    )
    verify.add_argument(
        "--repair", action="store_true", help="delete damaged entries from the cache, but keep whole replies"
    )


def _add_cache_command(
    commands: Any, name: str, module: str, summary: str, details: str
) -> argparse.ArgumentParser:
    command = _add_command(commands, name, module, summary, details)
    # Allowed after the command's name too; SUPPRESS keeps the value that the group parsed.
    command.add_argument("--cache-dir", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=CACHE_HELP)
    return command


def _add_evalset(groups: Any) -> None:
    group = groups.add_parser(
        "evalset",
        help="check an eval set, anchor its gold in files, or generate one",
        description="Maintains eval sets.",
        epilog="Exit status: 0; 1 if errors were found or examples are missing; 2 if something cannot be used.",
    )
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = _add_command(
        commands,
        "check",
        "evalset_check",
        "look for mistakes in an eval set, and say how small a drop it can show",
        "Errors: the same question twice, and gold passages that are not in the corpus. "
        "Notes: near-duplicate questions, answers that stand in the question or in no gold passage, examples without "
        "gold passages or answers, unknown keys that resemble a known one, and tags whose commonest value has over "
        "ten times the examples of the rarest. Only errors make the exit status 1.",
    )
    _add_evalset_file(check)
    check.add_argument("--corpus", type=Path, metavar="CORPUS", help=f"where the gold is: {CORPUS_HELP}")
    check.add_argument("--json", action="store_true", help="print all findings as JSON")

    anchor = _add_command(
        commands,
        "anchor",
        "evalset_anchor",
        "turn gold by id, by text or by quoted answers into places in files, which survive re-chunking",
        "Ids are looked up; texts are found word for word, ignoring white space. Nothing is guessed: an example "
        "with gold at no place, or at several, is left over, and the exit status is 1.",
    )
    _add_evalset_file(anchor)
    _add_corpus(anchor)
    _add_out(anchor, "the anchored examples, in the native format")
    anchor.add_argument(
        "--unanchored", type=Path, metavar="REST", help="to write: the examples left over, with the reasons"
    )

    generate = _add_command(
        commands,
        "generate",
        "evalset_generate",
        "let a model write questions about a corpus, as candidates for review",
        "Passages are drawn from all files of the corpus. For each, the model writes a question and an answer that "
        "quotes the passage. A question is accepted if the model answers it from the passage, and not without it. "
        "Replies are cached as in tests: repeating the command asks nothing. The exit status is 1 if there are "
        "fewer than N.",
    )
    _add_corpus(generate)
    generate.add_argument(
        "--n", type=_positive, metavar="N", required=True, help="number of questions, at least 1"
    )
    _add_out(generate, "the candidates, in the native format")
    generate.add_argument(
        "--keep-rejected", type=Path, metavar="FILE", help="to write: rejected questions, with the reasons"
    )
    for option in OPTIONS:
        if option.name in GENERATE_OPTIONS:
            _add_plugin_option(generate, option)


def _add_evalset_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="the eval set, in any known format")
    command.add_argument("--format", metavar="NAME", help="its format (default: recognized)")
    command.add_argument(
        "--field",
        action="append",
        metavar="OURS=THEIRS",
        help="the name of one of our fields in the file: question=query, gold.id=doc; may be repeated",
    )
    command.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="an option of the format, named as in the marker: separator=' | ', topics=topics.txt, texts=false; "
        "may be repeated",
    )


def _add_corpus(command: argparse.ArgumentParser) -> None:
    command.add_argument("--corpus", type=Path, metavar="CORPUS", required=True, help=CORPUS_HELP)


def _add_out(command: argparse.ArgumentParser, content: str) -> None:
    command.add_argument("--out", type=Path, metavar="OUT", required=True, help=f"to write: {content}")
    command.add_argument("--force", action="store_true", help="replace files that exist")


def _add_plugin_option(command: argparse.ArgumentParser, option: Option) -> None:
    # Its name in tests is allowed too: messages use it.
    names = (f"--{option.name.replace('_', '-')}", option.flag)
    text = option.help.replace("%", "%%")
    if option.metavar:
        command.add_argument(*names, dest=option.name, metavar=option.metavar, help=text)
    else:
        command.add_argument(*names, dest=option.name, action="store_true", default=None, help=text)


def _add_judge(groups: Any) -> None:
    judge = _add_command(
        groups,
        "judge",
        "judge",
        "measure how far a model as judge agrees with people, and with itself",
        "It is asked about answers that people labelled. The report says how far it agrees with them, and how "
        "many of its verdicts change from vote to vote, with the order of the texts, with the wording of the "
        "question, and where a text contains instructions to the judge.",
    )
    judge.epilog = (
        "Replies are kept in the cache, where pytest finds them. The key is read from OPENAI_API_KEY. "
        "Exit status: 0; 2 if something cannot be used."
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
        help="ask for each verdict N times, at temperature 0.5; the majority counts (default: 1, at 0)",
    )
    judge.add_argument(
        "--swap", action="store_true", help="ask again with references, or the two answers, in reverse order"
    )
    judge.add_argument("--paraphrase", action="store_true", help="ask again in other words")
    judge.add_argument(
        "--injections",
        action="store_true",
        help="ask about built-in texts that contain instructions to the judge, and about the same texts without "
        "them; both with fences around the texts and without",
    )
    judge.add_argument(
        "--prompts",
        "--rageval-prompts",
        type=Path,
        metavar="FILE",
        help="prompts (TOML) by name, in place of the built-in ones, as in tests",
    )
    judge.add_argument("--cache-dir", type=Path, metavar="DIR", default=CACHE_FOLDER, help=CACHE_HELP)
    judge.add_argument("--replay", action="store_true", help="ask nothing: a missing reply is an error")
    judge.add_argument("--json", action="store_true", help="print JSON")


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


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of questions, expected 1 or more")
    return int(text)


def _odd(text: str) -> int:
    votes = int(text) if text.isdecimal() else 0
    if votes % 2 == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no odd number of votes; an even one may be tied")
    return votes


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL that begins with http:// or https://")
    return text
