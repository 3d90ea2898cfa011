"""The `rageval` command. `main()` parses the arguments and imports only the module of the chosen command.

- Commands here: `scores`, and `rageval cache`: `cache_reading` (info, export) and `cache_writing` (import, prune,
  verify).
- Every other command is a module of its extension.
- Printing, settings and session of commands that use models, and cache stores of plugins: `run.console`,
  `run.command_session` and `run.plugin_stores`.

The function of a command returns the exit status. It raises `RagevalError` for input that cannot be used.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.core.errors import RagevalError, require
from pytest_rageval.core.options import OPTIONS, Option, resolve_cache
from pytest_rageval.lib.secret import parse_public_cache
from pytest_rageval.run.console import echo, echo_err

EXIT_UNUSABLE = 2  # argparse's exit status for bad arguments, here also for files that cannot be used
EXIT_INTERRUPTED = 130
SHELLS: Final = ("bash", "zsh", "tcsh", "fish")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: the command and its arguments; default: the arguments of the process.

    Returns:
        The exit status: 0; 1 if the command found damage or errors; 2 for unusable input; 130 after Ctrl-C.

    Raises:
        SystemExit: with 2 for arguments that are not allowed, with 0 after `--help` and `--version`.
    """
    for stream in (sys.stdout, sys.stderr):
        # The terminal's encoding may lack characters of the output, such as a model's name.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        parser = _parser()
        options, rest = parser.parse_known_args(arguments)
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


Argument = tuple[tuple[str, ...], dict[str, Any]]
"""The positional and the keyword arguments of `argparse.ArgumentParser.add_argument`."""


def _value(
    names: str, metavar: str, text: str, parse: Callable[[str], Any] = Path, **kwargs: Any
) -> Argument:
    """Return an argument or an option with a value; `names` are separated by spaces, `text` is the help."""
    return tuple(names.split()), {"metavar": metavar, "help": text, "type": parse, **kwargs}


def _switch(name: str, text: str) -> Argument:
    """Return an option without a value; `text` is the help."""
    return (name,), {"action": "store_true", "help": text}


def _with_plugin_names(*arguments: Argument) -> tuple[Argument, ...]:
    """Add to each option the name of the plugin's option, such as --rageval-cache, which messages use."""
    return tuple(
        ((*names, f"--rageval-{names[0].removeprefix('--')}"), kwargs) for names, kwargs in arguments
    )


