"""Published data sets of questions. docs/reference/eval-sets.md says what each reader takes from a file.

Contexts that a system retrieved are not gold passages. Like all contexts of a question they are kept under
`extra["passages"]`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_elements, json_records
from pytest_rageval.evalsets.formats import KILT_OUTPUT, Shape, is_alce_prompt
from pytest_rageval.evalsets.formats.peers import EMPTY, as_passages
from pytest_rageval.evalsets.formats.table import rows_or_records
from pytest_rageval.evalsets.formats.trec import read_questions
from pytest_rageval.evalsets.records import Check, Records, check_records

PASSAGES_KEY: Final = "passages"  # the key under `extra` for the passages that come with a question
SEPARATOR: Final = "\n\n"  # between two paragraphs of an article
ALCE_IDS: Final = ("id", "sample_id", "qid")
NO_ANSWER: Final = "No Answer Present."  # MS MARCO's placeholder for a query whose passages contain no answer
MS_MARCO_LISTS: Final = ("passages", "answers")  # columns of a table
HOPS: Final = re.compile(r"(\d)hop")
PAGE_KEYS: Final = ("pageid", "title", "url")


def by_id(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"id": name} for name in dict.fromkeys(names)]


def read_squad(path: Path) -> Records:
    """Yield records whose gold passage has a span too: its source is the article, its offsets those in `articles`."""
    for check, source, contexts, paragraphs in _articles(path):
        start = 0
        for i, (context, paragraph) in enumerate(zip(contexts, paragraphs, strict=True), 1):
            gold = {"text": context, "source": source, "start": start, "end": start + len(context)}
            start += len(context) + len(SEPARATOR)
            for j, question in enumerate(check.objects(paragraph.get("qas"), "paragraphs", i - 1, "qas"), 1):
                own = Check(f"{check.place}, paragraph {i}, question {j}")
                answers = own.objects(question.pop("answers", None), "answers")
                texts = [
                    own.text(answer.get("text"), "answers", n, "text") for n, answer in enumerate(answers)
                ]
                question |= {
                    "answers": list(dict.fromkeys(texts)),
                    "gold": [gold],
                    "tags": {"title": source},
                    "answer_starts": [answer.get("answer_start") for answer in answers],
                }
                yield own.place, question


def articles(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the source (title, or number) and the text of each article: its paragraphs, separated by blank lines."""
    return ((source, SEPARATOR.join(contexts)) for _, source, contexts, _ in _articles(path))


def _articles(path: Path) -> Iterator[tuple[Check, str, list[str], list[dict[str, object]]]]:
    for number, (check, article) in enumerate(check_records(json_elements(path, "data"), "paragraphs"), 1):
        title = article.get("title")
        source = f"article {number}" if title is None else check.text(title, "title")
        paragraphs = check.objects(article["paragraphs"], "paragraphs")
        texts = enumerate(paragraph.get("context") for paragraph in paragraphs)
        yield check, source, [check.text(text, "paragraphs", i, "context") for i, text in texts], paragraphs


def read_alce(path: Path) -> Records:
    """Yield records with QAMPARI's `answers`, the `short_answers` of ASQA's `qa_pairs`, or the `claims` of ELI5."""
    records = json_elements(path, "demos") if is_alce_prompt(Shape(path)) else json_records(path)
    for number, (check, record) in enumerate(check_records(records, "question"), 1):
        ids = [record.pop(key) for key in ALCE_IDS if record.get(key) is not None]
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


def _answer_set(record: dict[str, object], check: Check) -> list[list[str]]:
    asqa = [
        check.texts(pair.get("short_answers"), "qa_pairs", i, "short_answers")
        for i, pair in enumerate(check.objects(record.get("qa_pairs"), "qa_pairs"))
    ]
    qampari = [
        check.texts(aliases, "answers", i)
        for i, aliases in enumerate(check.array(record.get("answers"), "answers"))
    ]
    claims = [[claim] for claim in check.texts(record.get("claims"), "claims")]
    return [list(dict.fromkeys(aliases)) for aliases in (*asqa, *qampari, *claims) if aliases]


def read_asqa(path: Path) -> Records:
    for number, (check, record) in enumerate(
        check_records(json_records(path), "ambiguous_question", "qa_pairs"), 1
    ):
        annotations = check.objects(record.get("annotations"), "annotations")
        knowledge = [
            check.text(item.get("content"), "annotations", i, "knowledge", j, "content")
            for i, annotation in enumerate(annotations)
            for j, item in enumerate(
                check.objects(annotation.get("knowledge"), "annotations", i, "knowledge")
            )
        ]
        record |= {
            "id": check.name(record.pop("sample_id", number), "sample_id"),
            "question": check.text(record.pop("ambiguous_question"), "ambiguous_question"),
            "answer_set": _answer_set(record, check),
            "reference": annotations[0].get("long_answer") if annotations else None,
            "gold": as_passages(knowledge),
        }
        yield check.place, record


def read_qampari(path: Path) -> Records:
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
            "gold": as_passages(texts),
        }
        yield check.place, record


