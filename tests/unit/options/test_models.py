"""The settings of the generator and the judge, and their sources."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import Secret
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.settings import header_line, settings_entry

GENERATOR, JUDGE = "[tool.rageval.models.generator]\n", "[tool.rageval.models.judge]\n"


@pytest.fixture
def resolved(tmp_path: Path):
    def resolve_(
        table: str = "",
        flags: dict[str, Any] | None = None,
        ini: dict[str, Any] | None = None,
        **environ: str,
    ) -> Settings:
        (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
        return resolve_options(flags or {}, ini or {}, environ, invoked_in=tmp_path, root=tmp_path)

    return resolve_


def _url(settings: Settings) -> tuple[str | None, str | None]:
    servers = (settings.generator.server, settings.judge.server)
    first, second = (server.base_url and server.base_url.public for server in servers)
    return first, second


def _keys(settings: Settings) -> tuple[str | None, str | None]:
    servers = (settings.generator.server, settings.judge.server)
    first, second = (server.api_key and server.api_key.reveal() for server in servers)
    return first, second


def test_a_judge_with_nothing_of_its_own_shares_the_server_of_the_generator(resolved) -> None:
    settings = resolved(
        flags={"model": "m", "judge_model": "j"}, OPENAI_API_KEY="k", OPENAI_BASE_URL="http://a/v1"
    )
    assert settings.judge.server == settings.generator.server
    assert (settings.judge.model, settings.llm_judge) == ("j", "j")


@pytest.mark.parametrize("where", ["flag", "ini", "table", "environment"])
def test_a_judge_may_have_a_server_of_its_own(resolved, where: str) -> None:
    """A judge server can be set in each of four places, and does not get the generator's key."""
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://a/v1"}
    settings = {
        "flag": lambda: resolved(flags={"judge_base_url": "http://b/v1"}, **environ),
        "ini": lambda: resolved(ini={"judge_base_url": "http://b/v1"}, **environ),
        "table": lambda: resolved(f'{JUDGE}base_url = "http://b/v1"', **environ),
        "environment": lambda: resolved(RAGEVAL_JUDGE_BASE_URL="http://b/v1", **environ),
    }[where]()
    assert _url(settings) == ("http://a/v1", "http://b/v1")
    assert _keys(settings) == ("k", None)


def test_the_command_line_comes_before_ini_file_table_and_environment(resolved) -> None:
    table = (
        f'{GENERATOR}base_url = "http://t/v1"\nmodel = "t"\n{JUDGE}base_url = "http://tj/v1"\nmodel = "tj"\n'
    )
    environ = {"OPENAI_BASE_URL": "http://e/v1", "RAGEVAL_JUDGE_BASE_URL": "http://ej/v1"}
    ini = {"base_url": "http://i/v1", "judge_base_url": "http://ij/v1", "model": "i", "judge_model": "ij"}
    flags = {"base_url": "http://f/v1", "judge_base_url": "http://fj/v1", "model": "f", "judge_model": "fj"}
    for given, expected in (((table, flags, ini), "f"), ((table, {}, ini), "i"), ((table,), "t"), ((), "e")):
        settings = resolved(*given, **environ)
        assert _url(settings) == (f"http://{expected}/v1", f"http://{expected}j/v1")
        if expected != "e":
            assert (settings.generator.model, settings.judge.model) == (expected, f"{expected}j")


