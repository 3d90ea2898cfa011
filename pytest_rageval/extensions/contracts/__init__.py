"""What must not be retrieved, and where a gold passage must be: the fields `negatives` and `gold[].max_rank`.

- `negatives`: the scores `negatives.*` and `leak`. `rules`: reads negatives, and finds those that are rules.
- `contract`: the score `contract`.
"""

from typing import Final

from pytest_rageval.lib.lazy import Lazy

SCORES: Final = {
    "extensions.contracts.negatives": ("negatives", "leak"),
    "extensions.contracts.contract": ("contract",),
}
FIELDS: Final = {"negatives": Lazy("extensions.contracts.rules", "check_negatives")}
GOLD_FIELDS: Final = {"max_rank": Lazy("extensions.contracts.contract", "check_max_rank")}
