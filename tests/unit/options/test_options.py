"""The options: their precedence, and the messages for invalid values."""

from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import BaseURL, Secret, public_url
from pytest_rageval.options import CoreOptions, all_options
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.settings import header_line, settings_entry

HERE, ROOT = Path("/typed/here"), Path("/project")


def _resolve(
    flags: dict[str, Any] | None = None, ini: dict[str, Any] | None = None, **environ: str
) -> Settings:
    return resolve_options(flags or {}, ini or {}, environ, invoked_in=HERE, root=ROOT)


def test_without_options_the_defaults_hold() -> None:
    settings = _resolve().replace(
        cache_dir=Settings.cache_dir.default, baseline=Settings.baseline.default, cache=None
    )
    assert all(settings[option] == option.default for option in all_options())
    assert _resolve().cache_dir == ROOT / ".rageval_cache"
    assert _resolve().baseline == ROOT / "rageval_baseline.json"


@pytest.mark.parametrize(
    ("name", "flag", "ini", "expected"),
    [
        ("model", "f", "i", ("f", "i", None)),
        ("judge_model", "f", "i", ("f", "i", None)),
        ("judge_votes", "3", "5", (3, 5, 1)),
        ("concurrency", "3", "4", (3, 4, 16)),
        ("timeout", "1.5", "2", (1.5, 2.0, 60.0)),
        ("retries", "0", "2", (0, 2, 4)),
        ("patience", "7.5", "9", (7.5, 9.0, 300.0)),
        ("threads", "2", "3", (2, 3, 1)),
        ("refresh", "true", "no", (True, False, False)),
        ("max_unscored", "0", "1", (0.0, 1.0, 0.05)),
        ("match_share", "1", "0.3", (1.0, 0.3, 0.5)),
        ("document_id", "slug", '"metadata.source"', ("slug", "metadata.source", None)),
        ("seed", "7", "8", (7, 8, 0)),
        ("temperature", "0", "1.5", (0.0, 1.5, None)),
        ("draws", "5", "2", (5, 2, 1)),
        ("llm_reteval_temperature", "0", "1", (0.0, 1.0, None)),
        ("llm_reteval_draws", "5", "1", (5, 1, 3)),
        ("bleu_smoothing", "none", "exp", ("none", "exp", "exp")),
        ("repeat", "3", "5", (3, 5, 1)),
        ("update_baseline", "true", "no", (True, False, False)),
        ("require_baseline", "off", "1", (False, True, False)),
        ("baseline", "f.json", "i.json", (HERE / "f.json", ROOT / "i.json", ROOT / "rageval_baseline.json")),
        (
            "report",
            ["a.json", "b.json"],
            ["c.json"],
            ((HERE / "a.json", HERE / "b.json"), (ROOT / "c.json",), ()),
        ),
        ("cassette", "f.jsonl", "i.jsonl", (HERE / "f.jsonl", ROOT / "i.jsonl", None)),
        ("cache_dir", "f", "i", (HERE / "f", ROOT / "i", ROOT / ".rageval_cache")),
    ],
)
def test_the_command_line_overrules_the_ini_file(name, flag, ini, expected):
    values = [
        getattr(_resolve({name: flag}, {name: ini}), name),
        getattr(_resolve({name: None}, {name: ini}), name),
        getattr(_resolve({name: None}, {name: None}), name),
    ]
    assert tuple(values) == expected


@pytest.mark.parametrize(
    ("flag", "ini", "environ", "expected"),
    [
        ("http://f/v1", "http://i/v1", "http://e/v1", "http://f/v1"),
        (None, "http://i/v1", "http://e/v1", "http://i/v1"),
        (None, None, "http://e/v1", "http://e/v1"),
        (None, "", "http://e/v1/", "http://e/v1"),
        ("http://f/v1/", None, "", "http://f/v1"),
        (None, None, "", None),
    ],
)
def test_the_base_url_may_come_from_the_environment(flag, ini, environ, expected):
    found = _resolve({"base_url": flag}, {"base_url": ini}, OPENAI_BASE_URL=environ).base_url
    assert (found and found.url) == expected


