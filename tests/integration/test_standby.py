"""The plugin starts at the first marked test; before that, it loads almost nothing."""

import pytest

SEEN = """
def pytest_terminal_summary(terminalreporter, config):
    started = any(type(plugin).__name__ == "EvaluationPlugin" for plugin in config.pluginmanager.get_plugins())
    terminalreporter.line("started" if started else "waited")
"""

PLAIN = "def test_plain():\n    pass\n"

MARK = "pytest.mark.rageval_threshold('recall@2', min=0.9)"

ADDS_MARKS = f"""
import pytest

def add(item):
    item.add_marker(pytest.mark.rageval_evalset("evals.jsonl"))
    item.add_marker({MARK})
"""


@pytest.fixture(autouse=True)
def _seen(project):
    project.add(SEEN)


@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n):\n    pass\n",
        "import pytest\npytest.importorskip('no_such_module')\n",
    ],
    ids=["plain", "parametrized", "skipped"],
)
def test_a_run_without_tests_of_ours_starts_nothing(project, body):
    project.pytester.makepyfile(body)
    result = project.run(shows="waited")
    result.stdout.no_fnmatch_line("*generator*")


@pytest.mark.parametrize(
    "body",
    [
        f"import pytest\n@{MARK}\ndef test_it():\n    pass\n",
        f"import pytest\n@pytest.mark.parametrize('n', [pytest.param(1, marks={MARK})])\ndef test_it(n):\n    pass\n",
        "import pytest\n@pytest.mark.rageval_evalset('evals.jsonl')\ndef test_it():\n    pass\n",
        "import pytest\n@pytest.mark.rageval_treshold('recall@2')\ndef test_it():\n    pass\n",
        "def test_it(rageval_prompts):\n    assert rageval_prompts == {}\n",
        "def test_it(request):\n    assert request.getfixturevalue('rageval_prompts') == {}\n",
        "import no_such_module\n",
    ],
    ids=["mark", "parameter", "evalset", "unknown mark", "fixture", "fixture by name", "no import"],
)
def test_the_first_test_of_ours_starts_it(project, body):
    project.pytester.makepyfile(test_a=PLAIN, test_b=body)
    project.run(shows="started")


def test_an_option_a_variable_a_table_and_a_baseline_start_it(project, monkeypatch):
    """An option, variable, table or baseline starts the plugin, so that its errors are reported in each run."""
    project.pytester.makepyfile(PLAIN)
    project.run("--rageval=seed=1", shows="started")
    project.run("-o", "rageval_seed=1", shows="started")
    with monkeypatch.context() as patch:
        patch.setenv("RAGEVAL_GGUF", "a.gguf")
        project.run(shows="started")
    table = project.path / "pyproject.toml"
    table.write_text("[project]\nname = 'a'\nversion = '1'\ndependencies = ['pytest-rageval']\n")
    project.run(shows="waited")
    table.write_text("[tool.rageval.models.generator]\nmodel = 'm'\n")
    project.run(shows="started")
    table.unlink()
    (project.path / "rageval_baseline.json").write_text("{}")
    project.run(shows="started")


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_collection_modifyitems(items):\n    list(map(add, items))\n",
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_setup(item):\n    add(item)\n",
    ],
    ids=["after collection", "at setup"],
)
def test_a_mark_from_a_conftest_further_down_is_in_time(project, hook):
    """A mark added by a hook of a conftest in a subfolder is respected, although the plugin starts late."""
    folder = project.path / "below"
    folder.mkdir()
    (folder / "conftest.py").write_text(ADDS_MARKS + hook, encoding="utf-8")
    (folder / "test_it.py").write_text(
        "def test_one():\n    pass\n\ndef test_two():\n    pass\n", encoding="utf-8"
    )
    project.run(passed=2, shows=["started", "*below/test_it.py::test_two*", "  pass *recall@2 *"])


def test_what_a_test_module_does_to_the_environment_comes_too_late(project):
    body = f"import os\nimport pytest\nos.environ['RAGEVAL_GGUF'] = '/nowhere'\n@{MARK}\ndef test_it():\n    pass\n"
    module = project.pytester.makepyfile(
        body + "def test_settings(pytestconfig):\n    "
        "from pytest_rageval.plugin.runner import Process\n"
        "    assert Process.get(pytestconfig).settings.gguf is None\n"
    )
    assert module.exists()
    project.run_process("-k", "settings", passed=1, deselected=1)
