"""The table of options: one for the command line, the ini file and the docs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.config.destinations import parse_destination
from pytest_rageval.config.models import AMOUNT, COUNT, POSITIVE, RATE, SECONDS, number, parse_parameters
from pytest_rageval.config.settings import Settings
from pytest_rageval.secret import BaseURL, parse_public_cache

if TYPE_CHECKING:
    from pytest_rageval.config.presets import Preset

__all__ = ["OPTIONS", "Option"]


class Option(NamedTuple):
    """One option: `--rageval-NAME` and `rageval_NAME` in the ini file."""

    name: str  # with underscores; the field of `Settings`
    parse: Callable[[str], Any]  # from text to the field's value; raises ValueError with what is allowed
    metavar: str  # name of the value in the help; empty for a switch
    help: str  # the effect, and the unit
    words: tuple[str, ...] = (
        "true",
        "false",
    )  # values of a switch, after an equals sign; without one it is on
    many: bool = False  # it may be repeated
    permanent: bool = True  # it may be in the ini file
    private: bool = False  # the text may contain a password, which an error does not quote

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--rageval-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """As written in the ini file."""
        return f"rageval_{self.name}"

    @property
    def default(self) -> Any:
        """The default value."""
        return getattr(Settings, self.name)


ODD: Final = number(
    int,
    lambda value: value >= 1 and value % 2 == 1,
    "an odd whole number, at least 1: an even number of votes may be tied",
)
DEGREE: Final = number(float, lambda value: 0 <= value < float("inf"), "a number, at least 0")
SHARE: Final = number(float, lambda value: 0 <= value <= 1, "a share between 0 and 1")
PART: Final = number(float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def _switch(text: str) -> bool:
    on = text.lower() in {"true", "1", "yes", "on"}
    if not on and text.lower() not in {"false", "0", "no", "off"}:
        raise ValueError("expected true or false")
    return on


def _update(text: str) -> bool | Literal["force"]:
    if text.lower() == "force":
        return "force"
    try:
        return _switch(text)
    except ValueError:
        raise ValueError("expected nothing, or force") from None


def _shard(text: str) -> tuple[int, int]:
    index, _, number = text.partition("/")
    if index.isdecimal() and number.isdecimal() and 1 <= int(index) <= int(number):
        return int(index), int(number)
    raise ValueError("expected I/N with 1 ≤ I ≤ N, such as 2/8")


def _batch(text: str) -> bool | str:
    return text if text in {"submit", "status", "collect"} else _switch(text)


def _preset(text: str) -> "Preset":
    from pytest_rageval.config.presets import read_preset  # noqa: PLC0415 - every run of pytest imports this module

    return read_preset(text)


def _cutoffs(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(map(POSITIVE, text.split(","))))
    except ValueError:
        raise ValueError("expected whole numbers from 1, with commas between them, such as 1,5,10") from None


def _encoder(text: str) -> str:
    _, at, layer = text.rpartition("@")
    if at and not (layer.isdecimal() and int(layer) >= 1):
        raise ValueError("expected a model, or one with a layer from 1, such as roberta-large@17")
    return text


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return parse


# fmt: off
OPTIONS: Final = (
    Option("model", str, "NAME",
           "model that generates answers; 'embedded' is the local one, and the default where there is neither "
           "OPENAI_API_KEY nor a base URL"),
    Option("judge_model", str, "NAME",
           "model that compares answers; default: the generating one, or canonical comparison where that is embedded; "
           "several of one server, such as a,b,c, have a vote each, and the votes count as with --rageval-judge-votes"),
    Option("judge_votes", ODD, "N",
           "votes of the model that compares answers on each verdict; the majority counts, of grades the median, and "
           "how often votes differ is reported; more than one are drawn at temperature 0.5; a judge of yours is "
           "asked once"),
    Option("both_orders", _switch, "",
           "judge each pair of long answers in both orders, and count a verdict that changes with the order as a tie"),
    Option("preset", _preset, "NAME",
           "the settings of a paper: alinejad2024, salemi2024, garigliotti2024, han2024 or gulsoy2024; other options, "
           "the tables of the models and keywords of thresholds take precedence"),
    Option("cutoffs", _cutoffs, "K[,K…]",
           'cut-offs of scores that are written without one: rageval_threshold("llm_reteval", min=0.8) is then a '
           "threshold for each"),
    Option("temperature", DEGREE, "T",
           "temperature of the generating model, for all scores but llm_reteval; default: 0.5, and 0 of the embedded "
           "model; a threshold may name its own (temperature=)"),
    Option("draws", POSITIVE, "N",
           "answers that are drawn for each question, for all scores but llm_reteval; the mean of their scores "
           "counts; a threshold may name its own (draws=)"),
    Option("llm_reteval_temperature", DEGREE, "T",
           "temperature of the generating model for llm_reteval; default as for --rageval-temperature"),
    Option("llm_reteval_draws", POSITIVE, "N",
           "answers that are drawn from the gold passages for llm_reteval"),
    Option("arena_pairs", COUNT, "N",
           "let the systems of a parametrized test that asks for arena.* battle each other too, N times in all on an "
           "eval set: each pair equally often, on questions drawn by --rageval-seed from each domain equally"),
    Option("arena_examples", _switch, "",
           "show the model that compares two long answers three worked examples first"),
    Option("base_url", BaseURL.parse, "URL",
           "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own", private=True),
    Option("judge_base_url", BaseURL.parse, "URL",
           "server of the model that compares answers; default: RAGEVAL_JUDGE_BASE_URL, or the server of the "
           "generating one; its key is in RAGEVAL_JUDGE_API_KEY", private=True),
    Option("parameters", parse_parameters, "JSON",
           "parameters of each request to the generating model, such as '{\"reasoning_effort\": \"low\"}'; they "
           "replace the package's own, such as temperature", private=True),
    Option("judge_parameters", parse_parameters, "JSON",
           "the same for the model that compares answers, which has none by default", private=True),
    Option("comparator", str, "EXPRESSION",
           "how two answers are compared: names of comparators and answer measures with and, or and thresholds, such "
           "as 'judge or em' or 'f1>=0.5'"),
    Option("match_share", PART, "SHARE",
           "share of a gold passage that retrieved documents must contain, where it is matched by span or text"),
    Option("encoder", _encoder, "MODEL[@LAYER]",
           "model of sentence-transformers for answer.bertscore and answer.cosine, a name or a folder; BERTScore "
           "compares tokens of this layer, such as roberta-large@17; default: the packaged model, its last layer"),
    Option("bleu_smoothing", _choice("exp", "none"), "exp|none",
           "smoothing of answer.bleu; with none an answer without four words in a row of a reference scores 0"),
    Option("max_tokens", POSITIVE, "N",
           "most tokens of a reply; without it the server decides, and only a price table bounds the cost"),
    Option("gateway", _switch, "",
           "start an OpenAI-compatible server on 127.0.0.1 and lead the clients of the tests' process to it, so that "
           "model calls inside your application are kept, limited, counted and replayed too; needs the extra gateway"),
    Option("concurrency", POSITIVE, "N",
           "most requests in flight from one process to a server; fewer while it refuses some"),
    Option("rpm", RATE, "N", "most requests a minute to a server, over all workers"),
    Option("tpm", RATE, "N", "most tokens a minute to a server, over all workers"),
    Option("timeout", SECONDS, "SECONDS", "wait for one reply at most this long"),
    Option("retries", COUNT, "N",
           "repeat a request after 408, 409, 5xx, a timeout or a dropped connection at most this often; 429 and 503 "
           "are waited for as long as --rageval-patience says"),
    Option("patience", SECONDS, "SECONDS",
           "give up a server that answered none of the waiting requests for this long: the tests that need it end as "
           "errors, and the next run asks for the rest"),
    Option("threads", POSITIVE, "N",
           "threads that call a synchronous retriever or generator; 1 is the test's own thread, one call at a time"),
    Option("flex", _switch, "",
           "ask servers for the flex tier (service_tier): a lower price, and an answer when there is time; "
           "--rageval-timeout is then 900 s by default, and --rageval-patience 3600 s"),
    Option("cache", parse_public_cache, "PLACE",
           "folder of the reply cache, or URL of a store that machines share: redis://HOST/0, rediss://HOST/0, "
           "diskcache:FOLDER; default: RAGEVAL_CACHE_URL, the only place for a URL with a password",
           private=True),
    Option("cache_dir", Path, "DIR", "folder of the reply cache; in the root directory by default"),
    Option("refresh", _switch, "", "ask again for replies that are in the cache or the cassette"),
    Option("replay", _switch, "", "ask nothing: a reply in neither the cache nor the cassette is an error"),
    Option("cassette", Path, "FILE",
           "file of recorded replies, read where the cache has none; compressed if it ends in .gz"),
    Option("record", _switch, "", "write the replies of this run to the cassette"),
    Option("record_prompts", _switch, "", "write prompts to the cassette in full, not only their hashes"),
    Option("drop_unused", _switch, "", "drop recorded replies that a full run did not use from the cassette"),
    Option("plan", _switch, "", "print what a run would ask and cost; ask nothing"),
    Option("batch", _batch, "",
           "send what a run asks in batches of the server, at their lower price, and wait for the replies; the same "
           "command goes on where it was. `rageval batch` runs one step at a time",
           words=("submit", "status", "collect"), permanent=False),
    Option("batch_errors", _choice("live", "unscored"), "live|unscored",
           "whether a request that failed in a batch is asked again live, or left unscored"),
    Option("max_calls", COUNT, "N", "stop before more replies than these are asked of servers"),
    Option("max_cost", AMOUNT, "USD", "stop before the call that could cost more than this in all"),
    Option("prices", Path, "FILE", "file of prices of models (TOML), which override the known ones"),
    Option("prompts", Path, "FILE",
           "file of prompts for models at a server (TOML), in place of the package's own"),
    Option("max_unscored", SHARE, "SHARE",
           "share of examples without a score above which a score is an error"),
    Option("baseline", Path, "FILE",
           "file of the scores that max_drop, max_total_drop and max_lost compare with, for git; in the root directory "
           "by default"),
    Option("update_baseline", _update, "",
           "write the scores of this run to the baseline, and compare them with none; only on the command line; "
           "under CI=true refused unless it is --rageval-update-baseline=force", words=("force",), permanent=False),
    Option("pin_baseline", _switch, "",
           "with --rageval-update-baseline: pin what it writes as the anchor that max_total_drop compares with, until "
           "another one is pinned; only on the command line", permanent=False),
    Option("require_baseline", _switch, "",
           "a max_drop or max_lost without a baseline, and a max_total_drop without an anchor, is an error, not a pass "
           "with a warning, and so is a test of the baseline that a full run did not run; the default under CI=true, "
           "which --rageval-require-baseline=false reverts"),
    Option("family", POSITIVE, "N",
           "number of tests that share the alpha of max_drop and max_total_drop; default: those in the baseline"),
    Option("inconclusive", _choice("warn", "fail"), "warn|fail",
           "whether a drop that is larger than allowed and not significant is to warn or to fail"),
    Option("early_stop", _switch, "",
           "where only max_drop decides, ask models about questions in random order until the verdict is clear, and "
           "about none that has the passages of the baseline; without effect in an update of the baseline, in a plan, "
           "in a replay and with --rageval-repeat"),
    Option("canary", COUNT, "N",
           "ask generator and judge anew about N questions whose passages are those of the baseline: if these score "
           "otherwise, a comparison is an error"),
    Option("calibration", Path, "FILE",
           "file of answers that people labelled, by which answer.correct and llm_reteval are also reported "
           "corrected for the judge's errors; or of passages, by which relevance.* are"),
    Option("repeat", POSITIVE, "N",
           "ask generator and judge this often, under new sample numbers; a question's score is the mean over these "
           "runs, and how far their means spread is reported"),
    Option("sample", PART, "SHARE",
           "score this share of the questions of every eval set: those that a hash of their ids chooses, the same in "
           "each run; they are compared with the baseline's scores of the same questions; only on the command line",
           permanent=False),
    Option("shard", _shard, "I/N",
           "score the I-th of N parts of the questions of every eval set, chosen by a hash of their ids, and judge "
           "nothing: `rageval merge` judges the JSON reports of all parts as one run; 1/1 is a job with all questions "
           "of some of the tests; only on the command line", permanent=False),
    Option("report", parse_destination, "FILE",
           "write results to this file: .md for a pull request, .html for a browser, .json for programs; or send them: "
           "otlp:URL to an OpenTelemetry collector, otlp: to that of OTEL_EXPORTER_OTLP_ENDPOINT; repeatable",
           many=True),
    Option("history", Path, "FILE",
           "append the scores of this run as one line to this file (.jsonl), which belongs in git; `rageval history` "
           "shows it, and the .md report has a chart of it"),
    Option("annotations", _switch, "",
           "print annotations for GitHub, which show failures and warnings at the lines of the tests; the default "
           "under GITHUB_ACTIONS=true, which --rageval-annotations=false reverts"),
    Option("seed", COUNT, "N", "seed of bootstrap intervals and of random orders"),
)
# fmt: on
