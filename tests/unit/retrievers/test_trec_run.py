"""A recorded run as a retriever; both readers of run files find the same rankings and the same mistakes."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.datatypes import Document, Example
from pytest_rageval.errors import InputError
from pytest_rageval.retrievers import adapt_retriever, trec_run
from pytest_rageval.retrievers.trec_run import RunDocuments, RunFile, TrecRun, _parse_decimals, read_run

EXAMPLES = [Example("301", "crime?"), Example("302", "polio?"), Example("303", "hubble?")]


def _run(folder: Path, content: str) -> Path:
    (folder / "a.run").write_text(content, encoding="utf-8")
    return folder / "a.run"


def test_documents_are_ordered_by_score_and_then_by_id(tmp_path: Path) -> None:
    """Not by the rank that is written; of equal scores, in single precision, the greater id first."""
    lines = "301 Q0 a 1 0.5 me\n301 Q0 c 2 0.50000000001 me\n301 Q0 b 3 0.9 me more\n302 Q0 z 1 -1 me\n"
    search = TrecRun(_run(tmp_path, lines), EXAMPLES, texts={"b": "B"})
    assert search("crime?", 2) == [Document("B", "b", search("crime?", 1)[0].score), search("crime?", 2)[1]]
    assert [document.id for document in search("crime?", 9)] == ["b", "c", "a"]
    assert [document.id for document in search("polio?", 9)] == ["z"]
    assert search("hubble?", 9) == []


def test_a_run_as_json(tmp_path: Path) -> None:
    """Scores by document by topic, as ranx saves them, in the order of a run in lines."""
    run = _run(tmp_path, '{"301": {"a": 0.5, "c": 0.50000000001, "b": 1}, "302": {}}')
    search = TrecRun(str(run), EXAMPLES)
    assert [document.id for document in search("crime?", 9)] == ["b", "c", "a"]
    assert search("polio?", 9) == []
    with pytest.raises(InputError, match=r"a\.run topic 301 has a score that is beyond single precision"):
        TrecRun(_run(tmp_path, '{"301": {"a": 1e99}}'), EXAMPLES)


def test_a_question_of_no_example_is_an_error(tmp_path: Path) -> None:
    """The run cannot answer it."""
    search = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n"), EXAMPLES)
    with pytest.raises(InputError, match=r"The run was not recorded for 'what else\?'"):
        search("what else?", 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("301 Q0 a 1 0.5 me\n301 a 0.5\n", r"a\.run line 2 is not a line of a run: '301 a 0\.5'"),
        ("301 Q0 a 1 nan me\n", r"a\.run line 1 is not a line of a run"),
        ("301 Q0 a 1 1e99 me\n", r"a\.run line 1 is not a line of a run"),
        ("301 Q0 a 1 1 me\n301 Q0 a 2 1 me\n", r"a\.run line 2: document a is listed twice for topic 301\."),
        ("9 Q0 a 1 1 me\n", r"a\.run: none of its topics \(9, …\) is the id of an example"),
    ],
)
def test_a_run_that_does_not_fit_is_named_with_its_line(content: str, said: str, tmp_path: Path) -> None:
    """File, line, what was found."""
    with pytest.raises(InputError, match=said):
        TrecRun(_run(tmp_path, content), EXAMPLES)


def test_one_question_with_two_rankings_is_an_error(tmp_path: Path) -> None:
    """It would be answered by one of them unseen; with the same ranking it does not matter."""
    twice = [Example("301", "crime?"), Example("302", "crime?")]
    with pytest.raises(InputError, match="'301' and '302' are one question with two rankings"):
        TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n"), twice)
    same = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n302 Q0 a 1 0.5 me\n"), twice)
    assert [document.id for document in same("crime?", 1)] == ["a"]


def test_one_question_in_two_contexts_has_two_rankings(tmp_path: Path, loop: BackgroundEventLoop) -> None:
    """Each example finds its own, through the filters or the history that it is asked with."""
    (tmp_path / "a.run").write_text("1 Q0 d1 1 0.5 t\n2 Q0 d2 1 0.5 t\n3 Q0 d3 1 0.5 t\n")
    said = ({"role": "user", "content": "Hello"},)
    examples = [
        Example("1", "Why?", filters={"tenant": "a"}),
        Example("2", "Why?", filters={"tenant": "b"}),
        Example("3", "Why?", history=said),
    ]
    retriever = adapt_retriever(TrecRun(tmp_path / "a.run", examples), loop)
    assert [loop.run(retriever.retrieve(example, 3)).ids for example in examples] == [
        ("d1",),
        ("d2",),
        ("d3",),
    ]
    with pytest.raises(InputError, match="The run was not recorded for 'Why\\?'"):
        loop.run(retriever.retrieve("Why?", 3))


def test_any_finite_single_is_a_score(tmp_path: Path) -> None:
    """The highest number that rounds to one, and no higher; of equal ids in code points, the greater first."""
    (tmp_path / "a.run").write_text(
        "1 Q0 a 1 3.4028235677973362e+38 me\n1 Q0 z 1 1 me\n1 Q0 \U0001f600 1 1 me\n1 Q0 \uffee 1 1 me\n",
        encoding="utf-8",
    )
    found = TrecRun(tmp_path / "a.run", [Example("1", "Why?")])("Why?", 4)
    assert [document.id for document in found] == ["a", "\U0001f600", "\uffee", "z"]
    assert found[0].score == pytest.approx(3.4028234663852886e38, rel=0)
    (tmp_path / "b.run").write_text("1 Q0 a 1 -3.4028235677973366e+38 me\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.run line 1 is not a line of a run"):
        TrecRun(tmp_path / "b.run", [Example("1", "Why?")])


def test_documents_are_created_when_they_are_read(tmp_path: Path, loop: BackgroundEventLoop) -> None:
    """A run of a million documents is scored by ids: the retriever passes the lazy documents on as they are."""
    search = TrecRun(_run(tmp_path, "301 Q0 a 1 0.5 me\n302 Q0 b 1 0.5 me\n"), EXAMPLES)
    ranking = loop.run(adapt_retriever(search, loop).retrieve("crime?", 1))
    assert isinstance(ranking.documents, RunDocuments)
    assert ranking.ids == ("a",)


def _both(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[dict[str, tuple[list[str], list[float]]]]:
    """What is read without numpy, and by columns."""
    found = []
    for large in (2**60, 0):
        monkeypatch.setattr(trec_run, "MIN_NUMPY_BYTES", large)
        run = read_run(path)
        found.append({topic: run.ranking(topic) for topic in run.topics})
    return found


def _lines(rng: random.Random, topics: int, *, score: str = "{:.2f}") -> list[str]:
    return [
        f"{topic} Q0 {document} 1 {score.format(rng.uniform(-2, 2))} me"
        for topic in range(topics)
        for document in rng.sample(range(1000), rng.randint(1, 40))
    ]


@pytest.mark.parametrize("score", ["{:.2f}", "{:.0f}", "{:e}", "{:.17f}"])
@pytest.mark.parametrize("at_once", [64, 2**21])
def test_columns_are_read_as_lines_are(
    score: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties and unsorted scores, in blocks that end anywhere."""
    monkeypatch.setattr(trec_run, "BLOCK_BYTES", at_once)
    path = tmp_path / "a.run"
    path.write_text("\n".join(_lines(random.Random(0), 30, score=score)))
    lines, columns = _both(monkeypatch, path)
    assert lines == columns
    assert list(lines) == list(columns)


