"""The spellings of a verdict that models use, each with its reading: a table of replies.

No reading may be wrong. A reply whose reading is not certain is unscored.
"""

import pytest

from pytest_rageval.answers.judge.replies import (
    parse_grade,
    parse_nuggets,
    parse_preference,
    parse_rating,
    parse_support,
    parse_yes_no,
)
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import Nugget

ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u200e\u202a\u00ad"

WORD_FORMS = [
    "{}",
    " {}\n",
    "{}.",
    "{}!",
    "**{}**",
    "**{}.**",
    "__{}__",
    "_{}_",
    "`{}`",
    "'{}'",
    '"{}"',
    "({})",
    "> {}",
    "# {}",
    "${}$",
    "$${}$$",
    "$\\text{{{}}}$",
    "$\\boxed{{{}}}$",
    "\\boxed{{{}}}",
    "\\boxed{{\\text{{{}}}}}",
    "$\\boxed{{\\text{{{}}}}}$",
    "\\({}\\)",
    "\\[{}\\]",
    "\u200b{}",
    "{}\u200b",
    "\ufeff{}",
    "\u2060{}\u200d.",
    "\u00a0{}\u00a0",
    "{}\n\nBoth name the year.",
    "{}.\nBoth name the year.",
    "{}. Both name the year.",
    "Verdict: {}",
    "Verdict:\u00a0{}",
    "**Verdict:** {}",
    "**Verdict: {}**",
    "VERDICT: {}.",
    "Answer: {}",
    "Final answer: {}",
    "My decision: {}",
    "Judgment: {}",
    "Both were read.\nVerdict: {}",
    "Both were read. Verdict: **{}**.",
    "Here is my verdict: {}",
    "My verdict is {}.",
    "The final answer is {}.",
    "### Verdict\n{}",
    "<verdict>{}</verdict>",
    "<answer>\n{}\n</answer>",
    "Verdict: ${}$",
    '{{"verdict": "{}"}}',
    "{{'verdict': '{}'}}",
    "{{'verdict': '{}', 'reason': 'it\\'s in passage 1'}}",
    "{{'reason': \"it's in passage 1\", 'verdict': '{}'}}",
    '{{"verdict": "{}",}}',
    "{{verdict: {}}}",
    '{{"Verdict": "{}."}}',
    '{{"is_correct": "{}"}}',
    '{{"reason": "a\tb\nc", "verdict": "{}"}}',
    '```json\n{{"verdict": "{}"}}\n```',
    "```python\n{{'verdict': '{}'}}\n```",
    '```json\n{{"verdict": "{}"}}',
    'I compared both.\n{{"verdict": "{}"}}',
    '{{"verdict": "{}"}}\nBoth name the year.',
    'Here it is:\n```json\n{{"verdict": "{}"}}\n```\nThat is all.',
]
"""Forms around a word that is a verdict."""

YES = ["yes", "Yes", "YES", "correct", "Correct", "true", "True"]
NO = ["no", "No", "NO", "incorrect", "Incorrect", "not correct", "Not correct", "false", "FALSE"]

