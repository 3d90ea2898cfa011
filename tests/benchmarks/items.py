"""The questions and passages of the benchmarks' projects; each project has a copy of this file.

The scripted model (`tests.llm_server.clerk`) answers a question about an item with the code that a passage names.
"""


def passage(item: int, code: str = "", part: str = "") -> dict[str, str]:
    """Return a passage of 30 to 700 characters; without a code, it answers no question."""
    said = f"Of all things, item-{item} has the code {code}." if code else f"There is an item-{item}."
    padding = "It is kept with the others in the second room. " * (item * 7 % 15)
    return {"id": f"doc-{item}{part}", "text": f"{said} {padding}".rstrip()}


def gold_passages(item: int, *, spread: bool) -> list[dict[str, str]]:
    """Return the passages with the answer: one, or two for an odd item.

    With `spread`, those of every fiftieth item have no answer, so that the question is unscored. Without, each item has
    one passage.
    """
    code = "" if spread and item % 50 == 0 else f"c{item}x"
    return [passage(item, code, part) for part in ("", "b")[: 1 + (spread and item % 2)]]


def search(item: int, k: int, *, spread: bool) -> list[dict[str, str]]:
    """Return k passages for a question.

    With `spread`, of twenty questions eleven find all gold passages; four find one, at rank 2; one finds one below a
    passage with a wrong code; two find the code in another passage; one finds a wrong code, and one no code. Without,
    each question finds its gold passage first.
    """
    gold = gold_passages(item, spread=spread)
    others = [passage(other) for other in range(item + 1, item + k + 1)]
    kind = item * 7 % 20 if spread else 0
    wrong, elsewhere = passage(item, f"c{item}y", "w"), passage(item, f"c{item}x", "e")
    if kind < 11:
        found = gold
    elif kind < 15:
        found = [others[-1], gold[0]]
    else:
        found = {15: [wrong, gold[0]], 16: [elsewhere], 17: [others[-1], elsewhere], 18: [wrong], 19: []}[
            kind
        ]
    return [*found, *others][:k]
