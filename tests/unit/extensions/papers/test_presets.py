"""The settings of papers, which the user's settings override."""

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.embeddings import ENCODER
from pytest_rageval.extensions.papers import PRESETS
from pytest_rageval.models.prompt_rendering import build_prompts
from pytest_rageval.options import all_options
from pytest_rageval.options.presets import read_preset
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.settings import settings_entry

HERE = Path("/somewhere")


def _resolve(root: Path = HERE, /, ini: dict[str, Any] | None = None, **options: Any) -> Settings:
    return resolve_options(options, ini or {}, {"OPENAI_API_KEY": "k"}, invoked_in=root, root=root)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_settings_that_can_be_used(name: str) -> None:
    """Each preset consists of valid options and values, and of prompts with known placeholders."""
    preset = read_preset(name)
    options = {option.name: option for option in all_options()}
    for option, value in preset.settings.items():
        assert _resolve(preset=name, model="m")[options[option]] == options[option].parse(value)
    build_prompts(preset.prompts, name)
    assert preset.not_set
    assert re.search(r"20\d\d|code", preset.source)


def test_what_the_papers_name() -> None:
    """The presets have the settings that the papers or the authors' code state."""
    alinejad = _resolve(preset="alinejad2024", model="m")
    assert (alinejad.llm_reteval_draws, alinejad.llm_reteval_temperature, alinejad.cutoffs) == (
        3,
        0.5,
        (1, 5, 10),
    )
    gulsoy = _resolve(preset="gulsoy2024", model="m")
    assert (gulsoy[ENCODER], gulsoy.bleu_smoothing, gulsoy.cutoffs) == ("roberta-large@17", "none", (3,))
    assert (gulsoy.temperature, gulsoy.judge.parameters) == (0.3, {"temperature": 0.3})
    assert gulsoy.grades_together is True
    han = _resolve(preset="han2024", model="m")
    assert (han.temperature, han.max_tokens, han.both_orders, han.arena_examples) == (0, 256, False, True)
    assert abstains("I couldn't find an answer.")


def test_options_take_precedence() -> None:
    """Command line and ini file override a preset, and its description lists only the settings in effect."""
    settings = _resolve(preset="han2024", model="m", temperature="0.9", ini={"cutoffs": "7"})
    assert (settings.temperature, settings.cutoffs, settings.max_tokens) == (0.9, (7,), 256)
    assert settings.applied_preset.describe().startswith(
        "preset han2024 sets max_tokens 256; arena_examples true; prompts long_answer. It does not set: models: eleven"
    )
    named = _resolve(ini={"preset": "han2024"}, model="m", preset="gulsoy2024")
    assert settings_entry(named)["preset"] == "gulsoy2024"


def test_parameters_take_precedence() -> None:
    settings = _resolve(preset="han2024", model="m", parameters='{"temperature": 1}')
    assert (settings.temperature, settings.generator.parameters) == (None, {"temperature": 1})
    settings = _resolve(preset="gulsoy2024", model="m", judge_parameters='{"seed": 1}')
    assert settings.judge.parameters == {"seed": 1}


def test_tables_of_models_take_precedence(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.rageval.models.generator]\nparameters = { temperature = 1 }\n"
        "[tool.rageval.models.judge]\nparameters = { seed = 1 }\n"
    )
    settings = _resolve(tmp_path, preset="gulsoy2024", model="m")
    assert (settings.temperature, settings.generator.parameters) == (None, {"temperature": 1})
    assert settings.judge.parameters == {"seed": 1}
    assert "judge_parameters" not in settings.applied_preset.settings


def test_without_a_model_at_a_server_there_are_no_prompts_and_no_parameters_of_a_judge() -> None:
    """With the embedded model, a preset sets no prompts and no judge parameters, which would have no effect."""
    settings = _resolve(preset="gulsoy2024", model="embedded")
    assert (settings.judge_parameters, settings.applied_preset.prompts) == (None, {})
    assert settings.temperature == 0.3
    judged = _resolve(preset="gulsoy2024", model="embedded", judge_model="j")
    assert judged.judge.parameters == {"temperature": 0.3}
    assert "answer" in judged.applied_preset.prompts


@pytest.mark.parametrize("text", ["", "1,", "0", "1;5", "a"])
def test_cut_offs_are_numbers_with_commas(text: str) -> None:
    if not text:
        assert _resolve(cutoffs=text).cutoffs == ()
        return
    with pytest.raises(
        InputError, match=r"expected whole numbers from 1, with commas between them, such as 1,5,10"
    ):
        _resolve(cutoffs=text)
    assert _resolve(cutoffs="10, 5,10").cutoffs == (10, 5)