YES_NO: dict[str, float | None] = {
    # Reasons
    "Yes, it names the same year.": 1.0,
    "Yes: no word is missing.": 1.0,
    "Yes, no doubt.": 1.0,
    "Yes - no year is missing.": 1.0,
    "Yes (no detail differs)": 1.0,
    "Yes, the answer is no, as in the reference.": 1.0,
    'Yes, both say "no", so they agree.': 1.0,
    "Yes, correct.": 1.0,
    "Yes. True, the month is missing.": 1.0,
    "Yes, but the month is missing.": 1.0,
    "No, though yes would be fair.": 0.0,
    "No, incorrect.": 0.0,
    "No. Reference: yes. Prediction: no.": 0.0,
    "No, the answer says yes and the reference says no year": 0.0,
    "No. The reference is true to the source.": 0.0,
    "Incorrect, the year differs.": 0.0,
    "Incorrect: 1963": 0.0,
    "Not correct, since the year differs.": 0.0,
    "Not\ncorrect": 0.0,
    "False. The year differs.": 0.0,
    "False - the year differs": 0.0,
    "No because the year differs": 0.0,
    "Incorrect because the year differs": 0.0,
    "Verdict: correct, the year is the same": 1.0,
    "Verdict: True, since both say 1962": 1.0,
    "Verdict: not correct (1963)": 0.0,
    "{'verdict': True}": 1.0,
    "{'verdict': False}": 0.0,
    "{'correct': False, 'explanation': None}": 0.0,
    "{'verdict': True,}": 1.0,
    "{'is_relevant': True}": 1.0,
    '{"is_relevant": false}': 0.0,
    '{"correct": "not correct"}': 0.0,
    '{"verdict": "Correct, the year is the same"}': 1.0,
    '{"answer": 1962, "verdict": "no"}': 0.0,
    '{"answer": "1962", "verdict": "no"}': 0.0,
    "Sure!\n{'verdict': 'no', 'reason': 'the year'}": 0.0,
    'The answer cites [1] and [2].\n{"verdict": "yes"}': 1.0,
    '{"verdict": "yes"}\n{"verdict": "yes"}': 1.0,
    "n\u200bo": 0.0,
    "\u202ayes\u202c": 1.0,
    # Concessions and contradictions
    "Yes, it names the year; but no, not the month.": None,
    "Yes, it names the year, but no.": None,
    "Yes, but no.": None,
    "Yes; however, no.": None,
    "Yes. But no, not the month.": None,
    "Yes, no.": None,
    "Yes and no.": None,
    "yes or no": None,
    "yes, or no": None,
    "Yes... no.": None,
    "Yes - wait, no.": None,
    "Yes.\nActually, no.": None,
    "Yes.\n\nHmm.\n\nNo": None,
    "Yes. Incorrect.": None,
    "Yes: incorrect": None,
    "Yes, the year. No, the month. So it is open.": None,
    "Yes in part; overall the verdict is no.": None,
    "Yes, the year matches, but overall, my answer is no.": None,
    "Yes, the year matches, so the verdict is no.": None,
    "No, the month differs; but yes, the year is right.": None,
    "No, but yes.": None,
    "No. Wait, yes.": None,
    "No! Yes!": None,
    "No (yes?)": None,
    "no: yes": None,
    "Verdict: yes, but no, not entirely": None,
    "Verdict: yes\nVerdict: no": None,
    "Verdict: correct\nVerdict: incorrect": None,
    '{"verdict": "yes, but no, not entirely"}': None,
    '{"verdict": "yes"}\nBut no, it is not.': None,
    '{"verdict": "yes"}\nNo.': None,
    'No.\n{"verdict": "yes"}': None,
    'Verdict: no\n{"verdict": "yes"}': None,
    "{'verdict': 'yes', 'answer': 'no'}": None,
    "{'verdict': 'yes', 'verdict': 'no'}": None,
    '{"verdict": "yes"}\n{"verdict": "no"}': None,
    '```json\n{"verdict": "yes"}\n```\n```json\n{"verdict": "no"}\n```': None,
    "{'correct': True, 'is_correct': False}": None,
    # Not a verdict, or not a certain one
    "True, the year is right, but the month differs.": None,
    "Correct, the reference says 1962, and the answer 1963.": None,
    "Correct: 1962. Given: 1963.": None,
    "Correct - 1962, given - 1963": None,
    "Correct answer: 1962": None,
    "Correct answer: yes": None,
    "True\n\nFalse": None,
    "The correct answer is 1962.": None,
    "Correctly dated": None,
    "Not entirely correct": None,
    "Partially correct": None,
    "Mostly correct.": None,
    "not incorrect": None,
    "Not incorrect.": None,
    "not yes": None,
    "Not true or false": None,
    "correct/incorrect": None,
    "true/false": None,
    "True or false?": None,
    "The reference says:\nTrue": None,
    "The reference says:\n**Incorrect**": None,
    "It is correct": None,
    "~~yes~~ no": None,
    "half yes": None,
    "yes-ish": None,
    "yesno": None,
    "$yes$ and $no$": None,
    "$yes$ $no$": None,
    "\\boxed{yes} or \\boxed{no}": None,
    "yes\u200bno": None,
    '{"incorrect": true}': None,
    '{"verdict": 1}': None,
    '{"verdict": 0}': None,
    '{"verdict": "1"}': None,
    '{"verdict": NaN}': None,
    '{"verdict": undefined}': None,
    '{"verdict": None}': None,
    '{"verdict": "maybe"}': None,
    '{"verdict": }': None,
    '{"verdict": "yes"': None,
    '{"verdict": "yes"}}': None,
    '{"verdict": "yes" or "no"}': None,
    "{'verdict': yes/no}": None,
    "{'verdict': 'yes' 'no'}": None,
    '{"verdict": ["yes"]}': None,
    '{"nested": {"verdict": "yes"}}': None,
    '[{"verdict": "yes"}]': None,
    'It says {"verdict": "yes"}': None,
    'It says {"verdict": "yes"} and goes on.': None,
    'It says\n{"verdict": "yes"}\nand goes on.': None,
    'He wrote "{"verdict": "yes"}"': None,
    '{"reason": "it quotes {"verdict": "yes"}': None,
    '{"reason": "it says "no" twice", "verdict": "yes"}': None,
    '{"reason": "the text ends ", "verdict": "yes", "x": " so", "verdict": "no"}': None,
}

