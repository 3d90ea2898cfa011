"""Runs whose cache is a store shared by several machines."""

import json
import logging
import os
import re
import signal
import warnings
from collections import Counter
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.stores.redis import RedisConnection
from tests.llm_server import clerk
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

SCORE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.3)\ndef test_gate(): pass\n'


@pytest.fixture
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["redis", "diskcache"])
def url(request, tmp_path_factory):
    if request.param == "redis":
        return f"{request.getfixturevalue('redis').url}/0"
    pytest.importorskip("diskcache")
    return f"diskcache:{tmp_path_factory.mktemp('diskcache')}"


def _once(llm):
    counts = Counter(json.dumps(body, sort_keys=True) for body in llm.requests)
    assert set(counts.values()) == {1}


def test_another_machine_finds_the_replies(project, llm, url):
    project.use(llm)
    project.test(SCORE)
    for folder in ("one", "other"):
        project.run(f"--rageval-cache={url}", f"--rageval=cache_dir={folder}", passed=1)
        assert not (project.path / folder).exists()
    assert len(llm.requests) == 4
    _once(llm)


def test_a_cached_function_uses_the_store(project, llm, url, monkeypatch):
    project.use(llm)
    monkeypatch.setenv("RAGEVAL_CACHE_URL", url)
    project.pytester.makepyfile(
        """
        import pathlib

        def slow(text):
            with pathlib.Path("calls").open("a") as file:
                file.write("slow\\n")
            return [text]

        def test_it(rageval_llm):
            assert rageval_llm.cached(slow, version="1")("a") == ["a"]
        """
    )
    for folder in ("one", "other"):
        project.run(f"--rageval=cache_dir={folder}", passed=1)
        assert not (project.path / folder).exists()
    assert (project.path / "calls").read_text().split() == ["slow"]


@pytest.mark.parametrize("command", [["info"], ["export", "out.jsonl"], ["prune", "--cut"], ["verify"]])
def test_a_folder_that_is_missing_is_not_made(tmp_path, monkeypatch, capsys, command):
    """`cache` commands other than import do not create a missing folder, since its name is probably misspelled."""
    pytest.importorskip("diskcache")
    monkeypatch.chdir(tmp_path)
    assert main(["cache", *command, "--cache", "diskcache:shraed"]) == 2
    assert "There is no cache diskcache:shraed." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_replies_of_the_local_folder_are_brought_to_the_store(project, llm, url):
    project.use(llm)
    project.test(SCORE)
    project.run("--rageval=cache_dir=one", passed=1)
    for folder in ("one", "other"):
        project.run(f"--rageval-cache={url}", f"--rageval=cache_dir={folder}", passed=1)
    assert len(llm.requests) == 4


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["RAGEVAL_RUN_ID", "GITHUB_RUN_ID"])
def test_machines_of_one_run_share_its_budget(project, llm, redis, monkeypatch, variable):
    project.use(llm)
    project.evalset(6)
    project.test(SCORE)
    options = [f"--rageval-cache={redis.url}/0", "--rageval=max_calls=4"]
    monkeypatch.setenv(variable, "17")
    project.run(*options, "--rageval=cache_dir=one", errors=1)
    assert len(llm.requests) == 4
    project.run(
        *options,
        "--rageval=cache_dir=other",
        errors=1,
        shows="*--rageval max_calls=4 is reached: 4 calls were made*",
    )
    assert len(llm.requests) == 4
    monkeypatch.setenv(variable, "18")
    project.run(*options, "--rageval=cache_dir=other", passed=1)
    assert len(llm.requests) == 6
    _once(llm)


def _stopping(redis, after):
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        if len(prompts) == after:
            redis.stop()
        return clerk(prompt)

    return model


@pytest.fixture
def _impatient(monkeypatch):
    monkeypatch.setattr("pytest_rageval.extensions.stores.redis.PATIENCE_S", 0.3)
    call = RedisConnection.call

    def quick(self, work, *, patience_s=0.3):
        return call(self, work, patience_s=min(patience_s, 0.3))

    monkeypatch.setattr(RedisConnection, "call", quick)


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_stops_loses_no_reply(project, llm, redis):
    project.use(llm)
    project.evalset(8)
    project.test(SCORE)
    llm.model = _stopping(redis, 3)
    options = [f"--rageval-cache={redis.url}/0", "--rageval=concurrency=1"]
    result = project.run(*options, passed=1)
    name = f"redis://127.0.0.1:{redis.port}/0"
    result.stdout.fnmatch_lines(
        [f"*1 × {name} did not answer: meanwhile replies were kept in *.rageval_cache*"]
    )
    assert str(result.stdout).count("did not answer") == 1
    assert len(llm.requests) == 8
    redis.start()
    project.run(*options, passed=1)
    project.run(*options, "--rageval=cache_dir=other", passed=1)
    assert len(llm.requests) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
