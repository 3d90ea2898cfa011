"""Tables of answers, each of which states a reference or does not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerPair:
    line: str
    question: str
    reference: str
    answer: str
    is_stated: bool

    def __str__(self) -> str:
        return self.line


def answer_pairs(table: str) -> list[AnswerPair]:
    """Read the lines `+ ANSWER | REFERENCE`, or with "-" where the answer does not state the reference.

    Until the next blank line or comment, `? QUESTION` is the question, and `= REFERENCE` replaces `| REFERENCE`.
    """
    pairs = []
    question = shared_reference = ""
    for line in table.splitlines():
        sign, _, text = line.partition(" ")
        if sign in {"", "#"}:
            question = shared_reference = ""
        elif sign == "?":
            question = text
        elif sign == "=":
            shared_reference = text
        else:
            answer, _, own_reference = text.partition(" | ")
            reference = own_reference or shared_reference
            if sign not in {"+", "-"} or not reference:
                raise ValueError(f"{line!r} is no pair of an answer and a reference")
            pairs.append(AnswerPair(line, question, reference, answer, sign == "+"))
    return pairs
