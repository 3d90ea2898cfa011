"""`rageval evalset check`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.stats.power import detectable_drop_unpaired
from tests.unit.cli.folders import Done

Check = Callable[..., Done]

GOOD = {
    "id": "q1",
    "question": "Where is the company based?",
    "answers": ["Tulsa"],
    "gold": [{"id": "d1", "text": "Our seat is Tulsa."}],
}
CORPUS = [
    {"id": "d1", "text": "Our seat\nis Tulsa."},
    {"id": "d2", "text": "Founded in 1962.", "source": "site/a.md", "start": 100},
    {"id": "d3", "text": "1962. We sell tea.", "source": "site/a.md", "start": 111},
]


NO_ID = "no passage has this id, or that of another gold passage; the corpus has {!r}, for example"


@pytest.fixture
def check(command: Callable[..., Done], tmp_path: Path) -> Check:
    def run(records: list[Any], *arguments: str, corpus: list[Any] | None = None) -> Done:
        for name, values in (("e.jsonl", records), ("c.jsonl", corpus or [])):
            (tmp_path / name).write_text("".join(f"{json.dumps(value)}\n" for value in values))
        where = ["--corpus", "c.jsonl"] if corpus else []
        return command("evalset", "check", "e.jsonl", *where, *arguments)

    return run


def other(identifier: str, **changes: Any) -> dict[str, Any]:
    questions = {"q2": "What is sold?", "q3": "Who founded it, and with whom?"}
    return GOOD | {"id": identifier, "question": questions.get(identifier, identifier)} | changes


def found(done: Done, what: str) -> dict[str, list[Any]]:
    groups = json.loads(done.out)["findings"]
    return {group["kind"]: [finding[what] for finding in group["found"]] for group in groups}


def kinds(done: Done) -> dict[str, list[list[str]]]:
    return found(done, "ids")


def missing(done: Done) -> str | None:
    """Return why the first gold passage is not in the corpus; None if none is missing."""
    whys = found(done, "what").get("gold_not_in_corpus", [None])
    assert done.status == int(whys != [None])
    return whys[0] and whys[0].partition(": ")[2]


def test_a_good_set_is_clean(check: Check) -> None:
    done = check([GOOD, other("q2")], corpus=CORPUS)
    assert done.status == 0
    assert done.out.startswith("e.jsonl: 2 examples, 0 errors, 0 notes\nWith 2 examples, a drop of less ")
    assert done.err == ""


def test_findings_are_grouped_and_named(check: Check) -> None:
    done = check([other(f"q{n}", question=f"Is it{'?' * n}") for n in range(1, 9)])
    assert done.status == 1
    assert done.out.splitlines()[:3] == [
        "error: the same question, except for case, punctuation and articles: 1",
        '  q1 (e.jsonl line 1), q2 (e.jsonl line 2), q3 (e.jsonl line 3), q4 (e.jsonl line 4) and 4 more: "Is it?"',
        "e.jsonl: 8 examples, 1 error, 0 notes; gold passages were not looked up, without --corpus",
    ]
    done = check([other(f"q{n}", question=f"{n}", answers=["Rome"]) for n in range(1, 9)])
    assert done.status == 0
    assert "note: no gold passage contains the answer: 8\n" in done.out
    assert '  q5 (e.jsonl line 5): "Rome"\n  and 3 more (all with --json)\n' in done.out


def test_an_answer_that_is_yes_or_no_need_not_be_in_the_gold(check: Check) -> None:
    for answers, is_noted in ((["Yes."], False), (["no"], False), (["yes", "there"], True)):
        done = check([other("q1", question="Is it so?", answers=answers)])
        assert ("contains the answer" in done.out) is is_noted


@pytest.mark.parametrize(
    ("second", "findings"),
    [
        (other("q2", question="where IS company based"), {"duplicate": [["q1", "q2"]]}),
        (other("q2", question="Where is the company based today?"), {"near_duplicate": [["q1", "q2"]]}),
        ({"id": "q2", "question": "What is sold?"}, {"unanswerable": [["q2"]]}),
        (other("q2", gold=[{"id": "d1", "grade": 0}]), {"no_gold": [["q2"]]}),
        (other("q2", answers=[]), {"no_answers": [["q2"]]}),
        (other("q2", question="Is it in Tulsa?"), {"leak": [["q2"]]}),
        (other("q2", question="Is it in Tulsan hills?"), {}),
        (other("q2", answers=["Tul"]), {"answer_not_in_gold": [["q2"]]}),
        (other("q2", answers=["Rome", "The TULSA"]), {}),
        (other("q2", answers=[], answer_set=[["Tulsa"], ["Rome", "Roma"]]), {"answer_not_in_gold": [["q2"]]}),
        (other("q2", reference="Tea.", answers=[], gold=[]), {"no_gold": [["q2"]], "no_answers": [["q2"]]}),
    ],
)
def test_what_the_set_alone_shows(check, second, findings):
    done = check([GOOD, second], "--json")
    assert kinds(done) == findings
    assert done.status == int("duplicate" in findings)


@pytest.mark.parametrize(
    ("gold", "why"),
    [
        ({"id": "d1"}, None),
        ({"id": "d1", "text": "seat is Tulsa"}, None),
        ({"id": "d9"}, NO_ID.format("d1")),
        (
            {"id": "d1", "text": "Our seat is Rome."},
            'the corpus has another text there, "Our seat is Tulsa."',
        ),
        ({"text": "our seat is Tulsa."}, "its text is nowhere in the corpus"),
        ({"text": "seat is  Tulsa"}, None),
        ({"source": "a.md", "start": 111, "end": 115}, None),
        ({"source": "/srv/site/a.md", "start": 111, "end": 115, "text": "1962"}, None),
        (
            {"source": "a.md", "start": 111, "end": 115, "text": "1963"},
            'the corpus has another text there, "1962"',
        ),
        ({"source": "a.md", "start": 0, "end": 129}, None),
        (
            {"source": "a.md", "start": 120, "end": 130},
            "it ends at 130, beyond all that the corpus has of site/a.md",
        ),
        ({"source": "b.md", "start": 1, "end": 2}, "the corpus has no such file"),
    ],
)
def test_gold_in_the_corpus(check: Check, gold: dict[str, Any], why: str | None) -> None:
    assert missing(check([other("q2", gold=[gold], answers=[])], "--json", corpus=CORPUS)) == why


FILES = {"a.md": "## Seat\n\nWe have been based in **Tulsa** since 1962.", "b.md": "We sell tea."}


@pytest.mark.parametrize(
    ("gold", "why"),
    [
        ({"id": "a#seat", "text": "Seat. We have been based in Tulsa since 1962."}, None),
        (
            {"id": "a#seat", "text": "We have been based in Reno since 1962."},
            "its text is nowhere in the corpus",
        ),
        ({"id": "a#seat"}, NO_ID.format("a.md")),
        ({"id": "b.md", "text": "We sell tea."}, None),
        ({"id": "b.md", "text": "We sell tin."}, 'the corpus has another text there, "We sell tea."'),
    ],
)
def test_gold_in_a_folder_of_files(check, tmp_path, gold, why):
    for name, text in FILES.items():
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    corpus = str(tmp_path / "docs")
    assert missing(check([other("q2", gold=[gold], answers=[])], "--json", "--corpus", corpus)) == why


def test_a_missing_id_among_those_of_files_is_a_slip(check: Check, tmp_path: Path) -> None:
    """If other gold ids are in the corpus, a missing id is an error, even if its text is in the corpus."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("We sell tea.")
    golds = [{"id": "b.md"}, {"id": "c.md", "text": "We sell tea."}]
    corpus = str(tmp_path / "docs")
    done = check([other("q2", gold=golds, answers=[])], "--json", "--corpus", corpus)
    assert missing(done) == "no passage has this id"


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        (["guide/a.md", "a.md", "faq/a.md"], None),
        (["a.md", "guide/a.md", "faq/a.md"], None),
        (["guide/a.md", "b.md"], None),
        (
            ["guide/a.md", "faq/a.md", "de/a.md"],
            "several files of the corpus may be its source: guide/a.md, faq/a.md",
        ),
    ],
)
def test_gold_is_looked_for_in_the_one_file_that_its_source_names(check, sources, why):
    """If only its end matches the paths of two files or more, the source is ambiguous."""
    texts = {"a.md": "We are based in Tulsa.", "guide/a.md": "We are based in Tulsa."}
    texts |= {"guide/a.md": "Not a word of it here."} if "a.md" in sources else {}
    corpus = [{"id": each, "text": texts.get(each, "Other."), "source": each, "start": 0} for each in sources]
    gold = {"source": "a.md", "start": 16, "end": 21, "text": "Tulsa"}
    done = check([GOOD | {"gold": [gold]}], "--json", corpus=corpus)
    assert (missing(done), len(kinds(done))) == (why, why is not None)