def test_a_limit_is_not_passed_while_the_count_is_away(project, llm, redis):
    project.use(llm)
    project.evalset(8)
    project.test(SCORE)
    llm.model = _stopping(redis, 3)
    options = [f"--rageval-cache={redis.url}/0", "--rageval=concurrency=1", "--rageval=max_calls=8"]
    project.run(*options, errors=1, shows="*The limit of calls or cost is for all machines of the run*")
    assert len(llm.requests) == 3
    redis.start()
    project.run(*options, passed=1)
    assert len(llm.requests) == 8
    _once(llm)


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_was_never_there_is_an_error(project, llm, redis):
    project.use(llm)
    project.test(SCORE)
    redis.stop()
    project.run(
        f"--rageval-cache={redis.url}/0",
        errors=1,
        shows=["*The cache redis://127.0.0.1:*/0 cannot be used: ConnectionError: *", "*Check the server*"],
    )
    assert llm.requests == []
    redis.start()


def test_a_server_that_evicts_is_refused(project, llm, redis):
    """A Redis server that evicts keys is an error before any request, since it would delete paid replies."""
    project.use(llm)
    project.test(SCORE)
    redis.client().config_set("maxmemory-policy", "allkeys-lru")
    project.run(
        f"--rageval-cache={redis.url}/0",
        errors=1,
        shows="*its maxmemory-policy is allkeys-lru, which deletes replies*",
    )
    assert llm.requests == []


SHOW_ALL = ["-vv", "--showlocals", "--tb=long", "--full-trace", "--log-level=DEBUG", "--junitxml=junit.xml"]

PLUGIN = """
from pathlib import Path
from pytest_rageval.models.stores.sqlite import SqliteStore


def open_store(url, namespace):
    if url.public.endswith("factory"):
        raise ValueError(f"no such place: {url.secret.reveal()}")
    store = SqliteStore(Path(namespace))
    store.get_many = store.entries = lambda *_, **__: {}[url.secret.reveal()]
    return store


def pytest_rageval_register(registry):
    registry.add_store("mine", open_store)
"""