def test_the_judges_key_is_for_the_judge(resolved) -> None:
    settings = resolved(RAGEVAL_JUDGE_API_KEY="kj", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://a/v1")
    assert _url(settings) == ("http://a/v1", "http://a/v1")
    assert _keys(settings) == ("k", "kj")
    assert settings.judge.server != settings.generator.server


def test_the_same_base_url_twice_is_one_server(resolved) -> None:
    settings = resolved(
        flags={"base_url": "http://a/v1", "judge_base_url": "http://a/v1/"}, OPENAI_API_KEY="k"
    )
    assert settings.judge.server == settings.generator.server
    settings = resolved(f'{JUDGE}base_url = "http://a/v1"', OPENAI_BASE_URL="http://a/v1", OPENAI_API_KEY="k")
    assert settings.judge.server == settings.generator.server


def test_a_table_names_the_variable_of_the_key(resolved) -> None:
    """The key is read from the variable that the table names; if it is empty, no other key is used."""
    table = f'{GENERATOR}api_key_env = "MINE"\n{JUDGE}base_url = "http://b/v1"\napi_key_env = "THEIRS"\n'
    settings = resolved(table, MINE="m", THEIRS="t\n", OPENAI_API_KEY="k", RAGEVAL_JUDGE_API_KEY="kj")
    assert _keys(settings) == ("m", "t")
    settings = resolved(table, OPENAI_API_KEY="k", RAGEVAL_JUDGE_API_KEY="kj")
    assert _keys(settings) == (None, None)
    assert (settings.judge.server.key_name, settings.judge.server.needs_key) == ("THEIRS", True)


@pytest.mark.parametrize("source", ['api_key_env = "THEIRS"', 'api_key_command = "echo t"'])
def test_a_key_of_a_table_is_not_for_a_server_named_elsewhere(resolved, source: str) -> None:
    table = f'{JUDGE}base_url = "http://b/v1"\n{source}\n'
    settings = resolved(table, {"judge_base_url": "http://c/v1"}, THEIRS="t", RAGEVAL_JUDGE_API_KEY="kj")
    assert (_keys(settings)[1], settings.judge.server.key_command) == ("kj", ())
    settings = resolved(table, {"judge_base_url": "http://b/v1"}, THEIRS="t", RAGEVAL_JUDGE_API_KEY="kj")
    assert settings.judge.server.key_command or _keys(settings)[1] == "t"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('["gcloud", "auth", "print-access-token"]', ("gcloud", "auth", "print-access-token")),
        (
            "'az account get-access-token --query \"access Token\"'",
            ("az", "account", "get-access-token", "--query", "access Token"),
        ),
    ],
)
def test_a_command_may_give_the_key(resolved, written: str, words: tuple[str, ...]) -> None:
    settings = resolved(f"{GENERATOR}api_key_command = {written}", OPENAI_API_KEY="k")
    assert settings.generator.server.key_command == words
    assert _keys(settings) == (None, None)
    assert settings.judge.server == settings.generator.server
    elsewhere = resolved(f"{GENERATOR}api_key_command = {written}", {"judge_base_url": "http://b/v1"})
    assert elsewhere.judge.server.key_command == ()
    other_key = resolved(f"{GENERATOR}api_key_command = {written}", RAGEVAL_JUDGE_API_KEY="kj")
    assert (other_key.judge.server.key_command, _keys(other_key)[1]) == ((), "kj")


def test_limits_may_be_those_of_one_server(resolved) -> None:
    """Limits in a table apply to one server, options to both; max_calls of a table and of the run both apply."""
    table = (
        f"{GENERATOR}concurrency = 64\nrpm = 60.5\nmax_calls = 100\n"
        f'{JUDGE}base_url = "http://b/v1"\ntimeout = 300\nmax_cost = 0\n'
    )
    settings = resolved(table, {"max_calls": "7"})
    generator, judge = settings.generator.server, settings.judge.server
    assert (generator.concurrency, generator.rpm, generator.max_calls) == (64, 60.5, 100)
    assert (judge.concurrency, judge.rpm, judge.timeout, judge.max_calls, judge.max_cost) == (
        16,
        None,
        300.0,
        None,
        0,
    )
    assert settings.max_calls == 7
    settings = resolved(table, {"concurrency": "2", "timeout": "9"})
    assert {
        (role.server.concurrency, role.server.timeout) for role in (settings.generator, settings.judge)
    } == {(2, 9)}


def test_a_judge_with_limits_of_its_own_is_a_server_of_its_own(resolved) -> None:
    table = f"{GENERATOR}rpm = 60\nmax_calls = 100\n{JUDGE}timeout = 300\n"
    judge = resolved(table, OPENAI_API_KEY="k").judge.server
    assert (judge.role, judge.api_key, judge.rpm, judge.timeout, judge.max_calls) == (
        "judge",
        Secret("k"),
        60,
        300,
        None,
    )


def test_the_api_is_that_of_the_model(resolved) -> None:
    table = f'{GENERATOR}model = "m"\napi = "responses"\n'
    assert resolved(table).judge.server.api == "responses"
    assert resolved(table, {"judge_model": "j"}).judge.server.api == "chat"
    assert resolved(f'{table}{JUDGE}api = "responses"', {"judge_model": "j"}).judge.server.api == "responses"


def test_parameters_are_of_each_model(resolved) -> None:
    """Parameters of the command line replace those of the table; the judge inherits none from the generator."""
    table = f"{GENERATOR}parameters = {{ seed = 1, chat_template_kwargs = {{ enable_thinking = false }} }}\n"
    settings = resolved(table)
    assert settings.generator.parameters == {"seed": 1, "chat_template_kwargs": {"enable_thinking": False}}
    assert settings.judge.parameters == {}
    assert resolved(table, ini={"parameters": '{"seed": 3}'}).generator.parameters == {"seed": 3}
    settings = resolved(
        table, {"parameters": '{"seed": 2}', "judge_parameters": '{"reasoning_effort": "low"}'}
    )
    assert settings.generator.parameters == {"seed": 2}
    assert settings.judge.parameters == {"reasoning_effort": "low"}


