"""Worked examples of prompts.

Their facts are invented or common knowledge, so a model's own knowledge neither helps nor misleads. Most examples have
several passages: from one passage a base model learns to copy, from several to choose. A changed word requests all
replies again and makes baselines stale.
"""

from collections.abc import Sequence
from typing import Final

WorkedExample = tuple[str, tuple[str, ...], str]  # a question, its passages, and the reply

CABLE_CAR: Final = (
    "The cable car Aurelie climbs from Brack to the Senn plateau in eleven minutes. Dogs ride along for "
    "2 crowns, skis for nothing."
)
BATHS: Final = (
    "The swimming baths of Brack are closed on Tuesdays. A season ticket costs 45 crowns and is sold at "
    "the kiosk by the gate."
)
OBSERVATORY: Final = (
    "Brack observatory was finished in 1962. Its dome is copper, and on clear nights the keeper, Ilse "
    "Corvin, shows visitors the moon."
)
HUTS: Final = (
    "The Senn plateau has three huts. The lowest, Fern Hut, is open all year; the others close in "
    "October when the first snow comes."
)
ROADS: Final = "Two roads leave Brack. The upper one crosses the Tamm on the Ostrel bridge, built in 1931."
RIVER: Final = "The river Tamm runs under the Ostrel bridge and, two miles on, under the Linden bridge."

ANSWER_EXAMPLES: Final[tuple[WorkedExample, ...]] = (
    ("What is the cable car to the Senn plateau called?", (HUTS, CABLE_CAR, OBSERVATORY), "Aurelie"),
    ("How much is a season ticket for the baths?", (BATHS, HUTS, CABLE_CAR), "45 crowns"),
    ("When was the observatory in Brack finished?", (CABLE_CAR, BATHS, OBSERVATORY), "1962"),
    ("Which hut can be visited in winter?", (OBSERVATORY, HUTS, BATHS), "Fern Hut"),
)
"""Short answers."""

CITING_EXAMPLES: Final[tuple[WorkedExample, ...]] = (
    ("Which bridges cross the Tamm?", (RIVER, BATHS, ROADS), "Ostrel bridge [1][3], Linden bridge [1]"),
    ("What may ride along in the cable car?", (OBSERVATORY, CABLE_CAR, HUTS), "dogs [2], skis [2]"),
)
"""Lists of all answers, each with the numbers of its passages."""

LONG_ANSWER_EXAMPLES: Final[tuple[WorkedExample, ...]] = (
    (
        ("What should visitors of the Senn plateau know about getting there and staying overnight?"),
        (HUTS, OBSERVATORY, CABLE_CAR),
        (
            "The cable car Aurelie takes them up from Brack in eleven minutes; dogs cost 2 crowns, skis "
            "nothing. There are three huts on the plateau, of which only the lowest, Fern Hut, stays "
            "open when the first snow comes in October."
        ),
    ),
    (
        "How does one cross the river near Brack?",
        (BATHS, ROADS, RIVER),
        (
            "The upper of the two roads out of Brack crosses the Tamm on the Ostrel bridge, which was "
            "built in 1931. Two miles further down, the Linden bridge crosses the river as well."
        ),
    ),
)
"""Answers in whole sentences that combine two of the passages."""

SEARCH_EXAMPLES: Final[tuple[tuple[str, str, Sequence[str]], ...]] = (
    (
        "how long do swifts live",
        (
            "Swifts live for about nine years on average. Some ringed birds have reached the age of "
            "twenty, nearly all of it spent in the air."
        ),
        [
            "average lifespan of a swift",
            "oldest ringed bird on record",
            "common swift facts: age, size, weight",
            "what do swifts die of",
        ],
    ),
    (
        "what is a tarn",
        (
            "A tarn is a small lake in the mountains, mostly in a hollow that a glacier has carved out. "
            "Tarns are fed by rain and meltwater, and many have no visible outflow."
        ),
        [
            "tarn definition in geography",
            "mountain lake formed by a glacier",
            "difference between a lake and a tarn",
            "examples of glacial landforms",
        ],
    ),
    (
        "average cost to repaint a car",
        (
            "Repainting a car costs between $1,000 and $4,000 on average. The price depends on the size "
            "of the car, the kind of paint, and how much rust has to be removed first."
        ),
        [
            "car paint job price",
            "how much is a full respray",
            "body shop rates per hour for painting",
            "cheap versus professional auto paint",
        ],
    ),
    (
        "why does bread go stale",
        (
            "Bread goes stale because the starch in it crystallises as it cools, which makes the crumb "
            "firm and dry. The cold of a refrigerator speeds this up."
        ),
        [
            "what makes old bread hard and dry",
            "starch crystallisation in a loaf",
            "should you keep bread in the refrigerator",
            "how to store bread to keep it fresh",
        ],
    ),
)
"""Questions, each with a passage that answers it, and with search queries that share few words with the question."""

PREFERENCE_EXAMPLES: Final[tuple[tuple[str, str, str, str, int], ...]] = (
    (
        "What should one know before going to the swimming baths of Brack?",
        (
            "The baths are closed on Tuesdays. A season ticket costs 45 crowns and is sold at the kiosk "
            "by the gate."
        ),
        "The baths are closed on Tuesdays.",
        (
            "Both answers are correct. Answer 1 adds what a ticket costs and where it is sold, which "
            "helps before a visit."
        ),
        1,
    ),
    (
        "How does one get to the Senn plateau?",
        ("One has to walk up from Brack, as there is no other way. The cable car takes eleven minutes."),
        "The cable car Aurelie goes up from Brack in eleven minutes.",
        (
            "Answer 1 says that there is no other way than to walk and then names a cable car, so a part "
            "of it is wrong. Answer 2 is shorter, but without errors."
        ),
        2,
    ),
    (
        "Is the observatory of Brack worth a visit in winter?",
        (
            "Opinions differ. On clear winter nights the moon can be seen well through its telescope; "
            "others find the dome too cold to stay for long."
        ),
        (
            "Some visitors say so, since winter nights are clear and the keeper shows them the moon. "
            "Others advise against it, because the dome is not heated."
        ),
        ("Both give the two opinions with their reasons, and neither says more than the other."),
        0,
    ),
)
"""Questions, each with two answers, a judge's reasons, and its rating: 1, 2, or 0 for neither."""
