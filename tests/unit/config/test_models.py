"""The two models of a run: what each has, and where it comes from."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.config import Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.secret import Secret

GENERATOR, JUDGE = "[tool.rageval.models.generator]\n", "[tool.rageval.models.judge]\n"


@pytest.fixture
def resolved(tmp_path: Path):
    """Resolve flags, ini keys, a `pyproject.toml` and an environment."""

    def resolve_(
        table: str = "",
        flags: dict[str, Any] | None = None,
        ini: dict[str, Any] | None = None,
        **environ: str,
    ) -> Settings:
        (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
        return resolve(flags or {}, ini or {}, environ, invoked_in=tmp_path, root=tmp_path)

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
    """Then one limiter holds for both."""
    settings = resolved(
        flags={"model": "m", "judge_model": "j"}, OPENAI_API_KEY="k", OPENAI_BASE_URL="http://a/v1"
    )
    assert settings.judge.server == settings.generator.server
    assert (settings.judge.model, settings.llm_judge) == ("j", "j")


@pytest.mark.parametrize("where", ["flag", "ini", "table", "environment"])
def test_a_judge_may_have_a_server_of_its_own(resolved, where: str) -> None:
    """Named in each of the four places; the key of the generator is not for it."""
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
    """Each source overrules those after it, for both models."""
    table = (
        f'{GENERATOR}base_url = "http://t/v1"\nmodel = "t"\n{JUDGE}base_url = "http://tj/v1"\nmodel = "tj"\n'
    )
    environ = {"OPENAI_BASE_URL": "http://e/v1", "RAGEVAL_JUDGE_BASE_URL": "http://ej/v1"}
    ini = {"base_url": "http://i/v1", "judge_base_url": "http://ij/v1", "model": "i", "judge_model": "ij"}
    flags = {"base_url": "http://f/v1", "judge_base_url": "http://fj/v1", "model": "f", "judge_model": "fj"}
    for given, expected in (
        ((table, flags, ini), "f"),
        ((table, {}, ini), "i"),
        ((table,), "t"),
        ((), "e"),
    ):
        settings = resolved(*given, **environ)
        assert _url(settings) == (f"http://{expected}/v1", f"http://{expected}j/v1")
        if expected != "e":
            assert (settings.generator.model, settings.judge.model) == (expected, f"{expected}j")


def test_the_judges_key_is_for_the_judge(resolved) -> None:
    """Also where both are at one server: then they are two servers, as the keys are two accounts."""
    settings = resolved(RAGEVAL_JUDGE_API_KEY="kj", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://a/v1")
    assert _url(settings) == ("http://a/v1", "http://a/v1")
    assert _keys(settings) == ("k", "kj")
    assert settings.judge.server != settings.generator.server


def test_the_same_base_url_twice_is_one_server(resolved) -> None:
    """A slash more does not make it another."""
    settings = resolved(
        flags={"base_url": "http://a/v1", "judge_base_url": "http://a/v1/"}, OPENAI_API_KEY="k"
    )
    assert settings.judge.server == settings.generator.server
    settings = resolved(f'{JUDGE}base_url = "http://a/v1"', OPENAI_BASE_URL="http://a/v1", OPENAI_API_KEY="k")
    assert settings.judge.server == settings.generator.server


def test_a_table_names_the_variable_of_the_key(resolved) -> None:
    """It is read from there, and is missed if it is empty, even where another key is set."""
    table = f'{GENERATOR}api_key_env = "MINE"\n{JUDGE}base_url = "http://b/v1"\napi_key_env = "THEIRS"\n'
    settings = resolved(table, MINE="m", THEIRS="t\n", OPENAI_API_KEY="k", RAGEVAL_JUDGE_API_KEY="kj")
    assert _keys(settings) == ("m", "t")
    settings = resolved(table, OPENAI_API_KEY="k", RAGEVAL_JUDGE_API_KEY="kj")
    assert _keys(settings) == (None, None)
    assert (settings.judge.server.key_name, settings.judge.server.needs_key) == ("THEIRS", True)


@pytest.mark.parametrize("source", ['api_key_env = "THEIRS"', 'api_key_command = "echo t"'])
def test_a_key_of_a_table_is_not_for_a_server_named_elsewhere(resolved, source: str) -> None:
    """An option that names another server leaves the table's key behind."""
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
    """A list of words, or a text that is split; a judge at the same server has it too, another has not."""
    settings = resolved(f"{GENERATOR}api_key_command = {written}", OPENAI_API_KEY="k")
    assert settings.generator.server.key_command == words
    assert _keys(settings) == (None, None)
    assert settings.judge.server == settings.generator.server
    elsewhere = resolved(f"{GENERATOR}api_key_command = {written}", {"judge_base_url": "http://b/v1"})
    assert elsewhere.judge.server.key_command == ()
    other_key = resolved(f"{GENERATOR}api_key_command = {written}", RAGEVAL_JUDGE_API_KEY="kj")
    assert (other_key.judge.server.key_command, _keys(other_key)[1]) == ((), "kj")


