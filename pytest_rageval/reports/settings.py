"""The settings of a run in its reports: as data, and the models as a line."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.lib.text import counted
from pytest_rageval.options import all_options
from pytest_rageval.options.settings import CANONICAL, MODEL_USES, TEMPERATURE, ServerSettings, Settings

WITHOUT_MODEL: Final = "recall, contains.* and provenance.* need no model"
"""Scores to begin with where no model is configured."""


def header_line(settings: Settings, uses: Collection[str] = MODEL_USES, own: Collection[str] = ()) -> str:
    """Return the models that the run `uses` in a line; of the user's `own` parts the settings say nothing."""
    how = " in turn" if re.search(r"\sthen\s", settings.comparator) else " together"
    votes = how if len(settings.judge_models) > 1 else ""
    votes += f" in {settings.judge_votes} votes" if settings.llm_judge and settings.judge_votes > 1 else ""
    judge = (
        f"judged by {_judge_text(settings)}{votes}" if settings.llm_judge else "compared in canonical form"
    )
    if settings.comparator != Settings.comparator.default:
        judge = f"compared by {settings.comparator}"
        if "judge" in re.findall(r"\w+", settings.comparator):
            judge += f" (judge: {_judge_text(settings)}{votes})"
    generator, quality = "", ""
    if "generator" not in uses:
        pass
    elif "generator" in own:
        generator = "your own generator"
    elif _generator_text(settings) is None:
        generator = f"no model is named (--rageval-model); {WITHOUT_MODEL}"
        judge = "" if settings.comparator == Settings.comparator.default else judge
    else:
        generator = f"generator {_generator_text(settings)}{_sampling_text(settings_entry(settings))}"
        quality = f" [smoke-test quality; {WITHOUT_MODEL}]" if settings.embedded else ""
    return f"{', '.join(filter(None, [generator, _judging_text(uses, judge)]))}{quality}"


def models_text(document: Mapping[str, Any]) -> str:
    """Return the default models that the tests use, and the number that use others; empty if none is called."""
    settings, tests, usage = document["settings"], document["tests"], document["llm"]
    if not (usage["requests"] or usage["failed"] or any(test.get("own") for test in tests)):
        return ""
    uses = {use for test in tests for use in test.get("uses", ())}
    own = Counter(part for test in tests for part in test.get("own", ()))
    drawn = _sampling_text(settings) if settings["generator"] else ""
    judge, comparator = settings["judge"], settings["comparator"]
    compared = "compared in canonical form" if judge == "canonical" else f"judged by {judge}"
    if comparator != "judge":
        compared = f"compared by {comparator} (judge: {judge})"
    generator = f"generator {settings['generator']}{drawn}" if settings["generator"] else "no generator"
    others = [f"own {part} in {count} of {counted(len(tests), 'test')}" for part, count in own.items()]
    models = ", ".join(
        filter(None, [generator if "generator" in uses else "", _judging_text(uses, compared)])
    )
    return "; ".join(filter(None, [models, *(others if uses else ())]))


def _judging_text(uses: Collection[str], judging: str) -> str:
    """Return what of "judged by m" a run uses: "answers judged by m" if it compares answers; else, if it judges, that.

    >>> _judging_text({"comparator"}, "judged by m"), _judging_text({"generator"}, "judged by m")
    ('answers judged by m', '')
    """
    return f"answers {judging}" if judging and "comparator" in uses else judging if "judge" in uses else ""


def settings_entry(settings: Settings) -> dict[str, object]:
    """Return the settings for the JSON report; `generator` is None if no model is named.

    The temperatures and draws are those of all scores, and of LLM-retEval. A temperature is None if the server sets it.
    """
    default = 0.0 if settings.embedded else TEMPERATURE
    own = settings.generator.parameters.get("temperature", default)
    own = own if isinstance(own, int | float) else None
    reteval = own if settings.llm_reteval_temperature is None else settings.llm_reteval_temperature
    return {
        **({} if settings.preset is None else {"preset": settings.preset}),
        "generator": _generator_text(settings),
        "temperature": own if settings.temperature is None else settings.temperature,
        "draws": settings.draws,
        "llm_reteval_temperature": reteval,
        "llm_reteval_draws": settings.llm_reteval_draws,
        "judge": _judge_text(settings),
        "judge_votes": settings.judge_votes,
        "both_orders": settings.both_orders,
        "comparator": settings.comparator,
        "match_share": settings.match_share,
        **{
            option.name: settings[option]
            for option in all_options()
            if option.is_reported and settings[option] != option.default
        },
        "seed": settings.seed,
    }


def _generator_text(settings: Settings) -> str | None:
    if settings.embedded:
        return f"embedded model {Path(settings.gguf).stem}" if settings.gguf else "embedded model"
    if settings.generator.model is None:
        return None
    return _model_at_server(settings.generator.model, settings.generator.server)


def _judge_text(settings: Settings) -> str:
    """The judge, with its server if that is not the generator's."""
    if settings.llm_judge is None:
        return CANONICAL
    server = settings.judge.server
    elsewhere = server.base_url != settings.generator.server.base_url
    return _model_at_server(settings.llm_judge, server) if elsewhere else settings.llm_judge


def _model_at_server(model: str, server: ServerSettings) -> str:
    return f"{model} at {server.base_url.public}" if server.base_url else model


def _sampling_text(entry: Mapping[str, Any]) -> str:
    """Return temperature and draws of a report's settings, in brackets; "" for the embedded model's defaults."""
    temperature, reteval_temperature = entry.get("temperature"), entry.get("llm_reteval_temperature")
    draws = entry.get("draws", Settings.draws.default)
    reteval_draws = entry.get("llm_reteval_draws", Settings.llm_reteval_draws.default)
    general = [] if temperature is None else [f"temperature {temperature:g}"]
    general += [counted(draws, "draw")] if draws != Settings.draws.default else []
    has_own = reteval_temperature not in {temperature, None}
    reteval = [f"temperature {reteval_temperature:g}"] if has_own else []
    reteval += [counted(reteval_draws, "draw")] if reteval_draws != Settings.llm_reteval_draws.default else []
    embedded = str(entry["generator"]).startswith("embedded model")
    if embedded and general == ["temperature 0"] and not reteval:
        return ""
    parts = [", ".join(general), f"llm_reteval: {', '.join(reteval)}" if reteval else ""]
    text = "; ".join(filter(None, parts))
    return f" ({text})" if text else ""