def test_the_environment_gives_key_and_weights() -> None:
    settings = _resolve(OPENAI_API_KEY="k", RAGEVAL_GGUF="/m.gguf")
    assert (settings.api_key, settings.gguf) == (Secret("k"), "/m.gguf")
    assert _resolve(OPENAI_API_KEY="k\n").api_key == Secret("k")
    empty = _resolve(OPENAI_API_KEY="", RAGEVAL_GGUF="")
    assert (empty.api_key, empty.gguf) == (None, None)


@pytest.mark.parametrize("source", ["flag", "ini", "environment"])
def test_user_and_password_leave_the_base_url_where_it_enters(source: str) -> None:
    text = "https://me:pass%40word@llm.example:8080/v1/?api-version=2024-10-21&api-key=hidden"
    given = {"base_url": text}
    settings = {
        "flag": lambda: _resolve(given, OPENAI_BASE_URL="http://other/v1"),
        "ini": lambda: _resolve(None, given, OPENAI_BASE_URL="http://other/v1"),
        "environment": lambda: _resolve(OPENAI_BASE_URL=text),
    }[source]()
    base_url = settings.base_url
    assert base_url.url == "https://llm.example:8080/v1"
    assert base_url.login == Secret("me:pass@word")
    assert base_url.query == Secret("api-version=2024-10-21&api-key=hidden")
    assert base_url.public == BaseURL.parse("https://llm.example:8080/v1?api-version=2024-10-21").public
    for secret in ("me:", "pass", "word", "hidden", "2024"):
        assert secret not in f"{settings!r} {header_line(settings)}"


@pytest.mark.parametrize(
    "text",
    [
        "me:planted@llm.example/v1",
        "ftp://me:planted@llm.example/v1",
        "http://me:pla/nted@llm.example/v1",
        "http://me:1/planted@llm.example/v1",
        "http://me:1#planted@llm.example/v1",
        "http://me:1?planted@llm.example/v1",
        "http://me:planted@[::1/v1",
        "http://me:planted@/v1",
        "http://me:planted@llm.example:port/v1",
        "ftp://llm.example/v1?key=planted",
        "http://llm.example/v1?key=planted&key=planted",
    ],
)
def test_a_base_url_that_cannot_be_used_is_not_quoted(text: str) -> None:
    """The error for an invalid URL does not quote it: a password that is not encoded could look like a host or path."""
    for name, given in (
        ("--rageval-base-url", lambda: _resolve({"base_url": text})),
        ("rageval_base_url", lambda: _resolve(None, {"base_url": text})),
        ("OPENAI_BASE_URL", lambda: _resolve(OPENAI_BASE_URL=text)),
    ):
        with pytest.raises(InputError, match=f"^{name} cannot be used: expected a URL") as caught:
            given()
        assert "pla" not in str(caught.value)
        assert "nted" not in str(caught.value)
    assert _resolve({"base_url": "http://x/v1"}, OPENAI_BASE_URL=text).base_url == BaseURL.parse(
        "http://x/v1"
    )


def test_a_base_url_without_secrets_is_quoted() -> None:
    with pytest.raises(
        InputError, match=r"--rageval-base-url is 'llm.example/v1': expected a URL that begins"
    ):
        _resolve({"base_url": "llm.example/v1"})


@pytest.mark.parametrize(
    ("query", "public_query"),
    [
        ("api-key=x", ""),
        ("API_KEY=x&access_token=y&sig=z&X-Amz-Signature=a&code=b&client_secret=c", ""),
        ("deployment=a", "deployment=a"),
        ("sig=x&deployment=a&api-version=1", "deployment=a&api-version=1"),
        ("countrycode=at", "countrycode=at"),
    ],
)
def test_the_name_of_a_server_contains_no_secret_of_its_query(query: str, public_query: str) -> None:
    named = public_url(f"http://x/v1?{query}")
    assert named == public_url(f"http://x/v1?{public_query}")
    assert "=" not in named
    assert (named == "http://x/v1") == (not public_query)


