"""`Project`: a small project of a user, and runs of pytest in it."""

import json
from pathlib import Path

import pytest

from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer

CONFTEST = """
import pytest

CORPUS = {f"doc-{n}": f"Of all things, item-{n} has the code c{n}x." for n in range(1, 21)}

def search(query, k):
    wanted = query.split("item-")[1].rstrip("?")
    ranked = sorted(CORPUS, key=lambda name: (name != f"doc-{wanted}", name))
    return [{"id": name, "text": CORPUS[name]} for name in ranked[:k]]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""


collect_ignore = ["retriever_apps"]  # applications of users, which the packages of few environments can run


class Project:
    """A user's project: a folder with a conftest and an eval set, to which a test adds files.

    Attributes:
        pytester: pytest's helper for runs of pytest.
        path: the folder.
        arguments: the options of all runs.
    """

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self._monkeypatch = monkeypatch
        self.arguments = list(WITHOUT)
        pytester.makeconftest(CONFTEST)
        self.evalset(4)

    def evalset(self, n: int, name: str = "evals.jsonl", **changes: object) -> Path:
        lines = []
        for i in range(1, n + 1):
            record = {
                "id": f"q{i}",
                "question": f"What is the code of item-{i}?",
                "answers": [f"c{i}x"],
                "gold": [{"id": f"doc-{i}", "text": f"Of all things, item-{i} has the code c{i}x."}],
                "tags": {"topic": "odd" if i % 2 else "even"},
            }
            lines.append(json.dumps(record | changes))
        path = self.path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def lose(self, *numbers: int) -> None:
        """Delete the passages of these items from the retriever's corpus."""
        lost = ", ".join(f'"doc-{n}"' for n in numbers)
        source = (self.path / "conftest.py").read_text(encoding="utf-8")
        self.pytester.makeconftest(source + f"\nfor name in [{lost}]:\n    del CORPUS[name]\n")

    def test(self, body: str, name: str = "test_it") -> None:
        """Write a test module that is marked with the eval set."""
        head = 'import pytest\npytestmark = pytest.mark.rageval_evalset("evals.jsonl")\n\n'
        self.pytester.makepyfile(**{name: head + body})

    def use(self, llm: LLMServer, model: str = "m1") -> None:
        """Set the server in the environment, and the model in the ini file."""
        self._monkeypatch.setenv("OPENAI_BASE_URL", llm.url)
        self._monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        self.ini(rageval_model=model)

    def ini(self, **keys: str) -> None:
        """Write the ini file."""
        lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
        self.pytester.makeini(f"[pytest]\n{lines}\n")

    def policies(self, **tables: str) -> None:
        text = "".join(f"[tool.rageval.policy.{name}]\n{keys}\n" for name, keys in tables.items())
        (self.path / "pyproject.toml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*self.arguments, *arguments)

    def run_process(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*self.arguments, *arguments)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with four questions and a retriever that finds their passages."""
    return Project(pytester, monkeypatch)
