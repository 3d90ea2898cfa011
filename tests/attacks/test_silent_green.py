"""Runs that must not pass, or not silently: hidden losses, caught failures, mistyped marks."""

import json

import pytest

from tests.attacks.test_green_builds import CAUGHT
from tests.llm_server import Fault

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline=force"

GATE = '@pytest.mark.rageval_threshold("recall@1", {bounds})\ndef test_gate(): pass\n'

FULL_DISK = """
import resource, signal, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
"""


@pytest.mark.parametrize("name", ["report.html", "report.json"])
def test_a_disk_that_fills_up_leaves_the_last_good_report(project, name):
    """Promise: on a full disk the previous report stays complete, no partial file is left, and the run fails."""
    pytest.importorskip("resource")
    project.evalset(40)
    project.test(GATE.format(bounds="min=0.5"))
    (project.path / "full.py").write_text(FULL_DISK, encoding="utf-8")
    assert project.run_process(f"--rageval-report={name}").ret == 0
    before = (project.path / name).read_bytes()
    assert len(before) > 4096
    result = project.run_process(f"--rageval-report={name}", "-p", "full", passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"The report *{name} cannot be written: File too large."])
    assert (project.path / name).read_bytes() == before
    assert not list(project.path.glob(".rageval-*"))


# Questions without a score, which the mean leaves out.

FAILING = """
def failing(query, k):
    number = int(query.split("item-")[1].rstrip("?"))
    if 20 < number <= 20 + {n}:
        {how}
    return search(query, k)

@pytest.fixture(scope="session")
def rageval_retriever():
    return failing
"""


def _fail(project, n, how="raise ConnectionError('the index is down')"):
    """Make the retriever fail at n questions, after it has answered other questions."""
    project.add(FAILING.format(n=n, how=how))


@pytest.fixture
def hundred(project):
    project.evalset(100)
    project.change("range(1, 21)", "range(1, 101)")
    return project


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (
            "raise ConnectionError('the index is down')",
            "rageval_retriever raised ConnectionError: the index is",
        ),
        ("return None", "rageval_retriever returned NoneType (q21,"),
        ("return [object()]", "rageval_retriever returned a document that has no text"),
        ("return [{'text': 'nothing with an id'}]", "no retrieved document has *id*"),
        (
            "import pytest_rageval; raise pytest_rageval.Unscored('not this one')",
            "not this one (q21, q22, q23, q24, q25)",
        ),
    ],
)
def test_a_minimum_counts_what_the_retriever_failed_at(hundred, how, why):
    """Attack: 5 of 100 questions raise and 6 are lost.

    The mean of the other 95 is 0.937, but the gate uses the true 0.89.
    """
    hundred.test(GATE.format(bounds="min=0.93"))
    if "text" in how:
        path = hundred.path / "evals.jsonl"
        # Gold passages without a text are matched by id only.
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [json.dumps(record | {"gold": [{"id": record["gold"][0]["id"]}]}) for record in records]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    hundred.lose(*range(10, 16))
    _fail(hundred, 5, how)
    result = hundred.run(failed=1)
    text = " ".join(" ".join(result.outlines).split())
    assert "recall@1: 0.937 is the mean without 5 examples that have no score: " in text
    assert "with 0 for each of them it would be 0.890, below the minimum 0.93" in text
    pytest.LineMatcher([text]).fnmatch_lines([f"*{why}*"])


def test_a_maximum_counts_what_the_retriever_failed_at(hundred):
    hundred.test(GATE.format(bounds="max=0.898"))
    hundred.lose(*range(1, 11))
    _fail(hundred, 4)
    result = hundred.run(failed=1)
    text = " ".join(" ".join(result.outlines).split())
    assert "with 1 for each of them it would be 0.900, above the maximum 0.898" in text


@pytest.mark.parametrize("arguments", ['where={"topic": "odd"}', 'by="topic"'])
def test_a_slice_counts_what_the_retriever_failed_at(hundred, arguments):
    """In a slice of 50 questions, 2 failed questions count as 0: they are 4% of the slice."""
    hundred.test(GATE.format(bounds=f"min=0.97, {arguments}"))
    hundred.run(passed=1)
    _fail(hundred, 3)
    result = hundred.run("--rageval=max_unscored=0.1", failed=1)
    assert "recall@1 where topic='odd': 1.000 is the mean without 2 examples" in " ".join(result.outlines)