def test_the_header_names_the_judges_server_where_it_is_another(resolved) -> None:
    settings = resolved(
        flags={
            "model": "m",
            "judge_model": "j",
            "base_url": "http://a/v1",
            "judge_base_url": "http://me:pw@b/v1?sig=s",
        }
    )
    assert (
        header_line(settings)
        == "generator m at http://a/v1 (temperature 0.5), answers judged by j at http://b/v1"
    )
    assert settings_entry(settings)["judge"] == "j at http://b/v1"


def test_no_secret_is_in_what_the_settings_show(resolved) -> None:
    settings = resolved(
        f'{JUDGE}base_url = "http://b/v1"\napi_key_env = "THEIRS"\n',
        THEIRS="planted-1",
        OPENAI_API_KEY="planted-2",
        RAGEVAL_JUDGE_API_KEY="planted-3",
    )
    assert "planted" not in f"{settings!r} {settings.generator!r} {settings.judge!r} {vars(settings)}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            '[tool.rageval]\nmodle = "m"',
            r"\[tool.rageval\] has the key 'modle', which is no option. Did you mean model\?\n.*rageval settings",
        ),
        ("[tool.rageval.models.juge]", r"unknown key 'juge'. Did you mean judge\?"),
        ("[tool.rageval]\nmodels = 1", r"\[tool.rageval.models\] is not a table"),
        ("[tool.rageval.models]\njudge = 'j'", r"\[tool.rageval.models.judge\] is not a table"),
        (
            f"{JUDGE}modle = 'm'",
            r"unknown key 'modle'. Did you mean model\?\nAllowed: model, base_url, api_key_env",
        ),
        (f"{JUDGE}model = 1", "model in .* cannot be used: expected a text"),
        (f"{JUDGE}base_url = 'b.example'", "base_url in .* expected a URL that begins"),
        (
            f"{JUDGE}api_key_env = 'planted-key'",
            "expected the name of an environment variable, not the key itself",
        ),
        (f'{JUDGE}api_key = "planted"', "make a new key, and name the environment variable"),
        (f"{JUDGE}api_key_command = []", "expected a command, such as"),
        (f"{JUDGE}api_key_command = 'echo \"x'", "a quotation mark is not closed"),
        (f"{JUDGE}api = 'completions'", "expected 'chat' or 'responses'"),
        (f"{JUDGE}concurrency = 0", "concurrency in .* expected a whole number, at least 1"),
        (f"{JUDGE}concurrency = true", "expected a whole number, at least 1"),
        (f"{JUDGE}concurrency = '3'", "expected a whole number, at least 1, without quotation marks"),
        (f"{JUDGE}rpm = 0", "expected a number above 0"),
        (f"{JUDGE}rpm = '60'", "expected a number above 0, without quotation marks"),
        (f"{JUDGE}tpm = -1", "expected a number above 0"),
        (f"{JUDGE}timeout = inf", "expected a number of seconds above 0"),
        (f"{JUDGE}max_calls = 1.5", "expected a whole number, at least 0"),
        (f"{JUDGE}max_cost = nan", "expected an amount, at least 0"),
        (f"{JUDGE}parameters = 'low'", "expected an object of parameters"),
        (f"{JUDGE}parameters = {{ stream = true }}", "without 'stream': a reply is kept whole"),
        (f"{JUDGE}parameters = {{ at = 2031-01-01 }}", "expected values that JSON has"),
        (f"{JUDGE}api_key_env = 'A'\napi_key_command = 'b'", "Leave one out"),
        (f"{JUDGE}model =", "is not TOML"),
    ],
)
def test_a_table_that_cannot_be_used_is_an_error(resolved, table: str, message: str) -> None:
    with pytest.raises(InputError, match=f"(?s)^pyproject.toml.*{message}") as caught:
        resolved(table)
    assert "planted" not in str(caught.value)


def test_a_file_that_does_not_mention_the_package_is_not_read(resolved) -> None:
    assert resolved("[tool.other\n").generator.model is None
    assert resolved('[tool.pytest.ini_options]\nx = "rageval"\n').generator.model is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected an object of parameters"),
        ("[1]", "expected an object of parameters"),
        ('{"n": 2}', "without 'n': one reply is used"),
        ('{"stream": true}', "without 'stream'"),
        ('{"model": "m"}', "without 'model': it is an option"),
        ('{"messages": []}', "without 'messages'"),
        (
            '{"timeout": 5}',
            "without 'timeout': it is an option: --rageval timeout=SECONDS, or the key timeout of",
        ),
        ('{"api_key": "planted"}', "without 'api_key'"),
        ('{"extra_headers": {}}', "without 'extra_headers'"),
        ('{"response_format": {}}', "without 'response_format'"),
        ('{"top_p": NaN}', "expected values that JSON has"),
    ],
)
def test_parameters_that_are_not_for_a_request_are_refused(resolved, text: str, message: str) -> None:
    for name in ("parameters", "judge_parameters"):
        with pytest.raises(InputError, match=message) as caught:
            resolved(flags={name: text})
        assert "planted" not in str(caught.value)