def read_lfrqa(path: Path) -> Records:
    """Yield records with the tag `domain`, the first part of the id: "writing" of "writing-search-test-510"."""
    for check, record in check_records(json_records(path), "qid", "question", "answer"):
        identifier = check.name(record.pop("qid"), "qid")
        cited = check.array(record.pop("gold_doc_ids", None), "gold_doc_ids")
        documents = [check.name(document, "gold_doc_ids", i) for i, document in enumerate(cited)]
        record |= {
            "id": identifier,
            "reference": check.text(record.pop("answer"), "answer"),
            "gold": by_id(documents),
            "tags": {"domain": identifier.partition("-")[0]},
        }
        yield check.place, record


def read_retrievalqa(path: Path) -> Records:
    """Yield records with the tag `source`, the data set that a question is from. A context may be a text."""
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
    """Yield records. Answers of EfficientQA's test set that people rated are kept under `extra`, as no references."""
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
    for number, (check, record) in enumerate(check_records(json_records(path), "question", "answer"), 1):
        answers = check.texts(record.pop("answer"), "answer")
        yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}


def read_kilt(path: Path) -> Records:
    """Yield records with each page of the provenance as a gold passage, even if several of its paragraphs are cited.

    Paragraph and character offsets stay under `extra["provenance"]`, since they refer to KILT's own snapshot of
    Wikipedia. Keys of an output that are not of KILT are kept with it under `extra["output"]`.
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
            "gold": by_id(chain(*sets)),
        }
        if sources:
            distinct = {frozenset(pages): pages for pages in reversed(sets) if pages}
            record |= {"provenance": sources, "evidence_sets": list(distinct.values())[::-1]}
        yield check.place, record


def read_clapnq(path: Path) -> Records:
    """Yield records; the passages of a question with an empty answer do not answer it, and are not gold."""
    for check, record in check_records(json_records(path), "id", "input", "passages", "output"):
        passages = check.objects(record["passages"], "passages")
        texts = [check.text(passage.get("text"), "passages", i, "text") for i, passage in enumerate(passages)]
        outputs = check.objects(record["output"], "output")
        answers = [output["answer"] for output in outputs if output.get("answer") not in (None, "")]
        record |= {
            "question": check.text(record.pop("input"), "input"),
            "gold": as_passages(texts) if answers else [],
            "reference": answers[0] if answers else None,
        }
        yield check.place, record


def _pages(sources: Sequence[Mapping[str, object]], check: Check) -> list[str]:
    pages = (
        check.name(source["wikipedia_id"], "provenance", i, "wikipedia_id")
        for i, source in enumerate(sources)
        if source.get("wikipedia_id") is not None
    )
    return list(dict.fromkeys(pages))


def read_ms_marco_answers(path: Path, *, topics: str | None = None) -> Records:
    """Yield records with answers; a query whose question is not among the topics is left out."""
    if topics is None:
        raise InputError(
            f"{path.name} contains answers and no questions.\n"
            'Say where these are, topics="queries.tsv" (id, tab, question); or topics="ids": each question is its id.'
        )
    questions = read_questions(path, topics)
    for check, record in check_records(json_records(path), "query_id", "answers"):
        identifier = check.name(record.pop("query_id"), "query_id")
        question = identifier if questions is None else questions.get(identifier)
        if question is not None:
            answers = _real_answers(check, record.pop("answers"))
            yield check.place, {**record, "id": identifier, "question": question, "answers": answers}


def _real_answers(check: Check, value: Any) -> list[str]:
    given = enumerate(check.array(value, "answers"))
    answers = dict.fromkeys(check.text(answer, "answers", i) for i, answer in given if answer != "")
    return [answer for answer in answers if answer != NO_ANSWER]


def read_ms_marco(path: Path) -> Records:
    """Yield records; the id of a passage is the id of its query and its position, from 0: "9652-0"."""
    for check, record in check_records(
        rows_or_records(path, MS_MARCO_LISTS), "query_id", "query", "passages"
    ):
        identifier = check.name(record.pop("query_id"), "query_id")
        passages, gold = [], []
        for i, passage in enumerate(check.objects(record.pop("passages"), "passages")):
            text = check.text(passage.pop("passage_text", None), "passages", i, "passage_text")
            identified = {"id": f"{identifier}-{i}", "text": text}
            passages.append(identified | passage)
            if check.natural(passage.get("is_selected", 0), "passages", i, "is_selected"):
                gold.append(identified)
        kind = record.pop("query_type", None)
        record |= {
            "id": identifier,
            "question": check.text(record.pop("query"), "query"),
            "answers": _real_answers(check, record.pop("answers", None)),
            "gold": gold,
            "tags": {} if kind is None else {"query_type": kind},
            PASSAGES_KEY: passages,
        }
        yield check.place, record


def read_hotpotqa(path: Path) -> Records:
    """Yield records with the paragraphs that contain a supporting fact as gold passages.

    In the full-wiki setting a paragraph may be missing from the context; its title is then the id of the gold passage.
    """
    for check, record in check_records(json_records(path), "question", "supporting_facts", "context"):
        identifier = record.pop("_id", record.get("id"))
        paragraphs = _paragraphs(record.pop("context"), check)
        facts = record["supporting_facts"]
        if isinstance(facts, dict):
            titles = facts.get("title")
        else:
            titles = [title for title, _ in _pairs(facts, check, "supporting_facts")]
        answer = record.pop("answer", None)
        gold_titles = dict.fromkeys(check.texts(titles, "supporting_facts"))
        record |= {
            "id": identifier,
            "answers": [] if answer in (None, "") else [check.text(answer, "answer")],
            "gold": [
                {"text": paragraphs[title]} if title in paragraphs else {"id": title} for title in gold_titles
            ],
            "tags": {name: record[name] for name in ("type", "level") if record.get(name)},
            PASSAGES_KEY: [{"title": title, "text": text} for title, text in paragraphs.items()],
        }
        yield check.place, record


def _paragraphs(context: Any, check: Check) -> dict[str, str]:
    if isinstance(context, dict):
        columns = [check.array(context.get(name), "context", name) for name in ("title", "sentences")]
        pairs = list(zip(*columns, strict=False))
    else:
        pairs = _pairs(context, check, "context")
    texts: dict[str, str] = {}
    for title, sentences in pairs:
        parts = check.array(sentences, "context")
        if text := " ".join(sentence.strip() for sentence in parts if isinstance(sentence, str)):
            texts.setdefault(check.text(title, "context"), text)
    return texts


def _pairs(value: Any, check: Check, name: str) -> list[tuple[Any, Any]]:
    pairs = check.array(value, name)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004 - a pair
            found = f'"{name}" holds {pair!r:.40}, expected [title, …]'
            check.fail(found, "Give pairs, as in the published files.")
    return [(first, second) for first, second in pairs]


def read_musique(path: Path) -> Records:
    """Yield records with the tags `hops` and `answerable`.

    A question that its paragraphs do not answer, as in MuSiQue-Full, has no answers and no gold passages, and
    " (unanswerable)" is appended to its id.
    """
    for check, record in check_records(json_records(path), "id", "question", "paragraphs"):
        paragraphs = check.objects(record.pop("paragraphs"), "paragraphs")
        texts = [
            check.text(paragraph.get("paragraph_text"), "paragraphs", i)
            for i, paragraph in enumerate(paragraphs)
        ]
        identifier, answerable = check.name(record.pop("id"), "id"), record.get("answerable") is not False
        answer = record.pop("answer", None)
        aliases = check.texts(record.get("answer_aliases"), "answer_aliases")
        known = answerable and answer not in (None, "")
        passages = [{**paragraph, "text": text} for paragraph, text in zip(paragraphs, texts, strict=True)]
        gold = [passage["text"] for passage in passages if answerable and passage.get("is_supporting")]
        hops = HOPS.match(identifier)
        record |= {
            "id": identifier if answerable else f"{identifier} (unanswerable)",
            "answers": list(dict.fromkeys((check.text(answer, "answer"), *aliases))) if known else [],
            "gold": as_passages(gold),
            "tags": {**({} if hops is None else {"hops": int(hops[1])}), "answerable": answerable},
            PASSAGES_KEY: passages,
        }
        yield check.place, record


def read_fanoutqa(path: Path, *, gold: str = "pageid") -> Records:
    """Yield records; each value in an answer that is a list or an object is an item of `answer_set` ("Tokyo: 37")."""
    if gold not in PAGE_KEYS:
        raise InputError(f"gold={gold!r} is none of {', '.join(PAGE_KEYS)}, by which a page can be named.")
    for check, record in check_records(json_records(path), "id", "question"):
        evidence = record.get("necessary_evidence") or list(_evidence(record, check))
        pages = [
            check.name(page.get(gold), "necessary_evidence", i, gold)
            for i, page in enumerate(check.objects(evidence, "necessary_evidence"))
        ]
        categories = check.texts(record.pop("categories", None), "categories")
        answer = record.pop("answer", None)
        if isinstance(answer, dict | list):
            record["answer_set"] = [[text] for text in _items(answer)]
        else:
            record["answers"] = [] if answer in (None, "") else [_text(answer)]
        record |= {"gold": by_id(pages), "tags": {"categories": list(categories)} if categories else {}}
        yield check.place, record


def _evidence(question: dict[str, object], check: Check) -> Iterator[Any]:
    for part in check.objects(question.get("decomposition"), "decomposition"):
        if part.get("evidence"):
            yield part["evidence"]
        yield from _evidence(part, check)


def _items(answer: Any) -> Iterator[str]:
    """Yield the text of each value in a nested answer, prefixed with its keys: "Tokyo: 37"."""
    if isinstance(answer, dict):
        for name, value in sorted(answer.items()):
            # A key whose value is empty is itself an item.
            yield from (f"{name}: {item}" for item in _items(value)) if value not in EMPTY else (name,)
    elif isinstance(answer, list):
        for value in answer:
            yield from _items(value)
    elif answer not in EMPTY:
        yield _text(answer)


def _text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
