"""What is read from other formats: how their fields map to the fields of an example."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.evalsets import LoadOptions, load
from pytest_rageval.evalsets.formats.data_sets import articles
from pytest_rageval.evalsets.formats.trec import is_header, read_topics
from tests.evalset_files import FILES, FOLDER, GOLDEN, jsonl


def _files(form: str, path: str) -> Any:
    (sample_files,) = [files for files in FILES if (files.format, files.path) == (form, path)]
    return sample_files


def _examples(form: str, path: str, folder: Path, **options: Any) -> tuple[Example, ...]:
    files = _files(form, path)
    return load(files.write(folder), LoadOptions.parse({**files.words, **options})).examples


def _error(path: Path, content: bytes, **options: Any) -> str:
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load(path, LoadOptions.parse(options))
    return str(caught.value)


def test_ms_marco(tmp_path: Path) -> None:
    first, second = _examples("ms_marco", "dev_v1.1.json", tmp_path)
    assert first == Example(
        "9",
        "Where?",
        answers=("Tulsa",),
        gold=(Gold(id="9-1", text="It is made in Tulsa."),),
        tags={"query_type": "location"},
        extra={
            "passages": [
                {"id": "9-0", "text": "Not here.", "is_selected": 0, "url": "http://a.example"},
                {"id": "9-1", "text": "It is made in Tulsa.", "is_selected": 1, "url": "http://b.example"},
            ]
        },
    )
    assert second == Example("10", "Who?", extra={"passages": []})


def test_ms_marco_as_a_table_is_the_same(tmp_path: Path) -> None:
    """Lists in table cells are read as JSON or as Python literals."""
    (as_json, _), (as_csv,) = (
        _examples("ms_marco", name, tmp_path) for name in ("dev_v1.1.json", "marco.csv")
    )
    assert as_csv == as_json


def test_ms_marco_answers_take_their_questions_from_elsewhere(tmp_path: Path) -> None:
    """Questions are read from `topics` by query id; answers without a topic and blank answers are left out."""
    where, who = _examples("ms_marco_answers", "references.json", tmp_path)
    assert (where, who) == (Example("9", "Where?", answers=("Tulsa",)), Example("10", "Who?"))
    (tmp_path / "queries.tsv").write_text("9\tWhere?\n", encoding="utf-8")
    assert load(tmp_path / "references.json", LoadOptions.parse({"topics": "queries.tsv"})).examples == (
        where,
    )
    ids = load(tmp_path / "references.json", LoadOptions.parse({"topics": "ids"}))
    assert [example.question for example in ids] == ["9", "10"]


def test_kilt(tmp_path: Path) -> None:
    first, second = _examples("kilt", "nq-dev.jsonl", tmp_path)
    assert (first.question, first.answers, first.gold) == ("Where?", ("Tulsa",), (Gold("77"), Gold("78")))
    assert len(first.extra["provenance"]) == 4
    assert first.extra["evidence_sets"] == [["77"], ["77", "78"], ["78"]]
    assert second == Example("k2", "Who?")


def test_alce(tmp_path: Path) -> None:
    asqa, qampari = _examples("alce", "asqa_eval.json", tmp_path)
    assert (asqa.answer_set, asqa.reference, asqa.gold) == ((("Tulsa", "Tulsa, OK"),), "First in Tulsa.", ())
    assert asqa.extra["passages"] == [{"id": "9", "title": "T", "text": "Tulsa.", "score": 1.5}]
    assert (qampari.answer_set, qampari.answers, qampari.reference) == ((("A", "a"), ("B",)), (), None)


def test_the_claims_of_eli5_are_an_answer_set(tmp_path: Path) -> None:
    first, _ = _examples("alce", "eli5_eval.json", tmp_path)
    assert first.answer_set == (("Air scatters light.",), ("Blue light is scattered more than red.",))
    assert first.reference == "Air scatters blue light more than red."


def test_asqa(tmp_path: Path) -> None:
    first, second = _examples("asqa", "asqa_dev.jsonl", tmp_path)
    assert first.answer_set == (("Tulsa", "Tulsa, OK"), ("Reno",))
    assert (first.reference, first.answers) == ("First in Tulsa, then in Reno.", ())
    assert first.gold == (Gold(text="It began in Tulsa."),)
    assert [annotation["long_answer"] for annotation in first.extra["annotations"]][1] == "In Tulsa and Reno."
    assert (second.question, second.answer_set, second.gold, second.reference) == ("Who?", (), (), None)


def test_qampari(tmp_path: Path) -> None:
    (example,) = _examples("qampari", "dev.jsonl", tmp_path)
    assert example == Example(
        "7__dev", "Which ones?", answer_set=(("A", "an A"), ("B",)), gold=(Gold(text="A is one."),)
    )


def test_nq_open(tmp_path: Path) -> None:
    (example,) = _examples("nq_open", "nq.jsonl", tmp_path)
    assert (example.id, example.gold) == ("1", (Gold(text="Made in Tulsa."),))
    written = json.loads((FOLDER / "nq_open" / "nq.jsonl").read_bytes())
    assert example.extra["passages"] == written["ctxs"]


def test_lfrqa(tmp_path: Path) -> None:
    (example,) = _examples("lfrqa", "annotations.jsonl", tmp_path)
    assert (example.reference, example.gold) == ("You may.", (Gold("16"), Gold("17")))
    assert (example.answers, example.tags) == ((), {"domain": "writing"})


def test_openqa(tmp_path: Path) -> None:
    (example,) = _examples("openqa", "system.jsonl", tmp_path)
    assert example == Example("1", "Where?", answers=("Tulsa",), extra={"prediction": "Reno"})


def test_hotpotqa(tmp_path: Path) -> None:
    first, second = _examples("hotpotqa", "hotpot_dev_distractor_v1.json", tmp_path)
    team, town = "The Reds are a team. They play in Tulsa.", "Tulsa is a city. It has 400,000 people."
    assert first.gold == (Gold(text=team), Gold(text=town))
    assert (first.answers, first.tags) == (("400,000",), {"type": "bridge", "level": "hard"})
    assert first.extra["passages"][1] == {"title": "Tulsa", "text": town}
    assert second.gold == (Gold(text=team), Gold(id="Tulsa"))
    (columns,) = _examples("hotpotqa", "hotpot_of_hugging_face.jsonl", tmp_path)
    assert columns.gold == first.gold


def test_2wikimultihopqa_is_read_as_hotpotqa(tmp_path: Path) -> None:
    record = {
        "_id": "w1",
        "type": "compositional",
        "question": "Who?",
        "context": [["A", ["A is by B."]], ["B", ["B is the child of C."]]],
        "supporting_facts": [["A", 0], ["B", 0]],
        "evidences": [["A", "director", "B"], ["B", "mother", "C"]],
        "answer": "C",
    }
    (tmp_path / "dev.json").write_text(json.dumps([record]), encoding="utf-8")
    (example,) = load(tmp_path / "dev.json")
    assert [gold.text for gold in example.relevant] == ["A is by B.", "B is the child of C."]
    assert (example.answers, example.tags) == (("C",), {"type": "compositional"})
    assert example.extra["evidences"] == record["evidences"]


def test_a_native_set_with_supporting_facts_stays_native(tmp_path: Path) -> None:
    """A native record with keys of HotpotQA keeps its own gold passages."""
    record = {"id": "1", "question": "Who?", "gold": [{"id": "d"}], "supporting_facts": [], "context": "c"}
    (tmp_path / "set.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (example,) = load(tmp_path / "set.jsonl")
    assert example.gold == (Gold("d"),)


def test_musique(tmp_path: Path) -> None:
    first, other = _examples("musique", "musique_full_v1.0_dev.jsonl", tmp_path)
    assert first.gold == (Gold(text="The Reds play in Tulsa."), Gold(text="Tulsa has 400,000 people."))
    assert first.answers == ("400,000", "four hundred thousand")
    assert first.tags == {"hops": 2, "answerable": True}
    assert first.extra["passages"][0]["text"] == "Reno is a city."
    assert (other.gold, other.answers, other.tags) == ((), (), {"hops": 2, "answerable": False})


def test_fanoutqa(tmp_path: Path) -> None:
    first, second, third, fourth = _examples("fanoutqa", "fanout-final-dev.json", tmp_path)
    assert first.gold == (Gold("1"), Gold("2"))
    assert first.answer_set == (("City 1: 1",), ("City 2: 2",))
    assert (second.gold, second.answer_set) == ((Gold("3"), Gold("4")), (("City 3",), ("City 4",)))
    assert second.tags == {"categories": ["cities", "names"]}
    assert (third.answers, fourth.answers, fourth.gold) == (("yes",), (), (Gold("6"),))
    by_title = load(tmp_path / "fanout-final-dev.json", gold="title")
    assert by_title.examples[0].gold == (Gold("City 1"), Gold("City 2"))
    with pytest.raises(InputError, match="gold='name' is none of pageid, title, url"):
        load(tmp_path / "fanout-final-dev.json", gold="name")


def test_squad_gold_is_a_span_of_the_article(tmp_path: Path) -> None:
    first, second = _examples("squad", "dev-v1.1.json", tmp_path)
    texts = dict(articles(tmp_path / "dev-v1.1.json"))
    (gold,) = first.gold
    assert gold.source is not None
    assert texts[gold.source][gold.start : gold.end] == gold.text == "The second is blue."
    assert (first.answers, first.tags) == (("second",), {"title": "Catalogue"})
    assert first.extra["answer_starts"] == [4]
    assert (second.answers, second.extra["is_impossible"]) == ((), True)


def test_beir_takes_judged_queries_and_their_texts_from_the_corpus(tmp_path: Path) -> None:
    """Only judged queries are read; title and text are joined as in BEIR, and a grade of 0 is not relevant."""
    (example,) = _examples("beir", "", tmp_path)
    assert example.gold == (Gold("d1", "Tulsa Made there.", grade=2), Gold("d2", "Reno.", grade=0))
    (example,) = _examples("beir", "", tmp_path, texts=False)
    assert example.gold == (Gold("d1", grade=2), Gold("d2", grade=0))


def test_beir_splits_are_named(tmp_path: Path) -> None:
    _files("beir", "").write(tmp_path)
    (tmp_path / "qrels" / "dev.tsv").write_text("2\td1\t1\n", encoding="utf-8")
    assert [example.id for example in load(tmp_path, LoadOptions.parse({"split": "dev"}))] == ["2"]
    assert [example.id for example in load(tmp_path)] == ["1"]
    with pytest.raises(InputError, match=r"no such split 'train'\. There are: dev, test\."):
        load(tmp_path, LoadOptions.parse({"split": "train"}))


def test_judgements_of_unknown_queries_are_an_error(tmp_path: Path) -> None:
    """Judgements of queries that do not exist are an error: the score would silently miss them."""
    _files("beir", "").write(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("1\td1\t1\n9\td1\t1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"queries\.jsonl lacks 1 queries that test\.tsv judges: 9\."):
        load(tmp_path)


def test_trec_topics_and_judgements(tmp_path: Path) -> None:
    """The title is the question, other tags are in `extra`, and grades below 0 become 0."""
    first, second = _examples("trec", "", tmp_path)
    assert first == Example(
        "301",
        "International Organized Crime",
        gold=(Gold("FT-1"), Gold("FT-2", grade=0)),
        extra={"desc": "Identify organizations that take part.", "narr": "A relevant document names one."},
    )
    assert (second.question, second.gold) == ("Poliomyelitis", (Gold("FT-2", grade=2), Gold("FT-9", grade=0)))
    assert _examples("trec", "", tmp_path, question="desc")[1].question == "Is it under control?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"question": "narr"}, r"topics\.txt line 12: topic 302 has no <narr>\. Found: title, desc\."),
        ({"topics": "other.txt"}, r"topics='other\.txt': there is no file"),
        ({"topics": 3}, r"topics=3 is not a path"),
    ],
)
def test_trec_options_that_make_no_sense(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        _examples("trec", "", tmp_path, **options)


def test_qrels_alone_ask_for_their_topics(tmp_path: Path) -> None:
    message = _error(tmp_path / "qrels.test", b"301 0 d 1\n")
    assert message.startswith("qrels.test contains judgements and no questions.\n")
    assert 'topics="ids"' in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.qrels", b"1 0 d 1\n1 0 d\n", "a.qrels line 2"),
        ("a.qrels", b"1 0 d 1\n1 0 d 2\n", "a.qrels line 2: d is judged twice for 1."),
        ("a.qrels", b"1 0 d 1\n1 0 e x\n", "a.qrels line 2 is not a judgement: '1 0 e x'."),
        ("a.qrels", b"1 0 c 1\n1 0 d e 1\n", "a.qrels line 2 is not a judgement: '1 0 d e 1'."),
        ("a.qrels", b"1 0 c 1\n1 d 1\n", "a.qrels line 2 is not a judgement: '1 d 1'."),
        ("a.qrels", b"1\t0\td\t1\n1\te\t1\n", "a.qrels line 2 is not a judgement: '1\\te\\t1'."),
        ("a.qrels", b"1\t0\t\t1\n", "a.qrels line 1 is not a judgement"),
        ("a.qrels", b"1 0 nan 1\n", "a.qrels line 1 is not a judgement: '1 0 nan 1'."),
        ("a.qrels", b"1 0 c 1\n1 0 d 1.5\n", "a.qrels line 2 is not a judgement: '1 0 d 1.5'."),
        ("t.tsv", b"q1\twho?\nq2\twho\telse?\n", "t.tsv line 2 is not a topic: 'q2\\twho\\telse?'."),
        ("t.txt", b"<top>\n<num> 1\n<title> a\n", "t.txt line 1: a <top> is not closed"),
        ("t.txt", b"<top>\n<title> a\n</top>\n", "t.txt line 1: the topic has no <num>."),
        ("t.txt", b"<top><num> 1 <title> a</top>\n", "t.txt line 1: the <num> of the topic is '1 <title> a'."),
        ("t.tsv", b"q1\twho?\nq2 who?\n", "t.tsv line 2 is not a topic: 'q2 who?'."),
        ("k.jsonl", b'{"id": 1, "input": "a", "output": {}}', 'k.jsonl line 1: "output" is an object, expected a list'),
        ("k.jsonl", b'{"id": 1, "input": 7, "output": []}', 'k.jsonl line 1: "input" is 7, expected text'),
        (
            "m.jsonl",
            jsonl({"query_id": 1, "query": "a", "passages": [{"is_selected": 0, "passage_text": 5}]}),
            'm.jsonl line 1: "passages"[0] "passage_text" is 5, expected text',
        ),
        ("m.jsonl", jsonl({"query_id": 1, "answers": []}), "m.jsonl contains answers and no questions."),
        (
            "s.json",
            b'{"data": [{"title": "T", "paragraphs": [{"context": "c", "qas": [{"question": "q"}]}]}]}',
            's.json record 1, paragraph 1, question 1: "id" is missing. Found: question',
        ),
        (
            "s.json",
            b'{"paragraphs":1,"context":1,"qas":1,"data": [{"a": 1}]}',
            's.json record 1: "paragraphs" is missing',
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_in_the_formats_own_words(name, content, message, tmp_path):
    options = {"topics": "ids"} if name == "a.qrels" else {}
    assert _error(tmp_path / name, content, **options).startswith(message)


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ("<title> profit < 5% of sales", {"title": "profit < 5% of sales"}),
        ("<title> a <b>bold</b> word", {"title": "a <b>bold</b> word"}),
        ("<title> a List<String> of\n 1 <2> 3 </title>", {"title": "a List<String> of 1 <2> 3"}),
        ("<title>a</title><desc>x > y <z\n\t<narr> c", {"title": "a", "desc": "x > y <z", "narr": "c"}),
        ("<TITLE> a </Title> left out\n<desc>b", {"title": "a", "desc": "b"}),
    ],
)
def test_only_a_tag_ends_a_field_of_a_topic(tmp_path: Path, topic: str, fields: dict[str, str]) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(
        f"<top>\n<num> 7\n{topic}\n</top>\n<top><num>8</num><title>b</title></top>", encoding="utf-8"
    )
    (_, first, first_fields), (_, second, _) = read_topics(path)
    assert (first, first_fields, second) == ("7", fields, "8")


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("id\tquestion", True),
        ("id2\tquestion", True),
        ("qid\tquery", True),
        ("query_id\tquestion_text\n", True),
        ("Topic Number\tTitle", True),
        ("q1\tquestion", False),
        ("301\tquery", False),
        ("id\tWhat is an id?", False),
        ("id question", False),
    ],
)
def test_the_first_line_of_topics_may_name_the_columns(tmp_path: Path, line: str, *, header: bool) -> None:
    assert is_header(line) is header
    if "\t" in line:
        (tmp_path / "queries.tsv").write_text(f"{line.strip()}\n9\tWho?\n", encoding="utf-8")
        assert len(list(read_topics(tmp_path / "queries.tsv"))) == (1 if header else 2)


def test_a_table_with_a_header_is_no_file_of_topics(tmp_path: Path) -> None:
    """A table with a header is not detected as topics; with `format="trec"` it is read as topics."""
    assert "id2" in _error(tmp_path / "t.tsv", b"id2\tquestion\n1\tWho?\n")
    (tmp_path / "t.tsv").write_text("id2\tquestion\n1\tWho?\n", encoding="utf-8")
    (example,) = load(tmp_path / "t.tsv", LoadOptions.parse({"format": "trec"}))
    assert (example.id, example.question) == ("1", "Who?")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("key", ["results", "data"])
def test_records_under_a_key_of_one_object_are_read(tmp_path: Path, indent: int | None, key: str) -> None:
    native = {"id": "q1", "question": "Where?", "answers": ["Tulsa"]}
    foreign = {"id": "k1", "input": "Where?", "output": [{"answer": "Tulsa"}]}
    for name, record in (("native.json", native), ("kilt.json", foreign)):
        document = {"version": {"n": [1]}, "tags": [], key: [record], "count": 1}
        (tmp_path / name).write_text(json.dumps(document, indent=indent), encoding="utf-8")
        (example,) = load(tmp_path / name).examples
        assert (example.question, example.answers) == ("Where?", ("Tulsa",))


def test_a_record_with_a_list_of_objects_is_one_record(tmp_path: Path) -> None:
    record = {"id": "q1", "question": "Where?", "answers": ["Tulsa"], "results": [{"id": "d1"}]}
    (tmp_path / "one.json").write_text(json.dumps(record), encoding="utf-8")
    (example,) = load(tmp_path / "one.json").examples
    assert (example.id, example.extra["results"]) == ("q1", [{"id": "d1"}])


def test_one_object_over_several_lines_is_named_as_that(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"a": 1, "b": [2]}, indent=1), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"one\.json is one JSON object, with a, b\.\nGive one object a line"
    ):
        load(tmp_path / "one.json")


def test_retrievalqa(tmp_path: Path) -> None:
    (example,) = _examples("retrievalqa", "retrievalqa.jsonl", tmp_path)
    assert (example.answers, example.gold, example.tags) == (
        ("15%", "15 percent"),
        (),
        {"source": "realtimeqa"},
    )
    assert example.extra["passages"] == [{"title": "Sleep", "text": "15% sleep."}, {"text": "15% do."}]


def test_rated_predictions_of_efficientqa_are_no_references(tmp_path: Path) -> None:
    (example,) = _examples("nq_open", "NQ-open.efficientqa.test.1.1.jsonl", tmp_path)
    assert example.answers == ("6 geese",)
    assert example.extra["def_correct_predictions"] == ["six geese"]


def test_mapped_answers_of_fanoutqa(tmp_path: Path) -> None:
    """Each value of nested lists and objects is an answer with its keys; a key without a value stands alone."""
    answer = {"Oslo": {"born": 1, "died": None}, "Rome": ["a", "b"], "Bonn": True, "Paris": []}
    record = {"id": "f1", "question": "Which?", "categories": [], "decomposition": [], "answer": answer}
    (tmp_path / "fan.json").write_text(json.dumps([record]), encoding="utf-8")
    (example,) = load(tmp_path / "fan.json").examples
    assert [aliases[0] for aliases in example.answer_set] == [
        "Bonn: yes",
        "Oslo: born: 1",
        "Oslo: died",
        "Paris",
        "Rome: a",
        "Rome: b",
    ]


def test_judgements_as_json(tmp_path: Path) -> None:
    path = tmp_path / "qrels.json"
    path.write_text('{"q_1": {"d_1": 5, "d_2": -1}, "q_2": {"d_3": 1.0}}', encoding="utf-8")
    with pytest.raises(InputError, match=r"qrels\.json contains judgements and no questions"):
        load(path)
    first, second = load(path, topics="ids").examples
    assert (first.question, first.gold) == ("q_1", (Gold("d_1", grade=5), Gold("d_2", grade=0)))
    assert second.gold == (Gold("d_3"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"q": {"d": 1}, "p": {"e": "x"}}', "qrels.json topic p is not an object of numbers"),
        ('{"q": {"d": 1}, "p": 3}', "qrels.json topic p is not an object of numbers"),
        ('{"q": {"d": 1}, "q": {"e": 1}}', "qrels.json topic q occurs twice"),
        ('{"q": {"d": 1.5}}', r"qrels.json topic q: the grade of d is 1\.5, no integer"),
        ('{"q": {"d": 1}', "qrels.json line 1 is not JSON as expected"),
    ],
)
def test_judgements_as_json_that_do_not_fit(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "qrels.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "qrels.json", topics="ids")


def test_nq_open_of_google(tmp_path: Path) -> None:
    (tmp_path / "NQ-open.dev.jsonl").write_bytes(jsonl({"question": "where", "answer": ["Tulsa", "Tulsa"]}))
    assert load(tmp_path / "NQ-open.dev.jsonl").examples == (Example("1", "where", answers=("Tulsa",)),)


BEIR_HEADER = b"query-id\tcorpus-id\tscore\n"


@pytest.mark.parametrize("qrels", [BEIR_HEADER, b"", b"qid\tpid\trating\r\n"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n", b"\n\n"])
def test_an_id_with_a_space_is_one_cell_between_tabs(qrels: bytes, end: bytes, tmp_path: Path) -> None:
    _files("beir", "").write(tmp_path)
    names = ["Ada Lovelace", "Lovelace", "caf\u00e9 \u00a0x"]
    (tmp_path / "corpus.jsonl").write_bytes(jsonl(*({"_id": name, "text": name.upper()} for name in names)))
    lines = "".join(f"1\t{name}\t{grade}\0" for name, grade in zip(names, ("1", "0", "2.0"), strict=True))
    (tmp_path / "qrels" / "test.tsv").write_bytes(qrels + lines.encode().replace(b"\0", end))
    (example,) = load(tmp_path)
    assert example.gold == tuple(
        Gold(name, name.upper(), grade=grade) for name, grade in zip(names, (1, 0, 2), strict=True)
    )


@pytest.mark.parametrize(
    ("content", "gold"),
    [
        (b"q 1\t0\tAda Lovelace\t1\n", Gold("Ada Lovelace")),
        ("q1 0 Ada\u00a0Lovelace 1\n".encode(), Gold("Ada\u00a0Lovelace")),
        (b"q1   0  d1    1 \r\n", Gold("d1")),
    ],
)
def test_a_trec_line_is_split_at_tabs_or_at_spaces(content: bytes, gold: Gold, tmp_path: Path) -> None:
    """With a tab in a line, spaces are parts of ids; without one, spaces of ASCII separate the cells."""
    (tmp_path / "a.qrels").write_bytes(content)
    (example,) = load(tmp_path / "a.qrels", format="trec", topics="ids")
    assert example.gold == (gold,)


@pytest.mark.parametrize(
    "lines",
    [
        b"1\td1\t0.5\n1\td2\t1\n",
        b"1\td1\t1e3\n1\td2\t1\n",
        b"1\t\t1\n1\td2\t1\n",
        # A data frame that was written with its index has a first column that is not the topic.
        b"\t" + BEIR_HEADER + b"0\t1\td1\t1\n",
    ],
)
def test_a_first_judgement_that_does_not_fit_is_not_taken_for_a_header(lines: bytes, tmp_path: Path) -> None:
    _files("beir", "").write(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_bytes(lines)
    with pytest.raises(InputError, match=r"test\.tsv line 1 is not a judgement"):
        load(tmp_path)


def test_goldens_of_deepeval(tmp_path: Path) -> None:
    """The context is gold, the expected output is the reference, and nothing that a golden has is lost."""
    (example,) = _examples("deepeval", "goldens.json", tmp_path)
    assert example == Example(
        "1",
        "Where is it made?",
        gold=(Gold(text="Made in Tulsa."), Gold(text="Tulsa | Oklahoma")),
        reference="In Tulsa.",
        metadata={"evolutions": ["Reasoning"]},
        extra={
            "answer_given": "In Reno.",
            "retrieved": [{"text": "Reno is a city."}],
            "comments": "checked",
            "source_file": "made.md",
            "input_token_count": 3,
        },
    )
    (table,) = _examples("deepeval", "goldens.csv", tmp_path)
    assert [gold.text for gold in table.gold] == ["Made in Tulsa.", "In Oklahoma."]
    assert (table.reference, table.metadata, table.extra["source_file"]) == (
        "In Tulsa.",
        {"evolutions": ["Reasoning"]},
        "made.md",
    )


@pytest.mark.parametrize(
    "names",
    [
        {"context": "context", "source_file": "sourceFile", "additional_metadata": "additionalMetadata"},
        {"expected_output": "expectedOutput", "retrieval_context": "retrievalContext"},
    ],
)
def test_goldens_in_camel_case(names: dict[str, str], tmp_path: Path) -> None:
    """Goldens of DeepEval's server, and their Python objects by alias, have camel case."""
    (plain,) = _examples("deepeval", "goldens.json", tmp_path)
    golden = {names.get(name, name): value for name, value in GOLDEN.items()}
    (tmp_path / "camel.jsonl").write_bytes(jsonl(golden))
    assert load(tmp_path / "camel.jsonl").examples == (plain,)


