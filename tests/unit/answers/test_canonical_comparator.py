"""The rule-based comparator "canonical"."""

import pytest

from pytest_rageval.answers.comparators import CanonicalComparator
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import Unscored


@pytest.mark.parametrize(
    ("references", "prediction", "expected"),
    [
        (["5 km"], "five kilometres", 1.0),
        (["6 km", "5 km"], "5 kilometres", 1.0),
        (["6 km"], "5 km", 0.0),
        ([], "5 km", 0.0),
    ],
)
def test_canonical_comparison_wants_one_of_the_references(loop, references, prediction, expected):
    assert loop.run(CanonicalComparator().compare("How far?", references, prediction)) == expected


LONG = "It is far, and further than anybody thought. " * 100


def test_a_reference_too_long_for_the_rules_has_no_verdict(loop: BackgroundEventLoop) -> None:
    """A reference of more than 300 words raises Unscored, unless another reference matches or the texts are equal."""
    compare = CanonicalComparator().compare
    with pytest.raises(Unscored, match="a reference is longer than 300 words"):
        loop.run(compare("How far?", [LONG, "6 km"], "5 km"))
    assert loop.run(compare("How far?", [LONG, "5 km"], "5 km")) == 1.0
    assert loop.run(compare("How far?", [LONG], LONG.upper())) == 1.0


def test_only_the_beginning_of_a_long_prediction_is_read(loop: BackgroundEventLoop) -> None:
    compare = CanonicalComparator().compare
    assert loop.run(compare("How far?", ["5 km"], f"5 km. {LONG}")) == 1.0
    assert loop.run(compare("How far?", ["5 km"], f"{LONG} 5 km.")) == 0.0