def test_absolute_paths_stay() -> None:
    assert _resolve({"cassette": "/elsewhere/c.jsonl"}).cassette == Path("/elsewhere/c.jsonl")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("concurrency", "0", "a whole number, at least 1"),
        ("concurrency", "many", "a whole number, at least 1"),
        ("concurrency", "1.5", "a whole number, at least 1"),
        ("threads", "-1", "a whole number, at least 1"),
        ("judge_votes", "2", "an odd whole number, at least 1: an even number of votes may be tied"),
        ("judge_votes", "0", "an odd whole number, at least 1"),
        ("judge_votes", "-1", "an odd whole number, at least 1"),
        ("judge_votes", "1.5", "an odd whole number, at least 1"),
        ("retries", "-1", "a whole number, at least 0"),
        ("retries", "x", "a whole number, at least 0"),
        ("timeout", "0", "a number of seconds above 0"),
        ("timeout", "inf", "a number of seconds above 0"),
        ("timeout", "nan", "a number of seconds above 0"),
        ("timeout", "1s", "a number of seconds above 0"),
        ("max_unscored", "5", "a share between 0 and 1"),
        ("max_unscored", "-0.1", "a share between 0 and 1"),
        ("max_unscored", "nan", "a share between 0 and 1"),
        ("max_unscored", "5%", "a share between 0 and 1"),
        ("match_share", "0", "a share above 0, at most 1"),
        ("match_share", "1.1", "a share above 0, at most 1"),
        ("document_id", "metadata.", "the path of a field, such as metadata.source"),
        ("document_id", '""', "the path of a field, such as metadata.source"),
        ("temperature", "-0.1", "a number, at least 0"),
        ("temperature", "inf", "a number, at least 0"),
        ("llm_reteval_draws", "0", "a whole number, at least 1"),
        ("bleu_smoothing", "some", "exp or none"),
        ("refresh", "maybe", "true or false"),
        ("record", "2", "true or false"),
        ("seed", "x", "a whole number"),
        ("seed", "-1", "a whole number"),
    ],
)
def test_a_bad_value_names_the_option_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    for source, written in (("flag", vars(CoreOptions)[name].typed), ("ini", f"rageval_{name}")):
        given = ({name: value}, None) if source == "flag" else (None, {name: value})
        with pytest.raises(InputError) as caught:
            _resolve(*given)
        assert str(caught.value).startswith(f"{written} is {value!r}: expected {allowed}")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("true", True),
        ("YES", True),
        ("on", True),
        ("1", True),
        ("False", False),
        ("off", False),
        ("0", False),
    ],
)
def test_a_switch_reads_usual_words(word: str, *, expected: bool) -> None:
    assert _resolve(ini={"refresh": word}).refresh is expected


def test_a_report_does_not_replace_the_baseline() -> None:
    with pytest.raises(InputError, match=r"--rageval-report and --rageval-baseline name the same file"):
        _resolve({"report": [str(ROOT / "rageval_baseline.json")]})


@pytest.mark.parametrize("name", ["temperature", "llm_reteval_temperature"])
def test_two_temperatures_are_one_too_many(name: str) -> None:
    with pytest.raises(InputError, match=rf"--rageval {name}=T and the parameters .* leave one out"):
        _resolve({"model": "m", name: "0"}, {"parameters": '{"temperature": 0.3}'})


def test_recording_needs_a_cassette() -> None:
    with pytest.raises(InputError, match=r"add --rageval-cassette FILE"):
        _resolve({"record": "true"})
    assert _resolve({"record": "true"}, {"cassette": "c.jsonl"}).record


PROMPTS, UNUSED = "--rageval record_prompts=true", "--rageval-drop-unused"


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ({"record_prompts": "true"}, PROMPTS),
        ({"drop_unused": "true"}, UNUSED),
        ({"record_prompts": "true", "drop_unused": "true"}, f"{PROMPTS} and {UNUSED}"),
    ],
)
def test_what_only_a_recording_uses_is_refused_without_one_where_it_is_typed(
    typed: dict[str, str], named: str
) -> None:
    with pytest.raises(InputError) as caught:
        _resolve(typed)
    assert str(caught.value) == f"Only a run with --rageval-record uses {named}: add that option."
    # The ini file holds for all runs, also for those that do not record.
    assert _resolve(None, typed).replay is False
    assert _resolve({"replay": "true"}, typed).replay
    assert _resolve({"record": "true", "cassette": "c.jsonl", **typed}).record