def test_passages_of_goldens_in_one_text(tmp_path: Path) -> None:
    """DeepEval's JSON lines have one text for all passages; `separator` says what is between them."""
    (tmp_path / "g.jsonl").write_bytes(jsonl({**GOLDEN, "context": "a | b;c"}))
    assert load(tmp_path / "g.jsonl").examples[0].gold == (Gold(text="a"), Gold(text="b;c"))
    assert load(tmp_path / "g.jsonl", separator=";").examples[0].gold == (Gold(text="a | b"), Gold(text="c"))


def test_test_cases_of_promptfoo(tmp_path: Path) -> None:
    """Assertions that name a text are answers; metadata are tags; a text without a type is an answer."""
    where, who, what, how = _examples("promptfoo", "tests.csv", tmp_path)
    assert where == Example(
        "1",
        "Where is it made?",
        answers=("Tulsa",),
        gold=(Gold("d1"),),
        reference="It is made in Tulsa.",
        tags={"topic": "made"},
        extra={"__description": "first"},
    )
    assert (who.answers, who.answer_set, who.gold) == (("Ann", "Bob"), (), ())
    assert (what.answers, what.answer_set) == ((), (("tea",), ("milk",)))
    assert how.answers == ("note: by hand",)
    mapped = load(tmp_path / "tests.csv", fields={"answers": "__expected1", "gold.id": "doc"})
    assert mapped.examples == (where, who, what, how)


