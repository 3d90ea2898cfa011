"""Ways to make a retriever worse so that the ids of the gold passages are still found: none of them is silent."""

import json

import pytest

from tests.foreign_plugins import WITHOUT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("new_code")]

CONFTEST = """
import pytest

LONG = "word " * 40

def documents(query):
    n = int(query.rstrip("?"))
    ours = [f"d{n}", *(f"ours-{(n + m) % 12}" for m in range(4))]
    theirs = [f"theirs-{(n + m) % 12}" for m in range(4)]
    return n, [{"id": name, "text": f"{name} {LONG}"} for name in ours], [{"id": name, "text": name} for name in theirs]

def good(query, k):
    return documents(query)[1][:k]

def worse(query, k):
    n, ours, theirs = documents(query)
    CHANGE

@pytest.fixture(scope="session")
def rageval_retriever():
    return good
"""
TEST = """
import pytest

@pytest.mark.rageval_evalset("e.jsonl")
@pytest.mark.rageval_threshold("recall@5", max_drop=0.02, policy="snapshot")
def test_it(): pass
"""
TEXTS = "the texts of 100% of the retrieved passages changed under the same ids ({})."
ORDER = "the first gold passage fell in 12 of 12 questions, from rank 1.0 to {} on average, and no score of the test"
OTHERS = "{}% of the first 5 passages are others than in the baseline, where no score changed"
FEWER = "fewer than 5 different passages were found in 12 of 12 searches, and in 0 in the baseline."


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    records = [{"id": f"q{n}", "question": f"{n}?", "gold": [{"id": f"d{n}"}]} for n in range(12)]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    pytester.makepyfile(TEST)
    pytester.makeconftest(CONFTEST.replace("CHANGE", "return ours"))
    assert pytester.runpytest(*WITHOUT, "--rageval-update-baseline").ret == 0
    return pytester


def _worse(project: pytest.Pytester, change: str) -> pytest.RunResult:
    project.makeconftest(CONFTEST.replace("CHANGE", change).replace("return good", "return worse"))
    return project.runpytest(*WITHOUT, "-q")


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ("return ours[::-1]", ORDER.format("5.0")),
        ("return [ours[1], ours[0], *ours[2:]]", ORDER.format("2.0")),
        ("return [*ours[:3], *theirs][:k]", OTHERS.format(40)),
        ("return ours[:2]", FEWER),
        ("return ours[:1] * k", FEWER),
        (
            "return [{**each, 'text': each['text'][:100]} for each in ours]",
            TEXTS.format("204 → 100 characters on average, most of all ours-10: 207 → 100"),
        ),
        (
            "return [{**each, 'text': ''} for each in ours]",
            TEXTS.format("204 → 0 characters on average, most of all ours-10: 207 → 0"),
        ),
        (
            "return [{**each, 'text': 'of another tenant'} for each in ours]",
            TEXTS.format("204 → 17 characters on average, most of all ours-10: 207 → 17"),
        ),
        ("return [ours[0], *({'id': f'new-{n}-{m}', 'text': ''} for m in range(4))]", OTHERS.format(80)),
    ],
)
def test_a_change_that_no_score_shows_is_a_warning(project, change, warning):
    result = _worse(project, change)
    assert result.ret == 0
    shown = [
        line for line in result.outlines if line.startswith("warning: ") and "test_it: the retr" not in line
    ]
    assert [line.partition("test_it: ")[2][: len(warning)] for line in shown] == [warning], result.outlines


@pytest.mark.parametrize(
    "change",
    [
        "return ours",
        "return [{**each, 'text': each['text'].replace(' ', chr(10))} for each in ours]",
        "return ours if n > 1 else ours[::-1]",
        "return [ours[0], *ours[:0:-1]]",
        "return [*ours[:-1], theirs[0]] if n % 2 else ours",
    ],
)
def test_a_small_change_is_none(project: pytest.Pytester, change: str) -> None:
    """Not the white space of a text, a few questions, or the order behind the gold passage."""
    result = _worse(project, change)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("warning:*")


