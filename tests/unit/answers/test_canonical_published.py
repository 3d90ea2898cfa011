"""Cases from published data sets: initialisms in the question, shared family names, glued text, less exact facts."""

import pytest

from pytest_rageval.answers.canonical import matches_any

PDF = "What does PDF stand for?"


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("Public Data File", "Portable Document Format (PDF)"),
        ("Public Data File", "PDF"),
        ("PDF", "Portable Document Format"),
        ("It stands for PDF.", "Portable Document Format (PDF)"),
    ],
)
def test_an_initialism_from_the_question_is_ignored(prediction: str, reference: str) -> None:
    assert not matches_any(prediction, [reference], question=PDF)


@pytest.mark.parametrize(
    ("prediction", "reference", "question"),
    [
        ("Portable Document Format", "Portable Document Format (PDF)", PDF),
        ("PDF", "PDF", PDF),
        ("PDF", "Portable Document Format", "Which format is it?"),
        ("the NHS", "National Health Service", "Is it the NHS or a charity?"),
        ("ADP", "adenosine diphosphate (ADP)", "What is left of ATP?"),
    ],
)
def test_an_initialism_of_the_answer_states_it(prediction: str, reference: str, question: str) -> None:
    """An initialism matches if the question does not have it or offers it as a choice; equal words always match."""
    assert matches_any(prediction, [reference], question=question)


@pytest.mark.parametrize(
    ("prediction", "reference", "stated"),
    [
        ("Maud and Petra Hollis", "Petra and Maud Hollis", True),
        ("Petra Hollis and Maud Hollis", "Petra and Maud Hollis", True),
        ("Maud Hollis", "Petra and Maud Hollis", False),
        ("Petra and Maud Lloyd", "Petra and Maud Hollis", False),
        ("Hollis, Petra", "Petra Hollis", True),
        ("Lloyd Petra", "Petra Hollis", False),
    ],
)
def test_names_in_another_order(prediction: str, reference: str, *, stated: bool) -> None:
    """Two persons with a shared family name match in either order, as does a family name before a comma."""
    assert matches_any(prediction, [reference], question="Who founded it?") is stated


@pytest.mark.parametrize(
    ("prediction", "reference", "stated"),
    [
        ("Lloyd", "Lloyd1", True),
        ("Maud Lloyd", "Maud Lloyd12", True),
        ("Lloyd1", "Lloyd", True),
        ("Hollis", "Lloyd1", False),
        ("2016", "2016by", True),
        ("2016by the town", "2016", True),
        ("2016", "2016by the town", False),
        ("2016 by the town", "2016by the town", True),
        ("in May 2016", "May2016", True),
        ("1969", "1969[3]", True),
        ("There are several [3].", "3", False),
        ("Apollo 11", "Apollo11", True),
        ("Apollo11", "Apollo 11", True),
        ("Apollo 12", "Apollo11", False),
        ("Apollo12", "Apollo11", False),
        ("MP4", "MP3", False),
    ],
)
def test_glued_text_is_parted(prediction: str, reference: str, *, stated: bool) -> None:
    """Footnote numbers and glued words are split off, unless the other answer has another number in that position."""
    assert matches_any(prediction, [reference]) is stated


OPENED = "When did it open?"


@pytest.mark.parametrize(
    ("prediction", "reference", "question", "stated"),
    [
        ("1974", "May 4, 1974", OPENED, True),
        ("May 1974", "May 4, 1974", OPENED, True),
        ("1975", "May 4, 1974", OPENED, False),
        ("June 1974", "May 4, 1974", OPENED, False),
        ("the 1970s", "May 4, 1974", OPENED, False),
        ("May 4", "May 4, 1974", OPENED, False),
        ("1974", "May 4, 1974", "When exactly did it open?", False),
        ("1974", "May 4, 1974", "On which day did it open?", False),
        ("The 1974 fair was on May 9.", "May 4, 1974", "When was the 1974 fair?", False),
        ("1974", "May 4, 1974", "", False),
    ],
)
def test_a_coarser_date_answers_when(prediction: str, reference: str, question: str, *, stated: bool) -> None:
    """It does not if the question asks for the day or already has the year."""
    assert matches_any(prediction, [reference], question=question) is stated


@pytest.mark.parametrize(
    ("prediction", "stated"),
    [
        ("12 March 1990", False),
        ("March 1990", False),
        ("14 June 1990", True),
        ("June 1990", True),
        ("1990", True),
        ("1990, on 14 June 1990", True),
        ("1990, and again on 12 March 1990", True),
        ("1991", False),
    ],
)
def test_an_exact_date_is_held_against_the_exact_reference(prediction: str, *, stated: bool) -> None:
    assert matches_any(prediction, ["1990", "14 June 1990"], question=OPENED) is stated


@pytest.mark.parametrize(
    ("prediction", "question", "stated"),
    [
        ("Orlando, Florida", "Where is the bowl held?", True),
        ("The bowl is held in Orlando.", "Where is the bowl held?", True),
        ("the harbour in Orlando", "Where is the bowl held?", False),
        ("Allegiant Stadium, Orlando", "Where is the bowl held?", False),
        ("not in Orlando", "Where is the bowl held?", False),
        ("Orlando", "Where in Orlando is the bowl held?", False),
        ("Orlando", "Which stadium has the bowl?", False),
    ],
)
def test_the_place_around_answers_where(prediction: str, question: str, *, stated: bool) -> None:
    assert matches_any(prediction, ["Camping World Stadium in Orlando"], question=question) is stated
    assert not matches_any("Florida", ["Orlando, Florida"], question="Where is the bowl held?")


@pytest.mark.parametrize(
    ("prediction", "question", "stated"),
    [
        ("Prince Albert, the husband of Queen Victoria", "Who brought it to England?", False),
        ("Leopold, an uncle of Victoria", "Who brought it to England?", False),
        ("Unlike Queen Victoria, Albert did.", "Who brought it to England?", False),
        ("Queen Victoria, the wife of Albert", "Who brought it to England?", True),
        ("the husband of Queen Victoria was Albert; it was Victoria", "Who brought it to England?", True),
        ("He was the husband of Queen Victoria.", "Who was Albert the husband of?", True),
    ],
)
def test_a_name_that_is_only_mentioned_is_not_stated(prediction: str, question: str, *, stated: bool) -> None:
    """A name that only describes another person does not match, unless the question asks for that relation."""
    assert matches_any(prediction, ["Queen Victoria"], question=question) is stated


@pytest.mark.parametrize(
    ("prediction", "reference", "stated"),
    [
        ("Andrew Harrison", "Andrew and Aaron Harrison", False),
        ("Aaron and Andrew Harrison", "Andrew and Aaron Harrison", True),
        ("Spanish", "Spanish and Portuguese", False),
        ("Spanish, French", "Spanish, Portuguese, French", False),
        ("Portuguese, French and Spanish", "Spanish, Portuguese, French", True),
        ("1914", "1914 and 1918", False),
    ],
)
def test_one_of_several_that_are_wanted_is_not_enough(prediction, reference, *, stated):
    assert matches_any(prediction, [reference], question="Which were they?") is stated


def test_a_year_alone_does_not_choose_among_exact_dates() -> None:
    """If the references are dates in several years, a bare year does not match; the exact date does."""
    dates = ["8 March 2008", "24 February 2018"]
    assert not matches_any("2018", dates, question=OPENED)
    assert matches_any("24 February 2018", dates, question=OPENED)
    assert matches_any("2018", dates[1:], question=OPENED)
