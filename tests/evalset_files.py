"""A small valid file, or folder, of each eval-set format, for tests and fuzzing of the loaders."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Files:
    """The files of an eval set.

    Attributes:
        format: the name of the format.
        contents: the contents of the files by name, relative to the folder.
        path: the name of the file that is loaded; empty to load the folder.
        ids: the ids of the examples.
        words: the options that are needed to load the eval set.
    """

    format: str
    contents: dict[str, bytes]
    path: str
    ids: tuple[str, ...]
    words: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        for name, content in self.contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / self.path


def zstd_compress() -> Callable[[bytes], bytes] | None:
    """Return a function that compresses by Zstandard, of the standard library or its backport; None without both."""
    for module in ("compression.zstd", "backports.zstd"):
        try:
            compress: Callable[[bytes], bytes] = import_module(module).compress
        except ModuleNotFoundError:
            continue
        return compress
    return None


def jsonl(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


PASSAGES = [
    {"is_selected": 0, "url": "http://a.example", "passage_text": "Not here."},
    {"is_selected": 1, "url": "http://b.example", "passage_text": "It is made in Tulsa."},
]
CONTEXTS = [
    {"title": "Tulsa", "text": "Made in Tulsa.", "hasanswer": True, "isgold": True},
    {"title": "Reno", "text": "Nothing there.", "hasanswer": False, "isgold": False},
]
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Catalogue",
            "paragraphs": [
                {"context": "The first is red.", "qas": []},
                {
                    "context": "The second is blue.",
                    "qas": [
                        {
                            "id": "s1",
                            "question": "Which is blue?",
                            "answers": [{"text": "second", "answer_start": 4}],
                        },
                        {"id": "s2", "question": "Which is green?", "answers": [], "is_impossible": True},
                    ],
                },
            ],
        }
    ],
}
TOPICS = """<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that take part.

<narr> Narrative:
A relevant document names one.
</top>

