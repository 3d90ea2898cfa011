"""What generated and compared, in a line."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["models_text"]


def models_text(document: Mapping[str, Any]) -> str:
    """What is in force by the options, and how many tests have parts of their own.

    Such as "generator m1, judge m2, compared by judge; own generator in 2 of 3 tests".
    """
    settings, tests = document["settings"], document["tests"]
    own = Counter(part for test in tests for part in test.get("own", ()))
    in_force = f"generator {settings['generator'] or 'none named'}, judge {settings['judge']}"
    others = [f"own {part} in {count} of {len(tests)} tests" for part, count in own.items()]
    return "; ".join([f"{in_force}, compared by {settings['comparator']}", *others])