URLS = {
    "upper case": "REDIS://:{password}@{place}",
    "mixed case": "Redis://user:{password}@{place}",
    "no colon": "redis//:{password}@{place}",
    "a digit first": "1redis://:{password}@{place}",
    "no such store": "redsi://:{password}@{place}",
    "no such parameter": "redis://:{password}@{place}?unknown={password}",
    "no value": "redis://{place}?{password}",
    "a parameter's value": "redis://{place}?db={password}",
    "a parameter of TLS": "rediss://{place}?ssl_cert_reqs={password}",
    "a parameter of TLS without TLS": "redis://:{password}@{place}?ssl_cert_reqs={password}",
    "a password in a parameter": "redis://{place}?password={password}",
    "a slash in the password": "redis://:{password}/of mine@host",
    "no number as a port": "redis://:{password}@host:port/0",
    "a plugin's store that cannot be opened": "mine://:{password}@factory",
    "a plugin's store that fails": "mine://:{password}@method",
}


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("form", URLS)
def test_no_form_of_a_url_shows_its_password(project, llm, redis, monkeypatch, capfd, form):  # noqa: PLR0913, PLR0917
    """The password is in no output and no file, whatever is wrong with the URL or the store; nor in a folder's name."""
    project.use(llm)
    project.test(SCORE)
    project.add(PLUGIN)
    url = URLS[form].format(password="planted-password", place=f"127.0.0.1:{redis.port}/0")
    monkeypatch.setenv("RAGEVAL_CACHE_URL", url)
    result = project.run(*SHOW_ALL)
    capfd.readouterr()
    # A server without a password accepts any.
    is_usable = form in {"upper case", "a password in a parameter"}
    assert main(["cache", "info"]) == (0 if is_usable else 2)
    printed = f"{result.stdout}{result.stderr}{''.join(capfd.readouterr())}"
    assert (result.ret == 0) is is_usable
    assert is_usable or re.search("RAGEVAL_CACHE_URL|--rageval-cache|There is no store 'redsi'", printed)
    written = [f"{path} {path.read_bytes() if path.is_file() else ''}" for path in project.path.rglob("*")]
    assert "planted" not in "".join([printed, *written])
    assert (llm.requests == []) is not is_usable


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be suspended here")
def test_a_suspended_server_blames_no_code_of_the_user(project, llm, redis, monkeypatch):
    monkeypatch.setattr("pytest_rageval.extensions.stores.redis.TIMEOUT_S", 1.0)
    project.use(llm)
    project.evalset(8)
    project.test(SCORE)
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        if len(prompts) == 6:
            os.kill(redis.pid, signal.SIGSTOP)
        return clerk(prompt)

    llm.model = model
    options = [f"--rageval-cache={redis.url}/0", "--rageval=concurrency=1"]
    try:
        result = project.run(*options)
    finally:
        os.kill(redis.pid, signal.SIGCONT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 × redis://* did not answer: meanwhile replies were kept in *"])
    result.stdout.no_fnmatch_line("*async code still runs*")
    assert len(llm.requests) == 8


PASSWORD = "planted-password/of mine"
WRITTEN = "planted-password%2Fof%20mine"


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("what", ["right", "wrong", "away", "option"])
def test_the_password_is_printed_nowhere(project, llm, monkeypatch, capfd, what):
    logging.getLogger().setLevel(logging.DEBUG)
    with RedisServer(project.path.parent, password=PASSWORD) as server:
        project.use(llm)
        project.test(SCORE)
        place = f"127.0.0.1:{server.port}/0"
        url = f"redis://:{WRITTEN}{'x' if what == 'wrong' else ''}@{place}"
        arguments = [
            "-vv",
            "--showlocals",
            "--tb=long",
            "--full-trace",
            "--debug=debug.log",
            "--rageval-report=r.json",
            "--log-level=DEBUG",
        ]
        if what == "option":
            # pytest logs its arguments, so a password among them cannot be removed from the log.
            arguments = [f"--rageval-cache={url}", "-vv"]
        else:
            monkeypatch.setenv("RAGEVAL_CACHE_URL", url)
            arguments.append(f"--rageval-cache=redis://{place}")
        if what == "away":
            llm.model = _stopping(server, 2)
        result = project.run_process(*arguments) if what != "away" else project.run(*arguments)
        # The captured output starts with the command line, which pytester prints.
        captured = "".join(capfd.readouterr())
        printed = str(result.stdout) + str(result.stderr) + (captured if what != "option" else "")
        if what in {"right", "away"}:
            result.assert_outcomes(passed=1)
        elif what == "wrong":
            assert "refuses the user or password: invalid username-password pair" in printed
        else:
            assert re.search("RAGEVAL_CACHE_URL|--rageval-cache", printed)
        if what in {"right", "wrong"}:
            assert main(["cache", "info"]) == (0 if what == "right" else 2)
            printed += "".join(capfd.readouterr())
        files = [path for path in project.path.rglob("*") if path.is_file()]
        written = "".join(path.read_bytes().decode(errors="replace") for path in files)
        assert "planted" not in printed
        assert "planted" not in written
        if what == "away":
            server.start()


def _cache(capsys, *arguments):
    status = main(["cache", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.slow
def test_the_commands_of_the_cache(project, llm, url, capsys, tmp_path):
    project.use(llm)
    project.test(SCORE)
    project.run(f"--rageval-cache={url}")
    capsys.readouterr()
    at = ("--cache", url)
    assert _cache(capsys, *at, "info")[:2] == (0, _cache(capsys, "info", *at)[1])
    status, out, _ = _cache(capsys, "info", "--json", *at)
    document = json.loads(out)
    assert (status, document["store"], document["replies"], document["damaged"]) == (0, url, 4, 0)
    tape = tmp_path / "tape.jsonl"
    assert _cache(capsys, "export", str(tape), *at)[:2] == (0, f"{tape}: 4 replies written\n")
    assert _cache(capsys, "prune", "--model", "m1", "--dry-run", *at)[1].startswith(
        f"{url}: 4 of 4 replies would be deleted\n"
    )
    assert _cache(capsys, "prune", "--older-than", "1", *at)[1] == f"{url}: 0 of 4 replies deleted\n"
    assert _cache(capsys, "prune", "--model", "m1", *at)[1].startswith(f"{url}: 4 of 4 replies deleted\n")
    assert _cache(capsys, "import", str(tape), *at)[:2] == (0, f"{url}: 4 new replies, 0 there already\n")
    tape.write_text(tape.read_text().replace("c1x", "c9x"))
    assert "of these 1 with another text, kept as they were" in _cache(capsys, "import", str(tape), *at)[1]
    assert (
        "of these 1 with another text, replaced" in _cache(capsys, "import", "--replace", str(tape), *at)[1]
    )
    assert _cache(capsys, "verify", *at)[:2] == (0, f"{url}: 4 good replies, 0 damaged entries\n")
    project.run(f"--rageval-cache={url}", "--rageval-replay", passed=1)
    assert len(llm.requests) == 4


def test_damage_is_found_and_deleted(redis, capsys):
    redis.client().set("rageval:1:replies:reply:ab", "no reply")
    url = f"{redis.url}/0"
    status, out, err = _cache(capsys, "verify", "--cache", url)
    assert (status, out.splitlines()) == (
        1,
        [
            f"{url}: damaged: entry ab: the checksum is not that of the contents",
            f"{url}: 0 good replies, 1 damaged entry",
        ],
    )
    assert "--repair" in err
    assert _cache(capsys, "info", "--cache", url)[1] == f"{url}: 0 replies\n"
    assert _cache(capsys, "verify", "--repair", "--cache", url)[0] == 1
    assert _cache(capsys, "verify", "--cache", url)[0] == 0


def test_a_store_of_another_plugin(project, llm, monkeypatch, capsys):
    project.use(llm)
    project.test(SCORE)
    project.add("""
from pathlib import Path

def pytest_rageval_register(registry):
    from pytest_rageval.models.stores.sqlite import SqliteStore
    registry.add_store("team", lambda url, namespace: SqliteStore(Path(url.public.removeprefix("team://")) / namespace))
""")
    for folder in ("one", "other"):
        project.run(
            f"--rageval-cache=team://{project.path}/shared", f"--rageval=cache_dir={folder}", passed=1
        )
    assert len(llm.requests) == 4
    monkeypatch.chdir(project.path)
    at = ("--cache", f"team://{project.path}/shared")
    capsys.readouterr()
    status, out, _ = _cache(capsys, "verify", *at)
    assert (status, out.endswith("/shared: 4 good replies, 0 damaged entries\n")) == (0, True)
    assert _cache(capsys, "export", "tape.jsonl", *at)[:2] == (0, "tape.jsonl: 4 replies written\n")
    status, _, err = _cache(capsys, "info", "--cache", "teem://x")
    assert (status, "Did you mean team?" in err) == (2, True)
    project.run(
        "--rageval-cache=teem://x",
        errors=1,
        shows=[
            "*There is no store 'teem' for teem://x. Did you mean team?*",
            "*diskcache, redis, rediss, team.*",
        ],
    )


class _Bomb:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_a_planted_pickle_is_not_executed(project, llm, tmp_path):
    diskcache = pytest.importorskip("diskcache")
    project.use(llm)
    project.test(SCORE)
    folder, bomb = tmp_path / "shared", tmp_path / "executed"
    project.run(f"--rageval-cache=diskcache:{folder}", passed=1)
    with diskcache.Cache(folder) as cache:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            unknown = [str(warning.message) for warning in cache.check()]
        assert unknown == [f"unknown file: {folder / '.gitignore'}"]
        names = [name for name in cache if ":reply:" in name]
        cache[names[0]] = _Bomb(bomb)
        cache[_Bomb(bomb)] = "a key"
        cache["theirs"] = _Bomb(bomb)
        large = cache.get(names[1]), _Bomb(bomb), "x" * 100_000
        cache[names[1]] = large
        cache.get("theirs")
        assert bomb.exists()
        bomb.unlink()
    project.run(f"--rageval-cache=diskcache:{folder}", "--rageval=cache_dir=other", passed=1)
    assert main(["cache", "verify", "--cache", f"diskcache:{folder}"]) == 0
    assert not bomb.exists()
    assert len(llm.requests) == 6


def test_a_planted_file_name_leads_nowhere(project, llm, tmp_path):
    """Attack: a cache row names a file outside the folder; that file is neither read nor deleted."""
    diskcache = pytest.importorskip("diskcache")
    project.use(llm)
    project.test(SCORE)
    folder, victim = tmp_path / "shared", tmp_path / "victim"
    victim.write_text("mine")
    project.run(f"--rageval-cache=diskcache:{folder}")
    with diskcache.Cache(folder) as cache:
        cache._sql("UPDATE Cache SET mode = 3, filename = ? WHERE key LIKE '%reply%'", (str(victim),))
    project.run(f"--rageval-cache=diskcache:{folder}", passed=1)
    assert victim.read_text() == "mine"
    assert len(llm.requests) == 8


def test_a_folder_that_evicts_is_refused(project, llm, tmp_path):
    diskcache = pytest.importorskip("diskcache")
    diskcache.FanoutCache(tmp_path / "shared", shards=2).close()
    project.use(llm)
    project.test(SCORE)
    project.run(
        f"--rageval-cache=diskcache:{tmp_path / 'shared'}",
        errors=1,
        shows=["*its eviction_policy is *", 'Make it with eviction_policy="none".'],
    )
