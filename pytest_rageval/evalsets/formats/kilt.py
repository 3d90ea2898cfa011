"""KILT: questions, statements and dialogues with the Wikipedia pages that support their answers.

CLAP NQ: questions with long answers, and the passage that each answer is from, in records that resemble those of KILT.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats import KILT_OUTPUT
from pytest_rageval.evalsets.records import Check, Records, check_records


def read_kilt(path: Path) -> Records:
    """Yield records with each page of the provenance as a gold passage, by its Wikipedia id.

    A page is one gold passage, even if several of its paragraphs are cited. Paragraph and character offsets stay under
    `extra["provenance"]`, since they refer to KILT's own snapshot of Wikipedia.

    KILT has a set of pages for each output. All pages of a set are needed, and any one set is enough. KILT's own
    precision@k and recall@k count a set as one hit, at the rank of its last page, and look beyond rank k for it. The
    scores of this package count pages among the first k. The sets are kept under `extra["evidence_sets"]`.

    Keys of an output that are not of KILT are kept with it under `extra["output"]`.
    """
    for check, record in check_records(json_records(path), "id", "input"):
        outputs = check.objects(record.pop("output", None), "output")
        if any(output.keys() - KILT_OUTPUT for output in outputs):
            record["output"] = outputs
        answers = [
            check.text(output["answer"], "output", i, "answer")
            for i, output in enumerate(outputs)
            if output.get("answer") not in (None, "")
        ]
        provenance = [
            check.objects(output.get("provenance"), "output", i, "provenance")
            for i, output in enumerate(outputs)
        ]
        sets = [_pages(sources, check) for sources in provenance]
        sources = list(chain(*provenance))
        record |= {
            "question": check.text(record.pop("input"), "input"),
            "answers": list(dict.fromkeys(answers)),
            "gold": [{"id": page} for page in dict.fromkeys(chain(*sets))],
        }
        if sources:
            distinct = {frozenset(pages): pages for pages in reversed(sets) if pages}
            record |= {"provenance": sources, "evidence_sets": list(distinct.values())[::-1]}
        yield check.place, record


def read_clapnq(path: Path) -> Records:
    """Yield records with the passages as gold passages, by text, and the long answer as `reference`.

    A question whose answer is empty has neither gold passages nor a reference: its passages do not answer it. The
    passages are kept under `extra["passages"]`, and what is known of the answers under `extra["output"]`.
    """
    for check, record in check_records(json_records(path), "id", "input", "passages", "output"):
        passages = check.objects(record["passages"], "passages")
        texts = [check.text(passage.get("text"), "passages", i, "text") for i, passage in enumerate(passages)]
        outputs = check.objects(record["output"], "output")
        answers = [output["answer"] for output in outputs if output.get("answer") not in (None, "")]
        record |= {
            "question": check.text(record.pop("input"), "input"),
            "gold": [{"text": text} for text in dict.fromkeys(texts)] if answers else [],
            "reference": answers[0] if answers else None,
        }
        yield check.place, record


def _pages(sources: Sequence[Mapping[str, Any]], check: Check) -> list[str]:
    """Return the distinct pages of one output's provenance."""
    pages = (
        check.name(source["wikipedia_id"], "provenance", i, "wikipedia_id")
        for i, source in enumerate(sources)
        if source.get("wikipedia_id") is not None
    )
    return list(dict.fromkeys(pages))