def test_a_drop_counts_what_the_retriever_failed_at(hundred):
    hundred.test(GATE.format(bounds="max_drop=0.01"))
    hundred.run("--rageval-update-baseline", passed=1)
    _fail(hundred, 2)
    result = hundred.run(
        "--rageval-report=report.json", "--rageval-report=report.html", "--rageval-report=report.md"
    )
    result.assert_outcomes(passed=1)
    # Two lost of a hundred are not significant: the run warns.
    result.stdout.fnmatch_lines(
        ["warning: *: fell from 1.000 to 0.980, 1.000 without those *2 have no score, since the*"]
    )
    _fail(hundred, 6)
    hundred.run(
        "--rageval=max_unscored=0.1",
        failed=1,
        shows=[
            "recall@1 fell from 1.000 to 0.940, 1.000 without those (allowed 0.01): 6 of 100",
            "  questions worse, 0 better (6 have no score, since the retriever failed, and",
            "  q21  1 → 0     What *",
            "      unscored *the index is down*",
        ],
    )


def test_a_score_without_bounds_reports_what_it_leaves_out(hundred):
    hundred.test("def test_own(rageval): assert rageval.score('recall@1') >= 0.93\n")
    hundred.lose(*range(10, 16))
    _fail(hundred, 5)
    hundred.run(
        "-q",
        passed=1,
        shows="warning: *: recall@1: the mean without 5 examples that have no score: *; with 0 for each of them *",
    )


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_what_a_server_failed_at_is_pointed_out(hundred, llm, quiet):
    hundred.use(llm)
    previous_model = llm.model
    llm.model = lambda prompt: (
        "perhaps" if "item-7?" in prompt and "Answer to check" in prompt else previous_model(prompt)
    )
    hundred.gate("answer.correct@1 min=1.0")
    result = hundred.run(*quiet, passed=1)
    warning = (
        "warning: *: answer.correct@1: UNSURE: 1.000 is the mean without 1 example that has no score: the judge's "
        "reply is neither yes nor no: 'perhaps' (q7); with 0 for each of them it would be 0.990, below the minimum 1"
    )
    result.stdout.fnmatch_lines([warning])


def test_what_the_eval_set_lacks_is_no_loss(hundred):
    """An example without gold passages has no score with any retriever, so there is no warning."""
    path = hundred.path / "evals.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[0]) | {"gold": []}
    path.write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n", encoding="utf-8")
    hundred.test(GATE.format(bounds="min=1.0"))
    result = hundred.run(passed=1)
    result.stdout.no_fnmatch_line("warning*")


# Questions that vanish from the comparison.


@pytest.fixture
def cut(hundred):
    """A function that leaves n questions in the eval set since the baseline was written, all of which are lost."""
    hundred.test(GATE.format(bounds="max_drop=0.02"))
    hundred.run("--rageval-update-baseline", passed=1)

    def cut_to(n):
        path = hundred.path / "evals.jsonl"
        path.write_text(
            "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:n]), encoding="utf-8"
        )
        hundred.lose(*range(1, n + 1))
        return hundred

    return cut_to


@pytest.mark.parametrize("ci", ["true", ""])
@pytest.mark.parametrize("n", [1, 3])
def test_an_eval_set_that_is_cut_to_a_few_lost_questions_fails(cut, monkeypatch, n, ci):
    """Attack: 1.000 → 0.000 over the questions that are left, which is not significant."""
    monkeypatch.setenv("CI", ci)
    gone = f"recall@1: {100 - n} of 100 questions of the baseline cannot be compared, more than the share "
    project = cut(n)
    result = project.run("-q", failed=1)
    text = " ".join(" ".join(result.outlines).split())
    worse = f"{n} of {n} question{'s' * (n > 1)} worse, 0 better ({100 - n} removed"
    assert f"recall@1 fell from 1.000 to 0.000 (allowed 0.02): {worse}" in text
    assert f"warning: test_it.py::test_gate: {gone}" in text
    result = project.run("-q", '--rageval=policy={"pr": {"small_set_drop": false}}', errors=1)
    text = " ".join(result.outlines)
    if ci:
        assert gone in text
    else:
        assert (
            f"it could not fail, even if all of {n} example{'s' * (n > 1)} had the score 0 (max_drop=0.02: "
            in text
        )
        assert "at least 5 examples are needed" in text


