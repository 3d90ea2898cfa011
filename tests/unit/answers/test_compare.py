"""Comparators by rule."""

import pytest

from pytest_rageval.answers.compare import CanonicalComparator
from pytest_rageval.loop import PrivateLoop


@pytest.mark.parametrize(
    ("references", "prediction", "expected"),
    [
        (["5 km"], "five kilometres", 1.0),
        (["6 km", "5 km"], "5 kilometres", 1.0),
        (["6 km"], "5 km", 0.0),
        ([], "5 km", 0.0),
    ],
)
def test_canonical_comparison_wants_one_of_the_references(
    loop: PrivateLoop, references: list[str], prediction: str, expected: float
) -> None:
    """Any one of them, in canonical form."""
    assert loop.run(CanonicalComparator().compare("How far?", references, prediction)) == expected
