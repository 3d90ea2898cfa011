"""Options: the command line overrides the ini file, which overrides the environment, which overrides the default."""

from dataclasses import MISSING, fields

import pytest

from tests.llm_server import LLMServer

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.1)\ndef test_gate(): pass\n'


def test_the_command_line_rules_over_the_ini_file(project, llm):
    """A model on the command line overrides the model of the ini file in the requests."""
    project.use(llm, model="from-ini")
    project.test(GATE)
    project.run()
    assert {body["model"] for body in llm.requests} == {"from-ini"}
    llm.requests.clear()
    project.run("--rageval-model=typed")
    assert {body["model"] for body in llm.requests} == {"typed"}


def test_the_ini_file_rules_over_the_environment(project, llm):
    """A base URL in the ini file overrides the base URL in the environment."""
    with LLMServer() as other:
        project.use(llm)
        project.ini(rageval_model="m1", rageval_base_url=other.url)
        project.test(GATE)
        project.run().assert_outcomes(passed=1)
        assert other.requests
        assert not llm.requests


def test_a_judge_model_of_its_own_judges(project, llm):
    """With --rageval-judge-model the verdicts are requested from that model, and the answers from the generator's."""
    project.use(llm, model="writer")
    project.test(GATE)
    project.run("--rageval-judge-model=judge")
    assert {
        body["model"] for body in llm.requests if "Answer to check" in body["messages"][0]["content"]
    } == {"judge"}
    assert {body["model"] for body in llm.requests} == {"writer", "judge"}


@pytest.mark.parametrize(
    ("option", "message"),
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
def test_a_value_that_is_not_allowed_ends_the_run_at_once(project, option, message):
    """An invalid option value is a usage error, as with pytest's own options."""
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}".replace("[", "[[]")])


def test_help_lists_every_option_with_its_default(project):
    """`pytest --help` lists the options with their defaults, and the ini keys."""
    project.run("--help").stdout.fnmatch_lines(
        ["*--rageval-concurrency=N*", "*(default: 16)*", "*rageval_model (string)*"]
    )


@pytest.mark.slow
def test_requests_in_flight_are_limited(project, llm):
    """With --rageval-concurrency=3 three requests are in flight, and never more."""
    llm.latency_s, llm.together = 0.05, 3
    project.use(llm)
    project.evalset(20)
    project.test(GATE)
    project.run("--rageval-concurrency=3").assert_outcomes(passed=1)
    assert llm.most_in_flight == 3


@pytest.mark.parametrize(
    ("arguments", "header"),
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
def test_the_header_says_what_is_in_force(project, arguments, header):
    """The header names the generator and the comparison of answers before any request, also with --collect-only."""
    project.run("--collect-only", *arguments).stdout.fnmatch_lines([header])


def test_markers_are_listed_with_every_word_that_they_take(project):
    """The written-out signatures of the markers match their dataclasses, whose import would slow down every run."""
    from pytest_rageval.extensions.calibration.calibration import Bounds
    from pytest_rageval.gate.threshold import Threshold

    bounds = [field.name for field in fields(Bounds)]
    project.run("--markers").stdout.fnmatch_lines(
        [
            f"@pytest.mark.rageval_threshold({_signature(Threshold, ('spec', *Threshold.keywords()))}): *",
            f"@pytest.mark.rageval_calibration({_signature(Bounds, bounds)}): *",
        ]
    )


def _signature(marker, names):
    """Return the signature of a marker: the first of these fields is positional, the others are keyword-only."""
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(marker)}
    first, *keywords = names
    return f"{first}, *, {', '.join(f'{keyword}={defaults[keyword]!r}' for keyword in keywords)}"


@pytest.mark.slow
def test_a_switch_of_the_ini_file_can_be_taken_back(project, llm):
    """`--rageval-NAME=false` overrides a flag that is true in the ini file; the option alone, or `=true`, is true."""
    project.use(llm)
    project.ini(rageval_model="m1", rageval_plan="true")
    project.test(GATE)
    for option in ((), ("--rageval-plan",), ("--rageval-plan=true",)):
        project.run(*option).assert_outcomes(skipped=1)
    project.run("--rageval-plan=false").assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", [(), ("-q",)])
@pytest.mark.parametrize(
    ("key", "message"),
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
def test_an_unknown_key_of_the_ini_file_names_the_nearest(project, key, message, arguments):
    """An unknown ini key is a warning of pytest that suggests the nearest key, also in a run without marked tests."""
    project.ini(**{key: "1"})
    project.pytester.makepyfile("def test_plain(): pass\n")
    result = project.run_process(*arguments)
    result.stdout.fnmatch_lines([f"*PytestConfigWarning: Unknown config option: {message}"])
