"""The built-in techniques as a project's retriever."""

import re
import sqlite3

import pytest

from pytest_rageval.extensions.embeddings.encoder import shared_encoder
from tests.llm_server import clerk

pytestmark = pytest.mark.slow

ENCODER = '''
import numpy as np
import pytest

from pytest_rageval import *
from pytest_rageval.extensions.embeddings.encoder import shared_encoder

def encode(texts):
    """A text is its item's number."""
    numbers = [int(text.split("item-")[1].split()[0].rstrip("?")) if "item-" in text else 0 for text in texts]
    vectors = np.array([[np.cos(n / 9), np.sin(n / 9)] for n in numbers], np.float32)
    with open("encoded.txt", "a") as file:
        file.writelines(f"{text}\\n" for text in texts)
    return list(vectors)

encoder = shared_encoder()
vars(encoder)["_fingerprint"] = "by number"
encoder.queries = encoder.passages = encode
DOCUMENTS = [{"id": name, "text": text} for name, text in CORPUS.items()]
'''

FIXTURE = """
@pytest.fixture(scope="session")
def rageval_retriever(rageval_encoder, rageval_llm):
    dense = DenseRetriever(DOCUMENTS, encoder=rageval_encoder)
    return {retriever}
"""

GATE = """
@pytest.mark.rageval_threshold("recall@1", min=1.0)
@pytest.mark.rageval_threshold("answer.em@1", min=1.0)
def test_gate(): pass
"""


@pytest.fixture(autouse=True)
def _own_encoder():
    """The encoder that a run changes is not that of the next."""
    shared_encoder.cache_clear()
    yield
    shared_encoder.cache_clear()


def _use(project, retriever: str) -> None:
    project.add(ENCODER + FIXTURE.format(retriever=retriever))
    project.test(GATE)


def _writer(prompt: str) -> str:
    item = re.findall(r"item-\d+", prompt)[-1]
    return f"all about {item} here" if prompt.endswith(("Passage:", "\n1.")) else clerk(prompt)


def test_embeddings_are_cached_in_the_cache_folder(project, llm):
    project.use(llm)
    _use(project, "dense")
    for _ in range(2):
        project.run("--rageval=cache_dir=here", passed=1)
        assert len((project.path / "encoded.txt").read_text().splitlines()) == 24
    connection = sqlite3.connect(project.path / "here" / "embeddings.sqlite")
    assert connection.execute("SELECT count(*) FROM embeddings").fetchone() == (24,)
    connection.close()
    assert not (project.path / ".rageval_cache").exists()


def test_what_a_technique_asks_is_planned_and_paid_once(project, llm):
    llm.model = _writer
    project.use(llm)
    _use(project, "HyDERetriever(dense, rageval_llm)")
    project.run(
        "--rageval-plan", shows=["in total", "*≤ 8 *0 *≤ 8 *", "4 of the live requests are an upper bound*"]
    )
    assert not llm.requests
    project.run(passed=1)
    assert len(llm.requests) == 8
    project.run("--rageval-replay", passed=1)
    assert len(llm.requests) == 8


def test_a_pool_a_question(project, llm):
    llm.model = _writer
    project.use(llm)
    pools = "{f'What is the code of item-{n}?': DOCUMENTS[n - 1 : n + 2] for n in range(1, 5)}"
    made = "lambda pool: FusionRetriever(DenseRetriever(pool, encoder=rageval_encoder), rageval_llm)"
    _use(project, f"PooledRetriever({pools}, {made})")
    project.run(passed=1)