def _value_parser(
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


_parse_days: Final = _value_parser(
    float, lambda days: 0 <= days < math.inf, "a number of days, expected 0 or more, such as 30 or 0.5"
)
_parse_questions: Final = _value_parser(
    int, lambda number: number >= 1, "a number of questions, expected 1 or more"
)
_parse_runs: Final = _value_parser(int, lambda number: number >= 1, "a number of runs, expected 1 or more")
_parse_votes: Final = _value_parser(
    int, lambda votes: votes >= 1 and votes % 2 == 1, "an odd number of votes; an even one may be tied"
)
_parse_url: Final = _value_parser(
    str, lambda url: url.startswith(("http://", "https://")), "a URL that begins with http:// or https://"
)


def _parse_cache(text: str) -> Any:
    """Parse the value of --cache: a folder, or the URL of a store without a password."""
    try:
        return parse_public_cache(text)
    except ValueError as error:
        # argparse's own message would print the text, which may contain a password.
        raise argparse.ArgumentTypeError(f"it cannot be used: {error}") from None


CACHE_FOLDER: Final = Path(".rageval_cache")
CACHE_HELP: Final = f"cache (default: {CACHE_FOLDER})"
CACHE_URL_HELP: Final = (
    "folder, or URL of a shared store, such as redis://HOST/0 (default: RAGEVAL_CACHE_URL, the only place for a URL "
    "with a password, or --cache-dir)"
)
CACHE_GROUP_OPTIONS: Final = _with_plugin_names(
    _value("--cache-dir", "DIR", CACHE_HELP, default=None),
    _value("--cache", "PLACE", CACHE_URL_HELP, _parse_cache, default=None),
)
"""Options between `rageval cache` and the name of the command."""
CACHE_COMMAND_OPTIONS: Final = _with_plugin_names(
    _value("--cache-dir", "DIR", CACHE_HELP, default=argparse.SUPPRESS),
    _value("--cache", "PLACE", CACHE_URL_HELP, _parse_cache, default=argparse.SUPPRESS),
)
"""The same options after the name of the command. An option that is absent there keeps the value of the group."""

JSON: Final = _switch("--json", "print JSON")
MODEL: Final = _value(
    "--model", "NAME", "only replies of this model, named as in `rageval cache info`; may be repeated", str,
    action="append",
)  # fmt: skip
CORPUS_HELP: Final = (
    "JSON lines of passages (id, text; source, start, end), a BEIR corpus.jsonl, or a folder of text and "
    "Markdown files"
)
CORPUS: Final = _value("--corpus", "CORPUS", CORPUS_HELP, required=True)
FORCE: Final = _switch("--force", "replace files that exist")
EVALSET_ARGUMENTS: Final = (
    _value("file", "FILE", "the eval set, in any known format"),
    _value("--format", "NAME", "its format (default: recognized)", str),
    _value("--field", "OURS=THEIRS",
           "the name of one of our fields in the file: question=query, gold.id=doc; may be repeated",
           str, action="append"),
    _value("--option", "NAME=VALUE",
           "an option of the format, as in the marker: separator=' | ', topics=topics.txt, texts=false; "
           "may be repeated", str, action="append"),
)  # fmt: skip

PYTEST_ARGUMENTS: Final[Argument] = (
    ("arguments",),
    {
        "metavar": "ARGUMENT",
        "nargs": argparse.REMAINDER,
        "help": "arguments of pytest: options, files, tests",
    },
)

MERGE_OPTIONS: Final = _with_plugin_names(
    _value("--report", "FILE", "report to write: .md for a pull request, .html for a browser, .json for programs; "
           "may be repeated", action="append", default=[]),
    _value("--history", "FILE", "append the joined scores to this file (.jsonl), as --rageval-history does in "
           "a run; scores of a sample are not appended"),
    _value("--baseline", "FILE", "baseline to compare with (default: that of the shards)"),
    _value("--update-baseline", "force", "write the joined scores to the baseline instead of comparing them "
           "with it; refused under CI=true, unless it is --update-baseline=force", str, nargs="?", const=""),
    _switch("--pin-baseline", "with --update-baseline: also pin these scores as the anchor of max_total_drop"),
    _switch("--require-baseline", "make a bound on a drop an error if there is no baseline (default: as in "
            "the shards)"),
    _value("--cassette", "FILE", "file to write: the replies that the shards used, if they ran with "
           "--rageval-record"),
    _switch("--drop-unused", "drop replies that no shard used from the cassette"),
)  # fmt: skip

GENERATE_OPTIONS: Final = (
    "model", "judge_model", "base_url", "judge_base_url", "parameters", "judge_parameters",
    "max_tokens", "flex", "concurrency", "timeout", "cache", "cache_dir", "refresh", "replay",
    "cassette", "max_calls", "max_cost", "prices", "prompts", "seed",
)  # fmt: skip
"""Names of the plugin's options that `evalset generate` and `evalset nuggets` have too."""

GATEWAY_OPTIONS: Final = (
    "base_url", "concurrency", "rpm", "tpm", "timeout", "retries", "patience", "cache", "cache_dir", "refresh",
    "replay", "cassette", "record", "record_prompts", "max_calls", "max_cost", "prices",
)  # fmt: skip
"""Names of the plugin's options that `gateway` has too."""

JUDGE_OPTIONS: Final = (
    "judge_parameters", "max_tokens", "flex", "concurrency", "rpm", "tpm", "timeout", "retries", "patience", "cache",
    "cache_dir", "refresh", "replay", "cassette", "max_calls", "max_cost", "prices", "prompts",
)  # fmt: skip
"""Names of the plugin's options that `judge` has too."""


def _plugin_option(option: Option) -> Argument:
    """Return a plugin option as an option of a command, also under its name in pytest, which messages use."""
    names = (f"--{option.name.replace('_', '-')}", option.flag)
    kwargs: dict[str, Any] = {"action": "store_true", "default": None}
    if option.metavar:
        kwargs = {"metavar": option.metavar}
    return names, {"dest": option.name, "help": option.help.replace("%", "%%"), **kwargs}


class Command(NamedTuple):
    """A command. Its function is named `NAME_command`.

    Attributes:
        group: the name of its group, such as "cache"; empty for a command without a group.
        name: the name of the command.
        module: the module that has the function, relative to `pytest_rageval`.
        summary: the help in the list of commands.
        details: the further help of the command.
        arguments: its arguments.
        epilog: the end of its help, such as the exit status; None if there is none.
    """

    group: str
    name: str
    module: str
    summary: str
    details: str
    arguments: tuple[Argument, ...]
    epilog: str | None = None


# fmt: off
GROUPS: Final = (
    ("batch", "send the requests of a run to the batch API of the server, at a lower price",
     ("The steps of `pytest --rageval-batch`: submit the requests, wait until the batches have ended, collect the "
      "replies. Repeat this until no reply is missing, as some requests contain earlier replies. The arguments are "
      "those of pytest for the run."),
     "a batch has not ended"),
    ("cache", "maintain the cache of replies and embeddings",
     "Maintains the cache of replies and embeddings, and cassettes (files of recorded replies).", "damage was found"),
    ("evalset", "check an eval set, anchor its gold passages in files, or make an eval set",
     "Maintains eval sets.",
     "errors were found or examples are missing"),
)
"""The groups of commands: name, summary, description, and the meaning of the exit status 1."""

COMMANDS: Final = (
    Command("batch", "submit", "extensions.batches.command",
            "submit the requests that have no reply in the cache",
            "Runs the tests as far as the cache has replies. Requests already in a batch are not submitted again.",
            (PYTEST_ARGUMENTS,),
            "Exit status: 0; 2 if something cannot be used, or a server does not take a batch."),
    Command("batch", "status", "extensions.batches.command",
            "show the batches and their progress", "Runs no test.",
            (PYTEST_ARGUMENTS,)),
    Command("batch", "collect", "extensions.batches.command",
            "write the replies of finished batches to the cache", "Runs no test.",
            (PYTEST_ARGUMENTS,)),
    Command("", "init", "extensions.first_test.init",
            "write a first test of a retriever, which passes",
            "Writes conftest.py, test_retriever.py, an eval set, pytest.ini, .gitattributes and a workflow for GitHub "
            "into the current folder. Without arguments, the retriever is a keyword search over three passages. With "
            "--retriever, yours is imported, but not called. A file that exists is not changed: the lines to add to "
            "it are printed.",
            (_value("--retriever", "MODULE:NAME",
                    "your retriever, such as support_bot.search:search, my_app:store.as_retriever() or my_app:build()",
                    str),
             _value("--evalset", "FILE", "your eval set, in any known format; requires --retriever"),
             _value("--framework", "NAME",
                    "write the example in this framework: langchain, llamaindex or haystack; not with --retriever", str,
                    choices=("langchain", "llamaindex", "haystack"))),
            "Exit status: 0; 2 if something cannot be used. Nothing is overwritten."),
    Command("", "demo", "extensions.first_test.demo",
            "show a retriever that gets worse, and the test that fails",
            "Copies an example project into a temporary folder and runs its tests twice: as it is, and with a worse "
            "retriever. Needs no model and no key.",
            (_value("--keep", "DIR",
                    "copy the example into this folder and keep it; new or empty, and outside of a project"),),
            "Exit status: 0; 1 if the tests did not end as expected; 2 if something cannot be used."),
    Command("", "scores", "cli.scores",
            "list all scores, with their range and what they need",
            "A score is named with a cut-off: recall@5 looks at the first five documents.",
            (_value("name", "NAME", "describe this score in detail; or list the scores of this group, such as arena",
                    str, nargs="?"),
             JSON)),
    Command("", "diff", "extensions.report_diff.command",
            "compare the scores of two runs, or of two systems, from their JSON reports",
            "Prints for each score that both have: the two means, each over all questions of its run; the difference "
            "over the questions that both have, with its 95% interval and the p-value of a paired two-sided test; and "
            "how many questions got better, got worse and stayed the same. The p-values are not adjusted for the "
            "number of scores.",
            (_value("before", "BEFORE", "JSON report of the first run (pytest --rageval-report FILE.json)"),
             _value("after", "AFTER", "JSON report of the second run", nargs="?"),
             (("--system",), {"nargs": 2, "metavar": ("A", "B"), "help":
                "compare two systems of parametrized tests: both from one report, or A from the first and B from the "
                "second"}),
             _value("--html", "FILE", "also write a page of all questions, with passages and answers of both"),
             (("-v", "--verbose"), {"action": "store_true", "help":
                "print all questions that changed, with passages and answers of both"}),
             JSON),
            "Exit status: 0, also if a score dropped; 2 if a file cannot be used."),
    Command("", "merge", "extensions.shards.command",
            "judge the reports of a run's shards as one run",
            "Joins the JSON reports of pytest --rageval-shard and compares the joined scores with their bounds and "
            "with the baseline, as one run with all questions would. No report may be missing.",
            (_value("files", "FILE", "JSON reports, one of each shard (pytest --rageval-shard I/N --rageval-report "
                    "FILE.json)", nargs="+"),
             *MERGE_OPTIONS,
             _switch("--partial", "allow tests that were collected but ran in no shard, as with -k")),
            "Exit status: 0; 1 if a test failed or was in error, or a shard was stopped; 2 if a report is missing, "
            "given twice or of another run, or something else cannot be used."),
    Command("", "history", "extensions.history.command",
            "show how scores changed from run to run",
            "Prints for each score its lowest and highest mean, the last two means, the mean in the baseline, and a "
            "bar chart in a line. With --html it also writes a page of charts. Runs are sorted by time.",
            (_value("file", "FILE", "the history (pytest --rageval-history FILE)"),
             _value("--html", "PAGE", "page to write"),
             _value("--test", "NODEID", "only this test, or tests whose node ids contain this text", str),
             _value("--score", "NAME", "only this score, or scores whose names contain this text", str),
             _value("--last", "N", "only the last N runs", _parse_runs),
             JSON),
            "Exit status: 0; 2 if something cannot be used. Damaged lines are reported."),
    Command("", "badge", "extensions.history.command",
            "write a badge for a README from a run, as JSON for shields.io",
            "With --score the badge shows the mean of the score; without it, how many thresholds failed or passed.",
            (_value("file", "FILE", "a JSON report, or a history: its last run"),
             _value("--output", "BADGE", "JSON file to write", required=True),
             _value("--test", "NODEID", "only this test, or tests whose node ids contain this text", str),
             _value("--score", "NAME", "show the mean of this score, or of the score whose name contains this text",
                    str),
             _value("--label", "TEXT", "text on the left side (default: rageval, or the name of the score)", str)),
            "Exit status: 0, also if the run failed; 2 if something cannot be used."),
    Command("cache", "info", "cli.cache_reading",
            "show replies and tokens by model, the number of embeddings, dates and sizes", "",
            (*CACHE_COMMAND_OPTIONS, JSON)),
    Command("cache", "export", "cli.cache_reading",
            "write the replies to a cassette",
            "Damaged entries are reported and left out; the exit status is then 1.",
            (*CACHE_COMMAND_OPTIONS,
             _value("file", "FILE", "cassette to write; compressed if it ends in .gz"),
             MODEL,
             _switch("--force", "replace FILE if it exists"))),
    Command("cache", "import", "cli.cache_writing",
            "add the replies of cassettes to the cache",
            "The replies get the date of today. The folder is created if it is missing.",
            (*CACHE_COMMAND_OPTIONS,
             _value("files", "FILE", "cassettes; if they have several replies to a request, the first is used",
                    nargs="+"),
             _switch("--replace", "replace cached replies to the same requests"))),
    Command("cache", "prune", "cli.cache_writing",
            "delete old replies and embeddings, or replies by model",
            "At least one condition is needed; all that are set must hold. The file is made smaller afterwards.",
            (*CACHE_COMMAND_OPTIONS,
             _value("--older-than", "DAYS", "only entries older than DAYS days, such as 0.5", _parse_days),
             MODEL,
             _switch("--cut", "only replies cut off by the token limit; no embeddings"),
             _switch("--dry-run", "print what would be deleted, and delete nothing"),
             _value("--cassette", "FILE", "delete from this file, not from the cache"))),
    Command("cache", "verify", "cli.cache_writing",
            "look for damaged entries",
            "Repeated requests and lines out of order are reported too, but do not count as damage.",
            (*CACHE_COMMAND_OPTIONS,
             _value("files", "FILE", "cassettes (default: the cache)", nargs="*"),
             _switch("--repair", "delete damaged entries from the cache, and keep all others"))),
    Command("evalset", "check", "extensions.evalset_tools.check",
            "look for mistakes in an eval set, and print the smallest drop that it can show",
            "Errors: the same question twice, and gold passages that are not in the corpus. Notes: near-duplicate "
            "questions, answers that are in the question or in no gold passage, examples without gold passages or "
            "answers, unknown keys that resemble a known one, and tags with one value over ten times as frequent as "
            "another. The exit status is 1 only if there are errors.",
            (*EVALSET_ARGUMENTS,
             _value("--corpus", "CORPUS", f"where the gold passages are: {CORPUS_HELP}"),
             _switch("--json", "print all findings as JSON"))),
    Command("evalset", "anchor", "extensions.evalset_tools.anchor",
            "turn gold passages into character spans of files, which stay valid after re-chunking",
            "Gold by id is looked up in the corpus. Texts and quoted answers are searched word for word, except for "
            "white space. An example is left over if its gold is found nowhere or at several places. The exit status "
            "is then 1.",
            (*EVALSET_ARGUMENTS,
             CORPUS,
             _value("--out", "OUT", "file to write: the anchored examples, in the native format", required=True),
             FORCE,
             _value("--unanchored", "REST", "file to write: the examples left over, with the reasons"))),
    Command("evalset", "generate", "extensions.evalset_tools.generate",
            "let a model write questions about a corpus, as candidates for review",
            "Passages are drawn from all files of the corpus. For each, the model writes a question and an answer that "
            "quotes the passage. A question is accepted if the model answers it correctly with the passage, and not "
            "without it. Replies are cached as in tests, so a repeated command sends no requests. The exit status is 1 "
            "if fewer than N are accepted.",
            (CORPUS,
             _value("--n", "N", "number of questions, at least 1", _parse_questions, required=True),
             _value("--out", "OUT", "file to write: the candidates, in the native format", required=True),
             FORCE,
             _value("--keep-rejected", "FILE", "file to write: rejected questions, with the reasons"),
             *(_plugin_option(option) for option in OPTIONS if option.name in GENERATE_OPTIONS))),
    Command("evalset", "nuggets", "extensions.evalset_tools.nuggets",
            "let the judge's model propose nuggets, the facts that a good answer contains, for review",
            "For each example without nuggets the model lists facts from its reference answers and the texts of its "
            "gold passages, and says which are vital. They are written to another file, where each of these examples "
            "has nuggets_reviewed: false. A reviewer removes that; `rageval evalset check` lists the examples that "
            "still have it. Replies are cached as in tests. The exit status is 1 if an example is left without "
            "nuggets.",
            (*EVALSET_ARGUMENTS,
             _value("--out", "OUT", "file to write: the whole eval set, in the native format", required=True),
             FORCE,
             *(_plugin_option(option) for option in OPTIONS if option.name in GENERATE_OPTIONS))),
    Command("evalset", "from-traces", "extensions.traces.command",
            "make an eval set from the questions in exported traces",
            "Reads spans of Phoenix (OpenInference), OTLP JSON (OpenInference or GenAI conventions), traces and data "
            "sets of Langfuse, runs and data sets of LangSmith, and data sets of Phoenix, as JSON, JSON lines or CSV; "
            "the kind is recognized. Each question is written once, with the retrieved passages, the answer that was "
            "given, and feedback as tags. Retrieved passages are not written as gold: people must decide which are. "
            "The command prints how much was left out or is missing.",
            (_value("files", "FILE", "exports; a trace may be spread over several", nargs="+"),
             _value("--output", "OUT", "file to write: the eval set, in the native format", required=True),
             FORCE,
             _switch("--answers-are-references",
                     "use the given answers as reference answers (default: only the expected outputs of data sets)")),
            "Exit status: 0, also if traces are left out; 2 if something cannot be used."),
    Command("", "judge", "extensions.calibration.command",
            "measure how often a model as judge agrees with people, and with itself",
            "The model judges answers that people labelled. The report gives its agreement with the labels, and the "
            "share of verdicts that change between votes, with the order of the texts, with the wording of the "
            "question, and if a text contains instructions to the judge.",
            (_value("labels", "LABELS", "labelled answers or pairs, JSON lines"),
             _value("--model", "NAME", "name of the model at the server", str, required=True),
             _value("--base-url", "URL", "OpenAI-compatible server (default: OPENAI_BASE_URL, or OpenAI's own)",
                    _parse_url),
             _value("--votes", "N",
                    "votes on each verdict, at temperature 0.5; the majority counts (default: 1, at temperature 0)",
                    _parse_votes, default=1),
             _switch("--swap", "judge again with the references, or the two answers, in reverse order"),
             _switch("--paraphrase", "judge again with a prompt in other words"),
             _switch("--injections",
                     "judge built-in texts that contain instructions to the judge, and the same texts without "
                     "them; each with and without delimiters around the texts"),
             *(_plugin_option(option) for option in OPTIONS if option.name in JUDGE_OPTIONS),
             JSON),
            "Replies are cached, for runs of pytest too. The key is read from OPENAI_API_KEY. "
            "Exit status: 0; 2 if something cannot be used."),
    Command("", "gateway", "extensions.application_calls.command",
            "run a command, and cache, limit, count and replay its model calls",
            "Starts an OpenAI-compatible server on 127.0.0.1, and runs the command with OPENAI_BASE_URL and "
            "OPENAI_API_KEY set to it. The server replies from the cache, the cassette or the real server. Needs the "
            "extra gateway. For tests, use pytest --rageval-gateway.",
            (*(_plugin_option(option) for option in OPTIONS if option.name in GATEWAY_OPTIONS),
             (("command",), {"metavar": "COMMAND", "nargs": argparse.REMAINDER,
                             "help": "the command with its arguments, after --"})),
            "The real server and its key are those of --base-url or OPENAI_BASE_URL, and OPENAI_API_KEY. "
            "Exit status: that of the command; 2 if something cannot be used."),
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


def _parser() -> argparse.ArgumentParser:
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
    for name, summary, description, status_1 in GROUPS:
        group = commands[""].add_parser(
            name,
            help=summary,
            description=description,
            epilog=f"Exit status: 0; 1 if {status_1}; 2 if something cannot be used.",
        )
        if name == "cache":
            for names, kwargs in CACHE_GROUP_OPTIONS:
                group.add_argument(*names, **kwargs)
        commands[name] = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        parser = commands[command.group].add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}. {command.details}".rstrip(),
            epilog=command.epilog,
        )
        parser.set_defaults(run=partial(_run, command))
        for names, kwargs in command.arguments:
            parser.add_argument(*names, **kwargs)
    return main


def _run(command: Command, options: argparse.Namespace) -> int:
    """Run a command. Its module is imported only now, since it may import SQLite, clients of models or NumPy."""
    if command.group == "cache":
        _resolve_cache(options)
    module = import_module(f"pytest_rageval.{command.module}")
    status: int = getattr(module, f"{command.name.replace('-', '_')}_command")(options)
    return status


def _resolve_cache(options: argparse.Namespace) -> None:
    """Set `cache_dir` to the folder of the cache, and `cache` to the URL of a shared store or None."""
    if options.cache is None and options.cache_dir is not None:
        return
    place = resolve_cache(options.cache, os.environ, Path.cwd())
    if isinstance(place, Path):
        options.cache_dir, options.cache = place, None
    else:
        options.cache_dir, options.cache = options.cache_dir or CACHE_FOLDER, place
