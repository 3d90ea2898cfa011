"""Canonical comparison: numbers, dates, units, names and words in the forms that state a reference, and in others."""

import pytest

from pytest_rageval.answers.canonical import matches_any
from tests.unit.answers.answer_pairs import AnswerPair, answer_pairs

TABLE = """\
# Words, digits, separators, fractions and ordinals of one number are equal; those of another are not.
= half
+ 50%
+ 0.5
- a quarter

+ two hundred and six | 206
+ 1,200 | 1200
+ 1200 | 1,200
+ 3,000,000 | 3 million
+ 4.5 million | 4,500,000
+ twenty-two | 22
+ a dozen | 12
+ half a dozen | 6
+ 2nd | second
+ the second | 2nd
+ 21st | twenty-first
+ nineteen seventy-four | 1974
+ three and a half | 3.5
+ 2½ | 2.5
+ two thirds | 2/3
+ 75 percent | three quarters
+ 40 per cent | 40%
+ three hundred | 300
+ minus five | -5
+ World War 2 | World War II
+ the Second World War | World War II
+ Henry the Eighth | Henry VIII
- 270 | 206
- 12,000 | 1,200
- 30 million | 3 million
- twenty-third | twenty-first
- 60% | 40%
- Henry VII | Henry VIII
- -5 | 5
- 12 | B12
- 4 | 4K
- two dogs and three cats | 3 dogs and 2 cats
- three players, six in reserve | six players

# The end of a range or a choice does not match a single number; a number with extra information does.
= six months
+ six months, with a review after three months
+ six months (three months for part-timers)
- three months, or six months
- three to six months
- 3-6 months
- between three and six months

+ between three and six months | 3-6 months
- six months | 3-6 months

# A bound may be left out, but not reversed.
+ 20 pounds | up to 20 pounds
+ not above 20 pounds | up to 20 pounds
+ no more than 20 pounds | 20 pounds
- at most 20 pounds | at least 20 pounds
- after 09:30 | before 09:30

# A rounded number states only an approximate reference.
+ 6,400 km | about 6,437 km
+ 2.4 billion years ago | around 2.45 billion years ago
- 6,400 km | 6,437 km
- 500 | about 550

# Rates are compared by their period.
+ twice a year | 2 times per year
+ weekly | once a week
+ every 180 days | once every 180 days
+ 26 pounds per month | £26 a month
- twice a week | once a week
- 26 pounds a year | 26 pounds a month

# A date in another form, or a more exact one, is stated.
= 9 November 1989
+ November 9, 1989
+ 9th of November 1989
+ Nov. 9 , 1989
+ 09/11/1989
+ 11/09/1989
+ 9.11.1989
+ 1989-11-09

= the 1960s
+ 1965
+ the sixties
+ the '60s

+ May 1974 | 1974
+ It opened on May 4, 1974. | 1974
+ May 4, 1974 | May 1974
+ December 15, 2017 | December
+ the fourth of July | 4 July
+ 1939-45 | 1939–1945
+ from 1939 to 1945 | 1939-45
+ October 30 and 31, 2000 | 30–31 October 2000
+ the nineteenth century | 19th century
+ 1850 | 19th century
+ 44 B.C. | 44 BC
+ 6th century BC | the late 6th century BCE
+ the month of May | May

# Another date, or a less exact one, is not.
= 9 November 1989
- 9 November 1990
- 8 November 1989
- in autumn

- 1974 | May 4, 1974
- May 1974 | May 4, 1974
- 13/11/1989 | 11 November 1989
- the 1960s | 1965
- 18th century | 1850
- 44 AD | 44 BC
- early 1968 | late 1968
- they may go | May
- in the second march | 10 March

? In which year did it open?
+ 1974 | May 4, 1974

? On which day of 1974 did it open?
+ May 4 | May 4, 1974

? On what date did it open?
- 1974 | May 4, 1974

# Times of day meet on one clock.
= 09:30
+ 9:30 am
+ 9.30 a.m.
- 10:30
- 21:30

+ 2 pm | 14:00
+ half past nine | 9:30
+ a quarter to ten | 9:45
+ noon | 12:00
+ nine o'clock | 9 am
- 4 pm | 14:00
- 13:75 | 14:15
- 9:30 pm | 9:30 am

# Units are converted if the ratio is exact; a currency symbol equals the word for the currency.
= 90 minutes
+ 1.5 hours
+ an hour and a half
+ 1 hour 30 minutes

= 26 pounds
+ £26
+ 26 lb
- 26 dollars

+ half a year | six months
+ six months | half a year
+ 14 days | two weeks
+ a fortnight | 14 days
+ a month | one month
+ 42 months | three and a half years
+ 1 km | 1000 m
+ 750 kilograms | 750 kg
+ 2 feet | 24 inches
+ 5 feet 10 inches | 70 inches
+ 100 mph | 100 miles per hour
+ 50 square kilometres | 50 km²
+ minus 5 °C | -5 degrees Celsius
+ 0 degrees Celsius | 0 degrees
+ 26 GBP | £26
+ 3 million dollars | $3m
+ €1.5bn | 1.5 billion euros
+ 50 cents | $0.50
- six weeks | six months
- 30 days | one month
- 750 g | 750 kg
- 22 weeks | 22 days
- 22 | 22 days
- £26 | 26 lb
- 98 °F | 98 °C
- 5 feet 9 inches | 5 feet 10 inches
- 50 | 50%

# A bare number has the unit of the question.
? How many days of leave are there?
+ 22 | 22 days
+ 22 days | 22
- 22 weeks | 22

? How many kilograms may the lift carry?
+ 0.75 tonnes | 750
- 750 g | 750

? How much is the allowance?
+ 26 | £26

? What percentage works from home?
+ 40 | 40%

? How long is probation?
- six | six months

# A name matches only if its words are together, in order, and not part of another name.
- York | New York
- York New | New York
- New York | York
- South Korea | North Korea
- South Korea | Korea
- Percy Shelley | Mary Shelley
- Shelley | Mary Shelley
- John Smith | Robert Smith
- P. Smith | John Smith
- the vice president | the president
- carbon monoxide | carbon dioxide

# Titles, initials and short forms do not matter.
+ New York City | New York
+ It was written by Mary Shelley in 1818. | Mary Shelley
+ Mary Wollstonecraft Shelley | Mary Shelley
+ Hugh Samuel Johnson | Hugh S. Johnson
+ Hugh Johnson | Hugh S. Johnson
+ Bhimrao Ramji Ambedkar | B. R. Ambedkar
+ Dr. B.R. Ambedkar | B. R. Ambedkar
+ Alexander Fleming | Sir Alexander Fleming
+ President Barack Obama | Barack Obama
+ Martin Luther King | Martin Luther King Jr.
+ Bob Smith | Robert Smith
+ Leonardo Vinci | Leonardo da Vinci
+ Washington DC | Washington, D.C.
+ weston super mare | Weston-super-Mare

# A person may be named by the family name.
? Who was it?
= Mary Shelley
+ Shelley
+ Shelley, Mary
- the novelist Shelley
- Percy Shelley
- Mary

? Who was it?
+ George Washington | General George Washington
+ George Barnes | George Warren Barnes
+ William Alan Friedle | Will Friedle
- director | finance director
- the council | district councils

# Initialisms are checked letter by letter.
+ USA | United States of America
+ the U.S. | United States
+ the UK | United Kingdom
+ ISS | International Space Station
+ National Aeronautics and Space Administration | NASA
+ CO2 | carbon dioxide
- tell us | United States
- ISA | International Space Station
- it is | Indian Space

# Inflection, American or British spelling, accents and hyphens do not matter.
+ blue whales | the blue whale
+ on Wednesday | Wednesdays
+ it rained heavily | heavy rain
+ the gray color | grey colour
+ the theater center | theatre centre
+ organization | organisation
+ travelling | traveled
+ Röntgen | Rontgen
+ Roentgen | Röntgen
+ cafe | Café
+ email | e-mail
+ ice-cream | ice cream
+ the director of finance | the finance director
+ in the car park to the north | the north car park
+ The Finance Director approves it. | finance director
+ gold, mercury and copper | copper and gold
+ P-A-D-A-W-A-N. | Padawan
+ St. Louis | Saint Louis

# Other words are not stated.
- the line manager | the finance director
- the managing director | the finance director
- the south car park | the north car park
- Monday | Wednesday
- heavy traffic | heavy rain
- copper | copper and gold
- C | C++
- management | manager
- I don't know | safety glasses
- under the bridge | over the bridge

# A denied answer is not stated.
= six months
+ No, six months
- not six months but three months
- Six months is not the limit

+ It isn't allowed | not allowed
+ not only orange but also red | orange
+ not until 1989 | 1989
- not allowed | allowed
- Dogs are not allowed | allowed
- allowed | not allowed
- rather than orange, green | orange

? What is not allowed?
+ Dogs are not allowed | dogs
"""


@pytest.mark.parametrize("pair", answer_pairs(TABLE), ids=str)
def test_a_form_states_the_reference_or_does_not(pair: AnswerPair) -> None:
    assert matches_any(pair.answer, [pair.reference], question=pair.question) is pair.is_stated


def test_a_row_of_digits_too_long_for_a_number_is_compared_as_a_word() -> None:
    """Thousands of digits are compared as text: equal digits match, other digits do not, and nothing is raised."""
    assert matches_any(f"code {'7' * 3000}", ["7" * 3000])
    assert not matches_any("7" * 3000, ["7" * 2999])
