"""Extensions that are switched off by the ini key `rageval_extensions`."""

import pytest

from pytest_rageval.core.extensions import at_start, installed
from tests.foreign_plugins import WITHOUT

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*asyncio_default_fixture_loop_scope")]

SHOWN = "rageval: switched off: "

MODULE = """
def test_it(pytestconfig):
    plugins = pytestconfig.pluginmanager.get_plugins()
    names = [getattr(plugin, "__name__", "") for plugin in plugins]
    print(*sorted(name for name in names if name.startswith("pytest_rageval.extensions.")))
"""


def _registered(pytester: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, set[str]]:
    pytester.makepyfile(MODULE)
    result = pytester.runpytest_inprocess("-s", *arguments)
    result.assert_outcomes(passed=1)
    start = "pytest_rageval.extensions."
    words = result.stdout.str().split()
    return result, {word.removeprefix(start) for word in words if word.startswith(start) and " " not in word}


def test_without_the_key_all_with_hooks_are_registered(pytester):
    result, registered = _registered(pytester)
    assert registered == at_start().keys()
    result.stdout.no_fnmatch_line(f"{SHOWN}*")


@pytest.mark.parametrize("place", ["ini", "-o"])
def test_the_named_ones_are_not_registered(pytester, place):
    """The header names them, and their fixtures are unknown."""
    line = "rageval_extensions = -canary -application_calls"
    if place == "ini":
        pytester.makeini(f"[pytest]\n{line}\n")
    arguments = ("-o", line.replace(" = ", "=")) if place == "-o" else ()
    result, registered = _registered(pytester, *arguments)
    assert at_start().keys() - registered == {"canary", "application_calls"}
    assert "application_calls fixtures" not in result.stdout.str()
    result.stdout.fnmatch_lines([f"{SHOWN}canary, application_calls"])


def test_each_can_be_off(pytester):
    """The core requests fixtures of some extensions."""
    pytester.makeini(f"[pytest]\nrageval_extensions = {' '.join(f'-{name}' for name in installed())}\n")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def rageval_retriever():
            return lambda query: [{"id": query}]

        @pytest.mark.rageval_evalset([{"id": "q", "question": "d", "gold": [{"id": "d"}]}])
        @pytest.mark.rageval_threshold("recall@1", min=1)
        def test_it():
            pass
        """
    )
    pytester.runpytest_inprocess(*WITHOUT).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "-canery",
            "*rageval_extensions is '-canery': '-canery' is no extension with a minus. Did you mean canary?",
        ),
        ("-plan canary", "*'canary' is no extension with a minus. Write -canary."),
    ],
)
def test_an_unknown_name_is_an_error(pytester, value, message):
    pytester.makeini(f"[pytest]\nrageval_extensions = {value}\n")
    result = pytester.runpytest_inprocess(*WITHOUT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message, "`rageval extensions` lists them.*"])


@pytest.mark.parametrize(
    ("ini", "toml", "arguments"),
    [
        ("", "", ["--rageval=canary=3"]),
        ("rageval_canary = 3", "", []),
        ("", "[tool.rageval]\ncanary = 3\n", []),
    ],
)
def test_its_option_is_an_error(pytester, ini, toml, arguments):
    pytester.makeini(f"[pytest]\nrageval_extensions = -canary\n{ini}\n")
    pytester.makepyprojecttoml(toml)
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--rageval canary=N needs the extension canary, which rageval_extensions switches off."]
    )


def test_the_mark_of_an_extension_that_is_off_is_an_error(pytester):
    """A mark that does nothing would be a bound that cannot fail."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.6)
        def test_judge(): pass
        """
    )
    result = pytester.runpytest_inprocess(*WITHOUT, "-o", "rageval_extensions=-calibration")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has the mark rageval_calibration, which does nothing.*"])