<top>
<num> Number: 302 </num>
<title> Poliomyelitis </title>
<desc> Description: Is it under control?
</top>
"""
QRELS = "301 0 FT-1 1\n301 0 FT-2 0\n302 0 FT-2 2\n302 0 FT-9 -1\n"
TABLE = (
    "number,query,short,doc,topic,note\r\n"
    '1,"Where is it made, and\nby whom?",Tulsa | Reno,d1 | d2,made,\r\n'
    '2,What does it cost?,"[\'$5\', ""it\'s free""]",d3,cost,dear\r\n'
)
TABLE_FIELDS = {
    "id": "number",
    "question": "query",
    "answers": "short",
    "gold.id": "doc",
    "tags.topic": "topic",
}
TEAM = ["The Reds", ["The Reds are a team. ", "They play in Tulsa."]]
TOWN = ["Tulsa", ["Tulsa is a city.", " It has 400,000 people."]]
HOTPOT = {
    "question": "How many people live where the Reds play?",
    "answer": "400,000",
    "type": "bridge",
    "level": "hard",
}
MUSIQUE = {
    "id": "2hop__1_2",
    "paragraphs": [
        {"idx": 0, "title": "Reno", "paragraph_text": "Reno is a city.", "is_supporting": False},
        {"idx": 1, "title": "The Reds", "paragraph_text": "The Reds play in Tulsa.", "is_supporting": True},
        {"idx": 2, "title": "Tulsa", "paragraph_text": "Tulsa has 400,000 people.", "is_supporting": True},
    ],
    "question": "How many people live where the Reds play?",
    "question_decomposition": [
        {"id": 1, "question": "Where do the Reds play?", "answer": "Tulsa", "paragraph_support_idx": 1},
        {"id": 2, "question": "How many people live in #1?", "answer": "400,000", "paragraph_support_idx": 2},
    ],
    "answer": "400,000",
    "answer_aliases": ["four hundred thousand"],
    "answerable": True,
}

GOLDEN: dict[str, Any] = {
    "input": "Where is it made?",
    "actual_output": "In Reno.",
    "expected_output": "In Tulsa.",
    "retrieval_context": ["Reno is a city."],
    "context": ["Made in Tulsa.", "Tulsa | Oklahoma"],
    "name": None,
    "comments": "checked",
    "source_file": "made.md",
    "tools_called": None,
    "input_token_count": 3,
    "additional_metadata": {"evolutions": ["Reasoning"]},
    "custom_column_key_values": None,
}
GOLDENS_CSV = (
    "input,actual_output,expected_output,retrieval_context,context,name,comments,source_file,tools_called,"
    "expected_tools,token_cost,input_token_count,output_token_count,additional_metadata,custom_column_key_values,"
    "expectations\r\n"
    "Where is it made?,In Reno.,In Tulsa.,Reno is a city.,Made in Tulsa.|In Oklahoma.,,checked,made.md,,,,3,,"
    '"{""evolutions"": [""Reasoning""]}",,\r\n'
)
TEST_CASES = (
    "question,doc,__expected1,__expected2,__metadata:topic,__description\r\n"
    "Where is it made?,d1,icontains: Tulsa,factuality:It is made in Tulsa.,made,first\r\n"
    'Who made it?,,"contains-any: Ann, Bob",,people,\r\n'
    'What is needed?,d3,"icontains-all:tea, milk",,,\r\n'
    "How?,d4,note: by hand,,made,\r\n"
)


def _page(number: int) -> dict[str, Any]:
    return {"pageid": number, "revid": 10 * number, "title": f"City {number}", "url": f"http://wiki/{number}"}


def _part(number: int) -> dict[str, Any]:
    page = {"decomposition": [], "depends_on": [], "evidence": _page(number)}
    return {"id": f"p{number}", "question": f"How many live in city {number}?", "answer": number, **page}


FANOUT = [
    {
        "id": "f1",
        "question": "How many live in each?",
        "decomposition": [_part(1), {**_part(2), "evidence": None, "decomposition": [_part(2), _part(1)]}],
        "answer": {"City 2": 2, "City 1": 1},
        "categories": ["cities"],
    },
    {
        "id": "f2",
        "question": "Which ones?",
        "necessary_evidence": [_page(3), _page(4)],
        "decomposition": [],
        "answer": ["City 3", "City 4"],
        "categories": ["cities", "names"],
    },
    {"id": "f3", "question": "Is it?", "decomposition": [_part(5)], "answer": True, "categories": []},
    {"id": "f4", "question": "Hidden?", "necessary_evidence": [_page(6)], "categories": []},
]

FILES = [
    Files(
        "native",
        {
            "support.jsonl": jsonl(
                {
                    "id": "q1",
                    "question": "Where is it made?",
                    "answers": ["Tulsa"],
                    "answer_set": [["Tulsa"], ["Reno", "Reno, Nevada"]],
                    "gold": [
                        {"id": "d1", "text": "Made in Tulsa.", "grade": 2},
                        {"source": "a.md", "start": 3, "end": 9},
                    ],
                    "reference": "In Tulsa.",
                    "tags": {"topic": "made"},
                    "author": {"name": "Ann"},
                },
                {"id": 2, "question": "Wie heißt es?"},
            )
        },
        "support.jsonl",
        ("q1", "2"),
    ),
    Files(
        "native",
        {
            "support.json": json.dumps(
                [{"id": "a", "question": "Q?"}, {"id": "b", "question": "R?"}], indent=1
            ).encode()
        },
        "support.json",
        ("a", "b"),
    ),
    Files(
        "table",
        {"support.csv": TABLE.encode()},
        "support.csv",
        ("1", "2"),
        {"fields": TABLE_FIELDS, "separator": " | "},
    ),
    Files(
        "table",
        {"support.tsv": b"id\tquestion\tgold.id\tgold.grade\nq1\tWhere?\td1\t2\nq2\tWho?\t\t\n"},
        "support.tsv",
        ("q1", "q2"),
    ),
    Files(
        "beir",
        {
            "queries.jsonl": jsonl(
                {"_id": "1", "text": "Where?", "metadata": {}}, {"_id": "2", "text": "Unjudged?"}
            ),
            "corpus.jsonl": jsonl(
                {"_id": "d1", "title": "Tulsa", "text": "Made there."},
                {"_id": "d2", "title": "", "text": "Reno."},
            ),
            "qrels/test.tsv": b"query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n",
        },
        "",
        ("1",),
    ),
    Files("trec", {"topics.txt": TOPICS.encode(), "qrels.txt": QRELS.encode()}, "", ("301", "302")),
    Files(
        "trec",
        {"dev.tsv": b"301\tcrime?\n302\tpolio?\n", "qrels.txt": QRELS.encode()},
        "dev.tsv",
        ("301", "302"),
        {"qrels": "qrels.txt"},
    ),
    Files("trec", {"qrels.test": QRELS.encode()}, "qrels.test", ("301", "302"), {"topics": "ids"}),
    Files("deepeval", {"goldens.json": json.dumps([GOLDEN], indent=4).encode()}, "goldens.json", ("1",)),
    Files("deepeval", {"goldens.csv": GOLDENS_CSV.encode()}, "goldens.csv", ("1",)),
    Files(
        "promptfoo",
        {"tests.csv": TEST_CASES.encode()},
        "tests.csv",
        ("1", "2", "3", "4"),
        {"fields": {"gold.id": "doc"}},
    ),
    Files(
        "promptfoo",
        {
            "tests.jsonl": jsonl(
                {
                    "vars": {"query": "Where is it made?", "town": "Tulsa"},
                    "assert": [
                        {"type": "contains-any", "value": ["{{ town }}", "Oklahoma"]},
                        {"type": "llm-rubric", "value": "It names a town."},
                    ],
                    "metadata": {"topic": "made"},
                },
                {"vars": {"id": "t2", "query": "How many?"}, "assert": [{"type": "equals", "value": 3}]},
            )
        },
        "tests.jsonl",
        ("1", "t2"),
        {"ignore": "llm-rubric, latency"},
    ),
    Files(
        "kilt",
        {
            "nq-dev.jsonl": jsonl(
                {
                    "id": "k1",
                    "input": "Where?",
                    "output": [
                        {
                            "answer": "Tulsa",
                            "provenance": [{"wikipedia_id": "77", "title": "T", "start_paragraph_id": 1}],
                        },
                        {"answer": "Tulsa", "provenance": [{"wikipedia_id": "77"}, {"wikipedia_id": 78}]},
                        {"provenance": [{"wikipedia_id": "78"}]},
                    ],
                    "meta": {"partial_evidence": []},
                },
                {"id": "k2", "input": "Who?"},
            )
        },
        "nq-dev.jsonl",
        ("k1", "k2"),
    ),
    Files(
        "alce",
        {
            "asqa_eval.json": json.dumps(
                [
                    {
                        "sample_id": "a1",
                        "question": "Where?",
                        "qa_pairs": [{"question": "Where first?", "short_answers": ["Tulsa", "Tulsa, OK"]}],
                        "answer": "First in Tulsa.",
                        "docs": [{"id": "9", "title": "T", "text": "Tulsa.", "score": 1.5}],
                    },
                    {
                        "id": "a2",
                        "question": "Which?",
                        "answers": [["A", "a"], ["B"]],
                        "answer": "",
                        "docs": [],
                    },
                ]
            ).encode()
        },
        "asqa_eval.json",
        ("a1", "a2"),
    ),
    Files(
        "alce",
        {
            "eli5_eval.json": json.dumps(
                [
                    {
                        "question": "Why is the sky blue?",
                        "question_ctx": "[removed]",
                        "answer": "Air scatters blue light more than red.",
                        "claims": ["Air scatters light.", "Blue light is scattered more than red."],
                        "docs": [{"title": "T", "text": "Rayleigh scattering."}],
                    },
                    {
                        "question": "Why is it red at dusk?",
                        "answer": "It is.",
                        "claims": ["It is."],
                        "docs": [],
                    },
                ]
            ).encode()
        },
        "eli5_eval.json",
        ("1", "2"),
    ),
    Files(
        "asqa",
        {
            "asqa_dev.jsonl": jsonl(
                {
                    "ambiguous_question": "Where?",
                    "qa_pairs": [
                        {
                            "question": "Where first?",
                            "short_answers": ["Tulsa", "Tulsa, OK"],
                            "wikipage": None,
                        },
                        {
                            "question": "Where next?",
                            "short_answers": ["Reno"],
                            "context": "No context provided",
                        },
                    ],
                    "wikipages": [{"title": "T", "url": "http://t.example"}],
                    "annotations": [
                        {
                            "knowledge": [{"content": "It began in Tulsa.", "wikipage": "T"}],
                            "long_answer": "First in Tulsa, then in Reno.",
                        },
                        {
                            "knowledge": [{"content": "It began in Tulsa.", "wikipage": "T"}],
                            "long_answer": "In Tulsa and Reno.",
                        },
                    ],
                    "sample_id": "-49",
                },
                {"ambiguous_question": "Who?", "qa_pairs": [], "annotations": [], "sample_id": 50},
            )
        },
        "asqa_dev.jsonl",
        ("-49", "50"),
    ),
    Files(
        "alce",
        {
            "prompt.json": json.dumps(
                {
                    "instruction": "Write.",
                    "demo_prompt": "{INST}",
                    "doc_prompt": "{P}",
                    "demos": [
                        {
                            "question": "Where?",
                            "answer": "Tulsa [1].",
                            "docs": [{"title": "T", "text": "Tulsa."}],
                        }
                    ],
                },
                indent=4,
            ).encode()
        },
        "prompt.json",
        ("1",),
    ),
    Files(
        "qampari",
        {
            "dev.jsonl": jsonl(
                {
                    "qid": "7__dev",
                    "question_text": "Which ones?",
                    "answer_list": [
                        {
                            "answer_text": "A",
                            "aliases": ["A", "an A"],
                            "proof": [{"proof_text": "A is one.", "pid": "p"}],
                        },
                        {"answer_text": "B", "aliases": [], "proof": [{"proof_text": "A is one."}]},
                    ],
                }
            )
        },
        "dev.jsonl",
        ("7__dev",),
    ),
    Files(
        "ms_marco",
        {
            "dev_v1.1.json": jsonl(
                {
                    "passages": PASSAGES,
                    "query_id": 9,
                    "answers": ["Tulsa"],
                    "query_type": "location",
                    "query": "Where?",
                },
                {"passages": [], "query_id": 10, "answers": ["No Answer Present."], "query": "Who?"},
            )
        },
        "dev_v1.1.json",
        ("9", "10"),
    ),
    Files(
        "ms_marco",
        {
            "marco.csv": b"passages,query_id,answers,query_type,query\n"
            + ('"' + json.dumps(PASSAGES).replace('"', '""') + "\",9,['Tulsa'],location,Where?\n").encode()
        },
        "marco.csv",
        ("9",),
    ),
    Files(
        "ms_marco_answers",
        {
            "references.json": jsonl(
                {"query_id": 9, "answers": ["Tulsa"]}, {"query_id": 10, "answers": [""]}
            ),
            "queries.tsv": b"9\tWhere?\n10\tWho?\n",
        },
        "references.json",
        ("9", "10"),
        {"topics": "queries.tsv"},
    ),
    Files(
        "nq_open",
        {
            "nq.jsonl": jsonl(
                {"question": "Where?", "answers": ["Tulsa"], "ctxs": CONTEXTS, "nq_annotated_gold": {}}
            )
        },
        "nq.jsonl",
        ("1",),
    ),
    Files(
        "nq_open",
        {
            "NQ-open.dev.jsonl": jsonl(
                {"question": "where is it made", "answer": ["Tulsa", "Tulsa, Oklahoma"]},
                {"question": "what is made there", "answer": ["tea"]},
            )
        },
        "NQ-open.dev.jsonl",
        ("1", "2"),
    ),
    Files(
        "lfrqa",
        {
            "annotations.jsonl": jsonl(
                {
                    "qid": "writing-search-test-5",
                    "question": "Can I?",
                    "answer": "You may.",
                    "citation_numbers": [[1]],
                    "gold_doc_ids": [16, 16, 17],
                }
            )
        },
        "annotations.jsonl",
        ("writing-search-test-5",),
    ),
    Files("squad", {"dev-v1.1.json": json.dumps(SQUAD).encode()}, "dev-v1.1.json", ("s1", "s2")),
    Files(
        "openqa",
        {"system.jsonl": jsonl({"question": "Where?", "answer": ["Tulsa", "Tulsa"], "prediction": "Reno"})},
        "system.jsonl",
        ("1",),
    ),
    Files(
        "retrievalqa",
        {
            "retrievalqa.jsonl": jsonl(
                {
                    "data_source": "realtimeqa",
                    "question_id": "realtimeqa_1",
                    "question": "What share?",
                    "ground_truth": ["15%", "15 percent", "15%"],
                    "context": [{"title": "Sleep", "text": "15% sleep."}, "15% do."],
                    "param_knowledge_answerable": 0,
                }
            )
        },
        "retrievalqa.jsonl",
        ("realtimeqa_1",),
    ),
    Files(
        "nq_open",
        {
            "NQ-open.efficientqa.test.1.1.jsonl": jsonl(
                {
                    "question": "on the 6th day of christmas",
                    "answer": ["6 geese"],
                    "def_correct_predictions": ["six geese"],
                    "poss_correct_predictions": ["gifts"],
                    "def_incorrect_predictions": ["epiphany"],
                    "answer_and_def_correct_predictions": ["6 geese", "six geese"],
                }
            )
        },
        "NQ-open.efficientqa.test.1.1.jsonl",
        ("1",),
    ),
    Files(
        "trec",
        {
            "topics.txt": TOPICS.encode(),
            "qrels.json": json.dumps({"301": {"d1": 2, "d2": 0}, "302": {"d3": 1}}, indent=2).encode(),
        },
        "qrels.json",
        ("301", "302"),
        {"topics": "topics.txt"},
    ),
    Files(
        "hotpotqa",
        {
            "hotpot_dev_distractor_v1.json": json.dumps(
                [
                    {
                        "_id": "h1",
                        **HOTPOT,
                        "supporting_facts": [["The Reds", 1], ["Tulsa", 0], ["Tulsa", 1]],
                        "context": [["Reno", ["Reno is a city."]], TOWN, TEAM],
                    },
                    {
                        "_id": "h2",
                        **HOTPOT,
                        "supporting_facts": [["The Reds", 1], ["Tulsa", 0]],
                        "context": [TEAM],
                    },
                ]
            ).encode()
        },
        "hotpot_dev_distractor_v1.json",
        ("h1", "h2"),
    ),
    Files(
        "hotpotqa",
        {
            "hotpot_of_hugging_face.jsonl": jsonl(
                {
                    "id": "h1",
                    **HOTPOT,
                    "supporting_facts": {"title": ["The Reds", "Tulsa"], "sent_id": [1, 0]},
                    "context": {"title": ["Tulsa", "The Reds"], "sentences": [TOWN[1], TEAM[1]]},
                }
            )
        },
        "hotpot_of_hugging_face.jsonl",
        ("h1",),
    ),
    Files(
        "musique",
        {
            "musique_full_v1.0_dev.jsonl": jsonl(
                MUSIQUE,
                {**MUSIQUE, "paragraphs": MUSIQUE["paragraphs"][:2], "answerable": False},
            )
        },
        "musique_full_v1.0_dev.jsonl",
        ("2hop__1_2", "2hop__1_2 (unanswerable)"),
    ),
    Files(
        "fanoutqa",
        {"fanout-final-dev.json": json.dumps(FANOUT).encode()},
        "fanout-final-dev.json",
        ("f1", "f2", "f3", "f4"),
    ),
    Files(
        "ragas",
        {
            "testset.jsonl": jsonl(
                {
                    "user_input": "Where is it made?",
                    "reference_contexts": ["<1-hop>\n\nMade in Tulsa.", "<2-hop>\n\nTulsa is a city."],
                    "reference": "In Tulsa, a city.",
                    "persona_name": "Buyer",
                    "synthesizer_name": "multi_hop_specific_query_synthesizer",
                },
                {"user_input": "Who made it?", "reference_contexts": ["Ann did."], "reference": "Ann."},
            )
        },
        "testset.jsonl",
        ("1", "2"),
    ),
    Files(
        "ragas",
        {
            "testset.csv": (
                b"user_input,reference_contexts,reference,persona_name,synthesizer_name\n"
                b'Where?,"[\'<1-hop>\\n\\nMade in Tulsa.\', ""<2-hop>\\n\\nIt\'s a city.""]",In Tulsa.,Buyer,single\n'
            )
        },
        "testset.csv",
        ("1",),
    ),
    Files(
        "llama_index",
        {
            "rag_dataset.json": json.dumps(
                {
                    "examples": [
                        {
                            "query": "Where is it made?",
                            "query_by": {"model_name": "gpt-5", "type": "ai"},
                            "reference_contexts": ["Made in Tulsa.", "Tulsa is a city."],
                            "reference_answer": "In Tulsa.",
                            "reference_answer_by": {"model_name": "", "type": "human"},
                        }
                    ]
                },
                indent=4,
            ).encode()
        },
        "rag_dataset.json",
        ("1",),
    ),
    Files(
        "llama_index_pairs",
        {
            "pairs.json": json.dumps(
                {
                    "queries": {"q1": "Where?"},
                    "corpus": {"d1": "Made in Tulsa.", "d2": "Reno."},
                    "relevant_docs": {"q1": ["d1"]},
                    "mode": "text",
                },
                indent=4,
            ).encode()
        },
        "pairs.json",
        ("q1",),
    ),
    Files(
        "autorag",
        {
            "qa.jsonl": jsonl(
                {
                    "qid": "a1",
                    "query": "Where is it made, and by whom?",
                    "retrieval_gt": [["d1", "d2"], ["d3"]],
                    "generation_gt": ["In Tulsa, by Ann."],
                }
            ),
        },
        "qa.jsonl",
        ("a1",),
    ),
    Files(
        "clapnq",
        {
            "clapnq_dev.jsonl": jsonl(
                {
                    "id": "c1",
                    "input": "Where is it made?",
                    "passages": [{"title": "It", "text": "Made in Tulsa.", "sentences": ["Made in Tulsa."]}],
                    "output": [
                        {
                            "answer": "It is made in Tulsa.",
                            "selected_sentences": ["Made in Tulsa."],
                            "meta": {"round": 1},
                        }
                    ],
                },
                {
                    "id": "c2",
                    "input": "Who?",
                    "passages": [{"title": "It", "text": "Made in Tulsa."}],
                    "output": [{"answer": ""}],
                },
            )
        },
        "clapnq_dev.jsonl",
        ("c1", "c2"),
    ),
]
