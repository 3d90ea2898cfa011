"""The README is held against what it describes."""

import itertools
import re
from pathlib import Path

from pytest_rageval.config import OPTIONS, Option, resolve
from pytest_rageval.evalsets.records import example_from
from pytest_rageval.evaluations.catalogue import EVALUATIONS

TESTS = Path(__file__).parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")


def row(option: Option) -> str:
    """An option as the README's table shows it."""
    value = f" {option.metavar}" if option.metavar else ""
    default = option.default
    shown = "" if default is None or default is False or default == () else f"`{default}`"
    return f"| `{option.flag}{value}` | {option.help} | {shown} |"


def test_the_table_of_options_is_the_table_of_options():
    """Every option with its help and default, in order, and none besides."""
    options = README.partition("\n## Options\n")[2]
    rows = [line for line in options.splitlines() if line.startswith("| `--rageval-")]
    assert rows == [row(option) for option in OPTIONS]


def test_the_variables_that_are_read_are_named():
    """All of them, and none besides: nobody relies on one that is not read."""

    class Environment(dict):
        """Notes what is looked up."""

        def get(self, name, default=None):
            asked.add(name)
            return super().get(name, default)

    asked = set()
    settings = resolve({}, {}, Environment(RAGEVAL_MODEL="m"), invoked_in=Path(), root=Path())
    sentence = re.search(r"Of the environment (.*?) are read,", README, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence[1])) == asked
    assert settings.model is None


def test_every_score_is_in_the_table_of_scores():
    """No score is hidden, none is promised."""
    promised = set(re.findall(r"`([a-zA-Z_.\d]+)@k`", README))
    assert promised == set(EVALUATIONS)


def test_every_fault_has_its_test():
    """The tests that the table of faults names are there."""
    table = (TESTS.parent / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]
    named = [re.findall(r"`([\w/]+\.py)::(test_\w+)`", row.rpartition(" | ")[2]) for row in rows]
    assert all(named)
    for file, test in itertools.chain.from_iterable(named):
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), (file, test)


def test_the_example_record_can_be_used():
    """What readers copy is a record of the native form."""
    import json

    line = next(line for line in README.splitlines() if line.startswith('{"id": "q17"'))
    example = example_from(json.loads(line), place="README")
    assert example.relevant[0].id == "doc-4"
    assert not example.extra