def test_answers_are_looked_for_in_the_texts_of_the_corpus(check: Check) -> None:
    golds = [[{"id": "d1"}], [{"source": "a.md", "start": 100, "end": 116}], [{"id": "d1"}, {"id": "d9"}]]
    records = [other(f"x{n}", gold=gold, answers=["sold"]) for n, gold in enumerate(golds)]
    assert kinds(check(records, "--json", corpus=CORPUS))["answer_not_in_gold"] == [["x0"], ["x1"]]
    assert "answer_not_in_gold" not in kinds(check(records, "--json"))


def test_tags_are_unbalanced_from_more_than_ten_to_one(check: Check) -> None:
    """A missing tag counts as a value. A tag with another value in each example is ignored."""

    def tagged(rare: int) -> list[dict[str, Any]]:
        tags = [{"topic": "a", "row": n} for n in range(30)] + [{"row": 30 + n} for n in range(rare)]
        return [other(f"word{n}", tags=tag) for n, tag in enumerate(tags)]

    assert kinds(check(tagged(2), "--json")) == {"unbalanced": [["word30", "word31"]]}
    assert kinds(check(tagged(3), "--json")) == {}
    assert "topic is missing in 2 examples, and 'a' in 30\n" in check(tagged(2)).out


def test_a_key_that_is_nearly_ours_is_a_note(check: Check) -> None:
    done = check([GOOD, other("q2", golds=[], author="Ann")])
    assert done.status == 0
    assert '  q2 (e.jsonl line 2): "golds"; if "gold" is meant, say --field gold=golds\n' in done.out
    assert "author" not in done.out


