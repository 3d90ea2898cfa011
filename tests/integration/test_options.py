"""Options: command line over ini over environment over default."""

from dataclasses import MISSING, fields

import pytest

from tests.llm_server import LLMServer

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.1)\ndef test_gate(): pass\n'


def test_the_command_line_rules_over_the_ini_file(project, llm):
    """The request carries the model that was typed."""
    project.use(llm, model="from-ini")
    project.test(GATE)
    project.run()
    assert {body["model"] for body in llm.requests} == {"from-ini"}
    llm.requests.clear()
    project.run("--rageval-model=typed")
    assert {body["model"] for body in llm.requests} == {"typed"}


def test_the_ini_file_rules_over_the_environment(project, llm):
    """A base URL in the project wins over the one in the shell."""
    with LLMServer() as other:
        project.use(llm)
        project.ini(rageval_model="m1", rageval_base_url=other.url)
        project.test(GATE)
        project.run().assert_outcomes(passed=1)
        assert other.requests
        assert not llm.requests


def test_a_judge_model_of_its_own_judges(project, llm):
    """Generator and judge may differ."""
    project.use(llm, model="writer")
    project.test(GATE)
    project.run("--rageval-judge-model=judge")
    assert {
        body["model"] for body in llm.requests if "Answer to check" in body["messages"][0]["content"]
    } == {"judge"}
    assert {body["model"] for body in llm.requests} == {"writer", "judge"}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--rageval-concurrency=0", "--rageval-concurrency is '0': expected a whole number, at least 1."),
        ("--rageval-max-unscored=7", "--rageval-max-unscored is '7': expected a share between 0 and 1."),
        (
            "--rageval-report=out.txt",
            "--rageval-report is 'out.txt': expected a file name or an address of one of these kinds: *",
        ),
        ("--rageval-record", "--rageval-record writes a cassette, but none is named: *"),
    ],
)
def test_a_value_that_is_not_allowed_ends_the_run_at_once(project, option, said):
    """As pytest does with its own options."""
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}".replace("[", "[[]")])


def test_help_lists_every_option_with_its_default(project):
    """Users find the options where they look for them."""
    project.run("--help").stdout.fnmatch_lines(
        ["*--rageval-concurrency=N*", "*(default: 16)*", "*rageval_model (string)*"]
    )


@pytest.mark.slow
def test_requests_in_flight_are_limited(project, llm):
    """Sixteen by default, else as many as are allowed."""
    llm.latency_s, llm.together = 0.05, 3
    project.use(llm)
    project.evalset(20)
    project.test(GATE)
    project.run("--rageval-concurrency=3").assert_outcomes(passed=1)
    assert llm.most_in_flight == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "rageval: generator embedded model, answers compared in canonical form *smoke-test quality*"),
        (
            ["--rageval-model=m", "--rageval-base-url=http://h/v1/"],
            "rageval: generator m at http://h/v1 (temperature 0.5), answers judged by m",
        ),
        (
            ["--rageval-judge-model=j", "--rageval-model=embedded"],
            "rageval: generator embedded model, answers judged by j *",
        ),
    ],
)
def test_the_header_says_what_is_in_force(project, arguments, said):
    """Before anything is asked."""
    project.run("--collect-only", *arguments).stdout.fnmatch_lines([said])


def test_markers_are_listed_with_every_word_that_they_take(project):
    """The text is written out, since importing what it describes would slow down every run."""
    from pytest_rageval.calibration import Bounds
    from pytest_rageval.gate.threshold import Threshold

    bounds = [field.name for field in fields(Bounds)]
    project.run("--markers").stdout.fnmatch_lines(
        [
            f"@pytest.mark.rageval_threshold({_signature(Threshold, ('spec', *Threshold.keywords()))}): *",
            f"@pytest.mark.rageval_calibration({_signature(Bounds, bounds)}): *",
        ]
    )


def _signature(marker, names):
    """The signature of a marker: the first of these fields is positional, the others are keywords."""
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(marker)}
    first, *keywords = names
    return f"{first}, *, {', '.join(f'{keyword}={defaults[keyword]!r}' for keyword in keywords)}"


@pytest.mark.slow
def test_a_switch_of_the_ini_file_can_be_taken_back(project, llm):
    """`--rageval-NAME=false` rules over it; the switch alone, or `=true`, is on."""
    project.use(llm)
    project.ini(rageval_model="m1", rageval_plan="true")
    project.test(GATE)
    for option in ((), ("--rageval-plan",), ("--rageval-plan=true",)):
        project.run(*option).assert_outcomes(skipped=1)
    project.run("--rageval-plan=false").assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", [(), ("-q",)])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("rageval_modle", "rageval_modle. Did you mean rageval_model?"),
        ("rageval_nothing_like_it", "rageval_nothing_like_it."),
        (
            "rageval_update_baseline",
            "*. It is an option of the command line alone: --rageval-update-baseline.",
        ),
        ("another_key", "another_key"),
    ],
)
def test_an_unknown_key_of_the_ini_file_names_the_nearest(project, key, said, arguments):
    """In pytest's own warning, which a run with no marked test shows too."""
    project.ini(**{key: "1"})
    project.pytester.makepyfile("def test_plain(): pass\n")
    result = project.run_process(*arguments)
    result.stdout.fnmatch_lines([f"*PytestConfigWarning: Unknown config option: {said}"])
