"""Whether an answer is an abstention: the generator declined to answer."""

import pytest

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.models.prompts import ABSTENTION

DECLINED = """
no answer in the documents
There is no answer in the provided passages.
No answer found in the documents
No answer in the context.
There is no information about this in the documents.
There is no information on the price.
There are no details about the launch.
There isn't any information about this.
There is nothing about it in the passages.
Nothing in the passages says so.
No relevant information was found.
No information about the price is provided.
No information available
No Information Found
No mention of it was made.
No data on this is available in the documents.
The passages do not mention the colour.
The passages don't say.
The documents don't say.
The passages [1] and [2] do not say who built it.
Passage 3 does not say.
The provided passages do not include the launch date.
The context does not contain the answer.
The context does not provide this.
The given text does not specify when it opened.
The text provided does not state the price.
The article never mentions a date.
The documents do not contain any information about refunds.
The documentation does not answer this question.
None of the passages mentions a bridge.
None of the documents contain the answer.
The passages give no answer.
The passages contain no information about bridges.
The documents make no mention of it.
The passages say nothing about that.
The passages are silent on this.
The information provided is not sufficient.
The passages do not explicitly state the age of the keeper.
Based on the provided passages, the colour is not mentioned.
According to the documents, there is no information about a refund.
The date is not given in the text.
The colour of the boat is not explicitly mentioned in the provided context.
The opening date is not stated or given in any of the passages.
The answer is not in the passages.
It is not in these documents.
The answer cannot be determined from the passages.
The question cannot be answered from the given context.
The information cannot be found
This information is not available.
The answer is not provided.
Not stated in the passages.
Not stated
Not provided
Not mentioned in the text.
not enough information
Not enough information to answer.
Insufficient information.
Insufficient context to answer the question.
There is not enough information in the passages.
Sorry, I could not find an answer.
I'm sorry, but I cannot answer this question.
Unfortunately, the documents do not say.
I couldn’t find the answer.
I could not find the colour in the passages.
I don't know.
I do not know the answer to this question.
I don't know who wrote it.
We do not know
Don't know.
We cannot determine this.
I cannot say.
I can't tell from the passages.
I am unable to answer
I'm not sure.
I have no idea.
I have no information about that.
I do not have enough information to answer
I don't have that information.
I do not have access to the price list.
I don't have enough context to answer this.
Unable to determine the answer.
The provided documents do not contain information regarding the refund window.
Based on the information provided, it is not possible to determine the date.
No specific date is mentioned.
Neither passage mentions the price.
There's no information about that in the text.
The passages lack information about the price.
Answer not found.
The retrieved passages are not relevant to the question.
Information about the price is not provided.
Cannot be determined.
It is unknown.
It is unclear from the passages.
**Unknown.**
Unanswerable
N/A
"The passages do not say."
"""

ANSWERED = """
16 years
No
no one
None
nothing
Not before May
Not in May
Not included
No, it is free.
Unknown Pleasures
The Unknown
Notre-Dame
Answer
It does not rain there.
He could not swim
Batteries are not included in the box.
Shipping is not included in the price
Comments are not shown in the preview
The Studio plan is not available in the EU
The pen is not found in any shop
No, the pen is not provided in the Slate package
The author is not known by the public
Its origin is not known
It is not known whether they are distinct classes.
The cause of the disease is unknown.
The circumstances of his death are not exactly known.
No data is stored on our servers
No data plan is needed
No information is shared with advertisers from the app
No information about you is given to advertisers
No documents are required
No evidence of guilt was needed
No answer was received from the sender
No details of the card are kept
There is no evidence to suggest that incubators differ.
There isn't a known suffix for it
There is no information desk
There is nothing in the box
Text documents do not include comments
Documents are kept for ten years
The documents are kept for ten years.
The documents do not expire
The document does not include a signature
The source does not contain gluten
The source does not provide enough power
The page does not have an index
Steam itself does not provide a way
We cannot say no
We do not answer calls on Sundays
We do not tell
We do not have a shop in Oslo
We do not provide refunds
We could not swim
I have no brother
I do not have a car
I Know What You Did Last Summer
I Don't Know How She Does It
I cannot tell a lie
Insufficient intake of vitamin C
Insufficient data rates
Not enough rain
It was founded in 1972, but the documents do not say by whom.
The passages do not say so outright, but it was Paris.
I'm not sure, but I think it was Paris.
Paris. The passages do not mention the year.
It was not mentioned in parliament
It cannot be found in nature
Cannot be earned
They were given no answer
The name was not mentioned in the text of the law
The passages do not have doors
The law does not specify a penalty.
We say that it is free
It is impossible to tell the twins apart
Data is not included in the plan
No indication
"""


@pytest.mark.parametrize("answer", DECLINED.strip().splitlines())
def test_usual_ways_to_decline(answer: str) -> None:
    assert abstains(answer)


@pytest.mark.parametrize("answer", ["", *ANSWERED.strip().splitlines()])
def test_answers_with_such_words_are_answers(answer: str) -> None:
    """A "no", a negative fact, a title, or a text that also gives an answer is not an abstention."""
    assert not abstains(answer)


def test_expected_words_are_recognised_anywhere() -> None:
    assert abstains(f"  {ABSTENTION.capitalize()}.\n")
    assert abstains(f"Answer: {ABSTENTION.title()}")
