"""Detection of near-duplicate questions without a comparison of all pairs."""

import itertools
import random
import time

import pytest

from pytest_rageval.scores.near_duplicates import near_duplicate, similar_questions


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
