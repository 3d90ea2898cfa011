"""SQuAD and its variants (XQuAD, MLQA): articles of paragraphs, with questions about each paragraph.

ALCE: the data sets ASQA, QAMPARI and ELI5 with retrieved passages, and prompt files with four examples each.

QAMPARI, in its authors' form: questions with many answers, each with its proof.

LFRQA, of RAG-QA Arena: questions with long answers, and the documents that the answers cite.

RetrievalQA: short questions on new and rare facts, with passages that a search engine found.

NQ-open, in Google's form, and with contexts, as in the files of "Lost in the Middle".

OpenQA-eval: questions, reference answers, and the answers of a system.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_elements, json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Check, Records, check_records

SEPARATOR: Final = "\n\n"  # between two paragraphs of an article


def read_squad(path: Path) -> Records:
    """Yield records with the question's paragraph as the gold passage: its text, and its span in the article.

    The source of the span is the article's title, which is also the tag `title`; an article without a title is named
    by its number, "article 3". The offsets of the span refer to the article's text as `articles` returns it. Offsets of
    answers in the paragraph are kept under `extra["answer_starts"]`.
    """
    for check, source, paragraphs in _articles(path):
        start = 0
        for i, paragraph in enumerate(paragraphs):
            context = check.text(paragraph.get("context"), "paragraphs", i, "context")
            end = start + len(context)
            gold = {"text": context, "source": source, "start": start, "end": end}
            start = end + len(SEPARATOR)
            for j, question in enumerate(check.objects(paragraph.get("qas"), "paragraphs", i, "qas")):
                place = f"{check.place}, paragraph {i + 1}, question {j + 1}"
                yield place, _record(Check(place), question, gold)


def articles(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the source and the text of each article: its paragraphs, separated by blank lines."""
    for check, source, paragraphs in _articles(path):
        texts = enumerate(paragraph.get("context") for paragraph in paragraphs)
        yield source, SEPARATOR.join(check.text(text, "paragraphs", i, "context") for i, text in texts)


def _articles(path: Path) -> Iterator[tuple[Check, str, list[dict[str, Any]]]]:
    """Yield the `Check`, the source and the paragraphs of each article."""
    for number, (check, article) in enumerate(check_records(json_elements(path, "data"), "paragraphs"), 1):
        title = article.get("title")
        source = f"article {number}" if title is None else check.text(title, "title")
        yield check, source, check.objects(article["paragraphs"], "paragraphs")


def _record(check: Check, question: dict[str, Any], gold: dict[str, Any]) -> dict[str, Any]:
    answers = check.objects(question.pop("answers", None), "answers")
    texts = [check.text(answer.get("text"), "answers", i, "text") for i, answer in enumerate(answers)]
    return {
        **question,
        "answers": list(dict.fromkeys(texts)),
        "gold": [gold],
        "tags": {"title": gold["source"]},
        "answer_starts": [answer.get("answer_start") for answer in answers],
    }


IDS: Final = ("id", "sample_id", "qid")


def _is_prompt(shape: Shape) -> bool:
    return shape.mentions("demos", "demo_prompt", "doc_prompt")


def read_alce(path: Path) -> Records:
    """Yield records with the long answer as `reference`, and the short answers with their aliases as `answer_set`.

    The short answers are QAMPARI's `answers`, or the `short_answers` of ASQA's `qa_pairs`. The id is `id`, `sample_id`
    or `qid`; if a record has none of these keys, it is the record's number. The passages were retrieved by a system,
    so they are not gold; they are kept under `extra["passages"]`.
    """
    records = json_elements(path, "demos") if _is_prompt(Shape(path)) else json_records(path)
    for number, (check, record) in enumerate(check_records(records, "question"), 1):
        ids = [record.pop(key) for key in IDS if record.get(key) is not None]
        passages = check.objects(record.pop("docs", None), "docs")
        reference = record.pop("answer", None)
        record |= {
            "id": ids[0] if ids else number,
            "answer_set": _answer_set(record, check),
            "answers": [],
            "reference": reference if reference != "" else None,
            PASSAGES_KEY: passages,
        }
        yield check.place, record


