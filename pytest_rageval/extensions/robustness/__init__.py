"""Does the retriever survive how people type? The field `perturb`, and scores over questions that were changed.

- `perturbations`: changes of a question. `scores`: the scores `robust.*`.
"""

from typing import Final

from pytest_rageval.lib.lazy import Lazy

SCORES: Final = {"extensions.robustness.scores": ("robust",)}
FIELDS: Final = {
    "perturb": Lazy("extensions.robustness.perturbations", "check_perturb"),
    "variants": Lazy("extensions.robustness.perturbations", "check_variants"),
}