def test_the_drop_is_that_of_the_gate(check: Check) -> None:
    records = [other(f"word{n}") for n in range(200)]
    report = json.loads(check(records, "--json").out)
    wanted = detectable_drop_unpaired([0.0, 1.0] * 100, alpha=0.05)
    how = {"power": 0.8, "alpha": 0.05, "mean": 0.5, "paired": False}
    assert report["detectable_drop"] == {"drop": wanted, **how}
    *_, drop, terms, shared = check(records).out.splitlines()
    assert drop == f"With 200 examples, a drop of {wanted:.3f} from a mean of 0.5 is found in 80% of runs."
    assert terms.startswith("  This assumes scores of 0 and 1, a test at 0.05, and two unrelated retrievers.")
    # All questions have one gold passage.
    assert report["design_effect"] == {"gold.id": 200.0}
    assert shared == (
        "Up to 200 questions share a gold.id (1 group). If these get worse together, 200 examples tell as much as 1 "
        "unrelated one (design effect 200.0)."
    )


@pytest.mark.parametrize("n", [1, 9, 14, 20])
def test_few_examples_show_no_drop_that_is_larger_than_the_mean(n: int, check: Check) -> None:
    lines = check([other(f"word{number}") for number in range(n)]).out.splitlines()
    examples = "1 example" if n == 1 else f"{n} examples"
    line = f"With {examples}, a drop of less than 0.5 is found in fewer than 80% of runs: write more."
    assert line in lines


def test_other_formats_and_fields(check: Check) -> None:
    records = [{"nr": "q1", "query": "Where?", "answer": "Tulsa", "doc": "d1"}]
    words = ["id=nr", "question=query", "answers=answer", "gold.id=doc"]
    fields = [argument for word in words for argument in ("--field", word)]
    assert check(records, "--format", "native", *fields, corpus=CORPUS).status == 0


