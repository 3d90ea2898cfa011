"""The table of options: one for the command line, the ini file and the docs.

It imports nothing of the package, as every run of pytest reads it; `config.parsers` has how each value is read.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["BASELINE", "OPTIONS", "Option"]

BASELINE: Final = Path("rageval_baseline.json")


class Option(NamedTuple):
    """One option: `--rageval-NAME` and `rageval_NAME` in the ini file."""

    name: str  # with underscores; the field of `Settings`
    metavar: str  # name of the value in the help; empty for a switch
    help: str  # the effect, and the unit
    default: Any = None  # of a value, that of `Settings`
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


# fmt: off
OPTIONS: Final = (
    Option("model", "NAME",
           "model that generates answers; 'embedded' is the local one, and the default where there is neither "
           "OPENAI_API_KEY nor a base URL"),
    Option("judge_model", "NAME",
           "model that compares answers; default: the generating one, or canonical comparison where that is embedded; "
           "several of one server, such as a,b,c, have a vote each, and the votes count as with --rageval-judge-votes"),
    Option("judge_votes", "N",
           "votes of the model that compares answers on each verdict; the majority counts, of grades the median, and "
           "how often votes differ is reported; more than one are drawn at temperature 0.5; a judge of yours is "
           "asked once", default=1),
    Option("both_orders", "",
           "judge each pair of long answers in both orders, and count a verdict that changes with the order as a tie"),
    Option("preset", "NAME",
           "the settings of a paper: alinejad2024, salemi2024, garigliotti2024, han2024 or gulsoy2024; other options, "
           "the tables of the models and keywords of thresholds take precedence"),
    Option("cutoffs", "K[,K…]",
           'cut-offs of scores that are written without one: rageval_threshold("llm_reteval", min=0.8) is then a '
           "threshold for each"),
    Option("temperature", "T",
           "temperature of the generating model, for all scores but llm_reteval; default: 0.5, and 0 of the embedded "
           "model; a threshold may name its own (temperature=)"),
    Option("draws", "N",
           "answers that are drawn for each question, for all scores but llm_reteval; the mean of their scores "
           "counts; a threshold may name its own (draws=)", default=1),
    Option("llm_reteval_temperature", "T",
           "temperature of the generating model for llm_reteval; default as for --rageval-temperature"),
    Option("llm_reteval_draws", "N",
           "answers that are drawn from the gold passages for llm_reteval", default=3),
    Option("arena_pairs", "N",
           "let the systems of a parametrized test that asks for arena.* battle each other too, N times in all on an "
           "eval set: each pair equally often, on questions drawn by --rageval-seed from each domain equally",
           default=0),
    Option("arena_examples", "",
           "show the model that compares two long answers three worked examples first"),
    Option("base_url", "URL",
           "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own", private=True),
    Option("judge_base_url", "URL",
           "server of the model that compares answers; default: RAGEVAL_JUDGE_BASE_URL, or the server of the "
           "generating one; its key is in RAGEVAL_JUDGE_API_KEY", private=True),
    Option("parameters", "JSON",
           "parameters of each request to the generating model, such as '{\"reasoning_effort\": \"low\"}'; they "
           "replace the package's own, such as temperature", private=True),
    Option("judge_parameters", "JSON",
           "the same for the model that compares answers, which has none by default", private=True),
    Option("comparator", "EXPRESSION",
           "how two answers are compared: names of comparators and answer measures with and, or and thresholds, such "
           "as 'judge or em' or 'f1>=0.5'", default="judge"),
    Option("match_share", "SHARE",
           "share of a gold passage that retrieved documents must contain, where it is matched by span or text",
           default=0.5),
    Option("encoder", "MODEL[@LAYER]",
           "model of sentence-transformers for answer.bertscore and answer.cosine, a name or a folder; BERTScore "
           "compares tokens of this layer, such as roberta-large@17; default: the packaged model, its last layer"),
    Option("bleu_smoothing", "exp|none",
           "smoothing of answer.bleu; with none an answer without four words in a row of a reference scores 0",
           default="exp"),
    Option("max_tokens", "N",
           "most tokens of a reply; without it the server decides, and only a price table bounds the cost"),
    Option("gateway", "",
           "start an OpenAI-compatible server on 127.0.0.1 and lead the clients of the tests' process to it, so that "
           "model calls inside your application are kept, limited, counted and replayed too; needs the extra gateway"),
    Option("concurrency", "N",
           "most requests in flight from one process to a server; fewer while it refuses some", default=16),
    Option("rpm", "N", "most requests a minute to a server, over all workers"),
    Option("tpm", "N", "most tokens a minute to a server, over all workers"),
    Option("timeout", "SECONDS", "wait for one reply at most this long", default=60.0),
    Option("retries", "N",
           "repeat a request after 408, 409, 5xx, a timeout or a dropped connection at most this often; 429 and 503 "
           "are waited for as long as --rageval-patience says", default=4),
    Option("patience", "SECONDS",
           "give up a server that answered none of the waiting requests for this long: the tests that need it end as "
           "errors, and the next run asks for the rest", default=300.0),
    Option("threads", "N",
           "threads that call a synchronous retriever or generator; 1 is the test's own thread, one call at a time",
           default=1),
    Option("flex", "",
           "ask servers for the flex tier (service_tier): a lower price, and an answer when there is time; "
           "--rageval-timeout is then 900 s by default, and --rageval-patience 3600 s"),
    Option("cache", "PLACE",
           "folder of the reply cache, or URL of a store that machines share: redis://HOST/0, rediss://HOST/0, "
           "diskcache:FOLDER; default: RAGEVAL_CACHE_URL, the only place for a URL with a password",
           private=True),
    Option("cache_dir", "DIR", "folder of the reply cache; in the root directory by default",
           default=Path(".rageval_cache")),
    Option("refresh", "", "ask again for replies that are in the cache or the cassette"),
    Option("replay", "", "ask nothing: a reply in neither the cache nor the cassette is an error"),
    Option("cassette", "FILE",
           "file of recorded replies, read where the cache has none; compressed if it ends in .gz"),
    Option("record", "", "write the replies of this run to the cassette"),
    Option("record_prompts", "", "write prompts to the cassette in full, not only their hashes"),
    Option("drop_unused", "", "drop recorded replies that a full run did not use from the cassette"),
    Option("plan", "", "print what a run would ask and cost; ask nothing"),
    Option("batch", "",
           "send what a run asks in batches of the server, at their lower price, and wait for the replies; the same "
           "command goes on where it was. `rageval batch` runs one step at a time",
           words=("submit", "status", "collect"), permanent=False),
    Option("batch_errors", "live|unscored",
           "whether a request that failed in a batch is asked again live, or left unscored", default="live"),
    Option("max_calls", "N", "stop before more replies than these are asked of servers"),
    Option("max_cost", "USD", "stop before the call that could cost more than this in all"),
    Option("prices", "FILE", "file of prices of models (TOML), which override the known ones"),
    Option("prompts", "FILE",
           "file of prompts for models at a server (TOML), in place of the package's own"),
    Option("max_unscored", "SHARE",
           "share of examples without a score above which a score is an error", default=0.05),
    Option("baseline", "FILE",
           "file of the scores that max_drop, max_total_drop and max_lost compare with, for git; in the root directory "
           "by default", default=BASELINE),
    Option("update_baseline", "",
           "write the scores of this run to the baseline, and compare them with none; only on the command line; "
           "under CI=true refused unless it is --rageval-update-baseline=force", words=("force",), permanent=False),
    Option("pin_baseline", "",
           "with --rageval-update-baseline: pin what it writes as the anchor that max_total_drop compares with, until "
           "another one is pinned; only on the command line", permanent=False),
    Option("require_baseline", "",
           "a max_drop or max_lost without a baseline, and a max_total_drop without an anchor, is an error, not a pass "
           "with a warning, and so is a test of the baseline that a full run did not run; the default under CI=true, "
           "which --rageval-require-baseline=false reverts"),
    Option("family", "N",
           "number of tests that share the alpha of max_drop and max_total_drop; default: those in the baseline"),
    Option("inconclusive", "warn|fail",
           "whether a drop that is larger than allowed and not significant is to warn or to fail", default="warn"),
    Option("early_stop", "",
           "where only max_drop decides, ask models about questions in random order until the verdict is clear, and "
           "about none that has the passages of the baseline; without effect in an update of the baseline, in a plan, "
           "in a replay and with --rageval-repeat"),
    Option("canary", "N",
           "ask generator and judge anew about N questions whose passages are those of the baseline: if these score "
           "otherwise, a comparison is an error", default=0),
    Option("calibration", "FILE",
           "file of answers that people labelled, by which answer.correct and llm_reteval are also reported "
           "corrected for the judge's errors; or of passages, by which relevance.* are"),
    Option("repeat", "N",
           "ask generator and judge this often, under new sample numbers; a question's score is the mean over these "
           "runs, and how far their means spread is reported", default=1),
    Option("sample", "SHARE",
           "score this share of the questions of every eval set: those that a hash of their ids chooses, the same in "
           "each run; they are compared with the baseline's scores of the same questions; only on the command line",
           default=1.0, permanent=False),
    Option("shard", "I/N",
           "score the I-th of N parts of the questions of every eval set, chosen by a hash of their ids, and judge "
           "nothing: `rageval merge` judges the JSON reports of all parts as one run; 1/1 is a job with all questions "
           "of some of the tests; only on the command line", permanent=False),
    Option("report", "FILE",
           "write results to this file: .md for a pull request, .html for a browser, .json for programs; or send them: "
           "otlp:URL to an OpenTelemetry collector, otlp: to that of OTEL_EXPORTER_OTLP_ENDPOINT; repeatable",
           many=True),
    Option("history", "FILE",
           "append the scores of this run as one line to this file (.jsonl), which belongs in git; `rageval history` "
           "shows it, and the .md report has a chart of it"),
    Option("annotations", "",
           "print annotations for GitHub, which show failures and warnings at the lines of the tests; the default "
           "under GITHUB_ACTIONS=true, which --rageval-annotations=false reverts"),
    Option("seed", "N", "seed of bootstrap intervals and of random orders", default=0),
)
# fmt: on
