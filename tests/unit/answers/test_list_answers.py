"""Matching the items that an output lists with the wanted answers."""

import time

import pytest

from pytest_rageval.answers.citations import match_listed_answers

WANTED = [["Marazan"], ["Stephen Morris"], ["In the Wet", "Wet"], ["Trustee from the Toolroom"]]


def test_a_worked_example() -> None:
    """Two of four wanted answers match, one of them twice; an item that is not wanted is unmatched."""
    listed = match_listed_answers(
        "Marazan [1], stephen morris! [1][2], Marazan [3], The Great Gatsby [2].", WANTED
    )
    assert listed.matched == {0, 1}
    assert listed.unmatched == ("The Great Gatsby",)


@pytest.mark.parametrize(
    "output",
    [
        "Paris, Rome, Oslo",
        "Paris; Rome; Oslo.",
        "Paris, Rome, and Oslo",
        "Paris and Rome and Oslo",
        "- Paris\n- Rome\n- Oslo",
        "1. Paris [1]\n2. Rome [2]\n3. Oslo [1][2]",
        "1) Paris\n\n2) Rome\n\n3) Oslo\n",
        "* Paris,\n* Rome,\n* and Oslo",
        "Oslo, Rome, PARIS, the Paris, Rome,, ,",
        "Paris、Rome，Oslo",
        "Paris، Rome؛ Oslo",
        "Paris [1]. Rome [2]. Oslo [1][2].",
        "Paris [1] Rome [2] Oslo [3]",
        "[1] Paris [2] Rome [3] Oslo",
        "Paris 【1】 Rome 【2】 Oslo",
        "Paris [Passage 1] Rome [1, 2, and 3]\nOslo",
        "Paris [1] - Rome [2] - Oslo [3]",
        "1. Paris [1] 2. Rome [2] 3. Oslo [3]",
        "**Paris** [1], *Rome*, and Oslo",
    ],
)
def test_lists_in_many_forms(output: str) -> None:
    listed = match_listed_answers(output, [["Paris"], ["Rome"], ["Oslo"]])
    assert (listed.matched, listed.unmatched, len(listed.candidates)) == ({0, 1, 2}, (), 3)


@pytest.mark.parametrize(
    ("output", "alias"),
    [
        ("Rome, Washington, D.C., Oslo", "Washington, D.C."),
        ("Rome and Tom and Jerry and Oslo", "Tom and Jerry"),
        ("The Good, the Bad and the Ugly, Rome", "The Good, the Bad and the Ugly"),
        ("Rome, And Then There Were None", "And Then There Were None"),
        ("1. FC Köln, Rome", "1. FC Köln"),
        ("1. 1. FC Köln\n2. Rome", "1. FC Köln"),
        ("Rome, 1,000,000", "1000000"),
        ("Rome, 1,000, 5", "1,000"),
        ("Earth, Wind & Fire", "Earth, Wind & Fire"),
        ("Crosby, Stills, Nash and Young", "Crosby, Stills, Nash and Young"),
        ("Rome [1], Washington, D.C. [2] Oslo", "Washington, D.C."),
        ("Rome [1] Tom and Jerry [2]", "Tom and Jerry"),
        ("Rome, Simon & Garfunkel", "Simon & Garfunkel"),
        ("AC/DC, Rome", "AC/DC"),
    ],
)
def test_an_alias_with_a_separator_stays_whole(output: str, alias: str) -> None:
    """An alias that contains a separator matches: the longest stretch equal to an alias is one item."""
    assert match_listed_answers(output, [[alias], ["nothing"]]).matched == {0}


def test_the_longest_stretch_wins() -> None:
    """If "Simon and Garfunkel" matches as a whole, its parts do not match as well."""
    wanted = [["Simon"], ["Garfunkel"], ["Simon and Garfunkel"]]
    assert match_listed_answers("Simon and Garfunkel", wanted).matched == {2}
    assert match_listed_answers("Simon, Garfunkel", wanted).matched == {0, 1}


def test_names_with_signs_are_not_broken() -> None:
    """A name is not split at "&" or "/", and an alias does not match across a citation, which ends an item."""
    assert (
        match_listed_answers("Simon & Garfunkel, AC/DC", [["Simon"], ["AC"], ["DC"]]).matched == frozenset()
    )
    assert match_listed_answers("Tom [1] and Jerry [2]", [["Tom and Jerry"], ["Tom"], ["Jerry"]]).matched == {
        1,
        2,
    }


def test_an_article_joins_nothing() -> None:
    """The item "A", which is empty in normal form as an article, does not join its neighbour."""
    assert match_listed_answers("A, B", [["A"], ["B"]]).matched == {0, 1}
    assert match_listed_answers("A, B", [["B"]]).unmatched == ("A",)


@pytest.mark.parametrize("output", ["Marazan is a book", "Marazan (novel)", "The Marazans", "Mara, zan", ""])
def test_an_answer_counts_when_it_is_the_whole_item(output: str) -> None:
    assert match_listed_answers(output, WANTED).matched == frozenset()


def test_years_in_a_row_are_items() -> None:
    """A comma between digits separates items unless a group of three digits follows."""
    wanted = [["2006"], ["1977"], ["2004"]]
    assert match_listed_answers("2006 [1],1977 [2], 2004,2006", wanted).matched == {0, 1, 2}


def test_an_item_counts_for_one_answer() -> None:
    wanted = [["George W. Bush", "Bush"], ["George H. W. Bush", "Bush"]]
    assert len(match_listed_answers("Bush", wanted).matched) == 1
    assert len(match_listed_answers("Bush, Bush", wanted).matched) == 1
    assert match_listed_answers("Bush, George W. Bush", wanted).matched == {0, 1}
    assert match_listed_answers("George W. Bush, Bush", wanted).matched == {0, 1}


def test_two_aliases_of_an_answer_find_it_once() -> None:
    listed = match_listed_answers("In the Wet, Wet", WANTED)
    assert (listed.matched, listed.unmatched) == ({2}, ())


@pytest.mark.parametrize("wanted", [[], [[]], [[""]], [["", " "]]])
def test_without_wanted_answers_nothing_is_found(wanted: list[list[str]]) -> None:
    assert match_listed_answers("Paris, , Rome", wanted).matched == frozenset()
    assert match_listed_answers("Paris, , Rome, Paris", wanted).unmatched == ("Paris", "Rome")


@pytest.mark.parametrize(
    "output", ["," * 5000, "\n- " * 3000, "[1]" * 5000, ", ".join(f"東京{n}" for n in range(2000))]
)
def test_a_runaway_output_is_read_in_time(output: str) -> None:
    began = time.process_time()
    assert (
        match_listed_answers(output, [["東京都庁舎本館ビル展望室"], ["Washington, D.C."]]).matched
        == frozenset()
    )
    assert time.process_time() - began < 5


def test_signs_alone_are_an_item_only_where_they_are_wanted() -> None:
    assert match_listed_answers("Paris [1]. !", [["?"]]).unmatched == ("Paris",)
    assert match_listed_answers("Paris, ?", [["?"]]).matched == {0}
