"""The embedded model, used if no API key is set: these tests run the real weights."""

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("xllamacpp", reason="the embedded model is in the extra 'local'")

GATE = '@pytest.mark.rageval_threshold("llm_reteval@2", min=0.6)\ndef test_gate(): pass\n'


def test_without_a_key_the_embedded_model_answers(project):
    project.evalset(3)
    project.test(GATE)
    project.run_process(passed=1, shows=["generator embedded model, *", "* live, * tokens in, *"])
    project.run(passed=1, shows="*cached, 0 live*")


def test_a_file_that_is_no_model_is_named(project, monkeypatch):
    broken = project.path / "broken.gguf"
    broken.write_bytes(b"no model" * 100)
    monkeypatch.setenv("RAGEVAL_GGUF", str(broken))
    project.test(GATE)
    project.run_process(
        errors=1,
        shows=["The embedded model did not start from *broken.gguf: *", "generator embedded model broken, *"],
    )