def test_removed_questions_are_counted_and_more_than_a_tenth_is_an_error(hundred, monkeypatch):
    hundred.test(GATE.format(bounds="max_drop=0.02"))
    hundred.run("--rageval-update-baseline", passed=1)
    hundred.lose(*range(1, 31))
    path = hundred.path / "evals.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    reworded = [line.replace("What is the code", "Tell me the code") for line in lines[20:30]]
    path.write_text("\n".join([*reworded, *lines[30:]]) + "\n", encoding="utf-8")
    counts = "warning: *: questions since the baseline: 20 removed, 0 new, 10 edited; they are not compared"
    gone = (
        "recall@1: 30 of 100 questions of the baseline cannot be compared*: 20 removed (*), 10 edited (*). *"
    )
    hundred.run("-q", passed=1, shows=[counts, f"warning: *: {gone}Under CI=true this is an error"])
    monkeypatch.setenv("CI", "true")
    hundred.run("-q", errors=1, shows=[f"{gone}--rageval-update-baseline", counts])
    hundred.run(
        "-q",
        "--rageval=max_removed=0.3",
        passed=1,
        shows=[counts, "warning: *: recall@1: a drop among 10 of 80 examples would not be seen; *"],
    )


@pytest.mark.parametrize("inconclusive", ["warn", "fail"])
def test_lost_questions_without_a_score_are_no_pass(hundred, llm, inconclusive):
    """Attack: 10 of 100 questions are lost, and their replies cannot be read: "drop 0.000"."""
    hundred.use(llm)
    hundred.gate("answer.correct@1 max_drop=0.02")
    hundred.run("--rageval-update-baseline", passed=1)
    previous_model = llm.model
    items = tuple(f"item-{n}?" for n in range(1, 11))
    llm.model = lambda prompt: (
        "perhaps"
        if "Answer to check" in prompt and any(item in prompt for item in items)
        else previous_model(prompt)
    )
    result = hundred.run(
        "-q",
        "--rageval-refresh",
        "--rageval=max_unscored=0.1",
        f'--rageval=policy={{"pr": {{"inconclusive": "{inconclusive}"}}}}',
    )
    result.assert_outcomes(**{"failed" if inconclusive == "fail" else "passed": 1})
    text = " ".join(" ".join(result.outlines).split())
    assert "is 1.000 as before" in text
    assert (
        "10 examples had a score in the baseline and have none now: the judge's reply is neither yes nor no"
        in text
    )
    assert "with 0 for each the drop would be 0.100. Chance alone: fewer than 1 in 1,000 comparisons" in text


# Bounds and judges with which every retriever passes.


