"""On which passages does the answer depend, together with the others? The scores `erag.leave_one_out.*`."""

from typing import Final

SCORES: Final = {
    "extensions.leave_one_out.scores": tuple(
        f"erag.leave_one_out.{part}" for part in ("mean", "needed", "harmful")
    )
}
