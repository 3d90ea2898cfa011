"""The commands of `rageval evalset` that check an eval set or make one.

- `check`, `anchor`, `pool`: one command each. `generate`: the commands in which a model writes, `generate` and
  `nuggets`.
- `reading`: the files of these commands. `quotes`: finds quotes in texts.
"""

from typing import Final

from pytest_rageval.options.command import EVALSET, FORCE, REPLY_OPTIONS, Command, one_or_more, switch, value

CORPUS_HELP: Final = (
    "JSON lines of passages (id, text; source, start, end), a BEIR corpus.jsonl, or a folder of text and "
    "Markdown files"
)
CORPUS: Final = value("--corpus", "CORPUS", CORPUS_HELP, required=True)

EVALSET_ARGUMENTS: Final = (
    value("file", "FILE", "the eval set, in any known format"),
    value("--format", "NAME", "its format (default: recognized)", str),
    value("--field", "OURS=THEIRS",
          "the name of one of our fields in the file: question=query, gold.id=doc; may be repeated",
          str, action="append"),
    value("--option", "NAME=VALUE",
          "an option of the format, as in the marker: separator=' | ', topics=topics.txt, texts=false; "
          "may be repeated", str, action="append"),
)  # fmt: skip

GENERATE_OPTIONS: Final = (
    "model", "judge_model", "base_url", "judge_base_url", "parameters", "judge_parameters", "max_tokens",
    "concurrency", "timeout", "flex", *REPLY_OPTIONS, "prompts", "seed",
)  # fmt: skip

_parse_questions: Final = one_or_more("a number of questions")

# fmt: off
COMMANDS: Final = (
    Command("check", "pytest_rageval.extensions.evalset_tools.check:check_command",
            "look for mistakes in an eval set, and print the smallest drop that it can show",
            "Errors: the same question twice, and gold passages that are not in the corpus. Notes: near-duplicate "
            "questions, answers that are in the question or in no gold passage, examples without gold passages or "
            "answers, unknown keys that resemble a known one, and tags with one value over ten times as frequent as "
            "another. The exit status is 1 only if there are errors.",
            (*EVALSET_ARGUMENTS,
             value("--corpus", "CORPUS", f"where the gold passages are: {CORPUS_HELP}"),
             switch("--json", "print all findings as JSON")), group=EVALSET),
    Command("anchor", "pytest_rageval.extensions.evalset_tools.anchor:anchor_command",
            "turn gold passages into character spans of files, which stay valid after re-chunking",
            "Gold by id is looked up in the corpus. Texts and quoted answers are searched word for word, except for "
            "white space. An example is left over if its gold is found nowhere or at several places. The exit status "
            "is then 1.",
            (*EVALSET_ARGUMENTS,
             CORPUS,
             value("--out", "OUT", "file to write: the anchored examples, in the native format", required=True),
             FORCE,
             value("--unanchored", "REST", "file to write: the examples left over, with the reasons")), group=EVALSET),
    Command("pool", "pytest_rageval.extensions.evalset_tools.pool:pool_command",
            "add the passages with an answer that several systems found to the gold passages",
            "The systems are those of reports: the parametrized retrievers of a run, or those of several runs. Their "
            "rankings are pooled as deep as the largest cut-off of a score. With --top, questions are left out for "
            "which a system has no answer in its first K passages; with --n and --by, as many are drawn of each value "
            "of a tag. The exit status is 1 if a value has fewer.",
            (*EVALSET_ARGUMENTS,
             value("--report", "REPORT", "report of a run, JSON (pytest --rageval-report report.json); may be repeated",
                   action="append", required=True),
             value("--top", "K", "keep the questions with an answer in the first K passages of every system",
                   one_or_more("a number of passages")),
             value("--n", "N", "number of questions for each value of the tag --by", _parse_questions),
             value("--by", "TAG", "the tag, such as the type of the question", str),
             value("--seed", "N", "seed of the draw (default: 0)", int, default=0),
             value("--out", "OUT", "file to write: the eval set with its gold, in the native format", required=True),
             FORCE), group=EVALSET),
    Command("generate", "pytest_rageval.extensions.evalset_tools.generate:generate_command",
            "let a model write questions about a corpus, as candidates for review",
            "Passages are drawn from all files of the corpus. For each, the model writes a question and an answer that "
            "quotes the passage. A question is accepted if the model answers it correctly with the passage, and not "
            "without it. Replies are cached as in tests, so a repeated command sends no requests. The exit status is 1 "
            "if fewer than N are accepted.",
            (CORPUS,
             value("--n", "N", "number of questions, at least 1", _parse_questions, required=True),
             value("--out", "OUT", "file to write: the candidates, in the native format", required=True),
             FORCE,
             value("--keep-rejected", "FILE", "file to write: rejected questions, with the reasons"),
             *GENERATE_OPTIONS), group=EVALSET),
    Command("nuggets", "pytest_rageval.extensions.evalset_tools.generate:nuggets_command",
            "let the judge's model propose nuggets, the facts that a good answer contains, for review",
            "For each example without nuggets the model lists facts from its reference answers and the texts of its "
            "gold passages, and says which are vital. They are written to another file, where each of these examples "
            "has nuggets_reviewed: false. A reviewer removes that; `rageval evalset check` lists the examples that "
            "still have it. Replies are cached as in tests. The exit status is 1 if an example is left without "
            "nuggets.",
            (*EVALSET_ARGUMENTS,
             value("--out", "OUT", "file to write: the whole eval set, in the native format", required=True),
             FORCE,
             *GENERATE_OPTIONS), group=EVALSET),
)
# fmt: on
