"""Messages of shared parts, printed by commands of extensions that have options of their own."""

import pytest

from pytest_rageval import cli
from pytest_rageval.core.errors import InputError


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        (["evalset", "generate"], "raise --rageval max_calls=7", "raise --max-calls=7"),
        (["evalset", "generate"], "try --rageval flex=true", "try --flex"),
        (
            ["evalset", "generate"],
            "name --rageval-model, --rageval-cassette FILE",
            "name --model, --cassette FILE",
        ),
        (["evalset", "generate"], "--rageval retries=N (pytest --rageval-replay)", None),
        (["judge"], "--rageval-judge-model or --rageval judge_base_url=URL", "--model or --base-url=URL"),
        (["judge"], "--rageval-model", None),
        (
            ["judge"],
            "Run without --rageval-replay (with --rageval-cassette FILE and --rageval-record to record it), or not",
            "Run without --replay, or not",
        ),
        (["judge"], "record it anew with pytest --rageval-record", None),
        (["diff"], "--rageval max_calls=7", None),
    ],
)
def test_a_message_names_the_options_of_the_command(command, text, expected, capsys, monkeypatch):
    """A message of a shared part names options as pytest does; a command that has them names its own."""

    def refuse(_: object) -> int:
        raise InputError(text)

    monkeypatch.setattr(cli, "resolve_name", lambda _: refuse)
    required = {
        "generate": ["--corpus", "c", "--n", "1", "--out", "o"],
        "judge": ["l", "--model", "m"],
        "diff": ["a"],
    }
    assert cli.main([*command, *required[command[-1]]]) == 2
    assert capsys.readouterr().err == f"{expected or text}\n"
