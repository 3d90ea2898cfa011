"""The warning about a judge that gives one verdict."""

from pathlib import Path

from pytest_rageval.options.settings import Settings
from pytest_rageval.run.session import Session
from tests.unit.run.marked import Mark, evalset_of, evaluated, threshold


def test_a_judge_that_gives_one_verdict_is_a_warning(tmp_path: Path) -> None:
    session = Session(Settings(cache_dir=tmp_path))
    mark = Mark("rageval_evalset", (evalset_of(40, answers=("right",)),))
    test = evaluated(session, tmp_path, mark, threshold("answer.correct@1", min=0.5), lost=range(9))
    assert test.evaluate_markers() == []
    (warning,) = test.results()["warnings"]
    assert warning.startswith("the judge said yes 40 times and never anything else")
    session.close()
