"""The options, each with one declaration: parser, command line, ini key, help, docs and `Settings` are made from it.

- `parsers`: parse the text of each. `settings`: `Settings`, their values in a run, with the settings of its models.
- `resolution`: finds the values in command line, ini file, `pyproject`, environment and `presets` (by name).
- `command`: the options on the command line, and what an extension declares for the command `rageval`.

Every run of pytest imports this module. An extension declares its own options, as `OPTIONS` in its module; see
`core.extensions`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, Self, TypeVar, overload

from pytest_rageval.core.extensions import at_start
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options.parsers import (
    choice_parser,
    parse_amount,
    parse_base_url,
    parse_cache_option,
    parse_count,
    parse_cutoffs,
    parse_destination,
    parse_odd_int,
    parse_parameters,
    parse_path,
    parse_positive_int,
    parse_positive_share,
    parse_rate,
    parse_ref,
    parse_seconds,
    parse_share,
    parse_switch,
    parse_temperature,
    parse_update,
)

if TYPE_CHECKING:
    from pytest_rageval.lib.secret import BaseURL, StoreURL
    from pytest_rageval.options.parsers import Address

BASELINE: Final = Path("rageval_baseline.json")
DEFAULT_CONCURRENCY: Final = 16  # requests in flight from one process to a server
DEFAULT_TIMEOUT_S: Final = 60.0  # for one reply
DEFAULT_RETRIES: Final = 4  # attempts after the first one
DEFAULT_MATCH_SHARE: Final = 0.5  # of a gold passage that must be retrieved for it to count as found
DEFAULT_PATIENCE_S: Final = 300.0  # without any reply, before a server is given up

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Effect = Literal[
    "sends nothing",  # no request is sent: a missing reply is an error, unless a source of replies has another
    "lacks replies",  # replies, and so results, may be missing: a test may receive stubs in their place
    "has placeholders",  # a missing reply is counted, and a placeholder takes its place
    "sends again",  # a stored reply is not used
    "keeps replies",  # the replies that are used are kept, to be recorded
    "needs no cassette",  # the cassette that is named need not exist
    "leaves out questions",
    "compares nothing",  # no score is compared with the baseline at the end of the run
    "replaces the baseline",  # the scores are written to the baseline instead
    "is merged",  # `rageval merge` judges the scores, and writes what a whole run writes
    "reports nothing",
    "is a step",  # the run is a part of another one, which prints the summary and writes the files
    "answers applications",  # requests may come from an application, at any time
    "flex tier",  # requests are sent to this tier of the server, at a lower price
    "batch tier",
]
"""What an option means for a run. The core asks for these, and not which option it is."""


class Values(Protocol):
    """What has the values of options: `Settings`."""

    def __getitem__(self, option: "Option[T]") -> T:
        pass


@dataclass(
    eq=False, repr=False
)  # Every run makes this class: with frozen=True and a repr it would take twice as long.
class Option(Generic[T]):
    """One option, with everything that command line, ini file, help, docs and `Settings` need to know of it.

    It is `rageval_NAME` in the ini file, NAME in `[tool.rageval]` of `pyproject.toml`, and `--rageval NAME=VALUE` for a
    run. Those that differ from run to run have a flag of their own too: `--rageval-NAME VALUE`.

    `settings[OPTION]` is its value. An option of the core is an attribute of `CoreOptions` too: `settings.draws`.

    Attributes:
        name: the name, with underscores.
        metavar: the name of the value in the help text; empty for a switch.
        parse: converts a text to the value, or raises ValueError with what is allowed.
        default: the value of an option that is set nowhere.
        help: the help text: the effect, and the unit of the value. It explains a default that is not a constant.
        is_flag: whether it is a flag of its own on the command line.
        switch_values: the values that the flag of a switch accepts after an equals sign. Without one the switch is on.
        repeatable: whether the option may be repeated. Its value is a tuple; `parse` converts one item.
        in_ini: whether the option may be in the ini file and in `pyproject.toml`.
        private: whether the value may contain a password. An error message then does not quote it.
        variable: the environment variable with its default; it turns a switch on unless it says no.
        is_reported: whether reports name its value, if that is not the default.
        is_written: whether a run writes this file, so that a change of it is no change of the code under test.
        effects: returns, for the settings of a run, what the option means for it.
        plan_note: a line in the plan of a run with this option.
    """

    name: str
    metavar: str
    parse: Callable[[str], Any]
    default: T
    help: str
    _: KW_ONLY
    is_flag: bool = False
    switch_values: tuple[str, ...] = ("true", "false")
    repeatable: bool = False
    in_ini: bool = True
    private: bool = False
    variable: str = ""
    is_reported: bool = False
    is_written: bool = False
    effects: Callable[[Any], Collection[Effect]] = lambda _: ()
    plan_note: str = ""

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...

    @overload
    def __get__(self, settings: Values, owner: type) -> T: ...

    def __get__(self, settings: Values | None, owner: type) -> Self | T:
        return self if settings is None else settings[self]

    @property
    def typed(self) -> str:
        """The option as typed on the command line, without a value."""
        return f"--rageval-{self.name.replace('_', '-')}" if self.is_flag else f"--rageval {self.name}"

    def example(self) -> str:
        return f"{self.typed} {self.metavar}".rstrip() if self.is_flag else self.setter()

    def setter(self, value: str = "") -> str:
        """Return the option as set by `--rageval`, with this value; default: the name of its value."""
        return f"--rageval {self.name}={value or self.metavar or 'true'}"

    @property
    def ini(self) -> str:
        return f"rageval_{self.name}"

    @property
    def shown_default(self) -> str:
        """The default value as text; empty if the option has no value by default, or is off."""
        return "" if self.default in (None, ()) or self.default is False else str(self.default)


def switch(
    name: str, help_text: str, parse: Callable[[str], Any] = parse_switch, **attributes: Any
) -> Option[Any]:
    """Return an option that is on or off, and off by default; with other attributes of `Option`."""
    return Option(name, "", parse, False, help_text, **attributes)  # noqa: FBT003 - the default


class CoreOptions:
    """The options of the core, in the order of the help text."""

    # fmt: off
    model: Option[str | None] = Option(
        "model", "NAME", str, None,
        "model that generates answers; 'embedded' is a small local model, the default without OPENAI_API_KEY and "
        "without a base URL",
        is_flag=True,
    )
    judge_model: Option[str | None] = Option(
        "judge_model", "NAME", str, None,
        "model that compares answers, the judge. Several of one server, such as a,b,c, each have a vote, as with "
        "--rageval judge_votes=N. Default: the generating model, or canonical comparison if that is the embedded one",
        is_flag=True,
    )
    judge_votes: Option[int] = Option(
        "judge_votes", "N", parse_odd_int, 1,
        "votes of the judge on each verdict. The majority counts, or the median of grades; reports say how often "
        "votes differ. Several votes are sampled at temperature 0.5. A judge of your own is called once",
    )
    both_orders: Option[bool] = switch(
        "both_orders",
        "judge each pair of long answers in both orders; a verdict that changes with the order is a tie",
    )
    grades_together: Option[bool] = switch(
        "grades_together",
        "request the grades of correctness, faithfulness and context quality of a question together, which takes a "
        "third of the requests; only of a model, and where the example has answers and gold passages with texts",
    )
    preset: Option[str | None] = Option(
        "preset", "NAME", str, None,
        "use the settings of a preset, such as those of a paper; `rageval extensions` lists the presets. Other "
        "options, the tables of the models and the arguments of thresholds take precedence",
    )
    cutoffs: Option[tuple[int, ...]] = Option(
        "cutoffs", "K[,K…]", parse_cutoffs, (),
        'cut-offs of scores that are written without one: rageval_threshold("llm_reteval", min=0.8) is then one '
        "threshold for each cut-off",
    )
    temperature: Option[float | None] = Option(
        "temperature", "T", parse_temperature, None,
        "temperature of the generating model, for all scores but llm_reteval. A threshold may set its own "
        "(temperature=). Default: 0.5, or 0 for the embedded model",
    )
    draws: Option[int] = Option(
        "draws", "N", parse_positive_int, 1,
        "answers generated for each question, for all scores but llm_reteval; the question's score is their mean. A "
        "threshold may set its own (draws=)",
    )
    llm_reteval_temperature: Option[float | None] = Option(
        "llm_reteval_temperature", "T", parse_temperature, None,
        "temperature of the generating model for llm_reteval; default: as for --rageval temperature=T",
    )
    llm_reteval_draws: Option[int] = Option(
        "llm_reteval_draws", "N", parse_positive_int, 3,
        "answers generated from the gold passages for llm_reteval",
    )
    arena_examples: Option[bool] = switch(
        "arena_examples",
        "put three worked examples into the prompt of the model that compares two long answers",
    )
    base_url: "Option[BaseURL | None]" = Option(
        "base_url", "URL", parse_base_url, None,
        "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own", private=True,
        is_flag=True, variable="OPENAI_BASE_URL",
    )
    judge_base_url: "Option[BaseURL | None]" = Option(
        "judge_base_url", "URL", parse_base_url, None,
        "server of the judge; its key is in RAGEVAL_JUDGE_API_KEY. Default: RAGEVAL_JUDGE_BASE_URL, or the server "
        "of the generating model", private=True, variable="RAGEVAL_JUDGE_BASE_URL",
    )
    parameters: Option[Mapping[str, object] | None] = Option(
        "parameters", "JSON", parse_parameters, None,
        "parameters of each request to the generating model, such as '{\"reasoning_effort\": \"low\"}'. They "
        "replace those that the package sets, such as temperature", private=True,
    )
    judge_parameters: Option[Mapping[str, object] | None] = Option(
        "judge_parameters", "JSON", parse_parameters, None,
        "parameters of each request to the judge; default: none", private=True,
    )
    comparator: Option[str] = Option(
        "comparator", "EXPRESSION", str, "judge",
        "how two answers are compared: names of comparators and answer measures with and, or and thresholds, such "
        "as 'judge or em' or 'f1>=0.5'",
    )
    match_share: Option[float] = Option(
        "match_share", "SHARE", parse_positive_share, DEFAULT_MATCH_SHARE,
        "share of a gold passage that the retrieved documents must contain, if it is matched by span or by text",
    )
    document_id: Option[str | None] = Option(
        "document_id", "PATH", parse_path, None,
        "field of the retrieved documents that has the ids of the gold passages, such as metadata.source or "
        "payload.doc_id. Default: id, doc_id and other usual names",
        is_reported=True,
    )
    bleu_smoothing: Option[Literal["exp", "none"]] = Option(
        "bleu_smoothing", "exp|none", choice_parser("exp", "none"), "exp",
        "smoothing of answer.bleu. With none, an answer without four words in a row of a reference scores 0",
        is_reported=True,
    )
    max_tokens: Option[int | None] = Option(
        "max_tokens", "N", parse_positive_int, None,
        "most tokens of a reply. Without it the server sets the limit, and only a price table bounds the cost",
    )
    concurrency: Option[int] = Option(
        "concurrency", "N", parse_positive_int, DEFAULT_CONCURRENCY,
        "most requests at a time from one process to a server; fewer while the server refuses some",
    )
    rpm: Option[float | None] = Option(
        "rpm", "N", parse_rate, None,
        "most requests per minute to a server, over all workers",
    )
    tpm: Option[float | None] = Option(
        "tpm", "N", parse_rate, None,
        "most tokens per minute to a server, over all workers",
    )
    timeout: Option[float] = Option(
        "timeout", "SECONDS", parse_seconds, DEFAULT_TIMEOUT_S,
        "longest wait for one reply",
    )
    retries: Option[int] = Option(
        "retries", "N", parse_count, DEFAULT_RETRIES,
        "most repetitions of a request after 408, 409, 5xx, a timeout or a dropped connection. After 429 and 503, "
        "--rageval patience=SECONDS is the limit",
    )
    patience: Option[float] = Option(
        "patience", "SECONDS", parse_seconds, DEFAULT_PATIENCE_S,
        "give up on a server that answers none of the waiting requests for this long. The tests that need it are "
        "errors; the next run sends only the requests without a reply",
    )
    threads: Option[int] = Option(
        "threads", "N", parse_positive_int, 1,
        "threads that call a synchronous retriever or generator. With 1, the test's own thread makes one call at a "
        "time",
    )
    flex: Option[bool] = switch(
        "flex",
        "use the flex tier of servers (service_tier): a lower price, and slower replies. The default of "
        "--rageval timeout=SECONDS is then 900 s, that of --rageval patience=SECONDS 3600 s",
        effects=lambda settings: ("flex tier",) if settings.flex else (),
    )
    cache: "Option[Path | StoreURL | None]" = Option(
        "cache", "PLACE", parse_cache_option, None,
        "folder of the reply cache, or URL of a store that several machines share: redis://HOST/0, rediss://HOST/0 "
        "or diskcache:FOLDER. Default: RAGEVAL_CACHE_URL, where alone a URL may contain a password", private=True,
        is_flag=True,
    )
    cache_dir: Option[Path] = Option(
        "cache_dir", "DIR", Path, Path(".rageval_cache"),
        "folder of the reply cache, relative to the root directory by default",
    )
    refresh: Option[bool] = switch(
        "refresh",
        "send requests even if the cache or the cassette has the reply",
        is_flag=True, effects=lambda settings: ("sends again",) if settings.refresh else (),
    )
    replay: Option[bool] = switch(
        "replay",
        "send no requests; a reply that is neither in the cache nor in the cassette is an error",
        is_flag=True, effects=lambda settings: ("sends nothing",) if settings.replay else (),
    )
    cassette: Option[Path | None] = Option(
        "cassette", "FILE", Path, None,
        "file of recorded replies, read if the cache does not have the reply; compressed if it ends in .gz",
        is_flag=True,
    )
    record: Option[bool] = switch(
        "record",
        "write the replies of this run to the cassette",
        is_flag=True,
        effects=lambda settings: ("keeps replies", "needs no cassette") if settings.record else (),
    )
    record_prompts: Option[bool] = switch(
        "record_prompts",
        "write whole prompts to the cassette, not only their hashes",
    )
    drop_unused: Option[bool] = switch(
        "drop_unused",
        "remove from the cassette the replies that a full run did not use",
        is_flag=True,
    )
    max_calls: Option[int | None] = Option(
        "max_calls", "N", parse_count, None,
        "stop before more replies than this are requested",
    )
    max_cost: Option[float | None] = Option(
        "max_cost", "USD", parse_amount, None,
        "stop before the call with which the run could cost more than this",
        is_flag=True,
    )
    prices: Option[Path | None] = Option(
        "prices", "FILE", Path, None,
        "file of model prices (TOML), which override the known ones",
    )
    prompts: Option[Path | None] = Option(
        "prompts", "FILE", Path, None,
        "file of prompts (TOML) that replace the package's own, for models at a server",
    )
    max_unscored: Option[float] = Option(
        "max_unscored", "SHARE", parse_share, 0.05,
        "largest allowed share of examples without a score; above it, a score is an error",
    )
    baseline: Option[Path] = Option(
        "baseline", "FILE", Path, BASELINE,
        "file of the scores that max_drop, max_total_drop and max_lost compare with; it belongs in git. Relative to "
        "the root directory by default",
        is_flag=True,
    )
    baseline_ref: Option[str | None] = Option(
        "baseline_ref", "REF", parse_ref, None,
        "compare with the baseline as it is at this commit or branch, such as origin/main, whatever this branch "
        "changed in it. Needs git, and a clone that has the commit. No effect with --rageval-update-baseline",
    )
    update_baseline: "Option[bool | Literal['force']]" = switch(
        "update_baseline",
        "write the scores of this run to the baseline instead of comparing them with it. Only on the command line. "
        "Refused under CI=true, unless it is --rageval-update-baseline=force",
        parse=parse_update, switch_values=("force",), in_ini=False, is_flag=True,
        effects=lambda settings: (
            ("replaces the baseline", "compares nothing") if settings.update_baseline else ()
        ),
    )
    pin_baseline: Option[bool] = switch(
        "pin_baseline",
        "with --rageval-update-baseline: also pin these scores as the anchor that max_total_drop compares with, "
        "until the next pin. Only on the command line",
        in_ini=False,
        is_flag=True,
    )
    require_baseline: Option[bool] = switch(
        "require_baseline",
        "turn these warnings into errors: max_drop or max_lost without a baseline, max_total_drop without an "
        "anchor, more questions removed than --rageval max_removed=SHARE, and a test of the baseline that was not "
        "compared with it. The default under CI=true; off with --rageval require_baseline=false",
        variable="CI",
    )
    allow_missing: Option[tuple[str, ...]] = Option(
        "allow_missing", "NODEID", str, (),
        "a test of the baseline, or a class, module or folder of such tests, that need not be compared with it: "
        "skipped, deselected or expected to fail. The report lists them. May be repeated",
        repeatable=True,
    )
    max_removed: Option[float] = Option(
        "max_removed", "SHARE", parse_share, 0.1,
        "largest share of the baseline's questions that may be removed or edited; above it, the comparison is an "
        "error under CI=true, and elsewhere a warning",
    )
    policy: Option[Mapping[str, Mapping[str, object]] | None] = Option(
        "policy", "JSON", Lazy("core.policy", "parse_tables"), None,
        "policies of thresholds: pr (the default), release, snapshot and your own. In pyproject.toml each is a table "
        "[tool.rageval.policy.NAME] with alpha, burden, inconclusive and other keys; here a JSON object of tables",
    )
    repeat: Option[int] = Option(
        "repeat", "N", parse_positive_int, 1,
        "call generator and judge N times for each question, under new sample numbers. A question's score is the "
        "mean over these runs; reports give the spread of their means",
        is_flag=True,
    )
    sample: Option[float] = Option(
        "sample", "SHARE", parse_positive_share, 1.0,
        "score only this share of the questions of every eval set, chosen by a hash of their ids, so the same in "
        "each run. They are compared with the baseline's scores of the same questions. Only on the command line",
        in_ini=False, is_flag=True,
        effects=lambda settings: {"leaves out questions"} if settings.sample < 1 else (),
    )
    report: "Option[tuple[Path | Address, ...]]" = Option(
        "report", "FILE", parse_destination, (),
        "write a report to this file: .md for a pull request, .html for a browser, .json for programs. otlp:URL "
        "sends it to an OpenTelemetry collector, otlp: to that of OTEL_EXPORTER_OTLP_ENDPOINT. May be repeated",
        repeatable=True,
        is_flag=True,
    )
    seed: Option[int] = Option(
        "seed", "N", parse_count, 0,
        "seed of bootstrap intervals and of random orders",
    )
    # fmt: on


OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    option for option in vars(CoreOptions).values() if isinstance(option, Option)
)

MOVED: Final = {
    "inconclusive": ' It is set by a policy: [tool.rageval.policy.pr] in pyproject.toml, with inconclusive = "fail".'
}
"""Hints for names that were options, by name."""


@cache
def all_options() -> tuple[Option[Any], ...]:
    own = (getattr(module, "OPTIONS", ()) for module in at_start().values())
    return (*OPTIONS, *chain.from_iterable(own))