def evalset_file(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


def test_options_of_the_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = evalset_file(tmp_path, "t.csv", 'nr;question;answers;gold.id\n1;"What?;Tulsa | Reno;d1\n')
    options = [word for option in ("delimiter=;", "separator= | ", "quote=") for word in ("--option", option)]
    assert main(["evalset", "check", table, "--field", "id=nr", *options]) == 0
    assert "1 example, 0 errors, 0 notes" in capsys.readouterr().out
    evalset_file(tmp_path, "queries.jsonl", '{"_id": "1", "text": "Where?"}\n')
    evalset_file(tmp_path, "corpus.jsonl", "broken\n")
    (tmp_path / "qrels").mkdir()
    evalset_file(tmp_path / "qrels", "test.tsv", "1\td1\t1\n")
    assert main(["evalset", "check", str(tmp_path), "--option", "texts=False"]) == 0


@pytest.mark.parametrize(
    ("file", "arguments", "message"),
    [
        (("t.csv", "n\n"), [], "At the command line, fields=… is --field OURS=THEIRS."),
        (("t.csv", "n;q\n"), [], "say delimiter=';'.\nAt the command line, delimiter=… is --option delimiter=VALUE."),
        (("q", "1 0 d 1\n"), [], "At the command line, topics=… is --option topics=VALUE."),
        (("e.txt", "?"), [], "At the command line, format=… is --format NAME."),
        (("t.csv", "n\n"), ["--option", "sep= "], "has no option sep.\nIt has: separator, delimiter, quote."),
        (("t.csv", "n\n"), ["--option", "separator"], "--option separator is not of the form NAME=VALUE."),
        (("t.csv", "n\n"), ["--option", "fields=x"], "Write --field OURS=THEIRS."),
        (("t.csv", "n\n"), ["--option", "quote=", "--option", "quote='"], "--option quote is given twice."),
        (("t.csv", "n\n"), ["--field", "id=n", "--field", "id=m"], "--field id is given twice."),
        (("q", "1 0 d 1\n"), ["--field", "id=n"], "The format 'trec' takes no field map, and so no --field."),
    ],
)  # fmt: skip
def test_messages_name_what_can_be_typed(tmp_path, capsys, file, arguments, message):
    assert main(["evalset", "check", evalset_file(tmp_path, *file), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ('{"_id": "1", "text": "Where?"}\n', "faq: 1 example"),
        (None, "faq looks like no format of eval sets."),
    ],
)
def test_the_folder_one_is_in_has_its_name(tmp_path, capsys, monkeypatch, queries, message):
    (tmp_path / "faq" / "qrels").mkdir(parents=True)
    if queries is not None:
        evalset_file(tmp_path / "faq", "queries.jsonl", queries)
        evalset_file(tmp_path / "faq" / "qrels", "test.tsv", "1\td1\t1\n")
    monkeypatch.chdir(tmp_path / "faq")
    main(["evalset", "check", ".", "--option", "texts=false"] if queries else ["evalset", "check", "."])
    assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--field", "question"], "is not of the form OURS=THEIRS"),
        (["--field", "colour=x"], "not a field of an example"),
        (["--format", "best"], "There is no eval set format 'best'"),
        (["--corpus", "nowhere"], "The corpus nowhere cannot be read"),
        ([], 'e.jsonl line 2: "question" is missing'),
    ],
)
def test_what_cannot_be_used_has_status_2(check: Check, arguments: list[str], message: str) -> None:
    done = check([GOOD] if arguments else [GOOD, {"id": "q2"}], *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_one_question_in_two_contexts_is_no_duplicate(check: Check) -> None:
    histories = [[{"role": "user", "content": text}] for text in ("Tea?", "Coffee?")]
    same = {"question": "How much is it?"}
    differing = [other(f"q{n}", **same, history=history) for n, history in enumerate(histories)]
    differing += [other(f"f{n}", **same, filters={"shop": n}) for n in range(2)]
    assert kinds(check(differing, "--json")) == {}
    same = [other(f"q{n}", **same, history=histories[0], tags={"n": n}) for n in range(2)]
    assert kinds(check(same, "--json")) == {"duplicate": [["q0", "q1"]]}


def test_a_context_that_is_not_read_is_noted(check: Check) -> None:
    done = check([other("q2", history=["Tea?"]), other("q3", filters="shop=1")], "--json")
    assert kinds(done) == {"unread_context": [["q2"], ["q3"]]}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"answers": ["['Tulsa', 'Reno']"]}, "an answer is \"['Tulsa', 'Reno']\": a list that was printed?"),
        ({"answers": ["Tulsa", "['a' 'b']"]}, "an answer is \"['a' 'b']\": a list that was printed?"),
        ({"answer_set": [["{'a', 'b'}"]]}, "an answer is \"{'a', 'b'}\": a list that was printed?"),
        ({"reference": "nan"}, 'reference is "nan": a missing value?'),
        ({"answers": ["None"]}, 'an answer is "None": a missing value?'),
        ({"answers": ["42.0"]}, 'an answer is "42.0": the integer 42, which a data frame made a float?'),
        ({"nuggets": ["<NA>"]}, 'a nugget is "<NA>": a missing value?'),
        ({"gold": [{"id": "7.0"}]}, 'gold.id is "7.0": the integer 7, which a data frame made a float?'),
        ({"gold": [{"text": '["Tulsa"]'}]}, 'gold.text is "["Tulsa"]": a list that was printed?'),
        (
            {"answers": ["icontains: Tulsa"]},
            'an answer is "icontains: Tulsa": an assertion of promptfoo? Such files are read with format="promptfoo"',
        ),
        ({"question": "N/A"}, 'question is "N/A": a missing value?'),
        ({"answers": ["Nan", "1.10", "(1, 2)", '{"a": 1}', "a [b]", "[1] Tulsa", "note: a", "python"]}, None),
    ],
)
def test_a_value_that_was_turned_into_a_text(changes: dict[str, Any], what: str | None, check: Check) -> None:
    """Printed lists, missing values and floats of integers are notes, since they may be meant."""
    done = check([other("q2", **changes)], "--json")
    assert found(done, "what").get("suspect_value", []) == ([what] if what else [])
    assert done.status == 0


