"""The `rageval` command: usage, help, version, completion and errors that all subcommands share."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

import pytest

from pytest_rageval import cli
from pytest_rageval.cli import cache_reading, main
from pytest_rageval.options.command import Command
from tests.unit.cli.folders import CacheFolder, Done, entry

COMMAND = [sys.executable, "-m", "pytest_rageval"]


@pytest.mark.parametrize("arguments", [[], ["cache"], ["cache", "fly"], ["cache", "info", "--fly"], ["fly"]])
def test_bad_usage_has_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: rageval")


@pytest.mark.parametrize("command", [command.title for command in cli._declared()])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of every command can be formatted, including its percent signs."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert f"usage: rageval {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", cli._declared(), ids=lambda command: command.title)
def test_the_function_of_every_command_exists(command: Command) -> None:
    """Static checkers do not check the names of functions, which are strings."""
    assert callable(resolve_name(command.run))


COMMAND_OF_A_PLUGIN = """
from pytest_rageval.options.command import Command, Group, value

COMMANDS = [
    Command({name!r}, "rageval_trees:plant", "plant", "", ("seed", value("n", "N", "number", int)),
            group=Group("trees", "trees", "Trees.", "none is left") if {grouped} else None),
]

def plant(options):
    print(options.n, options.seed)
    return 7
"""


def test_a_plugin_adds_a_command(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin.write_text(COMMAND_OF_A_PLUGIN.format(name="plant", grouped=True))
    assert main(["trees", "plant", "3", "--rageval", "seed=5"]) == 7
    assert capsys.readouterr().out == "3 5\n"


def test_a_plugin_does_not_replace_a_command(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin.write_text(COMMAND_OF_A_PLUGIN.format(name="scores", grouped=False))
    assert main(["scores"]) == 2
    assert (
        "The plugin trees has a command `rageval scores`, which there is already." in capsys.readouterr().err
    )


def test_help_brings_nothing_heavy() -> None:
    script = (
        "import sys\nfrom pytest_rageval.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    loaded: dict[str, set[str]] = {}
    for arguments in (["evalset", "generate", "--help"], ["cache", "--help"], ["cache", "info"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
        loaded.setdefault(arguments[-1], set()).update(done.stderr.splitlines()[-1].split())
    assert not loaded["--help"] & {"sqlite3", "openai", "numpy", "asyncio", "pytest", "gzip"}
    assert "sqlite3" in loaded["info"]
    assert not loaded["info"] & {"openai", "numpy", "asyncio", "pytest"}


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rageval {version('pytest-rageval')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_shells_get_a_script_that_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    shtab = pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    commands = [command.name for command in cli._declared()]
    assert all(word in script for word in (*commands, "cache-dir", "older-than"))
    assert shtab.FILE[shell] in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_rageval", "--print-completion", "bash"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    script = tmp_path / "rageval.bash"
    script.write_text(done.stdout, encoding="utf-8")
    press = (
        f". {script}; COMP_WORDS=(rageval sc); COMP_CWORD=1; "
        "$(complete -p rageval | sed 's/.*-F \\([^ ]*\\).*/\\1/') rageval sc rageval; echo \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", press], capture_output=True, text=True, check=False)  # noqa: S607
    assert done.stdout.split() == ["scores"], done.stderr


def test_without_shtab_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert "pip install 'pytest-rageval[completion]'" in capsys.readouterr().err


def test_it_runs_as_a_program(cache: CacheFolder, tmp_path: Path) -> None:
    cache.put([entry(9, summary={}, model="modèle-大")])
    environ = os.environ | {
        "PYTHONIOENCODING": "ascii",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [*COMMAND, "cache", "--cache-dir", cache.directory, "info"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=environ,
    )
    assert done.stderr == b""
    assert b"mod\\xe8le-\\u5927 " in done.stdout
    done = subprocess.run(
        [*COMMAND, "cache", "info"], capture_output=True, check=False, cwd=tmp_path, env=environ
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"There is no reply cache in .rageval_cache")


def test_a_reader_may_go_away(cache: CacheFolder) -> None:
    cache.put([entry(n, summary={"model": f"model {n}"}) for n in range(3000)])
    done = subprocess.run(  # noqa: S602 - our own
        f"'{sys.executable}' -m pytest_rageval cache --cache-dir '{cache.directory}' info | head -1",
        shell=True,
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, ""),
        (PermissionError(13, "no", "there"), 2, "PermissionError: [Errno 13] no: 'there'\n"),
    ],
)
def test_ctrl_c_and_system_errors_print_no_traceback(rageval, monkeypatch, error, status, message):
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(cache_reading, "bytes_on_disk", fail)
    assert rageval("info") == Done(status, "", message)
