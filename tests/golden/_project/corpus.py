"""A corpus of passages with codes, its search, and the model that reads them."""

import json
import os
import re

CORPUS = {f"doc-{n}": f"Of all things, item-{n} has the code c{n}x." for n in range(1, 101)}
WORSE = os.environ.get("RETRIEVER") == "worse"


def search(query, k):
    """Return the passage on the item of the query, then others; RETRIEVER=worse loses some, and ranks some lower."""
    wanted = int(re.search(r"item-(\d+)", query)[1])
    others = [f"doc-{n}" for n in range(1, 101) if n != wanted]
    if not WORSE or wanted % 5 == 0:
        names = [f"doc-{wanted}", *others]
    elif wanted % 5 == 1:
        names = [others[0], f"doc-{wanted}", *others[1:]]
    else:
        names = others
    return [{"id": name, "text": CORPUS[name]} for name in names[:k]]


def fenced(prompt, title):
    """Return the text between the fences after a title."""
    return re.findall(rf"^{title}:\n<[^\n]*>\n(.*?)\n</", prompt, re.DOTALL | re.MULTILINE)[-1]


def reply(prompt):
    """Return the reply of a model that only knows the codes in its passages."""
    item = re.findall(r"Question: .*item-(\d+)\?", prompt)[-1]
    fact, code = f"item-{item} has the code c{item}x", f"c{item}x"
    match " ".join(prompt.split()[:3]):
        case "Decide whether an":
            checked = fenced(prompt, "Answer to check")
            references = fenced(prompt, "Reference answers").removeprefix("- ").split("\n- ")
            said = "yes" if checked in references else "no"
        case "Decide whether a":
            said = "yes" if fact in fenced(prompt, "Passage") else "no"
        case "Decide whether passages":
            said = f"The code is needed.\nVerdict: {'yes' if fact in fenced(prompt, 'Passages') else 'no'}"
        case "Grade an answer":
            said = "5" if code in fenced(prompt, "Answer to grade") else "2"
        case "Rate how correct" | "Rate how faithful":
            said = json.dumps(
                {"explanation": "So it is.", "grade": 4 if code in fenced(prompt, "Answer to rate") else 1}
            )
        case "Rate how good":
            said = json.dumps(
                {
                    "explanation": "It has the code.",
                    "grade": 5 if fact in fenced(prompt, "Retrieved passages") else 2,
                }
            )
        case "Label each nugget,":
            said = json.dumps(
                ["support" if code in fenced(prompt, "Text") else "not_support", "partial_support"]
            )
        case "Compare two answers":
            merits = [
                2 * (code in fenced(prompt, f"Answer {n}")) + ("long story" in fenced(prompt, f"Answer {n}"))
                for n in (1, 2)
            ]
            said = f"I looked at both. <rating>{0 if merits[0] == merits[1] else 1 + (merits[1] > merits[0])}</rating>"
        case "List all answers":
            numbers = [
                line.partition("]")[0] + "]"
                for line in fenced(prompt, "Passages").splitlines()
                if fact in line
            ]
            said = f"{code} {''.join(numbers)}" if numbers else "no answer in the documents"
        case _:
            found = fact in fenced(prompt, "Passages")
            long = "whole sentences" in prompt.partition("\n")[0]
            said = (f"In short, it is {code}." if long else code) if found else "no answer in the documents"
    return said


async def client(model, messages, **parameters):
    """Reply as `reply`; with MODEL=forgetful it does not know most items."""
    prompt = messages[-1]["content"]
    text = reply(prompt)
    if os.environ.get("MODEL") == "forgetful" and not re.search(r"item-\d*[05]\?", prompt):
        text = "I do not know."
    return {
        "model": f"served-{model}",
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": len(prompt) // 4, "completion_tokens": 1},
    }