def test_ids_of_the_corpus_in_another_form(check: Check) -> None:
    gold = {"gold": [{"id": "7.0"}, {"id": "caf\u00e9"}]}
    corpus = [{"id": 7, "text": "a"}, {"id": "cafe\u0301", "text": "b"}]
    assert "gold_not_in_corpus" not in kinds(check([other("q2", **gold)], "--json", corpus=corpus))
    done = check([other("q2", **gold)], corpus=[*corpus, {"id": "7.0", "text": "c"}])
    assert "several ids of the corpus are equal to that of a gold passage: 1" in done.out
    assert "7.0: the corpus has '7', '7.0'" in done.out
    assert done.status == 1


def test_keys_that_look_as_if_they_should_be_read_are_listed(check: Check) -> None:
    bare = {"id": "q1", "question": "Where?", "Reference Contexts": ["In Tulsa."], "ground_truth": "Tulsa"}
    full = {**GOOD, "id": "q2", "reference_contexts": ["a"], "ground_truth": "Tulsa", "topic": ""}
    done = check([bare, full], "--json")
    assert kinds(done)["unused"] == [["q1"], ["q1"]]
    out = check([bare]).out
    assert "note: a key that is not read, and looks as if it should be: 2\n" in out
    assert '"Reference Contexts"; if it is gold.text, say --field gold.text=Reference Contexts' in out
    assert '"ground_truth"; if it is answers, say --field answers=ground_truth' in out


def test_a_key_is_listed_once(check: Check) -> None:
    record = {"id": "q1", "question": "Where?", "answer": "Tulsa", "gold": [{"id": "d1"}]}
    done = kinds(check([record], "--json"))
    assert done["misspelt"] == [["q1"]]
    assert "unused" not in done
