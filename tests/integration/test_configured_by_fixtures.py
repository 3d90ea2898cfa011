"""A fixture of a test that configures the retriever counts, and a ranking of another configuration is not reused."""

import pytest

from tests.integration.conftest import Project

CONFTEST = """
import sys, types
app = sys.modules["app"] = types.ModuleType("app")
app.limit, app.asked = None, []

def limited(query, k):
    app.asked.append(query)
    return search(query, k)[:app.limit]

@pytest.fixture(scope="session")
def rageval_retriever():
    return limited

@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(app, "limit", 0)

@pytest.fixture
def limited_to(limit, monkeypatch):
    monkeypatch.setattr(app, "limit", limit)

@pytest.fixture
def unrelated():
    pass
"""
GATE = '@pytest.mark.rageval_threshold("recall@1", min=0.9)\n'
PLAIN = f"{GATE}def test_plain(): pass\n\n"

TESTS = {
    "argument": "GATE def test_it(broken): pass",
    "usefixtures": "@pytest.mark.usefixtures('broken')\nGATE def test_it(): pass",
    "autouse": """
class TestIt:
    @pytest.fixture(autouse=True)
    def on(self, broken): pass
    GATE def test_it(self): pass
""",
    "setup_method": """
class TestIt:
    def setup_method(self): app.limit = 0
    def teardown_method(self): app.limit = None
    GATE def test_it(self): pass
""",
    "setup_class": """
class TestIt:
    def setup_class(cls): app.limit = 0
    def teardown_class(cls): app.limit = None
    GATE def test_it(self): pass
""",
    "parameter": "@pytest.mark.parametrize('limit', [None, 0])\nGATE def test_it(limited_to): pass",
    "body": """
def test_it(rageval, monkeypatch):
    monkeypatch.setattr(app, "limit", 0)
    assert rageval.score("recall@1") >= 0.9
""",
}


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("order", ["before", "after"])
def test_the_configuration_of_each_test_counts(project: Project, name: str, order: str) -> None:
    project.add(CONFTEST)
    indent = "    " if "class" in TESTS[name] else ""
    test = TESTS[name].replace("GATE ", GATE + indent)
    project.test("import app\n" + (PLAIN + test if order == "after" else f"{test}\n{PLAIN}"))
    project.run(failed=1, passed=2 if name == "parameter" else 1)


def test_tests_with_the_same_fixtures_share_the_rankings(project: Project) -> None:
    project.add(CONFTEST)
    tests = "".join(
        f'@pytest.mark.rageval_threshold("{name}@2", min=0.1)\ndef test_{name}({arguments}): pass\n\n'
        for name, arguments in (
            ("recall", ""),
            ("mrr", "tmp_path"),
            ("ndcg", "unrelated"),
            ("map", "unrelated"),
        )
    )
    project.test(f"{tests}def test_count():\n    import app\n    assert len(app.asked) == 2 * 4\n")
    project.run(passed=5)
