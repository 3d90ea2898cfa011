"""Canonical comparison: questions that change it, cases of published data sets, and references that are sentences."""

import pytest

from pytest_rageval.answers.canonical import matches_any
from tests.unit.answers.answer_pairs import AnswerPair, answer_pairs

TABLE = """\
# Repeating the question means yes, denying it means no; details in the reference are required.
? Is parking free for staff?
= yes
+ Yes, it is free
+ Parking is free.
- no
- It is not free
- No, parking costs 5 pounds
- I don't know
- A garden

? Is parking free for staff?
= no
+ It is not free
+ No, parking costs 5 pounds
+ Typically, no

? Is parking free for staff?
+ yes | Yes, it is free
+ Yes, for five days | Yes, up to 5 days
- yes | Yes, up to 5 days

? Is the claim that parking is free true?
+ That is true | yes

+ nope | no
+ no | false
+ yes | true
- false | yes

# A word of the question may be left out but not replaced, unless the question offers a choice.
? Which river is the longest?
+ the Amazon | Amazon River
- the Amazon Basin | Amazon River

- the Amazon | Amazon River

? Who presides in a district?
- presiding judge | District Judge

? Did North Korea or South Korea win?
- South Korea | North Korea

? Which Korea won?
- no Korea | North Korea

# A place needs no region.
? Where is it?
+ Madison | Madison, Wisconsin
- Wisconsin | Madison, Wisconsin
- Paris | Paris, London and Rome

# A parenthesis may be left out, an abbreviation in it may stand alone, and a slash separates alternatives.
= Tulsa (Oklahoma)
+ Tulsa
+ Tulsa, Oklahoma
- Oklahoma

+ the IB | International Border (IB)
+ football | soccer / football

# A detail of a long reference may be missing, but not a number or a distinguishing or replaced word.
? Where is it held?
= Camping World Stadium in Orlando
+ Camping World Stadium
- the harbour of Orlando

? Where is it held?
+ Landover, Maryland | FedExField in Landover, Maryland
+ foreign exchange | foreign exchange market
- San Francisco 49ers | San Francisco Giants
- the car park | the north car park
- three foreign exchanges | four foreign exchange markets

+ silver, copper, gold | copper, gold and silver
- copper and gold | copper, gold and silver

# An initialism from the question is ignored.
? What does PDF stand for?
- Public Data File | Portable Document Format (PDF)
- It stands for PDF. | Portable Document Format (PDF)
- Public Data File | PDF
- PDF | Portable Document Format

# An initialism matches if the question does not have it or offers it as a choice; equal words always match.
? What does PDF stand for?
+ Portable Document Format | Portable Document Format (PDF)
+ PDF | PDF

? Which format is it?
+ PDF | Portable Document Format

? Is it the NHS or a charity?
+ the NHS | National Health Service

? What is left of ATP?
+ ADP | adenosine diphosphate (ADP)

# Two persons with a shared family name match in either order, as does a family name before a comma.
? Who founded it?
= Petra and Maud Hollis
+ Maud and Petra Hollis
+ Petra Hollis and Maud Hollis
- Maud Hollis
- Petra and Maud Lloyd

? Who founded it?
+ Hollis, Petra | Petra Hollis
- Lloyd Petra | Petra Hollis

# Footnote numbers and glued words are split off, unless the other answer has another number in that position.
= Apollo11
+ Apollo 11
- Apollo 12
- Apollo12

+ Lloyd | Lloyd1
+ Maud Lloyd | Maud Lloyd12
+ Lloyd1 | Lloyd
+ 2016 | 2016by
+ 2016by the town | 2016
+ 2016 by the town | 2016by the town
+ in May 2016 | May2016
+ 1969 | 1969[3]
+ Apollo11 | Apollo 11
- Hollis | Lloyd1
- 2016 | 2016by the town
- There are several [3]. | 3
- MP4 | MP3

# A coarser date answers "when", unless the question asks for the day or already has the year.
? When did it open?
= May 4, 1974
+ 1974
+ May 1974
- 1975
- June 1974
- the 1970s
- May 4

? When exactly did it open?
- 1974 | May 4, 1974

? On which day did it open?
- 1974 | May 4, 1974

? When was the 1974 fair?
- The 1974 fair was on May 9. | May 4, 1974

- 1974 | May 4, 1974

# The place around answers "where".
? Where is the bowl held?
= Camping World Stadium in Orlando
+ Orlando, Florida
+ The bowl is held in Orlando.
- the harbour in Orlando
- Allegiant Stadium, Orlando
- not in Orlando

? Where is the bowl held?
- Florida | Orlando, Florida

? Where in Orlando is the bowl held?
- Orlando | Camping World Stadium in Orlando

? Which stadium has the bowl?
- Orlando | Camping World Stadium in Orlando

# A name that only describes another person does not match, unless the question asks for that relation.
? Who brought it to England?
= Queen Victoria
+ Queen Victoria, the wife of Albert
+ the husband of Queen Victoria was Albert; it was Victoria
- Prince Albert, the husband of Queen Victoria
- Leopold, an uncle of Victoria
- Unlike Queen Victoria, Albert did.

? Who was Albert the husband of?
+ He was the husband of Queen Victoria. | Queen Victoria

# One of several that are wanted is not enough.
? Which were they?
+ Aaron and Andrew Harrison | Andrew and Aaron Harrison
+ Portuguese, French and Spanish | Spanish, Portuguese, French
- Andrew Harrison | Andrew and Aaron Harrison
- Spanish | Spanish and Portuguese
- Spanish, French | Spanish, Portuguese, French
- 1914 | 1914 and 1918

# Full stops of initials do not matter. A country matches its adjective; other endings make another word.
+ TS Eliot | T.S. Eliot
+ R.E.M. | REM
+ Argentine | Argentina
- 1.5 | 15
- Titan | Titania
- creation | creature

# Right answers whose syntax some wrong answers also have.
? In which country is Machu Picchu?
+ In Cusco, which lies in Peru. | Peru

? Who was the successor of Lincoln?
+ Lincoln, who was followed by Andrew Johnson. | Andrew Johnson

? Where is the Eiffel Tower?
+ The Eiffel Tower is in Paris; it is in France. | France

? What is the default timeout?
+ The default timeout is 30 s; that is 30000 ms. | 30000 ms

? How much is the fee?
+ The fee is either 5 or 10 dollars depending on the plan | 5 or 10 dollars

? Where do I change my password?
+ Under Settings or Account | Settings

? When did it happen?
+ Prior to World War II | before World War II

# Any part of a sentence in any order is right. One word replaced, exchanged roles, a hedge and a mere mention
# are wrong, although most words are the same. A list of eight words is no sentence. Without a question, the figures
# and most words of the reference are required.
? How many counties are there in Idaho?
+ 44 | There are 44 counties in the state of Idaho.

? How long can I return a tablet?
= You can return a tablet within 40 days of delivery.
+ 40 days

? Who wrote Dune?
= Dune was written by the American author Frank Herbert.
+ Frank Herbert
+ the novelist Frank Herbert, an American

? Which port does the server listen on?
+ 8080 | The server listens on port 8080 by default.

? Who wrote The Waste Land?
+ TS Eliot | The Waste Land was written by T.S. Eliot.

? Which body passes laws?
+ the legislature | Laws are passed by the legislative branch.

? Who pays the fee?
= The buyer pays the fee when the contract is signed.
+ The fee is paid by the buyer when the contract is signed.
- The seller pays the fee when the contract is signed.
- The seller pays the fee.
- It is unclear whether the buyer or the seller pays it.
- The seller, unlike the buyer

? What does the valve do?
= The valve opens when the pressure in the tank rises above 5 bar.
+ It opens when the tank pressure goes above 5 bar.
+ If the pressure in the tank rises above 5 bar, the valve opens.

? How do I reset the device?
= Hold the power button for ten seconds until the red light blinks.
+ Press and hold the power button for 10 seconds until the light blinks red.

? When is the shop closed?
= The shop is closed on Mondays and on public holidays.
+ On public holidays and on Mondays.
+ Mondays and public holidays

? What are the primary colours?
= The primary colours are red, yellow and blue.
+ Blue, red and yellow are the primary colours.
+ They are red, blue and yellow.

? Why was the match cancelled?
= The match was cancelled because heavy rain had flooded the pitch.
+ Heavy rain flooded the pitch, so the match was cancelled.
+ Because the pitch was flooded by heavy rain.

? What is the job of the heart?
= The heart pumps blood through the vessels of the body.
+ It pumps blood through the body's vessels.
+ Blood is pumped through the vessels of the body by the heart.
- The heart pumps air through the vessels of the body.
- It pumps air through the vessels of the body.

? How is the fee charged?
= The fee is charged once a year, in January, by direct debit.
+ It is charged by direct debit once a year in January.
- The fee is charged once a year, in March, by direct debit.

? What is a glacier?
= A glacier is a slowly moving mass of ice formed from compacted snow.
+ It is a mass of ice that moves slowly and is formed from compacted snow.
+ A glacier is a mass of ice, formed from compacted snow, that moves slowly.

? Who owns the patent?
= The patent is owned by the University of Leeds.
+ The University of Leeds owns the patent.
- The patent is owned by the University of York.
- The patent is disputed by the University of Leeds.

? What does the tax apply to?
= The tax applies to sales of land but not to gifts.
+ It applies to sales of land, not to gifts.

? What happens at midnight?
= At midnight the job deletes old logs and restarts the service.
+ The job restarts the service and deletes old logs.

? Which team won the cup?
= Leeds United won the cup in 1972 by beating Arsenal.
+ Leeds United beat Arsenal and won the cup in 1972.

? What is the boiling point of ethanol?
= Ethanol boils at 78 degrees Celsius at sea level.
+ The boiling point of ethanol is 78 °C.

? How far is the station?
= The station is two kilometres north of the village.
+ It is 2 km north of the village.

? What should I wear in the lab?
= Visitors must wear safety glasses and closed shoes in the lab.
+ You must wear safety glasses and closed shoes.
+ closed shoes and safety glasses
- Visitors must wear safety glasses and open shoes in the lab.
- Visitors must wear safety gloves and closed shoes in the lab.

? Who founded the city?
= The city was founded by Greek settlers in the sixth century BC.
+ Greek settlers founded it in the 6th century BC.

? Why do cats purr?
= Cats purr when they are content, but also when they are in pain.
+ They purr when they are in pain, but also when they are content.
- Dogs purr when they are content, but also when they are in pain.

? What did the study find?
= The study found that coffee lowers the risk of diabetes.
+ Coffee lowers the risk of diabetes.
+ The risk of diabetes is lowered by coffee.
- It found that diabetes lowers the risk of coffee.
- The study found that coffee raises the risk of diabetes.
- The study found that tea lowers the risk of diabetes.
- It found that tea lowers the risk of diabetes.

? What does the plan include?
= The plan includes free calls to Europe and ten gigabytes of data.
+ Ten gigabytes of data and free calls to Europe.

? Can dogs enter?
= Dogs may enter the garden if they are on a leash.
+ Yes, if they are on a leash.
+ Yes, on a leash
- No, they may not.
- Cats may enter the garden if they are on a leash.

? Where is the museum?
= The museum is in the old mill by the river.
+ by the river, in the old mill
- The museum is in the old mill by the station.
- The theatre is in the old mill by the river.

? How many members does the board have?
= The board has nine members, three of whom are elected by the staff.
+ Nine

? Who reports to whom?
- Ben reports to Anna, and Carl reports to Ben. | Anna reports to Ben, and Ben reports to Carl.

? Which is longer, the Nile or the Amazon?
= The Nile is longer than the Amazon.
- The Amazon is longer than the Nile.
- the Amazon

? What turns into what?
- In spring the frog turns into a tadpole. | In spring the tadpole turns into a frog.

? Which firm bought the other?
- Beta Labs acquired Alpha Systems in 2019. | Alpha Systems acquired Beta Labs in 2019.

? What is caused by smoking?
- Cancer of the lungs causes smoking. | Smoking causes cancer of the lungs.

? Who won the fight in 1971?
- Ali beat Frazier in 1971. | Frazier beat Ali in 1971.
- Frazier was beaten by Ali in 1971. | Frazier beat Ali in 1971.

? In which language is the service written?
= The service is written in Java and runs on Linux.
- The service is written in Rust and runs on Linux.
- Either in Java or in Rust
- Rust, which is faster than Java
- I cannot say whether it is Java.
- It is not written in Java.

? What do I need?
= You need a valid passport and proof of address.
- proof of address only

? What colours can I choose for the gift wrap?
= Green, Cream, White, Black, Blue, Yellow, Orange, Red
- Green
- Green, Red, Blue, Yellow, Orange, White, Black, Gold

- 44 | There are 44 counties in the state of Idaho.
"""


@pytest.mark.parametrize("pair", answer_pairs(TABLE), ids=str)
def test_an_answer_to_the_question_states_the_reference_or_does_not(pair: AnswerPair) -> None:
    assert matches_any(pair.answer, [pair.reference], question=pair.question) is pair.is_stated


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
    references = ["1990", "14 June 1990"]
    assert matches_any(prediction, references, question="When did it open?") is stated


def test_a_year_alone_does_not_choose_among_exact_dates() -> None:
    """If the references are dates in several years, a bare year does not match; the exact date does."""
    dates, question = ["8 March 2008", "24 February 2018"], "When did it open?"
    assert not matches_any("2018", dates, question=question)
    assert matches_any("24 February 2018", dates, question=question)
    assert matches_any("2018", dates[1:], question=question)
