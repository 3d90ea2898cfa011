"""`MeasurementPlugin`: adds to the report how the run was started, so that others can repeat it."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.text import text_of
from pytest_rageval.options import all_options
from pytest_rageval.options.presets import read_preset
from pytest_rageval.run import FinishedRun

NAME: Final = "measurement"  # of the preset, and of the key of the report


class MeasurementEntry(TypedDict, total=False):
    """The key `measurement` of the report; `changed` are settings of the preset that the user set otherwise."""

    command: list[str]
    python: str
    platform: str
    settings: dict[str, str]
    changed: dict[str, str]
    cassette: str


class MeasurementPlugin:
    def __init__(self, arguments: Sequence[object]) -> None:
        self._arguments = [str(argument) for argument in arguments]

    @hookimpl
    def pytest_rageval_run_finished(self, run: FinishedRun) -> Mapping[str, MeasurementEntry]:
        settings, options = run.settings, {option.name: option for option in all_options()}
        preset = read_preset(NAME).settings
        values = {name: settings[options[name]] for name in preset}
        kept = {name: text for name, text in preset.items() if values[name] == options[name].parse(text)}
        entry: MeasurementEntry = {
            "command": ["pytest", *public_words(self._arguments)],
            "python": platform.python_version(),
            "platform": platform.platform(),
            "settings": kept,
            "changed": {name: _value_text(value) for name, value in values.items() if name not in kept},
        }
        if settings.cassette is not None:
            entry["cassette"] = settings.cassette.name
        return {NAME: entry}


def _value_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else text_of(value)


SECRET: Final = re.compile(r"\w*(key|token|secret|passw)\w*", re.IGNORECASE)
"""Names of other options whose values may be secret."""


def public_words(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line; "…" takes the place of values that may have a password or a key.

    >>> words = ["-k", "a", "--rageval=base_url=https://me:secret@host", "--rageval-cache", "redis://:secret@host"]
    >>> " ".join(public_words(words))
    '-k a --rageval=base_url=… --rageval-cache …'
    """
    ours = {option.name: option.private for option in all_options()}
    hides_next = False
    for word in words:
        head, equals, value = word.removeprefix("--rageval=").removeprefix("--override-ini=").partition("=")
        name = head.removeprefix("-o").lstrip("-").replace("-", "_").removeprefix("rageval_")
        is_private = ours.get(name, SECRET.fullmatch(name) is not None)
        if hides_next:
            yield "…"
        else:
            yield f"{word[: len(word) - len(value)]}…" if is_private and equals else word
        hides_next = not hides_next and is_private and not equals and word.startswith("-")