RATINGS: dict[str, float | None] = {
    '{"explanation": "Fair.", "grade": 4}': 4.0,
    '{"explanation": "Fair.", "grade": "4"}': 4.0,
    '{"explanation": "Fair.", "grade": 4.0}': 4.0,
    '{"explanation": "Fair.", "grade": "4.0"}': 4.0,
    '{"explanation": "Fair.", "grade": "4/5"}': 4.0,
    '{"explanation": "Fair.", "grade": "4 out of 5"}': 4.0,
    '{"explanation": "Fair.", "grade": "**4**"}': 4.0,
    '{"explanation": "Fair.", "grade": " 4 "}': 4.0,
    '{"explanation": "Fair.", "grade": "4 - one slip"}': 4.0,
    '{"explanation": "Fair.", "grade": 4e0}': 4.0,
    '{"explanation": "Fair.", "Grade": 4}': 4.0,
    '{"explanation": "Fair.", "score": 4}': 4.0,
    '{"Explanation": "Fair.", "GRADE": 4}': 4.0,
    '{"explanation": "Fair.", "grade": 4,}': 4.0,
    '{"explanation": "Fair.", "grade": 4 , }': 4.0,
    "{'explanation': 'Fair.', 'grade': 4}": 4.0,
    "{'explanation': \"It's fair.\", 'grade': 4}": 4.0,
    "{'explanation': 'It\\'s fair.', 'grade': 4}": 4.0,
    "{'explanation': 'Fair.', 'grade': 4, 'sure': True, 'note': None}": 4.0,
    "{explanation: 'Fair.', grade: 4}": 4.0,
    '{"explanation": "Fair,\tand\nso on.", "grade": 4}': 4.0,
    '{"explanation": "Fair\x00 \x1f.", "grade": 4}': 4.0,
    '{"explanation": "in \\_italics\\_ and \\(math\\)", "grade": 4}': 4.0,
    '{"explanation": "\\frac{1}{2} of it", "grade": 4}': 4.0,
    '{"explanation": "It says {\\"grade\\": 5}.", "grade": 4}': 4.0,
    '{"explanation": "I would say grade 2 or 5.", "grade": 4}': 4.0,
    '\ufeff{\u200b"explanation": "Fair.", \u00a0"grade": 4}': 4.0,
    'Here it is: {"explanation": "Fair.", "grade": 4}': 4.0,
    'Sure! Here is my rating:\n{"explanation": "Fair.", "grade": 4}': 4.0,
    'On a scale from 1 to 5, I rate this answer:\n\n{"explanation": "Fair.", "grade": 4}': 4.0,
    'The answer names 2 of 3 points in [1].\n{"explanation": "Fair.", "grade": 4}': 4.0,
    'My grade is 4.\n{"explanation": "Fair.", "grade": 4}': 4.0,
    '{"explanation": "Fair.", "grade": 4}\nI hope that this helps.': 4.0,
    '{"explanation": "Fair.", "grade": 4}.': 4.0,
    '{"explanation": "Fair.", "grade": 4}\n\nGrade: 4': 4.0,
    'x\n{"explanation": "Fair.", "grade": 4}\n{"explanation": "Fair.", "grade": 4}': 4.0,
    '```\n{"explanation": "Fair.", "grade": 4}\n```': 4.0,
    '```json\n{"explanation": "Fair.", "grade": 4}\n```': 4.0,
    '```json\n{"explanation": "Fair.", "grade": 4}': 4.0,
    '```json {"explanation": "Fair.", "grade": 4} ```': 4.0,
    '```JSON\r\n{"explanation": "Fair.", "grade": 4}\r\n```\r\n': 4.0,
    '~~~json\n{"explanation": "Fair.", "grade": 4}\n~~~': 4.0,
    'Here:\n```python\n{\'explanation\': "Fair.", \'grade\': 4}\n```\nThat is all.': 4.0,
    'Here:\n```json\n{"explanation": "Fair.", "grade": 4}': 4.0,
    '{"explanation": "Fair.", "grade": 4}\n```': 4.0,
    '`{"explanation": "Fair.", "grade": 4}`': 4.0,
    '**{"explanation": "Fair.", "grade": 4}**': 4.0,
    'json\n{"explanation": "Fair.", "grade": 4}': 4.0,
    '{"explanation": "Fair.", "grade": 5.0}': 5.0,
    '{"explanation": "Poor.", "grade": "1"}': 1.0,
    # Two grades
    '{"explanation": "Fair.", "grade": 4, "grade": 5}': None,
    '{"explanation": "Fair.", "grade": 4, "Grade": 5}': None,
    '{"explanation": "Fair.", "grade": 4, "score": 5}': None,
    '{"explanation": "Fair.", "grade": "4 or 5"}': None,
    '{"explanation": "Fair.", "grade": "4, or 5"}': None,
    '{"explanation": "Fair.", "grade": "4-5"}': None,
    '{"explanation": "Fair.", "grade": [4, 5]}': None,
    '{"explanation": "Fair.", "grade": 4} {"explanation": "Fair.", "grade": 5}': None,
    '```json\n{"explanation": "Fair.", "grade": 4}\n```\nor\n```json\n{"explanation": "x", "grade": 5}\n```': None,
    'Grade: 3\n{"explanation": "Fair.", "grade": 4}': None,
    '3\n{"explanation": "Fair.", "grade": 4}': None,
    'I would give it a 3.\n{"explanation": "Fair.", "grade": 4}': None,
    'It deserves 3 points:\n{"explanation": "Fair.", "grade": 4}': None,
    '{"explanation": "Fair.", "grade": 4}\nOn second thought, make it 3.': None,
    '{"explanation": "Fair.", "grade": 4}\nNo, 3.': None,
    '{"explanation": "Fair.", "grade": 4}\nActually 5.': None,
    '{"explanation": "Fair.", "grade": 4}\nScore: 2': None,
    # No grade, or not a certain one
    '{"explanation": "Fair.", "grade": 0}': None,
    '{"explanation": "Fair.", "grade": 6}': None,
    '{"explanation": "Fair.", "grade": -4}': None,
    '{"explanation": "Fair.", "grade": 4.5}': None,
    '{"explanation": "Fair.", "grade": "4.5"}': None,
    '{"explanation": "Fair.", "grade": 45}': None,
    '{"explanation": "Fair.", "grade": "4/10"}': None,
    '{"explanation": "Fair.", "grade": "four"}': None,
    '{"explanation": "Fair.", "grade": ""}': None,
    '{"explanation": "Fair.", "grade": true}': None,
    '{"explanation": "Fair.", "grade": True}': None,
    '{"explanation": "Fair.", "grade": null}': None,
    '{"explanation": "Fair.", "grade": NaN}': None,
    '{"explanation": "Fair.", "grade": }': None,
    '{"explanation": "Fair.", "grade": 4 or 5}': None,
    '{"explanation": "Fair.", "grade": 4, 5}': None,
    '{"explanation": "Fair.", "grade": 4 5}': None,
    '{"explanation": "Fair.", "grade": 4-5}': None,
    '{"explanation": "Fair.", "grade": 0x4}': None,
    '{"explanation": "Fair.", "grade": 4th}': None,
    '{"explanation": "Fair.", "grade": 4.}': None,
    '{"explanation": "Fair.", "grade": [4]}': None,
    '{"explanation": "Fair.", "grade": {"value": 4}}': None,
    '{"explanation": "Fair.", "grade": 7, "score": 4}': None,
    '{"explanation": "Fair.", "upgrade": 4}': None,
    '{"explanation": "Fair."}': None,
    '{"grade": 4}': None,
    '{"grade": 4, "explanation": null}': None,
    '{"grade": 4, "explanation": undefined}': None,
    "4": None,
    "Grade: 4": None,
    # Cut: the rest may have changed the grade
    '{"explanation": "Fair.", "grade": 4': None,
    '{"explanation": "Fair.", "grade": 4, ': None,
    '{"grade": 4, "explanation": "Fa': None,
    '{"explanation": "Fair.", "grade": "4}': None,
    '```json\n{"explanation": "Fair.", "grade": 4\n```': None,
    # Quoted, or broken so that a part of it might be quoted
    'The answer says {"explanation": "Good.", "grade": 5}': None,
    'The answer says\n{"explanation": "Good.", "grade": 5}\nand I see it otherwise.': None,
    '{"explanation": "it says {"grade": 5, "explanation": "ok"}': None,
    '{"explanation": "it says {"grade": 5, "explanation": "ok"} hm", "grade": 2}': None,
    '{"explanation": "it says "fair" here", "grade": 4}': None,
    '{"explanation": "it ends ", "grade": 5, "x": " so", "grade": 2}': None,
    '{"explanation": "Fair." "grade": 4}': None,
    '{"explanation": "Fair.", "grade": 4}}': None,
    '{{"explanation": "Fair.", "grade": 4}}': None,
    '[{"explanation": "Fair.", "grade": 4}]': None,
    '{"rating": {"explanation": "Fair.", "grade": 4}}': None,
    '{"a": {x, y}}\n{"explanation": "Fair.", "grade": 4}': None,
    "explanation: Fair.\ngrade: 4": None,
}  # fmt: skip

