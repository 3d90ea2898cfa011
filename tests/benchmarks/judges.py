"""Agreement of a small model as the judge with people: `python tests/benchmarks/judges.py CACHE [ITEMS]`.

The embedded model judges a random sample (seed 0; default: 150 items) of the 1,490 labelled answers of openqa_eval. Its
prompt has worked examples, and a grammar allows only yes and no. The script prints Cohen's kappa with people and the
number of yes verdicts; then the table of `comparators.py` for the same sample and for all items. Replies are stored in
the folder CACHE, so that an interrupted run can be continued.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.replies import parse_yes_no
from pytest_rageval.models.messages import Request
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.session import Session
from tests.benchmarks.comparators import show, table
from tests.judged_answers import JudgedAnswer, openqa_eval

ITEMS = 150

SHOTS = (
    ("When was the observatory in Brack finished?", ("1962", "in 1962"), "It was finished in 1962.", "yes"),
    ("Who keeps the observatory?", ("Ilse Corvin",), "Corvin Hald", "no"),
    ("How much is a season ticket for the baths?", ("45 crowns",), "54 crowns", "no"),
    ("Which hut can be visited in winter?", ("Fern Hut", "the Fern Hut"), "the fern hut, all year", "yes"),
    ("What is the cable car called?", ("Aurelie",), "the Senn plateau", "no"),
    ("Which river runs under the Ostrel bridge?", ("the Tamm", "Tamm"), "river Tamm", "yes"),
)
"""Worked examples: question, references, answer and verdict. Their facts are invented."""


def prompt(item: JudgedAnswer) -> str:
    worked = "".join(f"{_case_text(*shot)} {verdict}\n\n" for *shot, verdict in SHOTS)
    return (
        "An answer is right if it says the same as one of the reference answers.\n\n"
        f"{worked}{_case_text(item.question, item.references, item.prediction)}"
    )


def _case_text(question: str, references: Sequence[str], answer: str) -> str:
    return (
        f"Question: {question}\nReference answers: {' | '.join(references)}\nAnswer: {answer}\n"
        "Is the answer right (yes or no)?"
    )


async def verdict(session: Session, item: JudgedAnswer) -> bool:
    server, model = session.models.generator_model()
    request = Request(
        base_url=server.base_url,
        model=model,
        messages=({"role": "user", "content": prompt(item)},),
        parameters={
            "temperature": 0.0,
            "max_tokens": 2,
            "extra_body": {"grammar": 'root ::= " "? ("yes" | "no")'},
        },
    )
    return bool(parse_yes_no((await session.gateway.get_reply(server, request)).text))


def main(cache: Path, items: int) -> None:
    judged = openqa_eval()
    sample = random.Random(0).sample(judged, min(items, len(judged)))
    session = Session(Settings(cache_dir=cache, timeout=600.0, model="embedded"))

    async def verdicts() -> list[bool]:
        return await asyncio.gather(*(verdict(session, item) for item in sample))

    began = time.monotonic()
    try:
        model_verdicts = session.loop.run(verdicts())
    finally:
        session.close()
    print(f"{len(sample)} of {len(judged)} items, {time.monotonic() - began:.0f} s")  # noqa: T201
    show("embedded model as judge", [item.accepted for item in sample], model_verdicts)
    yes_count, people_count = sum(model_verdicts), sum(item.accepted for item in sample)
    print(f"  says yes to {yes_count} of {len(model_verdicts)}, people to {people_count}")  # noqa: T201
    for name, chosen in (("the same items", sample), ("all items", judged)):
        print(f"\n{name}")  # noqa: T201
        asyncio.run(table(chosen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else ITEMS)