@pytest.mark.parametrize("quiet", [(), ("-q",)])
@pytest.mark.parametrize("arguments", ["", ', by="topic"'])
def test_a_max_drop_of_more_than_a_fifth_is_a_warning(project, quiet, arguments):
    project.evalset(20)
    project.test(GATE.format(bounds=f"max_drop=0.3{arguments}"))
    project.run("--rageval-update-baseline")
    result = project.run(*quiet, passed=1)
    warnings = [line for line in result.outlines if "lets a retriever lose 30% of the scale" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: test_it.py::test_gate: recall@1")


JUDGED = (
    '@pytest.mark.rageval_threshold("answer.correct@1", max=1.0)\n'
    '@pytest.mark.rageval_threshold("llm_reteval@1", max=1.0)\n'
    "def test_gate(): pass\n"
)


@pytest.mark.parametrize(("verdict", "quiet"), [("yes", ()), ("no", ("-q",))])
def test_a_judge_with_constant_verdicts_is_reported(hundred, llm, verdict, quiet):
    hundred.use(llm)
    hundred.test(JUDGED)
    model = llm.model
    llm.model = lambda prompt: (
        verdict if "Answer to check" in prompt else model(prompt).replace("no answer in the documents", "x")
    )
    hundred.lose(*range(40, 60))
    hundred.run(
        *quiet,
        passed=1,
        shows=f"warning: *::test_gate: the judge said {verdict} * never anything else, *(rageval_cal*",
    )


@pytest.mark.parametrize("reason", ["judge", "rankings", "few"])
def test_a_judge_that_may_be_right_is_not(hundred, llm, reason):
    """There is no warning if the verdicts differ, if all rankings are equally good, or if there are few verdicts."""
    hundred.use(llm)
    hundred.test(JUDGED)
    if reason == "few":
        hundred.evalset(20)
    if reason != "judge":
        model = llm.model
        llm.model = lambda prompt: "yes" if "Answer to check" in prompt else model(prompt)
    if reason != "rankings":
        hundred.lose(*range(10, 20))
    result = hundred.run("--rageval=max_unscored=1", passed=1)
    result.stdout.no_fnmatch_line("*never anything else*")


def test_a_judge_that_only_says_yes_while_all_rankings_changed_is_reported(hundred, llm):
    """If all rankings became bad and all verdicts stay "yes", the run warns, although the rankings are equally bad."""
    hundred.use(llm)
    model = llm.model
    llm.model = lambda prompt: (
        "yes" if "Answer to check" in prompt else model(prompt).replace("no answer", "an answer")
    )
    gate = GATE.format(bounds="max_drop=0.02").replace(
        "def", '@pytest.mark.rageval_threshold("answer.correct@1", min=0.5)\ndef'
    )
    hundred.test(gate)
    result = hundred.run("--rageval-update-baseline", passed=1)
    result.stdout.no_fnmatch_line("*never anything else*")
    hundred.lose(*range(1, 101))
    hundred.add("CORPUS['doc-0'] = 'Of nothing.'")
    hundred.run(failed=1, shows="warning: *: the judge said yes 100 times and never anything else, *")


# Marks and thresholds that look like a gate but have no effect.

MISTYPED = [
    (
        '@pytest.mark.rageval_treshold("recall@1", min=0.9)\ndef test_gate(): pass\n',
        "rageval_treshold",
        "rageval_threshold",
    ),
    ("@pytest.mark.rageval_evalsets('x')\ndef test_gate(): pass\n", "rageval_evalsets", "rageval_evalset"),
    (
        "@pytest.mark.ragevalthreshold\nclass TestAll:\n    def test_gate(self): pass\n",
        "ragevalthreshold",
        "rageval_thr",
    ),
    (
        (
            "@pytest.mark.parametrize('k', [pytest.param(1, marks=pytest.mark.RAGEVAL_threshold('recall@1', min=1))])\n"
            "def test_gate(k): pass\n"
        ),
        "RAGEVAL_threshold",
        "rageval_threshold",
    ),
    (
        "pytestmark = [pytestmark, pytest.mark.rageval_callibration]\ndef test_gate(): pass\n",
        "rageval_callib*",
        "rageval_cal",
    ),
]


@pytest.mark.parametrize(("body", "mark", "suggestion"), MISTYPED)
@pytest.mark.parametrize("arguments", [("-W", "default"), ("-q", "-W", "ignore")])
def test_a_mistyped_mark_is_an_error(project, body, mark, suggestion, arguments):
    """Attack: `rageval_treshold` was one warning among others, and the test passed. It is an error."""
    project.lose(1, 2, 3, 4)
    project.test(body)
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"*test_gate* has the mark {mark}, which does nothing. Did you mean {suggestion}*"]
    )


def test_a_mistyped_mark_is_an_error_among_workers(project):
    project.test(MISTYPED[0][0])
    result = project.run_process("-n2")
    assert result.ret not in {0, 5}
    result.stdout.fnmatch_lines(["*Did you mean rageval_threshold*"])


def test_a_mistyped_mark_that_a_conftest_adds_is_an_error(project):
    project.test("def test_gate(): pass\n")
    adds = (
        "\ndef pytest_collection_modifyitems(items):\n    items[0].add_marker(pytest.mark.rageval_treshold)\n"
    )
    project.add(adds)
    project.run("-W", "default", errors=1, shows="*Did you mean rageval_threshold*")


def test_a_mark_of_the_users_own_may_begin_so(project):
    project.pytester.makeini("[pytest]\nmarkers =\n    rageval_nightly(when): only at night\n")
    project.test("@pytest.mark.rageval_nightly('now')\ndef test_gate(rageval): pass\n")
    project.run(passed=1)


IDLE = "warning: rageval_evalset('evals.jsonl') on {} does nothing: no test under it has the fixture rageval or *"


