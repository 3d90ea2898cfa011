"""What must not be retrieved, and where a gold passage must be: the fields `negatives` and `gold[].max_rank`.

- `negatives`: the scores `negatives.*` and `leak`, and how negatives are read and found.
- `contract`: the score `contract`. `propose`: the command `rageval evalset negatives`.
"""

from typing import Final

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options.command import (
    EVALSET,
    FORCE,
    JUDGE_OPTIONS,
    Command,
    one_or_more,
    value,
)

SCORES: Final = {
    "extensions.contracts.negatives": ("negatives", "leak"),
    "extensions.contracts.contract": ("contract",),
}
FIELDS: Final = {"negatives": Lazy("extensions.contracts.negatives", "check_negatives")}
GOLD_FIELDS: Final = {"max_rank": Lazy("extensions.contracts.contract", "check_max_rank")}

# fmt: off
COMMANDS: Final = (
    Command("negatives", "pytest_rageval.extensions.contracts.propose:negatives_command",
            "propose negatives, passages that are like the gold and do not answer the question, for review",
            "For each example whose gold passages have texts, also in the corpus, the passages of the corpus that are "
            "most like them by BM25 are shown to the judge's model. Those that it does not call relevant to the "
            "question are written as negatives to another file, where each of these examples has negatives_reviewed: "
            "false, until a reviewer removes that. Replies are cached as in tests.",
            (value("file", "FILE", "the eval set, in any known format"),
             value("--corpus", "CORPUS", "the passages of the retriever, as for `rageval evalset check`",
                   required=True),
             value("--out", "OUT", "file to write: the whole eval set, in the native format", required=True),
             FORCE,
             value("--n", "N", "number of passages that are judged for each example (default: 5)",
                   one_or_more("a number"), default=5),
             *JUDGE_OPTIONS),
            "Exit status: 0; 1 if no negatives were proposed; 2 if a file cannot be used or a request failed.",
            group=EVALSET),
)
# fmt: on
