"""The table of options, from which the command line, the ini keys and the documentation are generated.

This module imports nothing of the package, since every run of pytest imports it. `config.parsers` parses the values.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

BASELINE: Final = Path("rageval_baseline.json")
DEFAULT_CONCURRENCY: Final = 16  # requests in flight from one process to a server
DEFAULT_TIMEOUT_S: Final = 60.0  # for one reply
DEFAULT_RETRIES: Final = 4  # attempts after the first one
DEFAULT_PATIENCE_S: Final = 300.0  # without any reply, before a server is given up


class Option(NamedTuple):
    """One option: `--rageval-NAME` on the command line and `rageval_NAME` in the ini file.

    Attributes:
        name: the name, with underscores; also the name of the field of `Settings`.
        metavar: the name of the value in the help text; empty for a switch.
        help: the help text: the effect, and the unit of the value.
        default: the default value, that of `Settings`, for the help text; None if the help text explains it.
        switch_values: the values that a switch accepts after an equals sign. Without a value the switch is on.
        repeatable: whether the option may be repeated.
        in_ini: whether the option may be in the ini file.
        private: whether the value may contain a password. An error message then does not quote it.
    """

    name: str
    metavar: str
    help: str
    default: Any = None
    switch_values: tuple[str, ...] = ("true", "false")
    repeatable: bool = False
    in_ini: bool = True
    private: bool = False

    @property
    def flag(self) -> str:
        """The option as typed on the command line."""
        return f"--rageval-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """The key of the option in the ini file."""
        return f"rageval_{self.name}"


# fmt: off
OPTIONS: Final = (
    Option("model", "NAME",
           "model that generates answers; 'embedded' is a small local model, the default without OPENAI_API_KEY and "
           "without a base URL"),
    Option("judge_model", "NAME",
           "model that compares answers, the judge. Several of one server, such as a,b,c, each have a vote, as with "
           "--rageval-judge-votes. Default: the generating model, or canonical comparison if that is the embedded one"),
    Option("judge_votes", "N",
           "votes of the judge on each verdict. The majority counts, or the median of grades; reports say how often "
           "votes differ. Several votes are sampled at temperature 0.5. A judge of your own is called once", default=1),
    Option("both_orders", "",
           "judge each pair of long answers in both orders; a verdict that changes with the order is a tie"),
    Option("preset", "NAME",
           "use the settings of a paper: alinejad2024, salemi2024, garigliotti2024, han2024 or gulsoy2024. Other "
           "options, the tables of the models and the arguments of thresholds take precedence"),
    Option("cutoffs", "K[,K…]",
           'cut-offs of scores that are written without one: rageval_threshold("llm_reteval", min=0.8) is then one '
           "threshold for each cut-off"),
    Option("temperature", "T",
           "temperature of the generating model, for all scores but llm_reteval. A threshold may set its own "
           "(temperature=). Default: 0.5, or 0 for the embedded model"),
    Option("draws", "N",
           "answers generated for each question, for all scores but llm_reteval; the question's score is their mean. A "
           "threshold may set its own (draws=)", default=1),
    Option("llm_reteval_temperature", "T",
           "temperature of the generating model for llm_reteval; default: as for --rageval-temperature"),
    Option("llm_reteval_draws", "N", "answers generated from the gold passages for llm_reteval", default=3),
    Option("arena_pairs", "N",
           "also compare the systems of a parametrized test with each other, for its arena.* scores: N comparisons on "
           "each eval set. Each pair of systems gets the same number; their questions are drawn by --rageval-seed, "
           "equally many from each domain", default=0),
    Option("arena_examples", "",
           "put three worked examples into the prompt of the model that compares two long answers"),
    Option("base_url", "URL",
           "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own", private=True),
    Option("judge_base_url", "URL",
           "server of the judge; its key is in RAGEVAL_JUDGE_API_KEY. Default: RAGEVAL_JUDGE_BASE_URL, or the server "
           "of the generating model", private=True),
    Option("parameters", "JSON",
           "parameters of each request to the generating model, such as '{\"reasoning_effort\": \"low\"}'. They "
           "replace those that the package sets, such as temperature", private=True),
    Option("judge_parameters", "JSON", "parameters of each request to the judge; default: none", private=True),
    Option("comparator", "EXPRESSION",
           "how two answers are compared: names of comparators and answer measures with and, or and thresholds, such "
           "as 'judge or em' or 'f1>=0.5'", default="judge"),
    Option("match_share", "SHARE",
           "share of a gold passage that the retrieved documents must contain, if it is matched by span or by text",
           default=0.5),
    Option("document_id", "PATH",
           "field of the retrieved documents that has the ids of the gold passages, such as metadata.source or "
           "payload.doc_id. Default: id, doc_id and other usual names"),
    Option("encoder", "MODEL[@LAYER]",
           "model of sentence-transformers for answer.bertscore and answer.cosine, a name or a folder. BERTScore "
           "compares tokens of the layer, such as roberta-large@17. Default: the packaged model and its last layer"),
    Option("bleu_smoothing", "exp|none",
           "smoothing of answer.bleu. With none, an answer without four words in a row of a reference scores 0",
           default="exp"),
    Option("max_tokens", "N",
           "most tokens of a reply. Without it the server sets the limit, and only a price table bounds the cost"),
    Option("gateway", "",
           "start an OpenAI-compatible server on 127.0.0.1 and send the model calls of your application, in the tests' "
           "process, through it. They are then cached, limited, counted and replayed as well. Needs the extra gateway"),
    Option("concurrency", "N",
           "most requests at a time from one process to a server; fewer while the server refuses some",
           default=DEFAULT_CONCURRENCY),
    Option("rpm", "N", "most requests per minute to a server, over all workers"),
    Option("tpm", "N", "most tokens per minute to a server, over all workers"),
    Option("timeout", "SECONDS", "longest wait for one reply", default=DEFAULT_TIMEOUT_S),
    Option("retries", "N",
           "most repetitions of a request after 408, 409, 5xx, a timeout or a dropped connection. After 429 and 503, "
           "--rageval-patience is the limit", default=DEFAULT_RETRIES),
    Option("patience", "SECONDS",
           "give up on a server that answers none of the waiting requests for this long. The tests that need it are "
           "errors; the next run sends only the requests without a reply", default=DEFAULT_PATIENCE_S),
    Option("threads", "N",
           "threads that call a synchronous retriever or generator. With 1, the test's own thread makes one call at a "
           "time", default=1),
    Option("flex", "",
           "use the flex tier of servers (service_tier): a lower price, and slower replies. The default of "
           "--rageval-timeout is then 900 s, that of --rageval-patience 3600 s"),
    Option("cache", "PLACE",
           "folder of the reply cache, or URL of a store that several machines share: redis://HOST/0, rediss://HOST/0 "
           "or diskcache:FOLDER. Default: RAGEVAL_CACHE_URL, where alone a URL may contain a password", private=True),
    Option("cache_dir", "DIR",
           "folder of the reply cache, relative to the root directory by default", default=Path(".rageval_cache")),
    Option("refresh", "", "send requests even if the cache or the cassette has the reply"),
    Option("replay", "", "send no requests; a reply that is neither in the cache nor in the cassette is an error"),
    Option("cassette", "FILE",
           "file of recorded replies, read if the cache does not have the reply; compressed if it ends in .gz"),
    Option("record", "", "write the replies of this run to the cassette"),
    Option("record_prompts", "", "write whole prompts to the cassette, not only their hashes"),
    Option("drop_unused", "", "remove from the cassette the replies that a full run did not use"),
    Option("plan", "", "print the requests that a run would send and their cost, and send none"),
    Option("batch", "",
           "send the requests of a run to the batch API of the server, at a lower price, and wait for the replies. If "
           "it is interrupted, the same command continues. `rageval batch` runs one step at a time",
           switch_values=("submit", "status", "collect"), in_ini=False),
    Option("batch_errors", "live|unscored",
           "a request that failed in a batch: send it again outside of a batch, or leave its question unscored",
           default="live"),
    Option("max_calls", "N", "stop before more replies than this are requested"),
    Option("max_cost", "USD", "stop before the call with which the run could cost more than this"),
    Option("prices", "FILE", "file of model prices (TOML), which override the known ones"),
    Option("prompts", "FILE", "file of prompts (TOML) that replace the package's own, for models at a server"),
    Option("max_unscored", "SHARE",
           "largest allowed share of examples without a score; above it, a score is an error", default=0.05),
    Option("baseline", "FILE",
           "file of the scores that max_drop, max_total_drop and max_lost compare with; it belongs in git. Relative to "
           "the root directory by default", default=BASELINE),
    Option("baseline_ref", "REF",
           "compare with the baseline as it is at this commit or branch, such as origin/main, whatever this branch "
           "changed in it. Needs git, and a clone that has the commit. No effect with --rageval-update-baseline"),
    Option("update_baseline", "",
           "write the scores of this run to the baseline instead of comparing them with it. Only on the command line. "
           "Refused under CI=true, unless it is --rageval-update-baseline=force",
           switch_values=("force",), in_ini=False),
    Option("pin_baseline", "",
           "with --rageval-update-baseline: also pin these scores as the anchor that max_total_drop compares with, "
           "until the next pin. Only on the command line", in_ini=False),
    Option("require_baseline", "",
           "turn these warnings into errors: max_drop or max_lost without a baseline, max_total_drop without an "
           "anchor, more questions removed than --rageval-max-removed, and a test of the baseline that was not "
           "compared with it. The default under CI=true; off with --rageval-require-baseline=false"),
    Option("allow_missing", "NODEID",
           "a test of the baseline, or a class, module or folder of such tests, that need not be compared with it: "
           "skipped, deselected or expected to fail. The report lists them. May be repeated", repeatable=True),
    Option("max_removed", "SHARE",
           "largest share of the baseline's questions that may be removed or edited; above it, the comparison is an "
           "error under CI=true, and elsewhere a warning", default=0.1),
    Option("inconclusive", "warn|fail",
           "whether a drop that is larger than allowed but not significant is a warning or a failure", default="warn"),
    Option("early_stop", "",
           "for thresholds with max_drop alone: score the questions in random order until the verdict is clear, and "
           "skip those whose passages are those of the baseline. No effect with an update of the baseline, a plan, a "
           "replay or --rageval-repeat"),
    Option("canary", "N",
           "score N questions whose passages are those of the baseline again, with new replies. If their scores "
           "changed, the comparison is an error", default=0),
    Option("calibration", "FILE",
           "file of answers labelled by people: reports also give answer.correct and llm_reteval corrected for the "
           "judge's errors. Or of passages labelled by people, for relevance.*"),
    Option("repeat", "N",
           "call generator and judge N times for each question, under new sample numbers. A question's score is the "
           "mean over these runs; reports give the spread of their means", default=1),
    Option("sample", "SHARE",
           "score only this share of the questions of every eval set, chosen by a hash of their ids, so the same in "
           "each run. They are compared with the baseline's scores of the same questions. Only on the command line",
           default=1.0, in_ini=False),
    Option("shard", "I/N",
           "score only part I of N of the questions of every eval set, chosen by a hash of their ids, and decide "
           "nothing: `rageval merge` judges the JSON reports of all parts as one run. 1/1 is a job that runs some of "
           "the tests with all their questions. Only on the command line", in_ini=False),
    Option("report", "FILE",
           "write a report to this file: .md for a pull request, .html for a browser, .json for programs. otlp:URL "
           "sends it to an OpenTelemetry collector, otlp: to that of OTEL_EXPORTER_OTLP_ENDPOINT. May be repeated",
           repeatable=True),
    Option("history", "FILE",
           "append the scores of this run as one line to this file (.jsonl), which belongs in git. `rageval history` "
           "prints it, and the .md report has a chart of it"),
    Option("annotations", "",
           "print annotations for GitHub, which show failures and warnings at the lines of the tests. The default "
           "under GITHUB_ACTIONS=true; off with --rageval-annotations=false"),
    Option("seed", "N", "seed of bootstrap intervals and of random orders", default=0),
)
# fmt: on
