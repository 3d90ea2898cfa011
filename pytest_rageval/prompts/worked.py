"""Worked examples that prompts show; all their facts are invented, or known to everybody.

What the model knows of the world neither helps nor misleads.
"""

from typing import Final

__all__ = ["ANSWERED", "EXPLAINED", "LISTED", "SEARCHED", "WRITTEN"]


_CABLE_CAR: Final = (
    "The cable car Aurelie climbs from Brack to the Senn plateau in eleven minutes. Dogs ride along for "
    "2 crowns, skis for nothing."
)

_BATHS: Final = (
    "The swimming baths of Brack are closed on Tuesdays. A season ticket costs 45 crowns and is sold at "
    "the kiosk by the gate."
)

_OBSERVATORY: Final = (
    "Brack observatory was finished in 1962. Its dome is copper, and on clear nights the keeper, Ilse "
    "Corvin, shows visitors the moon."
)

_HUTS: Final = (
    "The Senn plateau has three huts. The lowest, Fern Hut, is open all year; the others close in "
    "October when the first snow comes."
)

ANSWERED: Final = (
    ("What is the cable car to the Senn plateau called?", (_HUTS, _CABLE_CAR, _OBSERVATORY), "Aurelie"),
    ("How much is a season ticket for the baths?", (_BATHS, _HUTS, _CABLE_CAR), "45 crowns"),
    ("When was the observatory in Brack finished?", (_CABLE_CAR, _BATHS, _OBSERVATORY), "1962"),
    ("Which hut can be visited in winter?", (_OBSERVATORY, _HUTS, _BATHS), "Fern Hut"),
)
"""Questions with several passages and a short answer: among one a base model learns to copy, not to choose."""

_ROADS: Final = "Two roads leave Brack. The upper one crosses the Tamm on the Ostrel bridge, built in 1931."

_RIVER: Final = "The river Tamm runs under the Ostrel bridge and, two miles on, under the Linden bridge."

LISTED: Final = (
    (
        "Which bridges cross the Tamm?",
        (_RIVER, _BATHS, _ROADS),
        "Ostrel bridge [1][3], Linden bridge [1]",
    ),
    ("What may ride along in the cable car?", (_OBSERVATORY, _CABLE_CAR, _HUTS), "dogs [2], skis [2]"),
)
"""Questions with several answers, each with the numbers of its passages."""

EXPLAINED: Final = (
    (
        "What should visitors of the Senn plateau know about getting there and staying overnight?",
        (_HUTS, _OBSERVATORY, _CABLE_CAR),
        (
            "The cable car Aurelie takes them up from Brack in eleven minutes; dogs cost 2 crowns, skis nothing. There "
            "are three huts on the plateau, of which only the lowest, Fern Hut, stays open when the first snow comes "
            "in October."
        ),
    ),
    (
        "How does one cross the river near Brack?",
        (_BATHS, _ROADS, _RIVER),
        (
            "The upper of the two roads out of Brack crosses the Tamm on the Ostrel bridge, which was built in 1931. "
            "Two miles further down, the Linden bridge crosses the river as well."
        ),
    ),
)
"""Questions with an answer in whole sentences, which joins two of the passages."""

WRITTEN: Final = tuple(
    (next(text for text in page if answer in text), f"Question: {question}\nAnswer: {answer}")
    for question, page, answer in ANSWERED
)
"""Passages, and what is written about each."""

SEARCHED: Final = (
    (
        "how long do swifts live",
        (
            "Swifts live for about nine years on average. Some ringed birds have reached the age of twenty, "
            "nearly all of it spent in the air."
        ),
        (
            "average lifespan of a swift",
            "oldest ringed bird on record",
            "common swift facts: age, size, weight",
            "what do swifts die of",
        ),
    ),
    (
        "what is a tarn",
        (
            "A tarn is a small lake in the mountains, mostly in a hollow that a glacier has carved out. Tarns are "
            "fed by rain and meltwater, and many have no visible outflow."
        ),
        (
            "tarn definition in geography",
            "mountain lake formed by a glacier",
            "difference between a lake and a tarn",
            "examples of glacial landforms",
        ),
    ),
    (
        "average cost to repaint a car",
        (
            "Repainting a car costs between $1,000 and $4,000 on average. The price depends on the size of the car, "
            "the kind of paint, and how much rust has to be removed first."
        ),
        (
            "car paint job price",
            "how much is a full respray",
            "body shop rates per hour for painting",
            "cheap versus professional auto paint",
        ),
    ),
    (
        "why does bread go stale",
        (
            "Bread goes stale because the starch in it crystallises as it cools, which makes the crumb firm and dry. "
            "The cold of a refrigerator speeds this up."
        ),
        (
            "what makes old bread hard and dry",
            "starch crystallisation in a loaf",
            "should you keep bread in the refrigerator",
            "how to store bread to keep it fresh",
        ),
    ),
)
"""Questions, each with a passage that answers it and with queries that share few of its words."""