def _answer_set(record: dict[str, Any], check: Check) -> list[list[str]]:
    asqa = [
        check.texts(pair.get("short_answers"), "qa_pairs", i, "short_answers")
        for i, pair in enumerate(check.objects(record.get("qa_pairs"), "qa_pairs"))
    ]
    qampari = [
        check.texts(aliases, "answers", i)
        for i, aliases in enumerate(check.array(record.get("answers"), "answers"))
    ]
    return [list(dict.fromkeys(aliases)) for aliases in (*asqa, *qampari) if aliases]


def read_qampari(path: Path) -> Records:
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


def read_lfrqa(path: Path) -> Records:
    """Yield records with the long answer as `reference` and the cited documents as gold passages, by id.

    The tag `domain` is the first part of the id: "writing" of "writing-search-test-510".
    """
    for check, record in check_records(json_records(path), "qid", "question", "answer"):
        identifier = check.name(record.pop("qid"), "qid")
        cited = check.array(record.pop("gold_doc_ids", None), "gold_doc_ids")
        documents = [check.name(document, "gold_doc_ids", i) for i, document in enumerate(cited)]
        record |= {
            "id": identifier,
            "reference": check.text(record.pop("answer"), "answer"),
            "gold": [{"id": document} for document in dict.fromkeys(documents)],
            "tags": {"domain": identifier.partition("-")[0]},
        }
        yield check.place, record


def read_retrievalqa(path: Path) -> Records:
    """Yield records with `ground_truth` as the answers; the tag `source` is the data set that a question is from.

    The contexts were retrieved by a system, so they are not gold; they are kept under `extra["passages"]`. A context is
    an object, or in some records a text.
    """
    for check, record in check_records(json_records(path), "question_id", "question", "ground_truth"):
        answers = check.texts(record.pop("ground_truth"), "ground_truth")
        source = record.pop("data_source", None)
        contexts = [
            {"text": context} if isinstance(context, str) else check.object(context, "context", i)
            for i, context in enumerate(check.array(record.pop("context", None), "context"))
        ]
        record |= {
            "id": check.name(record.pop("question_id"), "question_id"),
            "answers": list(dict.fromkeys(answers)),
            "tags": {} if source is None else {"source": check.text(source, "data_source")},
            PASSAGES_KEY: contexts,
        }
        yield check.place, record


def read_nq_open(path: Path) -> Records:
    """Yield records with the contexts that are marked `isgold` as gold passages.

    The default id of a record is its number, from 1. A gold passage has the text of the context and, if it has one, its
    id. All contexts are kept under `extra["passages"]`. Answers of EfficientQA's test set that people rated (such as
    `def_correct_predictions`) are kept under `extra`, and are not reference answers.
    """
    for number, (check, record) in enumerate(check_records(json_records(path)), 1):
        if "ctxs" not in record:
            check.record(record, "question", "answer")
            answers = check.texts(record.pop("answer"), "answer")
            yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
            continue
        check.record(record, "question")
        contexts = check.objects(record.pop("ctxs"), "ctxs")
        gold = [
            {"id": context.get("id"), "text": check.text(context.get("text"), "ctxs", i, "text")}
            for i, context in enumerate(contexts)
            if context.get("isgold") is True
        ]
        yield check.place, {"id": number, **record, "gold": gold, PASSAGES_KEY: contexts}


def read_openqa(path: Path) -> Records:
    """Yield records; the default id is the record's number, from 1. The system's answer is `extra["prediction"]`."""
    for number, (check, record) in enumerate(check_records(json_records(path), "question", "answer"), 1):
        answers = check.texts(record.pop("answer"), "answer")
        yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
