"""QAMPARI, in its authors' form: questions with many answers, each with its proof."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records with the texts of the proofs as gold passages.

    Each answer with its aliases is an item of `answer_set`.
    """
    for check, record in check_records(json_records(path), "qid", "question_text", "answer_list"):
        answers = check.objects(record.pop("answer_list"), "answer_list")
        answer_set = []
        for i, answer in enumerate(answers):
            name = check.text(answer.get("answer_text"), "answer_list", i, "answer_text")
            aliases = check.texts(answer.get("aliases"), "answer_list", i, "aliases")
            answer_set.append(list(dict.fromkeys((name, *aliases))))
        proofs = [
            proof.get("proof_text")
            for i, answer in enumerate(answers)
            for proof in check.objects(answer.get("proof"), "answer_list", i, "proof")
        ]
        texts = [check.text(text, "proof", i, "proof_text") for i, text in enumerate(proofs) if text]
        record |= {
            "id": check.name(record.pop("qid"), "qid"),
            "question": check.text(record.pop("question_text"), "question_text"),
            "answer_set": answer_set,
            "gold": [{"text": text} for text in dict.fromkeys(texts)],
        }
        yield check.place, record
