"""`rageval why`: which factor explains a change, such as the size of chunks or the embedding model.

- `plugin`: the table `rageval_factors` of the user's conftest.py, and hooks of the command's runs.
- `command`: runs pytest with factors reverted, and prints how much each explains.
"""

from argparse import REMAINDER
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pytest_rageval.options import Option
from pytest_rageval.options.command import Command, value

if TYPE_CHECKING:
    import pytest

# fmt: off
FACTORS_BEFORE: Final[Option[tuple[str, ...]]] = Option(
    "factors_before", "NAME[,NAME…]", lambda text: tuple(text.split(",")), (),
    "factors of the table rageval_factors that have their value before the change in this run, or all; `rageval why` "
    "sets it. Only on the command line",
    in_ini=False,
)
OPTIONS: Final = (FACTORS_BEFORE,)

COMMANDS: Final = (
    Command("why", "pytest_rageval.extensions.why.command:why_command",
            "find the factor that explains a change of a score",
            "Form: rageval why [--score SCORE] [--json FILE] [ARGUMENTS of pytest]. The factors are in the table "
            "rageval_factors of a conftest.py, each with its values before and after. Runs pytest with all of them "
            "before, with all after, and with some reverted, and prints how much of the change each explains. The runs "
            "use the cache of this folder, and write nothing else into it.",
            (value("--score", "SCORE", "only this score, such as recall@5; may be repeated (default: all)", str,
                   action="append"),
             value("--json", "FILE", "also write the result to this file"),
             value("arguments", "ARGUMENT", "arguments of pytest: options, files, tests", str, nargs=REMAINDER)),
            "Exit status: 0; 2 if a run fails, or a score cannot be compared.", place=4),
)
# fmt: on


def rageval_factor(pytestconfig: "pytest.Config") -> Mapping[str, object]:
    """The values in force of the factors in rageval_factors, by name: those after the change, but for reverted ones."""
    from pytest_rageval.extensions.why.plugin import values_in_force  # noqa: PLC0415 - every run imports this module
    from pytest_rageval.plugin.lazy_start import get_evaluation_plugin  # noqa: PLC0415 - as above

    return values_in_force(pytestconfig, get_evaluation_plugin(pytestconfig).process.settings[FACTORS_BEFORE])


FIXTURES: Final = (rageval_factor,)
