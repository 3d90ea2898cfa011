"""A drop since the anchor, which an update of the baseline does not move."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("recall@3", max_drop=0.02, policy="total")
@pytest.mark.rageval_threshold("mrr@3", max_drop=0.5, policy="far")
def test_total():
    pass
