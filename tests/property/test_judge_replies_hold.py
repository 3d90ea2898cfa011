"""Properties of the parsing of a judge's replies: noise around a verdict never changes it into another one."""

import contextlib
import json
import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.answers.judge.replies import parse_grade, parse_rating, parse_support, parse_yes_no
from pytest_rageval.answers.judge.reply_json import MAX_DEPTH, find_json
from pytest_rageval.core.errors import Unscored

SCRAPS = [
    *"{}[]:,.\"'`*_$#>()\\\n\t\0 \u200b\u00a0",
    *(
        "```",
        "```json\n",
        "\n```\n",
        "~~~",
        "json",
        "\r\n",
        "\\n",
        '\\"',
        "\\u00e9",
        "\\(",
        "<think>",
        "</think>",
    ),
    *("null", "None", "true", "False", "NaN", "undefined", "0", "6", "-", "4.5", "2024", "1e9", "[1]", "#1"),
    *(
        "grade",
        '"grade"',
        "'grade':",
        '"score": ',
        "explanation",
        '"explanation": "',
        "Sure! ",
        "Here is my rating:",
    ),
    *(
        "The passage ",
        "names the year. ",
        "However, ",
        "but ",
        "It's ",
        'He said "so". ',
        "\n- ",
        "the ",
        "a",
    ),
]
"""Pieces of text without a grade from 1 to 5, and without a yes or a no."""

noise = st.lists(st.sampled_from(SCRAPS), max_size=8).map("".join)
grades = st.integers(1, 5)
spellings = st.sampled_from(["{}", '"{}"', "'{}'", "{}.0", '"{}/5"', " {}", "{},", '"**{}**"'])
objects = st.sampled_from(
    [
        '{{"explanation": "{noise}", "grade": {grade}}}',
        "{{'explanation': '{noise}', 'grade': {grade}}}",
        '{{"grade": {grade}, "explanation": "{noise}"}}',
        '```json\n{{"explanation": "{noise}", "grade": {grade}}}\n```',
        '{{"explanation": "{noise}", "grade": {grade}',
        '{{{noise}"explanation": "so", "grade": {grade}}}',
        '{{"explanation": "so", {noise}"grade": {grade}}}',
    ]
)


@given(objects, spellings, grades, st.tuples(noise, noise, noise))
def test_a_rating_in_noise_is_that_grade_or_unscored(form, spelling, grade, noises):
    """Noise before, after and inside a JSON object does not change its grade; at most there is none."""
    before, inside, after = noises
    reply = before + form.format(noise=inside, grade=spelling.format(grade)) + after
    try:
        assert parse_rating(reply).value == grade
    except ValueError as error:
        assert str(error)  # noqa: PT017 - unscored is the other outcome


@given(
    st.sampled_from(["{}", "Grade: {}", "**{}**", "Score: {}/5", '{{"grade": {}}}', "${}$"]),
    grades,
    noise,
    noise,
)
def test_a_grade_in_noise_is_that_grade_or_unscored(form, grade, before, after):
    """The same holds for a grade without an explanation."""
    with contextlib.suppress(Unscored):
        assert parse_grade(f"{before} {form.format(grade)} {after}") == (grade - 1) / 4


words = st.sampled_from(
    [("yes", 1.0), ("no", 0.0), ("correct", 1.0), ("incorrect", 0.0), ("not correct", 0.0)]
)
values = st.sampled_from(
    ["{}", "Verdict: {}", '{{"verdict": "{}"}}', "{{'verdict': '{}'}}", "**{}**.", "\\boxed{{{}}}"]
)


def _without_truth(text):
    """Return noise without the words and keys that are verdicts of their own."""
    return re.sub("true|false", "", text, flags=re.IGNORECASE)


@given(values, words, noise.map(_without_truth), noise.map(_without_truth))
def test_a_verdict_in_noise_is_not_inverted(form, word, before, after):
    """The same holds for yes and no."""
    with contextlib.suppress(Unscored):
        assert parse_yes_no(f"{before}{form.format(word[0])}{after}") == word[1]


@given(
    values,
    values,
    st.sampled_from([("yes", "no"), ("no", "yes"), ("correct", "incorrect"), ("false", "true")]),
)
def test_two_different_verdicts_are_none(first, second, both):
    for between in ("\n", "\n\nActually, I see it otherwise.\n", "\nHowever,\n\n"):
        try:
            value = parse_yes_no(first.format(both[0]) + between + second.format(both[1]))
        except Unscored:
            value = None
        assert value is None


texts = st.text("abé'\"\\{}[],: \n\t\U0001f600", max_size=8)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=6,
)
containers = st.lists(trees, max_size=3) | st.dictionaries(texts, trees, max_size=3)


@given(
    containers, st.sampled_from([json.dumps, lambda value: json.dumps(value, ensure_ascii=False, indent=1)])
)
def test_json_is_read_as_json(value, write):
    """Whatever is JSON has the value that JSON gives it."""
    assert [found.value for found in find_json(write(value))] == [value]


@given(containers)
def test_a_literal_of_python_is_read_as_python(value):
    """Whatever Python prints for lists and dictionaries has the value that it was printed from."""
    assert [found.value for found in find_json(repr(value))] == [value]


@given(containers, st.data())
def test_a_part_of_json_is_no_object(value, data):
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert all(found.end <= len(cut) for found in find_json(cut))
    assert all(found.start > 0 for found in find_json(cut))


@given(noise)
def test_any_noise_is_read_or_unscored(text):
    """No reply raises another error than that it is unscored."""
    for parse in (parse_yes_no, parse_grade, parse_support):
        with contextlib.suppress(Unscored):
            parse(text)


def test_a_deep_value_is_not_read():
    """A value that is nested too deeply is not read, and takes no stack."""
    assert find_json("[" * 10_000) == []
    assert len(find_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)) == 1
    assert not any(found.start == 0 for found in find_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)))
