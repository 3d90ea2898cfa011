"""Printed text cannot control a terminal or a CI runner."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.lib.text import one_line, printable

PARTS = [*":#[]() \t\n\r\x0b\x0c\x1b\x9b\x85aé", "::", "##", "##vso[", "::error::"]
PARTS += [*"\u00a0\u3000\u200b\u00ad\ufeff\ufe0f\u2028\u202e\ud83d\U000e0020"]
HOSTILE = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)
"""Texts made of the relevant characters and commands in any order."""


def _seen(line: str) -> str:
    return "".join(character for character in line if unicodedata.category(character) not in {"Cf", "Mn"})


def _is_command(text: str) -> bool:
    seen = map(_seen, re.split("[\r\n]", text))
    return any(line.lstrip().startswith("::") or re.search(r"##\w*\[", line) for line in seen)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[1;1HPASSED", r"\u001b[2J\u001b[1;1HPASSED"),
        (
            "\x1b]8;;https://x.example\x07kb-1\x1b]8;;\x07",
            r"\u001b]8;;https://x.example\u0007kb-1\u001b]8;;\u0007",
        ),
        ("\x9b31mred \x9d8;;x\x9c", r"\u009b31mred \u009d8;;x\u009c"),
        ("failed\rPASSED", r"failed\u000dPASSED"),
        ("\x07bell\x00\x7f\x08", r"\u0007bell\u0000\u007f\u0008"),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f", r"a\u000bb\u000cc\u0085d\u2028e\u2029f"),
        ("\u202edessap\u2066\u200f\u061c", r"\u202edessap\u2066\u200f\u061c"),
        ("half \ud800", r"half \ud800"),
        ("::error::x", r"\u003a:error::x"),
        ("  ::add-mask::x", r"  \u003a:add-mask::x"),
        ("a\n\t::stop-commands::x\nb", "a\n\t\\u003a:stop-commands::x\nb"),
        ("a\r::error::x", r"a\u000d::error::x"),
        ("\u3000\u200b:\u00ad:error::x", "\u3000\u200b\\u003a\u00ad:error::x"),
        ("say ##[group]x", r"say \u0023#[group]x"),
        ("###[error]x", r"#\u0023#[error]x"),
        ("##vso[task.setvariable variable=PATH]x", r"\u0023#vso[task.setvariable variable=PATH]x"),
        ("##VSO[x ##teamcity[y", r"\u0023#VSO[x \u0023#teamcity[y"),
        ("#\u200b#\u200bvso[x", "\\u0023\u200b#\u200bvso[x"),
    ],
)
def test_what_would_steer_is_written_as_code(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "naïve 👩‍👩‍👧 co\u00adop نمی‌خواهم 🏴\U000e0067\U000e007f",
        "two\n  lines\n\n\tand a tab",
        "std::vector, a::b and tests/test_a.py::test_b[x]",
        "# Heading\n## See [docs](x)\n### More",
        "12:30: now :) :",
        r"already \u001b[0m",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert printable(text) == text


@given(HOSTILE)
def test_nothing_is_a_command_or_a_control(text: str) -> None:
    """No combination leaves a command or control character, and escaping again changes nothing."""
    shown = printable(text)
    assert not _is_command(shown)
    assert not any(
        unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        for character in shown
        if character not in "\n\t"
    )
    assert printable(shown) == shown
    assert "\n" not in one_line(text)


@given(HOSTILE)
def test_json_means_the_same(text: str) -> None:
    written = json.dumps({"said": [text]}, ensure_ascii=False, indent=1)
    assert json.loads(printable(written)) == {"said": [text]}
