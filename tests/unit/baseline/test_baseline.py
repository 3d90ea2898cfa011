"""The baseline file: its format, its errors, and how it merges in git."""

import copy
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import MAX_ANSWER_LENGTH, Baseline, baseline_entry
from pytest_rageval.baseline.entries import fingerprint_digest
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.comparison import compare
from pytest_rageval.lib.spool import Spool
from tests.unit.gate.scored import example, plain, ranked, score_of

FINGERPRINT = {"generator": "m1 at https://llm.example/v1", "package": "0.1.0", "generator max_tokens": None}
MARK = fingerprint_digest(FINGERPRINT)


def _entry(values: dict[str, float | None], spec: str = "recall@5") -> dict[str, Any]:
    score = score_of(values)
    examples = tuple(o.example for o in score.outcomes)
    entry: dict[str, Any] = plain(baseline_entry(examples, {spec: (score, FINGERPRINT)}, spool=Spool()))
    return entry


TESTS = {
    "test_b.py::test_two[ümlaut]": _entry({"q10": 1.0, "q2": None, "q1": 0.1}),
    "test_a.py::test_one": _entry({"q1": 1 / 3}, "mrr@5 by em"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rageval_baseline.json"


def test_what_was_written_is_read(path: Path) -> None:
    Baseline(TESTS).write(path)
    baseline = Baseline.read(path)
    assert baseline.tests == TESTS
    first = path.read_bytes()
    baseline.write(path)
    assert path.read_bytes() == first
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_number_of_runs_is_written_if_there_are_several(path: Path) -> None:
    """The key `repeats` is written only for several runs, so that baselines of single runs keep their bytes."""
    examples = tuple(example(name) for name in ("q1", "q2"))
    first, again = ([Outcome(question, value) for question in examples] for value in (1.0, 0.5))
    for repeats, runs in (([], 1), ([again, again, again], 4)):
        score = Score("answer.em@1", first, repeats=repeats)
        entry = baseline_entry(examples, {"answer.em@1": (score, {})}, spool=Spool())
        stored = entry["scores"]["answer.em@1"]
        assert stored.get("repeats") == (None if runs == 1 else runs)
        assert stored["examples"]["q1"]["score"] == (1.0 if runs == 1 else 0.625)
        Baseline({"t": entry}).write(path)
        before = Baseline.read(path).score("t", "answer.em@1", None)
        assert before.runs == runs


def test_the_order_of_tests_scores_and_examples_changes_no_byte(path: Path) -> None:
    """Workers finish tests in any order and eval sets may be re-sorted; the file stays the same."""
    Baseline(TESTS).write(path)
    first = path.read_bytes()
    reordered = {
        nodeid: {"scores": entry["scores"], "questions": dict(reversed(entry["questions"].items()))}
        for nodeid, entry in reversed(TESTS.items())
    }
    for entry in reordered.values():
        for score in entry["scores"].values():
            score["examples"] = dict(reversed(score["examples"].items()))
    Baseline(reordered).write(path)
    assert path.read_bytes() == first


def test_each_question_has_a_line(path: Path) -> None:
    Baseline(TESTS).write(path)
    digests = TESTS["test_b.py::test_two[ümlaut]"]["questions"]
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    lines = text.splitlines()
    start = lines.index('  "test_b.py::test_two[ümlaut]": {')
    assert lines[start + 1 :] == [
        '   "questions": {',
        f'    "q1": {{"digest": "{digests["q1"]}", "scores": {{"recall@5": 0.1}}, "under": "{MARK}"}},',
        f'    "q10": {{"digest": "{digests["q10"]}", "scores": {{"recall@5": 1.0}}, "under": "{MARK}"}},',
        f'    "q2": {{"digest": "{digests["q2"]}", "scores": {{"recall@5": null}}, "under": "{MARK}"}}',
        "   },",
        '   "scores": {',
        f'    "recall@5": {{"fingerprint": {json.dumps(FINGERPRINT, sort_keys=True)}}}',
        "   }",
        "  }",
        " }",
        "}",
    ]


def test_a_changed_question_is_a_changed_line(path: Path) -> None:
    values: dict[str, float | None] = {f"q{n:03}": 1.0 for n in range(100)}
    Baseline({"t": _entry(values)}).write(path)
    before = path.read_text(encoding="utf-8").splitlines()
    Baseline({"t": _entry(values | {"q050": 0.5})}).write(path)
    after = path.read_text(encoding="utf-8").splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    digest = example("q050").digest
    assert changed == [
        tuple(
            f'    "q050": {{"digest": "{digest}", "scores": {{"recall@5": {value}}}, "under": "{MARK}"}},'
            for value in (1.0, 0.5)
        )
    ]


def _ranked_entry(labels: Mapping[str, list[str]], values: Mapping[str, float]) -> dict[str, Any]:
    scores = {
        spec: (Score(spec, [ranked("q1", values[spec], found)]), FINGERPRINT)
        for spec, found in labels.items()
    }
    return plain(baseline_entry((example("q1"),), scores, spool=Spool()))


def _question(path: Path) -> dict[str, Any]:
    question: dict[str, Any] = json.loads(path.read_text())["tests"]["t"]["questions"]["q1"]
    return question


def test_a_ranking_is_stored_once(path: Path) -> None:
    """Scores with the same ranking share it, so that a new ranking with new scores changes one line."""
    found, lines = ["kb-1", "kb-7"], []
    for ranking, value in ((found, 1.0), (found[::-1], 0.5)):
        entry = _ranked_entry(
            dict.fromkeys(("mrr@2", "recall@2"), ranking), {"mrr@2": value, "recall@2": 1.0}
        )
        Baseline({"t": entry}).write(path)
        assert Baseline.read(path).tests == {"t": entry}
        assert _question(path)["ranking"] == ranking
        lines.append(path.read_text().splitlines())
    assert sum(before != after for before, after in zip(*lines, strict=True)) == 1


def test_the_beginning_of_a_longer_ranking_is_stored_as_its_length(path: Path) -> None:
    """Scores with other cut-offs usually have the first passages of the longest ranking."""
    found = {"mrr@3": ["a", "b", "c"], "recall@1": ["a"], "recall@2": ["b", "a"], "recall@3": ["a", "b", "c"]}
    entry = _ranked_entry(found, dict.fromkeys(found, 1.0))
    Baseline({"t": entry}).write(path)
    assert _question(path)["ranking"] == {**found, "recall@1": 1, "recall@3": 3}
    assert Baseline.read(path).tests == {"t": entry}


def test_an_entry_stores_score_document_names_and_the_beginning_of_the_answer() -> None:
    unnamed = Ranking("q", (Document("a text\nwithout an id"), Document("b", "kb-2")))
    outcomes = [
        ranked("q1", 0.5, ["kb-1", "kb-7"], f"thirty\n days {'x' * 300}"),
        Outcome(example("q2"), None, "no gold passages", Evidence(unnamed)),
        Outcome(example("q3"), 1.0),
    ]
    entry = baseline_entry(
        tuple(outcome.example for outcome in outcomes),
        {"recall@5": (Score("recall@5", outcomes), {})},
        spool=Spool(),
    )
    examples = entry["scores"]["recall@5"]["examples"]
    assert examples["q1"]["ranking"] == ["kb-1", "kb-7"]
    assert examples["q1"]["answer"].startswith("thirty days xxx")
    assert len(examples["q1"]["answer"]) == MAX_ANSWER_LENGTH
    bare = {"under": fingerprint_digest({})}
    assert examples["q2"] == {"score": None, "ranking": ['"a text without an id"', "kb-2"]} | bare
    assert examples["q3"] == {"score": 1.0} | bare


def test_a_question_is_known_by_all_that_is_asked_and_right() -> None:
    base = {"question": "Who?", "answers": ("Ada",), "gold": (Gold("kb-1"),), "reference": "Ada did."}
    same = Example("q1", **base, tags={"topic": "a"}, extra={"source": "x"})
    assert same.digest == Example("q2", **base).digest
    changes = [
        {"question": "Whom?"},
        {"answers": ("Ada", "Lovelace")},
        {"answer_set": (("Ada",),)},
        {"gold": (Gold("kb-1", grade=2),)},
        {"gold": (Gold("kb-1", text="Ada"),)},
        {"reference": None},
    ]
    digests = {Example("q1", **(base | change)).digest for change in changes}
    assert len(digests | {same.digest}) == len(changes) + 1
    assert all(len(digest) == 12 for digest in digests)


def test_odd_names_and_answers_survive(path: Path) -> None:
    odd = {'a "test"\n[x-\\]': {"questions": {}, "scores": {}}, "t": _entry({"q1": 0.0, 'q"2\n': 1e-300})}
    odd["t"]["scores"]["recall@5"]["examples"]["q1"]["answer"] = "half \ud83d of it"
    Baseline(odd).write(path)
    assert Baseline.read(path).tests == odd


def test_ids_may_be_the_keys_of_the_file(path: Path) -> None:
    entry = _entry(dict.fromkeys(("digest", "scores", "questions", "ranking"), 1.0))
    Baseline({"t": entry}).write(path)
    assert Baseline.read(path).tests == {"t": entry}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("neighbours", [False, True])
def test_branches_that_changed_different_questions_merge(tmp_path, monkeypatch, *, neighbours):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")
    path = tmp_path / "rageval_baseline.json"
    values: dict[str, float | None] = {f"q{n:02}": 1.0 for n in range(20)}

    def git(*arguments: str) -> int:
        return subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, check=False).returncode  # noqa: S607

    def commit(changes: dict[str, float | None]) -> None:
        Baseline({"test_c.py::test_three": _entry(values | changes), **TESTS}).write(path)
        git("add", ".")
        assert git("commit", "-m", "baseline") == 0

    git("init", "-b", "main")
    commit({})
    git("checkout", "-b", "other")
    commit({"q07" if neighbours else "q15": 0.25})
    git("checkout", "main")
    commit({"q06": 0.5})
    merged = git("merge", "other")
    if neighbours:
        assert merged != 0
        with pytest.raises(InputError, match="is not JSON: it contains the marks of a merge conflict"):
            Baseline.read(path)
        return
    assert merged == 0
    examples = Baseline.read(path).tests["test_c.py::test_three"]["scores"]
    merged_examples = next(iter(examples.values()))["examples"]
    changed = {name: entry["score"] for name, entry in merged_examples.items() if entry["score"] != 1.0}
    assert changed == {"q06": 0.5, "q15": 0.25}


REMEDY = (
    "\nRestore it from git; or delete it, and write it again with --rageval-update-baseline on the commit"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)."),
        ('{"schema": 1,\n', "is not JSON: Expecting property name"),
        (
            '{\n<<<<<<< HEAD\n"schema": 1\n=======\n',
            "is not JSON: it contains the marks of a merge conflict.",
        ),
        ("[" * 100_000, "is not JSON: "),
        (
            '{"schema": 1, "tests": {"t": {"questions": {"q1": "a", "q2": "b", "q1": "a"}, "scores": {}}}}',
            'is not JSON: "q1" occurs twice in one object, as after a merge that kept both sides.',
        ),
        ("[]", "is not a baseline of this package"),
        ("null", "is not a baseline of this package"),
        ("{}", "is not a baseline of this package"),
        ('{"schema": 0, "tests": {}}', "is not a baseline of this package"),
        ('{"schema": "1", "tests": {}}', "is not a baseline of this package"),
        ('{"schema": 1}', "is not a baseline of this package"),
        ('{"schema": 1, "tests": []}', "is not a baseline of this package"),
    ],
)
def test_a_file_that_is_not_a_baseline_is_an_error_with_a_remedy(path: Path, text: str, problem: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Baseline.read(path)
    assert str(caught.value).startswith(f"The baseline {path} {problem}")
    remedy = "\nTake one side, such as with git checkout" if "merge conflict" in problem else REMEDY
    assert remedy in str(caught.value)


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda entry: entry.pop(name)


def _example(**changes: object) -> Callable[[dict[str, Any]], object]:
    def change(entry: dict[str, Any]) -> None:
        entry["scores"]["recall@5"]["examples"]["q1"].update(changes)

    return change


def _score(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda entry: entry["scores"]["recall@5"].update(changes)


def _spoilt(entry: dict[str, Any], spoil: Callable[[dict[str, Any]], object], path: Path, schema: int) -> str:
    """Return the error of a file with this entry after `spoil` changed it; it is read before."""
    for spoiling in (lambda _: None, spoil):
        spoiling(entry)
        path.write_text(json.dumps({"schema": schema, "tests": {"t": entry}}), encoding="utf-8")
        try:
            Baseline.read(path)
        except InputError as error:
            assert spoiling is spoil
            return str(error)
    raise AssertionError("no error")


IS_NO_BASELINE = re.compile(r"is not a baseline of this package: .*\bt\b.*\.\nRestore it from git")

PARTS = (
    _without("questions"),
    _without("scores"),
    lambda entry: entry.update(questions=[]),
    lambda entry: entry["scores"].update({"recall@5": []}),
    _score(fingerprint=None),
    _score(fingerprint={"generator": []}),
    _score(repeats=0),
    _score(repeats="3"),
    _score(repeats=True),
)


@pytest.mark.parametrize(
    "spoil",
    [
        *PARTS,
        _score(examples=["q1"]),
        _score(examples={"q1": 1.0}),
        _score(examples={"q1": {"ranking": []}}),
        _example(score="1.0"),
        _example(score=True),
        _example(score=float("nan")),
        _example(score=float("inf")),
        _example(ranking="kb-1"),
        _example(ranking=[1]),
        _example(answer=None),
    ],
)
def test_a_part_of_another_form_is_an_error_in_a_file_of_the_first_schema(path, spoil):
    assert IS_NO_BASELINE.search(_spoilt(copy.deepcopy(_entry({"q1": 1.0})), spoil, path, 1))


def _asked(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda entry: entry["questions"]["q1"].update(changes)


@pytest.mark.parametrize(
    "spoil",
    [
        *PARTS,
        lambda entry: entry["questions"].update(q1="0123456789ab"),
        lambda entry: entry["questions"]["q1"].pop("digest"),
        lambda entry: entry["questions"]["q1"].pop("scores"),
        lambda entry: entry["scores"].clear(),
        _asked(digest=1),
        _asked(scores=[1.0]),
        *(_asked(scores={"recall@5": score}) for score in ("1.0", True, math.nan, math.inf, {})),
        *(_asked(ranking=ranking) for ranking in ("kb-1", [1], {"recall@5": 1}, {"recall@5": "kb-1"})),
        _asked(answer=None),
        _asked(answer={"recall@5": None}),
        _asked(under=1),
        _asked(runs=0),
        _asked(runs={"recall@5": "3"}),
        _asked(ranking={"recall@50": ["kb-1"]}),
        lambda entry: entry.update(
            unknown={"digest": "0", "scores": {"recall@5": 1.0}}, questions=entry.pop("questions")
        ),
    ],
)
def test_a_part_of_another_form_is_an_error(path: Path, spoil: Callable[[dict[str, Any]], object]) -> None:
    Baseline({"t": _entry({"q1": 1.0, "q2": 0.5})}).write(path)
    entry = json.loads(path.read_text(encoding="utf-8"))["tests"]["t"]
    assert IS_NO_BASELINE.search(_spoilt(entry, spoil, path, 2))


def test_the_error_of_a_question_names_it(path: Path) -> None:
    Baseline({"t": _entry({"q1": 1.0})}).write(path)
    path.write_text(path.read_text().replace('"recall@5": 1.0', '"recall@5": "1"'))
    with pytest.raises(
        InputError, match=r"question q1 in recall@5 of t has the score '1'; that is a number, or null"
    ):
        Baseline.read(path)


def test_a_newer_form_asks_for_a_newer_package(path: Path) -> None:
    path.write_text('{"schema": 3, "tests": {}}', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Baseline.read(path)
    assert str(caught.value) == (
        f"The baseline {path} has schema 3; this version reads up to 2. Update the package."
    )


def test_unreadable_or_unwritable_files_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside").write_bytes(b"\xff")
    for path in (folder, folder / "inside", folder / "inside" / "below"):
        with pytest.raises(InputError, match=rf"The baseline {path} cannot be read: "):
            Baseline.read(path)
    for path in (folder, folder / "inside" / "below"):
        with pytest.raises(InputError, match=rf"The baseline {path} cannot be written: "):
            Baseline(TESTS).write(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    Baseline(TESTS).write(tmp_path / "evals" / "baselines" / "main.json")
    assert Baseline.read(tmp_path / "evals" / "baselines" / "main.json").tests == TESTS


def test_a_link_stays_one(tmp_path: Path) -> None:
    link, target = tmp_path / "link.json", tmp_path / "shared" / "baseline.json"
    target.parent.mkdir()
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("this system has no links")
    Baseline(TESTS).write(link)
    assert link.is_symlink()
    assert Baseline.read(target).tests == TESTS
    assert [entry.name for entry in target.parent.iterdir()] == ["baseline.json"]


def test_a_file_that_has_to_be_there_is_missed(tmp_path: Path) -> None:
    path, link = tmp_path / "none.json", tmp_path / "link.json"
    assert Baseline.read_for_comparison(path, required=False).path is None
    with pytest.raises(
        InputError, match=r"none.json cannot be read: there is no such file.\nCheck rageval_baseline"
    ):
        Baseline.read_for_comparison(path, required=True)
    try:
        link.symlink_to(path)
    except OSError:
        pytest.skip("this system has no links")
    with pytest.raises(
        InputError, match=r"link.json cannot be read: it is a link to .*none.json, which is missing"
    ):
        Baseline.read_for_comparison(link, required=False)
    Baseline(TESTS).write(link)
    assert Baseline.read_for_comparison(link, required=True).tests == TESTS


def test_a_score_is_found_where_it_is_on_its_scale(path: Path) -> None:
    Baseline({"t": _entry({"q1": 1.0, "q2": None, "q3": -0.5})}).write(path)
    baseline = Baseline.read(path)
    before = baseline.score("t", "recall@5", None)
    assert before.examples["q3"]["score"] == -0.5
    assert (baseline.score("t", "mrr@5", None), baseline.score("u", "recall@5", None)) == (None, None)
    with pytest.raises(
        InputError, match=r"question q3 in recall@5 of t has the score -0.5, and the score goes from 0"
    ):
        baseline.score("t", "recall@5", (0.0, 1.0))


@pytest.mark.parametrize(
    ("nodeid", "present", "expected"),
    [
        ("b/test_a.py::test_one", [], "; renamed from test_a.py::test_one?"),
        ("test_a.py::TestAll::test_one", [], "; renamed from test_a.py::test_one?"),
        ("test_b.py::test_two[x]", [], "; renamed from test_b.py::test_two[ümlaut]?"),
        ("test_a.py::test_onwe", [], "; renamed from test_a.py::test_one?"),
        (
            "test_b.py::test_two[x]",
            ["test_b.py::test_two[ümlaut]"],
            " has no entry for test_b.py::test_two[x].\n",
        ),
        ("test_z.py::test_nothing_like_it", [], " has no entry for test_z.py::test_nothing_like_it.\n"),
        ("test_a.py::test_one", [], " has no recall@5 of test_a.py::test_one; it has mrr@5 by em.\n"),
    ],
)
def test_a_missing_name_is_reported_with_a_suggestion(path, nodeid, present, expected):
    Baseline(TESTS).write(path)
    missing, is_new = Baseline.read(path).missing_reason(nodeid, "recall@5", present)
    assert expected in missing
    assert is_new == ("renamed" not in expected)
    assert "un pytest --rageval-update-baseline " in missing
    assert Baseline().missing_reason(nodeid, "recall@5", present) == ("", False)


def test_a_file_of_the_first_schema_is_read(tmp_path: Path) -> None:
    examples = {
        "a": {"score": 1},
        "b": {"score": None, "under": "12345678"},
        "c": {"score": -0.0, "answer": "five days", "ranking": ["kb-1"], "of a later version": {"x": [1]}},
    }
    score = {"fingerprint": {"scoring": "1"}, "examples": examples}
    exact = {"fingerprint": {}, "examples": {name: {"score": 0.5, "under": "m"} for name in examples}}
    test = {"questions": dict.fromkeys(examples, "0" * 12), "scores": {"recall@5": score, "mrr@5": exact}}
    path, again = tmp_path / "one.json", tmp_path / "two.json"
    path.write_text(json.dumps({"schema": 1, "tests": {"test_a": test}}), encoding="utf-8")
    baseline = Baseline.read(path)
    assert baseline.tests == {"test_a": test}
    baseline.write(again)
    assert Baseline.read(again).tests == {"test_a": test}
    written = again.read_text(encoding="utf-8")
    assert '"schema": 2' in written
    assert '"recall@5": 1}' in written
    assert '"recall@5": -0.0}' in written
    Baseline.read(again).write(path)
    assert path.read_bytes() == again.read_bytes()


def test_a_question_more_takes_few_calls_of_functions(path: Path) -> None:
    """Reading one more question with three scores, and comparing it, takes few calls: there may be 100,000."""
    counts: dict[str, list[int]] = {"read": [], "compare": []}

    def counted(name: str, work: Callable[[], Any]) -> Any:
        counts[name].append(0)

        def count(_frame: object, event: str, _argument: object) -> None:
            counts[name][-1] += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            return work()
        finally:
            sys.setprofile(before)

    for questions in (100, 200):
        score = score_of({f"q{number}": number % 2 for number in range(questions)})
        examples = tuple(outcome.example for outcome in score.outcomes)
        scores = dict.fromkeys(("mrr@5", "ndcg@5", "recall@5"), (score, {}))
        Baseline({"test": baseline_entry(examples, scores, spool=Spool())}).write(path)
        baseline = counted("read", lambda: Baseline.read(path))
        found = baseline.score("test", "recall@5", (0.0, 1.0))
        comparison = counted("compare", lambda score=score, found=found: compare(score, {}, found))
        assert comparison.n == questions
    more = {name: (many - few) / 100 for name, (few, many) in counts.items()}
    assert more["read"] <= 64
    assert more["compare"] <= 36
