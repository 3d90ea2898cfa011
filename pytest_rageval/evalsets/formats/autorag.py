"""AutoRAG: questions with gold passages by id, of which some are alternatives, and a corpus beside them."""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.corpus import texts_by_id
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, Records, check_records
from pytest_rageval.lib.foreign_values import id_key

CORPUS: Final = "corpus.parquet"


def read(path: Path, *, texts: bool = True) -> Records:
    """Yield records with `generation_gt` as the answers, and the passages of `retrieval_gt` as gold.

    `retrieval_gt` is a list of lists: one passage of each inner list is needed. The passages of an inner list are a
    group, which is named by its number, from 1.

    Args:
        path: path of the file, as Parquet or JSON lines.
        texts: True to take the texts of the gold passages from `corpus.parquet` in the same folder, if there is one.
    """
    file = path.parent / CORPUS
    known: dict[str, str] = {}
    if texts and file.exists():
        passages = (_gold(record, check) for check, record in check_records(json_records(path)))
        known = texts_by_id(file, {passage["id"] for gold in passages for passage in gold})
    for check, record in check_records(json_records(path), "qid", "query"):
        answers = record.pop("generation_gt", None)
        record |= {
            "id": check.name(record.pop("qid"), "qid"),
            "question": check.text(record.pop("query"), "query"),
            "answers": [answers] if isinstance(answers, str) else check.texts(answers, "generation_gt"),
            "gold": [
                {**passage, "text": known.get(id_key(passage["id"]))} for passage in _gold(record, check)
            ],
        }
        yield check.place, record


def _gold(record: dict[str, Any], check: Check) -> list[dict[str, Any]]:
    groups = check.array(record.pop("retrieval_gt", None), "retrieval_gt")
    gold = []
    for number, group in enumerate(groups, 1):
        alternatives = group if isinstance(group, list) else [group]
        names = dict.fromkeys(check.name(each, "retrieval_gt", number - 1) for each in alternatives)
        gold += [{"id": name, "group": str(number)} if len(names) > 1 else {"id": name} for name in names]
    return gold
