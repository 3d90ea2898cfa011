"""Each provider's dialect of the API, from the address to the score, in one pytest run per provider."""

import json

import pytest

from tests.provider_dialects import DIALECTS, KEY, ProviderServer

GATE = """
@pytest.mark.rageval_threshold("answer.correct@1", min=1.0)
def test_gate():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("provider", DIALECTS)
def test_all_examples_are_scored(project, provider, monkeypatch):
    """All examples are scored, although the server is busy once, refuses parameters, and varies its replies."""
    dialect = DIALECTS[provider]
    project.test(GATE)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (project.path / "pyproject.toml").write_text(
        f'[tool.rageval.models.generator]\nmodel = "m1"\napi = "{dialect.api}"\n', encoding="utf-8"
    )
    with ProviderServer(dialect) as server:
        options = [
            f"--rageval-base-url={server.url.removesuffix('/v1')}{dialect.base}",
            "--rageval=max_tokens=64",
        ]
        if dialect.parameters:
            parameters = json.dumps(dialect.parameters)
            options += [f"--rageval=parameters={parameters}", f"--rageval=judge_parameters={parameters}"]
        project.run(*options, "--rageval-report=out.json", passed=1)
    report = project.read("out.json")
    (score,) = report["tests"][0]["scores"]
    assert (score["n"], score["unscored"], score["mean"]) == (4, 0, 1.0)
    assert (report["llm"]["live"], server.answered, report["llm"]["failed"]) == (8, 8, 0)
    remarks = report["llm"]["remarks"]
    assert ("m1 reasons before it answers: its reasoning is not read" in remarks) == dialect.reasons
    left_out = [remark for remark in remarks if remark.startswith("m1 refuses ")]
    assert left_out == ([f"m1 refuses {dialect.left_out}: sent without it"] if dialect.left_out else [])
    limits = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    assert all(limits & body.keys() for body in server.requests)
