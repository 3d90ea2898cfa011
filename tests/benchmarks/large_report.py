"""Time and memory of a large JSON report: `python tests/benchmarks/large_report.py [QUESTIONS]`.

The report has two scores, 10,000 questions by default, and ten passages of 500 characters per question. The script
prints the seconds and the peak memory after each step: computing the results of a test, writing the file, and sending
the results from an xdist worker to the controller.
"""

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.spool import Spool
from pytest_rageval.reports import json_report
from pytest_rageval.reports.build import report_document, score_entry
from pytest_rageval.reports.evidence import ExplainedScore, Retrievals, explained_questions

T = TypeVar("T")

PASSAGES, CHARACTERS, WORDS = 10, 500, 5000


def _print_time(step: str, work: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = work()
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{step:40} {seconds:6.2f} s, peak memory {peak / 1024:.0f} MB")  # noqa: T201
    return result


def large_document(questions: int) -> dict[str, Any]:
    drawn = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(drawn.choices(letters, k=drawn.randint(2, 9))) for _ in range(WORDS)]

    def outcome(n: int) -> Outcome:
        texts = (" ".join(drawn.choices(vocabulary, k=CHARACTERS // 4))[:CHARACTERS] for _ in range(PASSAGES))
        documents = [Document(text, f"doc-{n}-{rank}") for rank, text in enumerate(texts)]
        example = Example(f"q{n}", f"question {n}?", answers=("yes",), gold=(Gold(documents[3].id),))
        evidence = Evidence(Ranking.of(example.question, documents, PASSAGES), "yes", ("yes",))
        return Outcome(example, 1.0, evidence=evidence)

    outcomes = _print_time("made up", lambda: [outcome(n) for n in range(questions)])
    scores = [Score("recall@10", outcomes), Score("answer.em@10", outcomes)]
    spool = Spool()
    entries = _print_time(
        "scores, as for every report",
        lambda: [score_entry(score, None, None) for score in scores],
    )
    retrievals = Retrievals(scores)
    _print_time("tokens counted, as for every report", retrievals.entry)
    explained = [
        ExplainedScore(entry["examples"], score, None, retrievals, spool)
        for entry, score in zip(entries, scores, strict=True)
    ]
    examples = (outcome.example for outcome in outcomes)
    questions_key = _print_time(
        "questions and examples",
        lambda: explained_questions(examples, explained, retrievals, match_share=0.5, spool=spool),
    )
    entries = [{**entry, "examples": each.examples} for entry, each in zip(entries, explained, strict=True)]
    test = {
        "nodeid": "test_large.py::test_gate",
        "outcome": "passed",
        "message": "",
        "evalset": {"name": "large.jsonl", "size": questions},
        "scores": entries,
        "questions": questions_key,
    }
    return report_document(
        [test],
        settings={"generator": None, "judge": "canonical", "comparator": "judge"},
        llm={"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}},
        package="0.1.0",
        started="2026-01-01T10:00:00+00:00",
        duration_s=1.0,
    )


def main(questions: int) -> None:
    document = large_document(questions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        _print_time(
            "written", lambda: write_atomically(path, (part.encode() for part in json_report(document)))
        )
        print(f"{path.stat().st_size / 1e6:.1f} MB")  # noqa: T201
    sent = _print_time("packed by a worker", lambda: json.dumps(document))
    _print_time("read by the controller", lambda: json.loads(sent))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
