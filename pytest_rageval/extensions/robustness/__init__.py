"""Does the retriever survive how people type? The field `perturb`, and scores over questions that were changed.

- `scores`: the scores `robust.*`, and the changes of a question. `rewriting`: the command `rageval evalset variants`.
"""

import re
from typing import Final

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options.command import EVALSET, FORCE, REPLY_OPTIONS, Command, value, value_parser

SCORES: Final = {"extensions.robustness.scores": ("robust",)}
FIELDS: Final = {
    "perturb": Lazy("extensions.robustness.scores", "check_perturb"),
    "variants": Lazy("extensions.robustness.scores", "check_variants"),
}

REWRITING: Final = re.compile(r"paraphrase|translate:\S+")
_parse_rewriting: Final = value_parser(
    str,
    lambda text: REWRITING.fullmatch(text) is not None,
    "paraphrase, or translate:LANGUAGE such as translate:de",
)

# fmt: off
COMMANDS: Final = (
    Command("variants", "pytest_rageval.extensions.robustness.rewriting:variants_command",
            "let a model write the questions in other words or languages, for review",
            "The new questions are added to the `variants` of each example, in another file, where the example has "
            'variants_reviewed: false, until a reviewer removes that. The scores `robust.*` with perturb="variants" '
            "use them. Replies are cached as in tests.",
            (value("file", "FILE", "the eval set, in any known format"),
             value("--as", "HOW", "paraphrase, or translate:LANGUAGE such as translate:de; may be repeated",
                   _parse_rewriting, action="append", dest="rewriting", required=True),
             value("--out", "OUT", "file to write: the whole eval set, in the native format", required=True),
             FORCE,
             "model", "base_url", "parameters", "max_tokens", "concurrency", "timeout", "flex", *REPLY_OPTIONS),
            "Exit status: 0; 1 if a question was not written; 2 if a file cannot be used or a request failed.",
            group=EVALSET),
)
# fmt: on