def test_a_failure_says_it_itself(project: pytest.Pytester) -> None:
    result = _worse(project, "return []")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*every search returned nothing*"])
    result.stdout.no_fnmatch_line("*fewer than 5 different*")


INDEX = """
import pytest

PLACES = range(SIZE)

def distance(question, place):
    return abs(int(question.rstrip("?")) - place + 0.6)

def good(question, k):
    return [{"id": f"d{place}"} for place in sorted(PLACES, key=lambda place: distance(question, place))[:k]]

def reranked(question, k):
    gold = question.rstrip("?")
    found = good(question, 3 * k)
    return sorted(found, key=lambda each: (each["id"] != f"d{gold}", int(each["id"][1:]) * 7 % 11))[:k]

@pytest.fixture(scope="session")
def rageval_retriever():
    return good
"""
GONE = (
    "{} of {} passages that the baseline's searches found are found by none now: is the index complete? "
    "If it is meant, write a new baseline"
)


def _indexed(pytester: pytest.Pytester, size: int, threshold: str) -> str:
    """Write the baseline of an index in which a passage is nearer to each question than the gold one."""
    names = range(0, size, size // 20)
    records = [{"id": f"q{n}", "question": f"{n}?", "gold": [{"id": f"d{n}"}]} for n in names]
    pytester.path.joinpath("e.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    pytester.makepyfile(TEST.replace('"recall@5", max_drop=0.02, policy="snapshot"', threshold))
    conftest = INDEX.replace("SIZE", f"{size}")
    pytester.makeconftest(conftest)
    assert pytester.runpytest(*WITHOUT, "--rageval-update-baseline").ret == 0
    return conftest


@pytest.mark.parametrize("metric", ["ndcg@5", "recall@5"])
@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ("place % 2 == 0 or place < 16", 12),  # no gold among those that are gone: ndcg rises
        ("place % 2 == 0", 20),
        ("place % 4 != 3 and place != 20", 11),  # a gold one too: the score falls, and passes
        ("place != 21", 0),
    ],
)
def test_passages_that_no_search_finds_any_more_are_a_warning(
    pytester: pytest.Pytester, metric: str, kept: str, gone: int
) -> None:
    conftest = _indexed(pytester, 40, f'"{metric}", max_drop=0.1')
    pytester.makeconftest(conftest.replace("range(40)", f"[place for place in range(40) if {kept}]"))
    result = pytester.runpytest(*WITHOUT, "-q")
    assert result.ret == 0
    shown = [line for line in result.outlines if line.startswith("warning: ") and "passages" in line]
    assert [line.partition("test_it: ")[2] for line in shown] == ([GONE.format(gone, 40)] if gone else [])


def test_a_failure_says_what_is_gone_itself(pytester: pytest.Pytester) -> None:
    conftest = _indexed(pytester, 40, '"recall@5", max_drop=0.1')
    pytester.makeconftest(conftest.replace("range(40)", "range(20)"))
    result = pytester.runpytest(*WITHOUT, "-q")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["Likely cause: 20 of 40 passages of the baseline are found by no search now: is*"]
    )
    result.stdout.no_fnmatch_line("*is the index complete*")


@pytest.mark.parametrize("size", [40, 2000])
def test_a_better_order_is_no_loss(pytester: pytest.Pytester, size: int) -> None:
    """In a large index no other question finds the passages that a reranker drops."""
    conftest = _indexed(pytester, size, '"ndcg@5", max_drop=0.1')
    pytester.makeconftest(conftest.replace("return good\n", "return reranked\n"))
    result = pytester.runpytest(*WITHOUT, "-q")
    assert result.ret == 0
    assert not [line for line in result.outlines if line.startswith("warning: ") and "passages" in line]
