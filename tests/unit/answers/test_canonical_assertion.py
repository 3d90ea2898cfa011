"""A name or a figure that is only mentioned is no answer, and one that is asserted in many words is."""

import pytest

from pytest_rageval.answers.canonical import states, states_any


@pytest.mark.parametrize(
    ("question", "reference", "prediction"),
    [
        pytest.param(
            "Which lake is the deepest?", "Baikal", "Tanganyika is less cold than Baikal", id="than"
        ),
        pytest.param(
            "Which metal is used for wires?", "silver", "a metal inferior to silver", id="inferior to"
        ),
        pytest.param("Who wrote Emma?", "Jane Austen", "A novelist who was taught by Jane Austen", id="who"),
        pytest.param(
            "Who wrote Emma?", "Jane Austen", "Mary Shelley, who never met Jane Austen", id="name, who"
        ),
        pytest.param("In which country is Ghent?", "Belgium", "in a country that adjoins Belgium", id="that"),
        pytest.param(
            "Who wrote Emma?", "Jane Austen", "Either Mary Shelley or Jane Austen", id="either, last"
        ),
        pytest.param(
            "Who wrote Emma?", "Jane Austen", "Either Jane Austen or Mary Shelley.", id="either, first"
        ),
        pytest.param("Who wrote Emma?", "Jane Austen", "Jane Austen or Mary Shelley", id="names with or"),
        pytest.param("What do pandas eat?", "bamboo", "Leaves, or perhaps bamboo", id="or perhaps"),
        pytest.param("What do pandas eat?", "bamboo", "Perhaps leaves, perhaps bamboo.", id="guesses"),
        pytest.param("How many legs has a spider?", "8", "Maybe 6, maybe 8.", id="guessed figures"),
        pytest.param(
            "What is the capital of Turkey?",
            "Ankara",
            "The capital of Turkey is Istanbul. Ankara lies to the east.",
            id="another sentence answers",
        ),
        pytest.param(
            "What is the capital of Turkey?",
            "Ankara",
            "The capital of Turkey is Istanbul, which has grown beyond Ankara.",
            id="another clause answers",
        ),
        pytest.param(
            "How many legs does an adult spider have?",
            "8",
            "An adult spider has six legs; a young crab has 8.",
            id="another figure",
        ),
        pytest.param("Who wrote Emma?", "Jane Austen", "Austen, Cassandra", id="another given name behind"),
        pytest.param("Who wrote Emma?", "Jane Austen", "Cassandra Leigh-Austen", id="a double name"),
    ],
)
def test_a_mention_is_no_answer(question: str, reference: str, prediction: str) -> None:
    """Comparisons, relative clauses about another answer, several guesses, and what stands beside another answer."""
    assert not states(prediction, reference, question=question)


@pytest.mark.parametrize(
    ("question", "reference", "prediction"),
    [
        pytest.param("Which lake is the deepest?", "Baikal", "No other than Baikal", id="no other than"),
        pytest.param(
            "Which lake is the deepest?", "Baikal", "Baikal is deeper than Tanganyika", id="subject"
        ),
        pytest.param(
            "Mars is smaller than which planet?", "Earth", "It is smaller than Earth", id="asked with than"
        ),
        pytest.param(
            "Who wrote Emma?", "Jane Austen", "The novelist who wrote it is Jane Austen", id="who is"
        ),
        pytest.param(
            "Who wrote Emma?",
            "Jane Austen",
            "A novel that was written by Jane Austen",
            id="word of the question",
        ),
        pytest.param(
            "Who was Eric Blair?", "George Orwell", "A novelist who used the name George Orwell", id="named"
        ),
        pytest.param(
            "Where is Emma set?",
            "Surrey",
            "It is a novel which takes place in Surrey",
            id="of the question's subject",
        ),
        pytest.param(
            "Where is the tower?", "Pisa, Italy", "In a city which is in Italy, Pisa", id="which is"
        ),
        pytest.param("What do pandas eat?", "bamboo", "Maybe bamboo", id="one guess"),
        pytest.param("What do pandas eat?", "bamboo or grass", "either bamboo or grass", id="or is wanted"),
        pytest.param(
            "What is the capital of Peru?", "Lima", "Lima, or Ciudad de los Reyes", id="another name"
        ),
        pytest.param("What do pandas eat?", "bamboo", "20 kg or so of bamboo", id="or so"),
        pytest.param(
            "What is the capital of Turkey?",
            "Ankara",
            "The capital of Turkey is not Istanbul. It is Ankara.",
            id="denied before",
        ),
        pytest.param(
            "What is the capital of Turkey?",
            "Ankara",
            "Istanbul was the capital of Turkey; it is Ankara today.",
            id="another tense",
        ),
        pytest.param(
            "What is the capital of Turkey?",
            "Ankara",
            "The capital of Turkey is a city on the plateau; Ankara is its name.",
            id="a kind of thing",
        ),
        pytest.param(
            "Where is Machu Picchu?", "Peru", "Machu Picchu is in Cusco, Peru.", id="a name after a comma"
        ),
        pytest.param(
            "When was the bridge opened?",
            "1932",
            "The bridge was begun in 1923, and it was opened in 1932.",
            id="another date of another event",
        ),
        pytest.param("Who wrote Emma?", "Jane Austen", "Austen, Jane", id="given name behind"),
    ],
)
def test_an_answer_in_many_words_is_one(question: str, reference: str, prediction: str) -> None:
    """The same constructions where they assert the reference."""
    assert states(prediction, reference, question=question)


def test_a_name_and_its_other_reference_are_no_choice() -> None:
    """Both names of "A or B" may be references."""
    question = "What is the capital of India's Maharashtra?"
    assert states_any("Mumbai or Bombay", ["Mumbai", "Bombay"], question=question)
    assert not states_any("Mumbai or Pune", ["Mumbai", "Bombay"], question=question)
