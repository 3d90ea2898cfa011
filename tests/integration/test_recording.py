"""`--rageval-record`: which replies are recorded on a cassette, and which are dropped."""

import json

import pytest

pytestmark = pytest.mark.slow

TWO = """
@pytest.mark.rageval_threshold("answer.em@1", min=0.9)
def test_one(): pass

@pytest.mark.rageval_threshold("answer.em@2", min=0.9)
def test_two(): pass
"""

RECORD = ("--rageval-cassette=tape.jsonl", "--rageval-record")


def _lines(project):
    return [
        json.loads(line) for line in (project.path / "tape.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def test_a_full_run_reports_unused_replies_and_removes_them_with_an_option(project, llm):
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    project.run(
        *RECORD,
        "--rageval-model=m2",
        shows=[
            "cassette: *tape.jsonl (8 replies used, 8 of them new; 8 kept unused)",
            "unused: 8 of m1: ????????????, ????????????, ???????????? and 5 more *; --rageval-drop-unused *",
        ],
    )
    assert len(_lines(project)) == 16
    project.run(
        *RECORD,
        "--rageval-model=m2",
        "--rageval-drop-unused",
        shows="cassette: *tape.jsonl (8 replies used, 0 of them new; 8 dropped unused)",
    )
    assert {line["request"]["model"] for line in _lines(project)} == {"m2"}


def test_replaced_replies_are_reported(project, llm):
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    tape = project.path / "tape.jsonl"
    tape.write_text(
        tape.read_text(encoding="utf-8").replace('"text": "', '"text": "other ', 3), encoding="utf-8"
    )
    project.run(
        *RECORD,
        shows=[
            "cassette: *tape.jsonl (8 replies used, 0 of them new, 3 in place of other replies; *",
            "3 × the cassette and the cache have different replies; the one in the cache is used *",
        ],
    )
    project.run(*RECORD).stdout.no_fnmatch_line("*other repl*")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-k", "one", "-n2"), "1 test deselected"),
        (("--setup-plan",), "*--setuponly*"),
    ],
)
def test_a_partial_run_drops_nothing(project, llm, arguments, reason):
    """A partial run drops no unused replies, since tests that did not run may need them."""
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    project.test(TWO.replace("answer.em@2", "answer.em@3"))
    run = project.run_process if "-n2" in arguments else project.run
    result = run(*RECORD, "--rageval-drop-unused", *arguments)
    result.stdout.fnmatch_lines([f"unused replies are not dropped: this was not a full run ({reason})"])
    assert len(_lines(project)) >= 8


def test_collecting_writes_nothing(project, llm):
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    before = (project.path / "tape.jsonl").read_bytes()
    project.run(*RECORD, "--rageval-drop-unused", "--collect-only")
    assert (project.path / "tape.jsonl").read_bytes() == before


def test_a_cassette_that_cannot_be_written_fails_the_run(project, llm):
    project.use(llm)
    project.test(TWO)
    (project.path / "taken").write_text("a file", encoding="utf-8")
    result = project.run("--rageval-cassette=taken/tape.jsonl", "--rageval-record", "-q")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["The cassette *tape.jsonl cannot be written: *"])


def test_a_test_that_did_not_pass_makes_a_run_partial(project, llm):
    """Such a test may not have requested all of its replies."""
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    project.test(TWO.replace("def test_two(): pass", "@pytest.mark.skip\ndef test_two(): pass"))
    project.run(*RECORD, "--rageval-drop-unused", shows="*not a full run (1 test skipped)")
    project.test(TWO.replace("answer.em@2", "answer.nothing@2"))
    project.run(*RECORD, "--rageval-drop-unused", shows="*not a full run (1 test in error)")
    project.test("def test_own(rageval):\n    assert False\n    rageval.score('answer.em@1')\n")
    project.run(*RECORD, "--rageval-drop-unused", shows="*not a full run (1 test failed)")
    assert len(_lines(project)) == 8


def test_a_cassette_has_hashes_of_prompts_and_no_prompts_unless_asked(project, llm):
    """A cassette has only hashes of prompts, since it is committed; --rageval record_prompts=true adds the prompts."""
    project.use(llm)
    project.test(TWO)
    project.run(*RECORD)
    text = (project.path / "tape.jsonl").read_text(encoding="utf-8")
    assert "What is the code" not in text
    assert "has the code" not in text
    assert (
        _lines(project)[0]["request"]["parts"].keys()
        == {"instructions of the generator", "question", "passage 1"}
        or {"passage 2"} <= _lines(project)[0]["request"]["parts"].keys()
    )
    project.run(*RECORD, "--rageval=record_prompts=true")
    assert all("What is the code" in line["request"]["messages"][0]["content"] for line in _lines(project))