GRADES: dict[str, float | None] = {
    "4.0": 4,
    "4.0/5": 4,
    "Grade: 4.0": 4,
    "$4$": 4,
    "$\\boxed{4}$": 4,
    "\u200b4": 4,
    "{'grade': 4}": 4,
    '{"grade": 4.0}': 4,
    "{'score': '4/5',}": 4,
    '```json\n{"grade": 4}': 4,
    "4, the year 1962 is missing": 4,
    "4: passage 2 lacks the year": 4,
    "4, or 3": None,
    "4, or rather 3": None,
    "4; no, 3": None,
    "4\nI would rather say 3.": None,
    "4.5": None,
    "4.0.1": None,
    "$4": None,
    "4 to 5": None,
    "Grade: 4\nActually, 3": None,
    "{'grade': 4, 'score': 3}": None,
}

PREFERENCES: dict[str, float | None] = {
    "{'rating': 2}": 2,
    '{"rating": 2.0}': 2,
    '{"rating": "2",}': 2,
    "\u200b2": 2,
    "Answer 1 errs.\n{'rating': 2}": 2,
    "{'rating': 2} {'rating': 1}": None,
    '{"rating": 2.5}': None,
    '{"rating": [2]}': None,
}

SUPPORT: dict[str, tuple[float, ...] | None] = {
    '["support", "not_support"]': (1.0, 0.0),
    "['support', 'not_support',]": (1.0, 0.0),
    '["support",\t"not\\_support"]': (1.0, 0.0),
    "[`support`, `not_support`]": (1.0, 0.0),
    "[support, not support]": (1.0, 0.0),
    "[\"sup\u200bport\", 'Not Support']": (1.0, 0.0),
    '{"labels": ["support", "not_support"]}': (1.0, 0.0),
    '{"a": {"labels": ["support", "not_support"]}}': (1.0, 0.0),
    '```json\n["support", "not_support"]': (1.0, 0.0),
    'Of [1] and [2]: ["support", "not_support"] as said.': (1.0, 0.0),
    '["support", "not_support"] or ["not_support", "support"]': None,
    '["support", "not_support"': None,
    '["support" "not_support"]': None,
    '["support", "not_support", null]': None,
    '["support", "not_support", "maybe"]': None,
    '["support", ["not_support", "support"], "support"]': (0.0, 1.0),
}

