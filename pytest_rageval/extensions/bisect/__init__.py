"""`rageval bisect`: finds the commit that lost a score, between the baseline's commit and HEAD.

- `search`: which commit is judged next, and when a verdict is sure; without git and pytest.
- `command`: runs pytest in a worktree of each commit, and reads the verdict from its report.
"""

from argparse import REMAINDER
from typing import Final

from pytest_rageval.options.command import Command, value

ARGUMENTS: Final = (
    value("--score", "SCORE", "the score that decides, such as recall@5 (default: the first that fails at BAD)", str),
    value("--setup", "COMMAND", "shell command before pytest at each commit, in the same folder, such as one that "
          "builds the index; if it fails, the commit is skipped", str),
)  # fmt: skip

# fmt: off
COMMANDS: Final = (
    Command("bisect", "pytest_rageval.extensions.bisect.command:bisect_command",
            "find the commit that lost a score",
            "Form: rageval bisect [GOOD [BAD]] [--score SCORE] [--setup COMMAND] [-- ARGUMENTS of pytest]. GOOD is the "
            "last good commit (default: the one that last changed the baseline), BAD a later one (default: HEAD). "
            "Runs pytest on commits between them, each in a temporary worktree, with the baseline of GOOD and the "
            "cache of this folder. A commit whose score fails is bad; one whose tests cannot be run is skipped.",
            (*ARGUMENTS,
             value("arguments", "GOOD BAD -- ARGUMENTS", "the commits, and the arguments of pytest", str,
                   nargs=REMAINDER)),
            "Exit status: 0; 1 if skipped commits leave several that may have lost the score; 2 if something cannot "
            "be used.", place=4),
)
# fmt: on
