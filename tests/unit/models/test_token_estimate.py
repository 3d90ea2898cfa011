"""The estimated number of a text's tokens: its accuracy and its bounds."""

import base64
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_rageval.models.budget import FRAME_TOKENS, REPLY_TOKENS, count_tokens, prompt_tokens

# Short texts: a run of forty letters and digits is counted by another rule.
WORDS = st.text(st.sampled_from("abcxyzABC019 \n\t.,;:!-=_'\"(){}äßñđếбв中文あ한ไ😀’–"), max_size=30)


def test_an_empty_text_and_no_messages_have_none() -> None:
    assert (count_tokens(""), prompt_tokens([])) == (0, 0)


@pytest.mark.parametrize(
    ("text", "minimum", "maximum"),
    [
        ("The cat sat on the mat.", 7, 7),
        ("Hello world, how are you?", 7, 8),
        ("internationalization", 2, 4),
        ("getUserNameFromHTTPRequest", 6, 9),
        ("1234567890", 4, 10),
        ("    return self._value\n", 5, 8),
        ('{"id": 17, "name": "Ada"}', 11, 16),
        ("=" * 80, 1, 6),
        ("\n" * 20, 1, 3),
        (" " * 200, 1, 13),
        ("a" * 500, 60, 130),
        ("Привет, мир!", 4, 8),
        ("自然语言处理很有趣。", 6, 14),
        ("สวัสดีชาวโลก", 4, 12),
        ("नमस्ते दुनिया", 4, 12),
        ("👍🏽🎉", 3, 6),
    ],
)
def test_a_text_has_about_as_many_as_tokenizers_say(text: str, minimum: int, maximum: int) -> None:
    """The estimate is within a range around the counts of the tokenizers of Gemma 3 and o200k."""
    assert minimum <= count_tokens(text) <= maximum


@pytest.mark.parametrize("size", [30, 300, 3000])
def test_base64_has_a_token_for_each_one_or_two_characters(size: int) -> None:
    """Base64 has 0.6 to 0.9 tokens per character, since no vocabulary contains its pieces."""
    text = base64.b64encode(random.Random(size).randbytes(size)).decode().rstrip("=")
    assert 0.6 * len(text) <= count_tokens(text) <= 0.9 * len(text)


def test_a_hash_in_hexadecimal_is_no_word() -> None:
    text = random.Random(0).randbytes(32).hex()
    assert 32 <= count_tokens(text) <= 64
    assert count_tokens(f"sha256 ({text}).") == count_tokens("sha256 ().") + count_tokens(text)


def test_a_long_word_is_none() -> None:
    """A long word of letters only is counted as a word, not like base64 or a hash."""
    assert count_tokens("pneumonoultramicroscopicsilicovolcanoconiosis") <= 15


@given(st.text())
@example("\x7f")
@example("\u200b")
@example("\ud800")
@example("\U0010ffff")
def test_it_is_never_negative_nor_beyond_two_a_character(text: str) -> None:
    """The estimate is at least 1 for a text that is not empty, and at most two tokens per character."""
    assert bool(text) <= count_tokens(text) <= max(1, 2 * len(text))


@given(WORDS, WORDS)
def test_texts_cost_together_what_they_cost_apart(left: str, right: str) -> None:
    """The difference is larger for a run of letters and digits, which is counted by another rule."""
    apart = count_tokens(left) + count_tokens(right)
    together = count_tokens(f"{left}\n{right}")
    assert apart - 3 <= together <= apart + 3


@given(WORDS, WORDS)
def test_more_text_costs_no_less(left: str, right: str) -> None:
    """Appending a text does not reduce the estimate, except by one token where the texts meet."""
    assert count_tokens(left + right) >= count_tokens(left) - 1


def test_a_text_repeated_costs_as_often() -> None:
    text = "The cat, aged 12, sat on Müller’s mat. "
    single, repeated = count_tokens(text), count_tokens(text * 100)
    assert repeated == pytest.approx(100 * single, rel=0.05)


def test_a_prompt_has_its_contents_and_their_framing() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    contents = count_tokens("Be brief.") + count_tokens("Why?")
    assert prompt_tokens(messages) == contents + 2 * FRAME_TOKENS + REPLY_TOKENS


@pytest.mark.parametrize("content", [None, "", [], [{"type": "image_url", "image_url": {"url": "data:"}}], 7])
def test_a_message_without_text_has_its_framing(content: object) -> None:
    assert prompt_tokens([{"role": "user", "content": content}]) == FRAME_TOKENS + REPLY_TOKENS
    assert prompt_tokens([{"role": "assistant"}]) == FRAME_TOKENS + REPLY_TOKENS


def test_a_content_in_parts_has_the_tokens_of_all() -> None:
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url"},
        {"type": "text", "text": " this?"},
        "Say.",
    ]
    whole = prompt_tokens([{"role": "user", "content": "What is this?Say."}])
    assert prompt_tokens([{"role": "user", "content": parts}]) == whole


def test_words_are_counted_alone_as_in_the_text() -> None:
    """A carriage return is no token, but a text with one is not split into words first."""
    drawn = random.Random(3)
    parts = [
        "How",
        "internationalisation",
        "ABCDe",
        "12.5",
        "…",
        "==",
        "naïve",
        "\n",
        "[2]",
        "x=1;",
        "\t",
        "----",
    ]
    for _ in range(500):
        text = "".join(
            drawn.choice(parts) + drawn.choice(["", " ", " ", " "]) for _ in range(drawn.randint(1, 30))
        ).strip(" ")
        assert count_tokens(text) == count_tokens(f"{text}\r"), repr(text)
