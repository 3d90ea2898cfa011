"""Mistakes of users, each of which is an error with a remedy."""

import pytest

from pytest_rageval import Retrieval


@pytest.mark.parametrize("rageval_retriever", ["text"], indirect=True, scope="session")
@pytest.mark.rageval_evalset("evals.jsonl")
class TestThresholds:
    @pytest.mark.rageval_threshold("recal@3", min=0.6)
    def test_unknown_score(self):
        pass

    @pytest.mark.rageval_threshold("recall@3", min=0.6, where={"topic": "nothing"})
    def test_empty_slice(self):
        pass

    @pytest.mark.rageval_threshold("recall@3", minimum=0.6)
    def test_unknown_keyword(self):
        pass

    @pytest.mark.rageval_threshold("recall@3", min=60)
    def test_out_of_range(self):
        pass

    @pytest.mark.rageval_threshold("recall@3", max_drop=0.02)
    def test_no_baseline(self):
        pass

    @pytest.mark.rageval_threshold("answer.correct@3", min=0.5, comparator="jugde")
    def test_unknown_comparator(self):
        pass

    @pytest.mark.rageval_threshold("answer.correct@3", min=0.5)
    def test_no_reply(self):
        pass

    def test_failing_code(self, rageval):
        rageval.score("recall")


@pytest.mark.parametrize("rageval_retriever", ["text"], indirect=True, scope="session")
class TestEvalSets:
    @pytest.mark.rageval_threshold("recall@3", min=0.6)
    def test_no_evalset(self):
        pass

    @pytest.mark.rageval_evalset("missing.jsonl")
    @pytest.mark.rageval_threshold("recall@3", min=0.6)
    def test_missing(self):
        pass

    @pytest.mark.rageval_evalset("broken.jsonl")
    @pytest.mark.rageval_threshold("recall@3", min=0.6)
    def test_broken(self):
        pass


@pytest.fixture(scope="session")
def rageval_retriever(request):
    def search(query, k):
        if request.param == "raises":
            raise LookupError(query)
        return Retrieval([query], seconds=0.01) if request.param == "text" else 3

    return search


@pytest.mark.rageval_evalset("evals.jsonl")
@pytest.mark.parametrize("rageval_retriever", ["raises", "number"], indirect=True, scope="session")
@pytest.mark.rageval_threshold("recall@3", min=0.6)
def test_retriever():
    pass