def test_test_cases_of_promptfoo_as_json(tmp_path: Path) -> None:
    """Variables in templates are replaced, and ignored assertions are left out."""
    where, many = _examples("promptfoo", "tests.jsonl", tmp_path)
    assert where == Example(
        "1",
        "Where is it made?",
        answers=("Tulsa", "Oklahoma"),
        tags={"topic": "made"},
        extra={"town": "Tulsa"},
    )
    assert (many.id, many.answers) == ("t2", ("3",))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        *[
            (f"{kind}{value}", f"the assertion {kind!r} does not name an answer")
            for kind, value in [
                ("llm-rubric", ": It is polite."),
                ("grade", ":It is polite."),
                ("javascript", ": output.length < 3"),
                ("fn", ":output == 3"),
                ("python", ": len(output) < 3"),
                ("not-contains", ": Reno"),
                ("not-equals", ":Reno"),
                ("regex", ": T.*a"),
                ("starts-with", ":Tul"),
                ("is-json", ""),
                ("contains-json", ""),
                ("latency", "(2000)"),
                ("cost", "(0.001)"),
                ("levenshtein", "(5): Tulsa"),
                ("rouge-n", "(0.5): Tulsa"),
                ("answer-relevance", "(0.5):"),
                ("context-recall", ": Tulsa"),
                ("model-graded-closedqa", ": It is."),
                ("file", "://check.js"),
            ]
        ],
        ("equals: {{ town }}", "the text of 'equals' is computed: '{{ town }}'"),
        ("contains: {% if x %}", "the text of 'contains' is computed"),
        ("contains: file://answer.txt", "the text of 'contains' is computed"),
        ("equals:", '"equals" is an empty text'),
        ("contains-any: a,,b", '"contains-any" is an empty text'),
    ],
)
def test_an_assertion_that_names_no_answer_is_an_error(expected: str, found: str, tmp_path: Path) -> None:
    content = f'question,__expected\nWhere?,Tulsa\nWho?,"{expected}"\n'
    message = _error(tmp_path / "tests.csv", content.encode())
    assert message.startswith(f"tests.csv line 3: {found}")
    if "names" in message:
        kind = expected.partition(":")[0].partition("(")[0]
        assert f'ignore="{kind}"' in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,__expected\n1,2,3\n", "t.csv line 1: it is unclear which variable is the question: a, b."),
        (
            "question,__expected,__expected2\na,factuality: b,similar(0.9):c\n",
            "t.csv line 2: it has several reference answers.",
        ),
    ],
)
def test_a_test_case_that_is_unclear(content: str, message: str, tmp_path: Path) -> None:
    assert _error(tmp_path / "t.csv", content.encode()).startswith(message)
