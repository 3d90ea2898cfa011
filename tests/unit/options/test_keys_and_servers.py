"""For every combination of settings, an API key is used only for the server that it was configured for."""

import itertools
import json
from pathlib import Path

import pytest

from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import ServerSettings, Settings

URLS = {name: f"http://{name}/v1" for name in ("flag", "ini", "table", "env")}
KEYS = ("env", "table variable", "table command")


def _resolved(root: Path, url: str | None, key: str, judge_url: str | None, judge_key: str) -> Settings:
    """Settings with each URL and key configured in the given place; a table with a key also names a server."""
    environ = {"OPENAI_API_KEY": "k-env", "MINE": "k-table", "THEIRS": "kj-table"}
    tables: dict[str, dict[str, str]] = {"generator": {}, "judge": {}}
    flags, ini = {}, {}
    for role, prefix, where, source, variable in (
        ("generator", "", url, key, "MINE"),
        ("judge", "judge_", judge_url, judge_key, "THEIRS"),
    ):
        host = URLS.get(url or "") if where == "same" else where and f"http://{prefix.strip('_')}{where}/v1"
        if role == "generator":
            host = where and URLS[where]
        if source.startswith("table"):
            tables[role]["base_url"] = f"http://{role}.table/v1"
            name, value = (
                ("api_key_env", variable) if source == "table variable" else ("api_key_command", role)
            )
            tables[role][name] = value
        if host and where == "table":
            tables[role]["base_url"] = host
        elif host and where == "env":
            environ["OPENAI_BASE_URL" if role == "generator" else "RAGEVAL_JUDGE_BASE_URL"] = host
        elif host:
            (ini if where == "ini" else flags)[f"{prefix}base_url"] = host
    if judge_key == "env":
        environ["RAGEVAL_JUDGE_API_KEY"] = "kj-env"
    lines = []
    for role, table in tables.items():
        lines.append(f"[tool.rageval.models.{role}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    (root / "pyproject.toml").write_text("\n".join(lines), encoding="utf-8")
    return resolve_options(flags, ini, environ, invoked_in=root, root=root)


def _key(server: ServerSettings) -> str | None:
    if server.key_command:
        return server.key_command[0]
    return None if server.api_key is None else server.api_key.reveal()


@pytest.mark.parametrize("judge_key", ["none", *KEYS])
def test_no_key_is_for_another_server(tmp_path: Path, judge_key: str) -> None:
    seen = set()
    for url, key, judge_url in itertools.product([None, *URLS], KEYS, [None, *URLS, "same"]):
        settings = _resolved(tmp_path, url, key, judge_url, judge_key)
        generator, judge = settings.generator.server, settings.judge.server
        case = (url, key, judge_url, generator, judge)
        of_tables = {role: dict(settings.tables.get(role, {})) for role in ("generator", "judge")}
        assert _key(generator) in {"k-env", "k-table", "generator"}, case
        # A key configured in a table is used only for the server of that table.
        if _key(generator) != "k-env":
            assert generator.base_url == of_tables["generator"].get("base_url"), case
        if _key(judge) in {"kj-table", "judge"}:
            assert judge.base_url == of_tables["judge"].get("base_url", generator.base_url), case
        # The judge uses the generator's key only at the generator's server.
        if _key(judge) in {"k-env", "k-table", "generator"}:
            assert judge.base_url == generator.base_url, case
        seen.add((judge.base_url == generator.base_url, _key(judge)))
    assert {same for same, _ in seen} == {True, False} or judge_key.startswith("table")
    assert len(seen) > 1
