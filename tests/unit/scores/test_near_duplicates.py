"""Detection of cuts and versions of one text, and of similar questions without a comparison of all pairs."""

import itertools
import random
import time

import pytest

from pytest_rageval.scores.near_duplicates import near_duplicate, shingle_overlap, similar_questions

TEXT = (
    "The Moon orbits Earth at an average distance of 384,400 km, about 30 times the diameter of Earth. "
    "Tidal forces between the two have synchronised its rotation with its orbit, so that the same side "
    "always faces us. It was formed 4.51 billion years ago, not long after Earth, and the most widely held "
    "explanation is that it came of the debris left after a giant impact with a body the size of Mars."
)
WORDS = TEXT.split()
SAME_TOPIC = (
    "Mars has two small moons, Phobos and Deimos, which are much closer to it than the Moon is to Earth. "
    "Tidal forces slow Phobos, so that it will break up in about 50 million years. How they were formed is "
    "not known; they may be captured asteroids, or have come of the debris of an impact."
)


def test_a_worked_example() -> None:
    """Each text has four shingles of three words, and both have the-cat-sat and cat-sat-on: the overlap is 2/4."""
    assert shingle_overlap("The cat sat on the mat.", "the cat, sat on MY mat") == 2 / 4


@pytest.mark.parametrize(
    "other",
    [
        TEXT.upper().replace(",", " ;").replace(" ", "\n"),
        TEXT.replace("4.51 billion", "4.53 billion").replace("average", "mean").replace("It was", "It is"),
        " ".join(WORDS[: len(WORDS) // 2]),
        " ".join(WORDS[20:30]),
        "Heading\n" + " ".join(WORDS[30:]) + " " + SAME_TOPIC,
    ],
    ids=["typesetting", "another version", "its first half", "one clause", "a later cut"],
)
def test_cuts_and_versions_are_found(other: str) -> None:
    assert near_duplicate(TEXT, other)
    assert near_duplicate(other, TEXT)


@pytest.mark.parametrize(
    "other",
    [SAME_TOPIC, "Earth", "the size of Mars", "Tidal forces between the two", "", "?!"],
    ids=["one topic", "a word", "a phrase", "a longer phrase", "nothing", "no words"],
)
def test_other_texts_are_not(other: str) -> None:
    assert not near_duplicate(TEXT, other)
    assert not near_duplicate(other, TEXT)


def test_two_halves_are_no_duplicates_and_overlapping_cuts_are() -> None:
    half = len(WORDS) // 2
    first, middle = " ".join(WORDS[:half]), " ".join(WORDS[half // 2 : half // 2 + half])
    assert not near_duplicate(first, " ".join(WORDS[half:]))
    assert 0.4 < shingle_overlap(first, middle) < 0.5


@pytest.mark.parametrize(("a", "b"), [("Yes.", "yes"), ("New York", "new york!"), ("東京", "東京。")])
def test_short_texts_are_duplicates_when_their_words_are_equal(a: str, b: str) -> None:
    """A text with fewer words than a shingle has one shingle of all its words."""
    assert shingle_overlap(a, b) == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Größe und Gewicht der Straße", "GRÖSSE UND GEWICHT DER STRASSE"),
        ("ｆｕｌｌ ｗｉｄｔｈ ｌｅｔｔｅｒｓ", "full width letters"),
        ("東京は日本の首都であり", "東京は、日本の首都であり"),
        ("Москва — столица России", "москва столица россии"),
    ],
)
def test_words_of_any_script_are_compared(a: str, b: str) -> None:
    assert shingle_overlap(a, b) == 1.0


def test_characters_are_words_in_scripts_without_spaces() -> None:
    """In scripts without spaces, characters are compared: two cuts of a Japanese sentence of 40 characters match."""
    text = "月は地球の周りを公転する唯一の天然の衛星であり太陽系の衛星の中で五番目に大きい天体である"
    assert near_duplicate(text[:30], text[10:])


def test_the_threshold_can_be_moved() -> None:
    a, b = "The cat sat on the mat.", "the cat sat on my mat"
    assert near_duplicate(a, b, threshold=0.5)
    assert not near_duplicate(a, b, threshold=0.51)


def by_every_pair(questions: list[str], threshold: float) -> list[list[int]]:
    groups = [{i} for i in range(len(questions))]
    for i, j in itertools.combinations(range(len(questions)), 2):
        if near_duplicate(questions[i], questions[j], threshold):
            one, other = (next(group for group in groups if k in group) for k in (i, j))
            if one is not other:
                groups.remove(other)
                one |= other
    return sorted(sorted(group) for group in groups if len(group) > 1)


@pytest.mark.parametrize("threshold", [0.35, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_finds_what_every_pair_gives(threshold: float, seed: int) -> None:
    """The result equals brute force, also for questions of one word, of none, and of more than twenty shingles."""
    rng = random.Random(seed)
    questions = [
        " ".join(rng.choices(["what", "is", "the", "name", "of", "a", "city"], k=n % 12)) for n in range(150)
    ]
    for n in range(20):
        words = rng.choices("abcdefghijklmnopqrstuvwxyz", k=24 + n)
        questions += [" ".join(words), " ".join(words[: rng.randint(3, 24)])]
    rng.shuffle(questions)
    groups = similar_questions(questions, threshold)
    assert groups == by_every_pair(questions, threshold)
    assert groups


def test_ten_thousand_questions_of_one_form_take_seconds() -> None:
    """Ten thousand questions that all resemble each other are grouped in less than 30 seconds of CPU time."""
    began = time.process_time()
    assert len(similar_questions([f"What is the code of item-{n}?" for n in range(10_000)])) == 1
    assert time.process_time() - began < 30