NUGGETS: dict[str, bool] = {
    '[{"text": "a", "vital": true}]': True,
    "[{'text': 'a', 'vital': True},]": True,
    '[{"text": "a", "vital": "true"}]': True,
    "{'nuggets': [{'text': 'a', 'vital': True}]}": True,
    'The nuggets are:\n[{"text": "a", "vital": true}]\nThat is all.': True,
    'From [1]:\n```json\n[{"text": "a", "vital": true}]': True,
    '[{"text": "a", "vital": true}]\n[{"text": "b", "vital": true}]': False,
    '[{"text": "a", "vital": "perhaps"}]': False,
    '[{"text": "a", "vital": 1}]': False,
    '[{"text": "a", "vital": true}': False,
    '{"text": "a", "vital": true}': False,
}


def _read(parse, reply):
    try:
        return parse(reply)
    except (Unscored, ValueError):
        return None


@pytest.mark.parametrize("form", WORD_FORMS)
def test_a_word_in_any_form_has_its_meaning(form):
    words = dict.fromkeys(YES, 1.0) | dict.fromkeys(NO, 0.0)
    assert {word: _read(parse_yes_no, form.format(word)) for word in words} == words


@pytest.mark.parametrize("position", range(4))
def test_characters_without_width_change_nothing(position):
    for mark in ZERO_WIDTH:
        assert parse_yes_no(f"{'no'[:position]}{mark}{'no'[position:]}") == 0.0


@pytest.mark.parametrize(("reply", "value"), YES_NO.items())
def test_the_table_of_yes_and_no(reply, value):
    assert _read(parse_yes_no, reply) == value


@pytest.mark.parametrize(("reply", "grade"), RATINGS.items())
def test_the_table_of_ratings(reply, grade):
    assert _read(lambda text: parse_rating(text).value, reply) == grade


@pytest.mark.parametrize(("reply", "grade"), GRADES.items())
def test_the_table_of_grades(reply, grade):
    assert _read(lambda text: 4 * parse_grade(text) + 1, reply) == grade


@pytest.mark.parametrize(("reply", "preferred"), PREFERENCES.items())
def test_the_table_of_preferences(reply, preferred):
    assert _read(parse_preference, reply) == preferred


@pytest.mark.parametrize(("reply", "labels"), SUPPORT.items())
def test_the_table_of_labels(reply, labels):
    assert _read(parse_support, reply) == labels


@pytest.mark.parametrize(("reply", "is_read"), NUGGETS.items())
def test_the_table_of_nuggets(reply, is_read):
    assert _read(parse_nuggets, reply) == ((Nugget("a"),) if is_read else None)
