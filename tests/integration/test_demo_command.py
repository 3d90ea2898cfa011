"""`rageval demo`: the example passes, gets worse and fails, run from a checkout and from a wheel."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.first_test import demo

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_project"


def shown(arguments: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    environ = os.environ | more.pop("environ", {})
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest_rageval", "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        **more,
    )


def shipped() -> dict[str, bytes]:
    process = subprocess.run(
        ["git", "ls-files", "-z", "."],  # noqa: S607 - any git on the path
        cwd=EXAMPLE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = [name for name in process.stdout.split("\0") if name]
    if not names:
        pytest.skip("this is no checkout")
    return {name: (EXAMPLE / name).read_bytes() for name in names}


@pytest.mark.slow
def test_it_shows_a_regression_and_its_reasons(tmp_path):
    """The demo ignores settings of the user's environment, and removes its folder afterwards."""
    hostile = {
        "PYTEST_ADDOPTS": "--no-such-option",
        "RAGEVAL_MODEL": "m",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }
    process = shown([], cwd=tmp_path, environ={**hostile, "TMPDIR": str(tmp_path), "CI": "true"})
    assert process.returncode == 0, process.stderr
    passed, _, failed = process.stdout.partition("2. Somebody simplifies the search")
    assert "$ pytest -q test_retriever.py --rageval-replay\n" in passed
    assert "2 passed" in passed
    for line in (
        "-    scores = index.get_scores(tokenize(query))\n+    scores = index.get_scores(query.split())\n",
        "recall@3 fell from 0.940 to 0.593 (allowed 0.02; minimum 0.85): 32 of 91\n  questions worse, 0 better",
        "      gold      billing#failed-payments\n      before    billing#failed-payments, ",
        "2 failed",
        "`rageval demo --keep DIR` keeps it",
        "`rageval init`",
    ):
        assert line in failed
    assert f"in {tmp_path}" in passed
    assert list(tmp_path.glob("rageval-demo-*")) == []


@pytest.mark.slow
def test_the_copy_of_the_example_equals_the_original(tmp_path):
    """`--keep` leaves a copy without the change, so that the reader can make the change."""
    process = shown(["--keep", "there/demo"], cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    folder = tmp_path / "there" / "demo"
    assert f"The example is in {folder}" in process.stdout
    assert "cd there/demo && pytest" in process.stdout
    copied = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".rageval_cache"} & {*path.parts}
    }
    assert copied == shipped()


@pytest.mark.parametrize("existing", ["file", "full"])
def test_a_folder_in_use_is_refused(existing, tmp_path, capsys):
    target = tmp_path / "demo"
    if existing == "full":
        target.mkdir()
    (target if existing == "file" else target / "conftest.py").write_text("mine", encoding="utf-8")
    assert main(["demo", "--keep", str(target)]) == 2
    assert f"--keep {target} is not empty.\nName a new or an empty folder" in capsys.readouterr().err
    assert [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]


@pytest.mark.parametrize("name", ["pyproject.toml", "pytest.ini", "conftest.py"])
def test_a_project_does_not_get_the_tests_of_the_example(name, tmp_path, monkeypatch, capsys):
    """`--keep` refuses a folder in a project, whose pytest would run the example's tests."""
    (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert main(["demo", "--keep", "demo"]) == 2
    err = capsys.readouterr().err
    assert (
        f"--keep demo is in the project {tmp_path}, whose pytest would run the example's tests too.\n" in err
    )
    assert "--keep .rageval-demo" in err
    assert not (tmp_path / "work" / "demo").exists()
    monkeypatch.setattr(demo, "_run_demo", lambda _: True)
    assert main(["demo", "--keep", ".rageval-demo"]) == 0


def test_a_damaged_installation_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "EXAMPLES", (tmp_path / "no",))
    assert main(["demo"]) == 2
    err = capsys.readouterr().err
    assert str(tmp_path / "no") in err
    assert "pip install --force-reinstall pytest-rageval" in err


@pytest.mark.slow
@pytest.mark.long
def test_a_wheel_has_the_example(tmp_path):
    """A wheel contains the files of the example in git, and an installed command finds them."""
    others = ("langchain_agent/", "typescript/")  # examples of their own, which the demo does not run
    files = {name: text for name, text in shipped().items() if not name.startswith(others)}
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    process = subprocess.run(build, capture_output=True, text=True, check=False)
    if "No matching distribution found" in process.stderr or "ConnectionError" in process.stderr:
        pytest.skip("no package index can be reached")
    assert process.returncode == 0, process.stderr
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        inside = "pytest_rageval/_example/"
        packaged = {
            name.removeprefix(inside): wheel.read(name)
            for name in wheel.namelist()
            if name.startswith(inside)
        }
        wheel.extractall(tmp_path / "installed")
    assert packaged == files
    process = shown([], cwd=tmp_path, environ={"PYTHONPATH": str(tmp_path / "installed")})
    assert process.returncode == 0, process.stderr
    assert "2 failed" in process.stdout
