"""`rageval baseline merge`: the merge driver of git for the baseline file."""

from typing import Final

from pytest_rageval.options.command import BASELINE_GROUP, Command, switch, value

# fmt: off
COMMANDS: Final = (
    Command("merge", "pytest_rageval.extensions.baseline_merge.merge:merge_command",
            "merge the baselines of two branches, as the merge driver of git",
            "A test that one branch changed is taken from it. If both changed a test, its scores on the merged code "
            "are not known: that of OURS stays, and git reports a conflict. With --install, git calls this command in "
            "the repository of the current folder, for rageval_baseline.json.",
            (value("base", "BASE", "the baseline of the common ancestor: %%O in git", nargs="?"),
             value("ours", "OURS", "the baseline of this branch, which is overwritten: %%A in git", nargs="?"),
             value("theirs", "THEIRS", "the baseline of the other branch: %%B in git", nargs="?"),
             switch("--install", "configure git, and add a line to .gitattributes")),
            "Exit status: 0; 1 if both branches changed a test; 2 if something cannot be used.", group=BASELINE_GROUP),
)
# fmt: on