def test_limits_may_be_those_of_one_server(resolved) -> None:
    """An option is for both; a limit of calls in a table holds beside that of the run."""
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
        (each.server.concurrency, each.server.timeout) for each in (settings.generator, settings.judge)
    } == {(2, 9)}


def test_a_judge_with_limits_of_its_own_is_a_server_of_its_own(resolved) -> None:
    """At the address of the generator, with its key and its pace; calls are counted apart."""
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
    """A judge that is the generator's model is asked as that is; another is not."""
    table = f'{GENERATOR}model = "m"\napi = "responses"\n'
    assert resolved(table).judge.server.api == "responses"
    assert resolved(table, {"judge_model": "j"}).judge.server.api == "chat"
    assert resolved(f'{table}{JUDGE}api = "responses"', {"judge_model": "j"}).judge.server.api == "responses"


def test_parameters_are_of_each_model(resolved) -> None:
    """Those of the command line replace those of the table, and the judge has none of the generator's."""
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
    """As the report does."""
    settings = resolved(
        flags={
            "model": "m",
            "judge_model": "j",
            "base_url": "http://a/v1",
            "judge_base_url": "http://me:pw@b/v1?sig=s",
        }
    )
    assert (
        settings.header_line()
        == "generator m at http://a/v1 (temperature 0.5), answers judged by j at http://b/v1"
    )
    assert settings.report_entry()["judge"] == "j at http://b/v1"


def test_no_secret_is_in_what_the_settings_show(resolved) -> None:
    """Neither of both keys."""
    settings = resolved(
        f'{JUDGE}base_url = "http://b/v1"\napi_key_env = "THEIRS"\n',
        THEIRS="planted-1",
        OPENAI_API_KEY="planted-2",
        RAGEVAL_JUDGE_API_KEY="planted-3",
    )
    assert "planted" not in f"{settings!r} {settings.generator!r} {settings.judge!r} {vars(settings)}"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            '[tool.rageval]\nmodel = "m"',
            r"\[tool.rageval\] has the unknown key 'model'.*\n.*rageval_NAME in \[tool.pytest",
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
def test_a_table_that_cannot_be_used_is_an_error(resolved, table: str, told: str) -> None:
    """It names the file, the key, and what is allowed."""
    with pytest.raises(InputError, match=f"(?s)^pyproject.toml.*{told}") as caught:
        resolved(table)
    assert "planted" not in str(caught.value)


def test_a_key_in_the_table_is_refused(resolved) -> None:
    """The remedy is a variable; the key is not repeated."""
    with pytest.raises(InputError, match="make a new key, and name the environment variable") as caught:
        resolved(f'{JUDGE}api_key = "planted"')
    assert "planted" not in str(caught.value)


def test_a_file_that_does_not_mention_the_package_is_not_read(resolved) -> None:
    """It is pytest's to say what is wrong with it."""
    assert resolved("[tool.other\n").generator.model is None
    assert resolved('[tool.pytest.ini_options]\nx = "rageval"\n').generator.model is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "expected an object of parameters"),
        ("[1]", "expected an object of parameters"),
        ('{"n": 2}', "without 'n': one reply is used"),
        ('{"stream": true}', "without 'stream'"),
        ('{"model": "m"}', "without 'model': it is an option"),
        ('{"messages": []}', "without 'messages'"),
        ('{"timeout": 5}', "without 'timeout': it is an option: --rageval-timeout, or the key timeout of"),
        ('{"api_key": "planted"}', "without 'api_key'"),
        ('{"extra_headers": {}}', "without 'extra_headers'"),
        ('{"response_format": {}}', "without 'response_format'"),
        ('{"top_p": NaN}', "expected values that JSON has"),
    ],
)
def test_parameters_that_are_not_for_a_request_are_refused(resolved, text: str, told: str) -> None:
    """On the command line as in the table."""
    for name in ("parameters", "judge_parameters"):
        with pytest.raises(InputError, match=told) as caught:
            resolved(flags={name: text})
        assert "planted" not in str(caught.value)
