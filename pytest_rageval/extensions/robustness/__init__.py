"""Does the retriever survive how people type? The field `perturb`, and scores over questions that were changed.

- `scores`: the scores `robust.*`, and the changes of a question.
"""

from typing import Final

from pytest_rageval.lib.lazy import Lazy

SCORES: Final = {"extensions.robustness.scores": ("robust",)}
FIELDS: Final = {
    "perturb": Lazy("extensions.robustness.scores", "check_perturb"),
    "variants": Lazy("extensions.robustness.scores", "check_variants"),
}