CANONICAL = "answers compared in canonical form"
NEED_NONE = "recall, contains.* and provenance.* need no model"
SMOKE = f"[smoke-test quality; {NEED_NONE}]"


@pytest.mark.parametrize(
    ("given", "embedded", "judge", "line"),
    [
        ({}, True, None, f"generator embedded model, {CANONICAL} {SMOKE}"),
        ({"gguf": "/models/tiny.gguf"}, True, None, f"generator embedded model tiny, {CANONICAL} {SMOKE}"),
        ({"model": "embedded", "api_key": "k"}, True, None, f"generator embedded model, {CANONICAL} {SMOKE}"),
        (
            {"model": "embedded", "judge_model": "j"},
            True,
            "j",
            f"generator embedded model, answers judged by j {SMOKE}",
        ),
        ({"model": "m"}, False, "m", "generator m (temperature 0.5), answers judged by m"),
        (
            {"model": "m", "judge_model": "j"},
            False,
            "j",
            "generator m (temperature 0.5), answers judged by j",
        ),
        (
            {"model": "m", "judge_votes": 3},
            False,
            "m",
            "generator m (temperature 0.5), answers judged by m in 3 votes",
        ),
        (
            {"model": "m", "judge_model": "a,b, c"},
            False,
            "a, b, c",
            "generator m (temperature 0.5), answers judged by a, b, c together",
        ),
        ({"judge_votes": 3}, True, None, f"generator embedded model, {CANONICAL} {SMOKE}"),
        (
            {"model": "m", "base_url": "http://x/v1"},
            False,
            "m",
            "generator m at http://x/v1 (temperature 0.5), answers judged by m",
        ),
        ({"api_key": "k"}, False, None, f"no model is named (--rageval-model); {NEED_NONE}"),
    ],
)
def test_what_is_in_force(given: dict[str, Any], judge: str | None, line: str, *, embedded: bool) -> None:
    settings = Settings(**given)
    assert (settings.embedded, settings.llm_judge, header_line(settings)) == (embedded, judge, line)


@pytest.mark.parametrize("models", ["a,b", "a,b,a", "a,,b", "a,b,c,", ","])
def test_an_even_number_of_judges_is_refused(models: str) -> None:
    with pytest.raises(InputError, match="expected one, or an odd number of different ones"):
        _resolve({"judge_model": models, "model": "m"})
    assert _resolve({"judge_model": "a, b,c", "model": "m"}).judge_models == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        ({"temperature": 0.0}, "m (temperature 0; llm_reteval: temperature 0.5), "),
        ({"draws": 3, "llm_reteval_draws": 1}, "m (temperature 0.5, 3 draws; llm_reteval: 1 draw), "),
        (
            {"llm_reteval_temperature": 1.0, "llm_reteval_draws": 5},
            "; llm_reteval: temperature 1, 5 draws), ",
        ),
        ({"parameters": {"temperature": 0.9}}, "generator m (temperature 0.9), "),
        ({"parameters": {"temperature": None}}, "generator m, "),
        ({"model": "embedded", "temperature": 0.7}, "model (temperature 0.7; llm_reteval: temperature 0), "),
        ({"model": "embedded", "draws": 2, "temperature": 0.0}, "embedded model (temperature 0, 2 draws), "),
    ],
)
def test_how_answers_are_drawn_is_in_the_header(given: dict[str, Any], drawn: str) -> None:
    assert drawn in header_line(Settings(**{"model": "m", **given}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"comparator": "judge"}, "answers compared in canonical form ["),
        ({"comparator": "f1>=0.5"}, "answers compared by f1>=0.5 ["),
        ({"comparator": "judge or em"}, "answers compared by judge or em (judge: canonical) ["),
        ({"comparator": "judge or em", "judge_model": "j"}, "answers compared by judge or em (judge: j) ["),
        ({"comparator": "em", "judge_model": "j"}, "answers compared by em ["),
        ({"comparator": "em", "api_key": "k"}, "need no model, answers compared by em"),
    ],
)
def test_another_comparator_is_in_the_header(given: dict[str, Any], expected: str) -> None:
    assert expected in header_line(Settings(**given))


