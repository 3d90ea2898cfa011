"""Canonical comparison with references that are sentences."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("question", "reference", "answer"),
    [
        ("How many counties are there in Idaho?", "There are 44 counties in the state of Idaho.", "44"),
        ("How long can I return a tablet?", "You can return a tablet within 40 days of delivery.", "40 days"),
        ("Who wrote Dune?", "Dune was written by the American author Frank Herbert.", "Frank Herbert"),
        (
            "Who wrote Dune?",
            "Dune was written by the American author Frank Herbert.",
            "the novelist Frank Herbert, an American",
        ),
        ("Which port does the server listen on?", "The server listens on port 8080 by default.", "8080"),
        ("Who wrote The Waste Land?", "The Waste Land was written by T.S. Eliot.", "TS Eliot"),
        ("Which body passes laws?", "Laws are passed by the legislative branch.", "the legislature"),
        (
            "Who pays the fee?",
            "The buyer pays the fee when the contract is signed.",
            "The fee is paid by the buyer when the contract is signed.",
        ),
        (
            "What does the valve do?",
            "The valve opens when the pressure in the tank rises above 5 bar.",
            "It opens when the tank pressure goes above 5 bar.",
        ),
        (
            "What does the valve do?",
            "The valve opens when the pressure in the tank rises above 5 bar.",
            "If the pressure in the tank rises above 5 bar, the valve opens.",
        ),
        (
            "How do I reset the device?",
            "Hold the power button for ten seconds until the red light blinks.",
            "Press and hold the power button for 10 seconds until the light blinks red.",
        ),
        (
            "When is the shop closed?",
            "The shop is closed on Mondays and on public holidays.",
            "On public holidays and on Mondays.",
        ),
        (
            "When is the shop closed?",
            "The shop is closed on Mondays and on public holidays.",
            "Mondays and public holidays",
        ),
        (
            "What are the primary colours?",
            "The primary colours are red, yellow and blue.",
            "Blue, red and yellow are the primary colours.",
        ),
        (
            "What are the primary colours?",
            "The primary colours are red, yellow and blue.",
            "They are red, blue and yellow.",
        ),
        (
            "Why was the match cancelled?",
            "The match was cancelled because heavy rain had flooded the pitch.",
            "Heavy rain flooded the pitch, so the match was cancelled.",
        ),
        (
            "Why was the match cancelled?",
            "The match was cancelled because heavy rain had flooded the pitch.",
            "Because the pitch was flooded by heavy rain.",
        ),
        (
            "What is the job of the heart?",
            "The heart pumps blood through the vessels of the body.",
            "It pumps blood through the body's vessels.",
        ),
        (
            "What is the job of the heart?",
            "The heart pumps blood through the vessels of the body.",
            "Blood is pumped through the vessels of the body by the heart.",
        ),
        (
            "How is the fee charged?",
            "The fee is charged once a year, in January, by direct debit.",
            "It is charged by direct debit once a year in January.",
        ),
        (
            "What is a glacier?",
            "A glacier is a slowly moving mass of ice formed from compacted snow.",
            "It is a mass of ice that moves slowly and is formed from compacted snow.",
        ),
        (
            "What is a glacier?",
            "A glacier is a slowly moving mass of ice formed from compacted snow.",
            "A glacier is a mass of ice, formed from compacted snow, that moves slowly.",
        ),
        (
            "Who owns the patent?",
            "The patent is owned by the University of Leeds.",
            "The University of Leeds owns the patent.",
        ),
        (
            "What does the tax apply to?",
            "The tax applies to sales of land but not to gifts.",
            "It applies to sales of land, not to gifts.",
        ),
        (
            "What happens at midnight?",
            "At midnight the job deletes old logs and restarts the service.",
            "The job restarts the service and deletes old logs.",
        ),
        (
            "Which team won the cup?",
            "Leeds United won the cup in 1972 by beating Arsenal.",
            "Leeds United beat Arsenal and won the cup in 1972.",
        ),
        (
            "What is the boiling point of ethanol?",
            "Ethanol boils at 78 degrees Celsius at sea level.",
            "The boiling point of ethanol is 78 °C.",
        ),
        (
            "How far is the station?",
            "The station is two kilometres north of the village.",
            "It is 2 km north of the village.",
        ),
        (
            "What should I wear in the lab?",
            "Visitors must wear safety glasses and closed shoes in the lab.",
            "You must wear safety glasses and closed shoes.",
        ),
        (
            "What should I wear in the lab?",
            "Visitors must wear safety glasses and closed shoes in the lab.",
            "closed shoes and safety glasses",
        ),
        (
            "Who founded the city?",
            "The city was founded by Greek settlers in the sixth century BC.",
            "Greek settlers founded it in the 6th century BC.",
        ),
        (
            "Why do cats purr?",
            "Cats purr when they are content, but also when they are in pain.",
            "They purr when they are in pain, but also when they are content.",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "Coffee lowers the risk of diabetes.",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "The risk of diabetes is lowered by coffee.",
        ),
        (
            "What does the plan include?",
            "The plan includes free calls to Europe and ten gigabytes of data.",
            "Ten gigabytes of data and free calls to Europe.",
        ),
        (
            "Can dogs enter?",
            "Dogs may enter the garden if they are on a leash.",
            "Yes, if they are on a leash.",
        ),
        ("Can dogs enter?", "Dogs may enter the garden if they are on a leash.", "Yes, on a leash"),
        (
            "Where is the museum?",
            "The museum is in the old mill by the river.",
            "by the river, in the old mill",
        ),
        (
            "How many members does the board have?",
            "The board has nine members, three of whom are elected by the staff.",
            "Nine",
        ),
    ],
)
def test_a_part_of_a_sentence_in_any_order_is_right(question: str, reference: str, answer: str) -> None:
    assert matches_any(answer, [reference], question=question)


@pytest.mark.parametrize(
    ("question", "reference", "answer"),
    [
        (
            "Why do cats purr?",
            "Cats purr when they are content, but also when they are in pain.",
            "Dogs purr when they are content, but also when they are in pain.",
        ),
        (
            "Who pays the fee?",
            "The buyer pays the fee when the contract is signed.",
            "The seller pays the fee when the contract is signed.",
        ),
        (
            "Who pays the fee?",
            "The buyer pays the fee when the contract is signed.",
            "The seller pays the fee.",
        ),
        (
            "Who pays the fee?",
            "The buyer pays the fee when the contract is signed.",
            "It is unclear whether the buyer or the seller pays it.",
        ),
        (
            "Who pays the fee?",
            "The buyer pays the fee when the contract is signed.",
            "The seller, unlike the buyer",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "It found that diabetes lowers the risk of coffee.",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "The study found that coffee raises the risk of diabetes.",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "The study found that tea lowers the risk of diabetes.",
        ),
        (
            "What did the study find?",
            "The study found that coffee lowers the risk of diabetes.",
            "It found that tea lowers the risk of diabetes.",
        ),
        (
            "Who reports to whom?",
            "Anna reports to Ben, and Ben reports to Carl.",
            "Ben reports to Anna, and Carl reports to Ben.",
        ),
        (
            "Which is longer, the Nile or the Amazon?",
            "The Nile is longer than the Amazon.",
            "The Amazon is longer than the Nile.",
        ),
        ("Which is longer, the Nile or the Amazon?", "The Nile is longer than the Amazon.", "the Amazon"),
        (
            "What turns into what?",
            "In spring the tadpole turns into a frog.",
            "In spring the frog turns into a tadpole.",
        ),
        (
            "Which firm bought the other?",
            "Alpha Systems acquired Beta Labs in 2019.",
            "Beta Labs acquired Alpha Systems in 2019.",
        ),
        (
            "What is the job of the heart?",
            "The heart pumps blood through the vessels of the body.",
            "The heart pumps air through the vessels of the body.",
        ),
        (
            "What is the job of the heart?",
            "The heart pumps blood through the vessels of the body.",
            "It pumps air through the vessels of the body.",
        ),
        (
            "What should I wear in the lab?",
            "Visitors must wear safety glasses and closed shoes in the lab.",
            "Visitors must wear safety glasses and open shoes in the lab.",
        ),
        (
            "What should I wear in the lab?",
            "Visitors must wear safety glasses and closed shoes in the lab.",
            "Visitors must wear safety gloves and closed shoes in the lab.",
        ),
        (
            "How is the fee charged?",
            "The fee is charged once a year, in January, by direct debit.",
            "The fee is charged once a year, in March, by direct debit.",
        ),
        (
            "Who owns the patent?",
            "The patent is owned by the University of Leeds.",
            "The patent is owned by the University of York.",
        ),
        (
            "Who owns the patent?",
            "The patent is owned by the University of Leeds.",
            "The patent is disputed by the University of Leeds.",
        ),
        (
            "What is caused by smoking?",
            "Smoking causes cancer of the lungs.",
            "Cancer of the lungs causes smoking.",
        ),
        (
            "Where is the museum?",
            "The museum is in the old mill by the river.",
            "The museum is in the old mill by the station.",
        ),
        (
            "Where is the museum?",
            "The museum is in the old mill by the river.",
            "The theatre is in the old mill by the river.",
        ),
        ("Can dogs enter?", "Dogs may enter the garden if they are on a leash.", "No, they may not."),
        (
            "Can dogs enter?",
            "Dogs may enter the garden if they are on a leash.",
            "Cats may enter the garden if they are on a leash.",
        ),
        ("Who won the fight in 1971?", "Frazier beat Ali in 1971.", "Ali beat Frazier in 1971."),
        ("Who won the fight in 1971?", "Frazier beat Ali in 1971.", "Frazier was beaten by Ali in 1971."),
        (
            "In which language is the service written?",
            "The service is written in Java and runs on Linux.",
            "The service is written in Rust and runs on Linux.",
        ),
        (
            "In which language is the service written?",
            "The service is written in Java and runs on Linux.",
            "Either in Java or in Rust",
        ),
        (
            "In which language is the service written?",
            "The service is written in Java and runs on Linux.",
            "Rust, which is faster than Java",
        ),
        (
            "In which language is the service written?",
            "The service is written in Java and runs on Linux.",
            "I cannot say whether it is Java.",
        ),
        (
            "In which language is the service written?",
            "The service is written in Java and runs on Linux.",
            "It is not written in Java.",
        ),
        ("What do I need?", "You need a valid passport and proof of address.", "proof of address only"),
    ],
)
def test_a_sentence_with_another_sense_is_wrong(question: str, reference: str, answer: str) -> None:
    """One word replaced, exchanged roles, a hedge and a mere mention are wrong, although most words are the same."""
    assert not matches_any(answer, [reference], question=question)


def test_a_part_of_a_long_list_is_not_enough() -> None:
    """A list of eight words is no sentence, so its first items are not the answer."""
    colours = "Green, Cream, White, Black, Blue, Yellow, Orange, Red"
    for answer in ("Green", "Green, Red, Blue, Yellow, Orange, White, Black, Gold"):
        assert not matches_any(answer, [colours], question="What colours can I choose for the gift wrap?")


def test_without_a_question_a_part_of_a_sentence_is_not_enough() -> None:
    """Any part could be the answer, so the figures and most words of the reference are required."""
    assert not matches_any("44", ["There are 44 counties in the state of Idaho."])


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("TS Eliot", "T.S. Eliot", True),
        ("R.E.M.", "REM", True),
        ("1.5", "15", False),
        ("Argentine", "Argentina", True),
        ("Titan", "Titania", False),
        ("creation", "creature", False),
    ],
)
def test_initials_and_derivations(answer: str, reference: str, *, expected: bool) -> None:
    """Full stops of initials do not matter. A country matches its adjective; other endings make another word."""
    assert matches_any(answer, [reference]) is expected
