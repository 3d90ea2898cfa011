"""Replaying a TREC run as a retriever."""

from pathlib import Path

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Document
from pytest_rageval.evalsets import files
from pytest_rageval.extensions.baseline_retrievers import trec_run
from pytest_rageval.extensions.baseline_retrievers.trec_run import RunDocuments, TrecRun, read_run
from pytest_rageval.retrievers import adapt_retriever

EXAMPLES = [Example("301", "crime?"), Example("302", "polio?"), Example("303", "hubble?")]


def _run(folder: Path, content: str) -> Path:
    (folder / "a.run").write_text(content, encoding="utf-8")
    return folder / "a.run"


def test_documents_are_ordered_by_score_and_then_by_id(tmp_path: Path) -> None:
    lines = "301 Q0 a 1 0.5 me\n301 Q0 c 2 0.50000000001 me\n301 Q0 b 3 0.9 me\n302 Q0 z 1 -1 me\n"
    search = TrecRun(_run(tmp_path, lines), EXAMPLES, texts={"b": "B"})
    assert search("crime?", 2) == [Document("B", "b", search("crime?", 1)[0].score), search("crime?", 2)[1]]
    assert [document.id for document in search("crime?", 9)] == ["b", "c", "a"]
    assert [document.id for document in search("polio?", 9)] == ["z"]
    assert search("hubble?", 9) == []


def test_a_run_as_json(tmp_path: Path) -> None:
    run = _run(tmp_path, '{"301": {"a": 0.5, "c": 0.50000000001, "b": 1}, "302": {}}')
    search = TrecRun(str(run), EXAMPLES)
    assert [document.id for document in search("crime?", 9)] == ["b", "c", "a"]
    assert search("polio?", 9) == []
    with pytest.raises(InputError, match=r"a\.run topic 301 has a score that is beyond single precision"):
        TrecRun(_run(tmp_path, '{"301": {"a": 1e99}}'), EXAMPLES)


def test_a_question_of_no_example_is_an_error(tmp_path: Path) -> None:
    search = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n"), EXAMPLES)
    with pytest.raises(InputError, match=r"The run was not recorded for 'what else\?'"):
        search("what else?", 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("301 Q0 a 1 0.5 me\n301 a 0.5\n", r" line 2 is not a line of a run: '301 a 0\.5'"),
        ("301 Q0 a b 1 0.5 me\n", r" line 1 is not .*: '301 Q0 a b 1 0\.5 me'.\nWrite .* needs\."),
        ("301 Q0 x 1 2\nme 301 Q0 y 1 2 me\n", r" line 1 is not a line of a run: '301 Q0 x 1 2'"),
        # Five cells between tabs are not taken for six between spaces, and no empty cell is skipped.
        *(
            (line, " line 1 is not a line of a run")
            for line in (
                *("301\tQ0\ta b\t1\t0.5\n", "301\tQ0\ta\t1\t0.5\t\n", "301\tQ0\t\t1\t0.5\tme\n"),
                *("301 Q0\ta 1\t0.5 me\n", "301\tQ0\tAda Lovelace\t1\t2\n", "301\tQ0\t\tx\t2\t1\tme\n"),
                *("301 Q0 a 1 nan me\n", "301 Q0 a 1 two me\n", "301 Q0 a 1 1e39 me\n"),
            )
        ),
        ("301 Q0 a 1 1 me\n301 Q0 a 2 1 me\n", r" line 2: document a is listed twice for topic 301\."),
        ("9 Q0 a 1 1 me\n", r": none of its topics \(9, …\) is the id of an example"),
    ],
)
def test_a_run_that_does_not_fit_is_named_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"a\.run{message}"):
        TrecRun(_run(tmp_path, content), EXAMPLES)


def test_one_question_with_two_rankings_is_an_error(tmp_path: Path) -> None:
    twice = [Example("301", "crime?"), Example("302", "crime?")]
    with pytest.raises(InputError, match="'301' and '302' are one question with two rankings"):
        TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n"), twice)
    same = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n302 Q0 a 1 0.5 me\n"), twice)
    assert [document.id for document in same("crime?", 1)] == ["a"]


def test_one_question_in_two_contexts_has_two_rankings(tmp_path: Path, loop: BackgroundEventLoop) -> None:
    (tmp_path / "a.run").write_text("1 Q0 d1 1 0.5 t\n2 Q0 d2 1 0.5 t\n3 Q0 d3 1 0.5 t\n")
    history = ({"role": "user", "content": "Hello"},)
    examples = [
        Example("1", "Why?", filters={"tenant": "a"}),
        Example("2", "Why?", filters={"tenant": "b"}),
        Example("3", "Why?", history=history),
    ]
    retriever = adapt_retriever(TrecRun(tmp_path / "a.run", examples), loop)
    found = [loop.run(retriever.retrieve(example, 3)).ids for example in examples]
    assert found == [("d1",), ("d2",), ("d3",)]
    with pytest.raises(InputError, match="The run was not recorded for 'Why\\?'"):
        loop.run(retriever.retrieve("Why?", 3))


def test_any_finite_single_is_a_score(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text(
        "1 Q0 a 1 3.4028235677973362e+38 me\n1 Q0 z 1 1 me\n1 Q0 \U0001f600 1 1 me\n1 Q0 \uffee 1 1 me\n",
        encoding="utf-8",
    )
    documents = TrecRun(tmp_path / "a.run", [Example("1", "Why?")])("Why?", 4)
    assert [document.id for document in documents] == ["a", "\U0001f600", "\uffee", "z"]
    assert documents[0].score == pytest.approx(3.4028234663852886e38, rel=0)
    (tmp_path / "b.run").write_text("1 Q0 a 1 -3.4028235677973366e+38 me\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.run line 1 is not a line of a run"):
        TrecRun(tmp_path / "b.run", [Example("1", "Why?")])


def test_documents_are_created_when_they_are_read(tmp_path: Path, loop: BackgroundEventLoop) -> None:
    search = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n302 Q0 b 1 0.5 me\n"), EXAMPLES)
    ranking = loop.run(adapt_retriever(search, loop).retrieve("crime?", 1))
    assert isinstance(ranking.documents, RunDocuments)
    assert ranking.ids == ("a",)


def test_a_long_line_is_not_read_as_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (trec_run, files):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 30)
    monkeypatch.setattr(trec_run, "BLOCK_BYTES", 1)
    with pytest.raises(InputError, match=r"a\.run line 1 is longer than"):
        read_run(_run(tmp_path, f"{'a Q0 x 1 2 me':<32}b Q0 y 1 2 me\n"))


def test_a_topic_is_found_in_another_form_of_its_id(tmp_path: Path) -> None:
    search = TrecRun(_run(tmp_path, "301.0 Q0 a 1 0.5 me\n"), EXAMPLES)
    assert [document.id for document in search("crime?", 1)] == ["a"]
    with pytest.raises(InputError, match=r"a\.run topic 301 occurs twice"):
        TrecRun(_run(tmp_path, '{"301.0": {"a": 1}, "301": {"b": 1}}'), EXAMPLES)