def test_what_is_in_force_as_data() -> None:
    given = Settings(model="m", base_url="http://me:secret@x/v1", comparator="judge or em", seed=3)
    assert settings_entry(given) == {
        "generator": "m at http://x/v1",
        "temperature": 0.5,
        "draws": 1,
        "llm_reteval_temperature": 0.5,
        "llm_reteval_draws": 3,
        "judge": "m",
        "judge_votes": 1,
        "both_orders": False,
        "comparator": "judge or em",
        "match_share": 0.5,
        "seed": 3,
    }
    assert settings_entry(Settings()) == {
        "generator": "embedded model",
        "temperature": 0.0,
        "draws": 1,
        "llm_reteval_temperature": 0.0,
        "llm_reteval_draws": 3,
        "judge": "canonical",
        "judge_votes": 1,
        "both_orders": False,
        "comparator": "judge",
        "match_share": 0.5,
        "seed": 0,
    }
    assert settings_entry(Settings(api_key="k"))["generator"] is None


def test_the_key_is_never_in_the_header() -> None:
    settings = Settings(model="m", api_key="sk-secret", base_url="http://x/v1")
    assert "sk-secret" not in header_line(settings)
    assert "sk-secret" not in str(settings_entry(settings))


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.name)
def test_every_option_is_declared_once(option) -> None:
    """The attribute of an option of the core has its name; the parser reads the default; no other has the name."""
    assert vars(CoreOptions).get(option.name, option) is option
    assert option.shown_default == "" or option.parse(option.shown_default) == option.default
    assert Settings()[option] == option.default
    assert Settings(**{option.name: "http://x"}).replace()[option]
    assert [other.name for other in all_options()].count(option.name) == 1
    assert option.help


def test_a_setting_that_is_no_option_is_an_error() -> None:
    """Settings are made of the values of known options alone."""
    with pytest.raises(TypeError, match="there is no option 'modle'"):
        Settings(modle="m")


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("FORCE", "force"), ("force", "force"), ("false", False)]
)
def test_an_update_may_be_forced(text: str, *, expected: bool | str) -> None:
    assert _resolve({"update_baseline": text}).update_baseline == expected


def test_an_update_takes_no_other_word() -> None:
    with pytest.raises(InputError, match="--rageval-update-baseline is 'fource': expected nothing, or force"):
        _resolve({"update_baseline": "fource"})


@pytest.mark.parametrize("ci", ["true", "1", "yes", "woodpecker"])
def test_a_build_server_requires_a_baseline_and_updates_none(ci: str) -> None:
    assert _resolve(CI=ci).require_baseline
    assert not _resolve({"require_baseline": "false"}, CI=ci).require_baseline
    assert not _resolve(ini={"require_baseline": "false"}, CI=ci).require_baseline
    with pytest.raises(InputError, match=r"is refused under CI=true.*--rageval-update-baseline=force"):
        _resolve({"update_baseline": "true"}, CI=ci)
    assert _resolve({"update_baseline": "force"}, CI=ci).update_baseline


@pytest.mark.parametrize("ci", ["", "false", "0", " no "])
def test_elsewhere_the_first_run_may_be_without_a_baseline(ci: str) -> None:
    settings = _resolve({"update_baseline": "true"}, CI=ci)
    assert (settings.require_baseline, settings.update_baseline) == (False, True)


def test_it_is_known_whether_the_baseline_was_named() -> None:
    assert "baseline" not in _resolve().sources
    assert _resolve({"baseline": "rageval_baseline.json"}).sources["baseline"] == "command line"
    assert _resolve(ini={"baseline": "evals/main.json"}).sources["baseline"] == "ini"


@pytest.mark.parametrize("text", ["0", "1.5", "-0.1", "some"])
def test_a_sample_is_a_share(text: str) -> None:
    with pytest.raises(InputError, match=r"--rageval-sample is .*: expected a share above 0, at most 1"):
        _resolve({"sample": text})
    with pytest.raises(InputError, match="--rageval-sample leaves some out"):
        _resolve({"sample": "0.5", "update_baseline": "true"})
