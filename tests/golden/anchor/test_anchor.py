"""A drop since the anchor, which an update of the baseline does not move."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("recall@3", max_drop=0.02, max_total_drop=0.05)
@pytest.mark.rageval_threshold("mrr@3", max_total_drop=0.2)
def test_total():
    pass