@pytest.mark.parametrize(
    "content",
    [
        "a\tQ0\tx\t1\t2\tme\r\na  Q0 y 2 1 me\n",
        "a Q0 x 1 2 me\n\n  a Q0 y 2 1 me",
        "a Q0 x 1 2 me more\na Q0 y 2 1 me\n",
        "a Q0 é 1 2 me\na Q0 y\xa0z 2 1 me\n",
        "a Q0 x\x1c 1 2 me\na Q0 y 2 1 me\n",
        "b Q0 x 1 2 me\na Q0 x 2 1 me\nb Q0 y 2 3 me\n",
        f"a Q0 {'x' * 500} 1 2 me\n",
        "\ufeffa Q0 x 1 1_0 me\n",
    ],
    ids=["tabs", "blank lines", "seven columns", "Unicode", "other space", "mixed topics", "long id", "mark"],
)
def test_what_columns_do_not_have_is_read_by_lines(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rankings do not depend on the size of the file."""
    path = tmp_path / "a.run"
    path.write_text(content, encoding="utf-8", newline="")
    lines, columns = _both(monkeypatch, path)
    assert lines == columns


def test_decimals_are_those_of_python() -> None:
    """To the last bit, and with the sign of zero."""
    rng = random.Random(2)
    for _ in range(200):
        digits = ["".join(rng.choices("0123456789", k=rng.randint(1, 13))) for _ in range(30)]
        points = [rng.randint(0, len(each)) for each in digits]
        cells = [
            rng.choice(("", "-")) + each[:at] + rng.choice(("", ".")) + each[at:]
            for each, at in zip(digits, points, strict=True)
        ]
        found = _parse_decimals(np.array([*cells, "-0", "-.0"], "S"))
        assert found is not None
        assert list(map(repr, found.tolist())) == [repr(float(cell)) for cell in [*cells, "-0", "-.0"]]


@pytest.mark.parametrize(
    "cell", ["-", ".", "-.", "1.2.3", "1-2", "--1", "1e5", "nan", "inf", "+1", "1_0", "1234567890123456"]
)
def test_other_numbers_are_left_to_python(cell: str) -> None:
    """Which takes some of them, and refuses others."""
    assert _parse_decimals(np.array(["1.5", cell], "S")) is None


def test_a_large_file_is_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a compressed one; the ids stay bytes until they are asked for."""
    path = tmp_path / "a.run.gz"
    path.write_bytes(gzip.compress("\n".join(_lines(random.Random(1), 9)).encode()))
    monkeypatch.setattr(trec_run, "MIN_NUMPY_BYTES", 0)
    run: RunFile = read_run(path)
    assert not isinstance(run.document_ids, list)
    assert run.ranking("nothing") == ([], [])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a Q0 x 1 2 me\na y 2\n", r"a\.run line 2 is not a line of a run: 'a y 2'"),
        ("a Q0 x 1 2\nme a Q0 y 1 2 me\n", r"a\.run line 1 is not a line of a run: 'a Q0 x 1 2'"),
        ("a Q0 x 1 two me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 nan me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 1e39 me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 2 me\na Q0 x 2 1 me\n", r"a\.run line 2: document x is listed twice for topic a\."),
    ],
)
def test_a_mistake_in_columns_is_named_with_its_line(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a small file."""
    path = tmp_path / "a.run"
    path.write_text(content)
    monkeypatch.setattr(trec_run, "MIN_NUMPY_BYTES", 0)
    with pytest.raises(InputError, match=said):
        read_run(path)
