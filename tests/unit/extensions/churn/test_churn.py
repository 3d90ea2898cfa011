"""`rbo` and `churn`: rankings against those of the baseline."""

import json
from pathlib import Path

import pytest

from pytest_rageval.extensions.churn.scores import MEASURES, _numbered
from pytest_rageval.scores import SCORES
from tests.foreign_plugins import WITHOUT

CONFTEST = """
import json
import pathlib
import pytest

FOUND = json.loads(pathlib.Path("found.json").read_text())

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: [{"id": name, "text": name} for name in FOUND.get(query, "abcde")][:k]
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset("e.jsonl")
@pytest.mark.rageval_threshold("rbo@5", max_drop=0.1)
@pytest.mark.rageval_threshold("churn@5", max=0.1)
def test_it():
    pass
"""

pytestmark = pytest.mark.slow


def test_the_worked_example() -> None:
    old, new = (_numbered([*labels]) for labels in ("abc", "acd"))
    for name, measure in MEASURES.items():
        assert measure(old, new) == pytest.approx(SCORES[name].worked[0], abs=5e-5)


def test_chunks_of_one_document_are_told_apart() -> None:
    assert MEASURES["churn"](_numbered(["a", "a", "b"]), _numbered(["a", "b", "c"])) == pytest.approx(1 / 3)
    assert MEASURES["churn"]([], _numbered(["a"])) == 0


class Project:
    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(TEST)
        self.questions(30)

    def questions(self, n: int) -> None:
        lines = [json.dumps({"id": f"q{i}", "question": f"{i}?"}) for i in range(n)]
        self.pytester.path.joinpath("e.jsonl").write_text("\n".join(lines))

    def run(self, found: dict[str, str], *options: str) -> pytest.RunResult:
        self.pytester.path.joinpath("found.json").write_text(json.dumps(found))
        return self.pytester.runpytest_inprocess(*WITHOUT, *options)


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


def test_a_change_of_the_rankings_is_red_without_gold(project: Project, tmp_path: Path) -> None:
    assert project.run({}, "--rageval-update-baseline").ret == 0
    baseline = json.loads((project.pytester.path / "rageval_baseline.json").read_text())
    assert project.run({}).ret == 0
    assert project.run({"3?": "bacde"}).ret == 0
    changed = {f"{i}?": "vwxyz" for i in range(12)}
    result = project.run(changed, "--rageval-report", str(tmp_path / "report.json"))
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*why*left: a, b, c, d, e; new: v, w, x, y, z*", "*fail*rbo@5*0.600*", "*fail*churn@5*0.400*"]
    )
    report = json.loads((tmp_path / "report.json").read_text())
    entries = {entry["spec"]: entry for entry in report["tests"][0]["scores"]}
    assert entries["rbo@5"]["baseline"]["drop"] == pytest.approx(0.4)
    # What an update writes is compared with itself from then on.
    assert project.run(changed, "--rageval-update-baseline").ret == 0
    written = json.loads((project.pytester.path / "rageval_baseline.json").read_text())
    assert written != baseline
    assert project.run(changed).ret == 0


def test_new_questions_are_undefined(project: Project) -> None:
    assert project.run({}, "--rageval-update-baseline").ret == 0
    project.questions(33)
    result = project.run({})
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*3 undefined: 3 × its question has no ranking in the baseline"])


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            '@pytest.mark.rageval_threshold("churn@5", max=0.1)\ndef test_it(): pass',
            "*churn@5: the baseline has no rankings of 5 documents of this test to compare with.*",
        ),
        (
            'def test_it(rageval): rageval.score("rbo@5")',
            "*rageval.score('rbo@5') has no bound, and without one nothing is compared*",
        ),
    ],
)
def test_what_cannot_be_compared_is_an_error(project: Project, test: str, message: str) -> None:
    project.pytester.makepyfile(f'import pytest\npytestmark = pytest.mark.rageval_evalset("e.jsonl")\n{test}')
    result = project.run({})
    assert result.ret == 1
    result.stdout.fnmatch_lines([message])


def test_a_score_of_an_extension_that_is_off_is_unknown(project: Project) -> None:
    """Its value would be that of a ranking against itself."""
    result = project.run({}, "-o", "rageval_extensions=-churn")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*There is no score 'rbo'*"])