@pytest.mark.parametrize("arguments", [(), ("-q",), ("-k", "none"), ("test_it.py",), ("-n2",)])
def test_an_eval_set_that_no_test_scores_is_a_warning(project, arguments):
    """Attack: the threshold was removed, and the remaining mark looks like a gate. The run warns."""
    project.test("def test_gate(): pass\n")
    result = (project.run_process if "-n2" in arguments else project.run)(*arguments)
    result.stdout.fnmatch_lines([IDLE.format("test_it.py::test_gate")])
    project.test("def test_gate(): pass\ndef test_more(): pass\n")
    result = (project.run_process if "-n2" in arguments else project.run)(*arguments)
    result.stdout.fnmatch_lines([IDLE.format("2 tests, the first of them test_it.py::test_gate,")])


@pytest.mark.parametrize(
    "body",
    [
        "def test_gate(rageval): pass\ndef test_other(): pass\n",
        GATE.format(bounds="min=0.1") + "def test_other(): pass\n",
        "@pytest.fixture\ndef mine(rageval): return rageval\n\ndef test_gate(mine): pass\n",
        (
            '@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.rageval_threshold("hit@1", min=0.1))])\n'
            "def test_gate(k): pass\n"
        ),
    ],
)
def test_an_eval_set_that_a_test_of_the_module_scores_is_in_use(project, body):
    project.test(body)
    for arguments in ((), ("-k", "other"), ("test_it.py::test_gate",)):
        project.run(*arguments).stdout.no_fnmatch_line("*does nothing*")


@pytest.mark.parametrize("how", ["except", "suppress", "raises"])
@pytest.mark.parametrize(
    "call", ["rageval.score('recal@1', min=0.9)", "rageval.score('llm_reteval@1', min=0.9)"]
)
def test_a_threshold_that_cannot_be_checked_fails_the_test(project, llm, how, call):
    """If a threshold cannot be checked (mistyped score, server error), the test fails even if it catches the error."""
    project.use(llm)
    llm.model = lambda _: Fault(401)
    project.test(f"def test_own(rageval):\n    {CAUGHT[how].format(call)}\n")
    project.run(failed=1)


def test_what_was_only_asked_for_may_be_caught(project):
    """A test may catch the error of a score without bounds; a failure that is not caught is reported once."""
    project.test(
        "def test_own(rageval):\n    with pytest.raises(Exception): rageval.score('recal@1')\n"
        "def test_fails(rageval): rageval.score('recall@1', max=0.1)\n"
        "@pytest.mark.xfail(strict=True)\ndef test_expected(rageval): rageval.score('recall@1', max=0.1)\n"
        "@pytest.mark.xfail(strict=True)\ndef test_caught(rageval):\n"
        "    with pytest.raises(BaseException): rageval.score('recall@1', max=0.1)\n"
    )
    result = project.run(passed=1, failed=1, xfailed=2)
    result.stdout.no_fnmatch_line("A threshold was not kept*")


# Plugins that are switched off.

LISTS_NAMES = """
def pytest_sessionfinish(session):
    manager = session.config.pluginmanager
    with open("names.txt", "a") as file:
        for name, plugin in manager.list_name_plugin():
            if plugin is not None:
                file.write(f"{name} {type(plugin).__module__} {getattr(plugin, '__name__', '')}\\n")
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "arguments",
    [(), ("-n2", "--rageval-report=report.json", "--rageval-cassette=c.jsonl", "--rageval-record")],
)
def test_no_part_of_the_plugin_has_a_name_to_switch_it_off_by(project, monkeypatch, arguments):
    monkeypatch.setenv("CI", "true")
    project.ini(required_plugins="pytest-rageval")
    project.test(GATE.format(bounds="min=0.9, max_drop=0.02"))
    assert project.run(UPDATE).ret == 0
    project.lose(1, 2, 3, 4)
    project.add(LISTS_NAMES)
    run = project.run_process if "-n2" in arguments else project.run
    assert run(*arguments).ret == pytest.ExitCode.TESTS_FAILED
    rows = [line.split(" ") for line in (project.path / "names.txt").read_text(encoding="utf-8").splitlines()]
    own = {name for name, *modules in rows if any(module.startswith("pytest_rageval") for module in modules)}
    assert {name for name in own if not name.isdigit()} == {"rageval"}
    # xdist's own plugins are for xdist to test, and each of these runs takes a second. A number is an id of a process.
    names = {
        name for name in ((name for name, *_ in rows) if run == project.run else own) if not name.isdigit()
    }
    green = [name for name in names if run(*arguments, f"-pno:{name}").ret == 0]
    # Without the plugin `session` pytest counts no failure of any test; it still prints them.
    assert set(green) <= {"session"}
