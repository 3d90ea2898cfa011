"""`rageval init`: writes the files of a first test, which passes without changes."""

import argparse
import configparser
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import chdir, suppress
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import Any, Final, NamedTuple

from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.policy import SMALL_SET
from pytest_rageval.evalsets.loading import load
from pytest_rageval.extensions.first_test.checks import (
    check_collected,
    check_retriever,
    parse_retriever_name,
)
from pytest_rageval.extensions.first_test.workflow import ProjectFile, is_installed, repository_root, workflow

QUESTIONS: Final = Path("evals", "questions.jsonl")
REPLIES: Final = Path("evals", "replies.jsonl")
TESTS: Final = Path("tests")
TEST_NAME: Final = "test_retriever.py"

PROJECT_FILES: Final = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""Files that make a folder a project of its own."""

PASSAGES: Final = {
    "returns": "You can return a tablet within 40 days, complete and in its box.",
    "shipping": "Parcels to Norway take four working days and cost 9 euros.",
    "warranty": "The warranty covers the battery for two years, but not the pen.",
}
EXAMPLE_RECORDS: Final = [
    {
        "id": name,
        "question": question,
        "answers": [answer],
        "gold": [{"id": passage, "text": PASSAGES[passage]}],
    }
    for name, question, answer, passage in (
        ("q1", "How many days do I have to return a tablet?", "40", "returns"),
        ("q2", "How long do parcels to Norway take?", "four", "shipping"),
        ("q3", "How long does the warranty cover the battery?", "two years", "warranty"),
    )
]

PLACEHOLDER_RECORD: Final[dict[str, object]] = {
    "id": "replace-me",
    "question": "REPLACE: a question that your users ask",
    "answers": ["REPLACE: the answer"],
    "gold": [{"id": "REPLACE: the id of the passage that answers it", "text": "REPLACE: its text"}],
}

CONFTEST_FILE: Final = '''\
"""Gives the retriever to pytest-rageval."""

import pytest
{imports}

@pytest.fixture(scope="session")
def rageval_retriever():
    {body}
'''

EXAMPLE_PASSAGES: Final = (
    "\n# An example. Replace it by your own retriever: any function (query, k) that returns passages, or an object of\n"
    "# LangChain, LlamaIndex or Haystack.\nPASSAGES = [\n"
    + "".join(f"    {json.dumps({'id': name, 'text': text})},\n" for name, text in PASSAGES.items())
    + "]\n"
)
BM25: Final = "from pytest_rageval import BM25Retriever\n"


class FrameworkExample(NamedTuple):
    imports: str
    body: str
    requires: str = ""  # the package to install
    module: str = ""  # of that package, the topmost


FRAMEWORKS: Final[Mapping[str | None, FrameworkExample]] = {
    None: FrameworkExample(f"\n{BM25}{EXAMPLE_PASSAGES}", "return BM25Retriever(PASSAGES)"),
    "langchain": FrameworkExample(
        f"""from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

{BM25}{EXAMPLE_PASSAGES}SEARCH = BM25Retriever(PASSAGES)


class KeywordRetriever(BaseRetriever):
    k: int = 4

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id=found.id, page_content=found.text) for found in SEARCH(query, self.k)]
""",
        "return KeywordRetriever()",
        "langchain-core",
        "langchain_core",
    ),
    "llamaindex": FrameworkExample(
        f"""from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

{BM25}{EXAMPLE_PASSAGES}SEARCH = BM25Retriever(PASSAGES)


class KeywordRetriever(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [
            NodeWithScore(node=TextNode(id_=found.id, text=found.text), score=found.score)
            for found in SEARCH(query_bundle.query_str, 4)
        ]
""",
        "return KeywordRetriever()",
        "llama-index-core",
        "llama_index",
    ),
    "haystack": FrameworkExample(
        f"""from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
{EXAMPLE_PASSAGES}""",
        """store = InMemoryDocumentStore()
    store.write_documents([Document(id=passage["id"], content=passage["text"]) for passage in PASSAGES])
    return InMemoryBM25Retriever(store)""",
        "haystack-ai",
        "haystack",
    ),
}

TEST_FILE: Final = '''\
"""Tests the {subject}. The markers are the test."""

import pytest


@pytest.mark.rageval_evalset({evalset})
@pytest.mark.rageval_threshold("{spec}", {bounds})
# {measure} does not see the order of the passages:
@pytest.mark.rageval_threshold("{order}", max_drop=0.05)
{answer}def test_the_passage_is_found():
    pass
'''

ANSWER_THRESHOLD: Final = """\
# The application answers from its own passages: k is at least their number. The answer has the words of a reference:
@pytest.mark.rageval_threshold("answer.containment@{k}", max_drop=0.05)
"""

INI_FILE: Final = """\
[pytest]
pythonpath = .
# Without the plugin its markers would do nothing, and every test would pass.
required_plugins = pytest-rageval
# recall, contains.* and provenance.* need no model. Scores of answers do, and the key of its server in the environment:
# rageval_model = gpt-5-mini
# Replies that `pytest --rageval-record` recorded. CI then needs no key:
# rageval_cassette = {replies}
"""
INI_ADDITION: Final = ("pythonpath = .", "required_plugins = pytest-rageval")
TOML_ADDITION: Final = ('pythonpath = ["."]', 'required_plugins = ["pytest-rageval"]')

GITATTRIBUTES: Final = """\
# Two branches that record different replies merge without a conflict; two baselines, test by test, in clones in which
# `rageval baseline merge --install` was run.
{replies} text eol=lf merge=union
rageval_baseline.json text eol=lf merge=rageval-baseline
"""


RETRIEVER: Final = "rageval_retriever"
APPLICATION: Final = "rageval_application"
HAS_FIXTURE: Final = r"^\s*(async )?def {0}\(|name=[\"']{0}\b|^\s*from .+ import .*\b{0}\b"
"""The pattern of a file that defines a fixture, names it in the decorator, or imports it."""


class Tested(NamedTuple):
    """What the test is of: a fixture, and the conftest.py that has it or gets it."""

    fixture: str
    conftest: Path
    is_example: bool = False
    mark: str = f"def {RETRIEVER}("  # see ProjectFile
    note: str = ""  # what is said of a fixture that is there

    @property
    def k(self) -> int:
        """The cut-off of the scores. An application chooses the number of its passages, and seldom more than 10."""
        return 2 if self.is_example else 10 if self.fixture == APPLICATION else 5


def init_command(options: argparse.Namespace) -> int:
    _check_folder()
    tested = _tested(options)
    if options.evalset is None and not tested.is_example:
        options.evalset = _named_evalset()
    files = _files(options, tested)
    # The folders that pytest adds to sys.path when it runs in this folder.
    folders = [str(Path.cwd()), *(str(Path(folder).resolve()) for folder in _setting("pythonpath"))]
    warning = "" if options.retriever is None else check_retriever(options.retriever, folders)
    to_add = [path for path, file in files.items() if not _write(path, file)]
    framework = FRAMEWORKS[options.framework] if tested.is_example else None
    if framework is not None and framework.module and find_spec(framework.module) is None:
        warning = (
            f"{framework.requires} is not installed for {sys.executable}: pip install {framework.requires}"
        )
    if warning:
        echo_err(f"warning: {warning}")
    passes = not warning and check_collected(_place() / TEST_NAME)
    steps = _next_steps(options, tested, passes=passes)
    if to_add:
        steps.insert(0, f"Add the lines that are printed above to {', '.join(map(Path.as_posix, to_add))}.")
    echo("\nNext:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1)))
    return 0


def _named_evalset() -> Path | None:
    """Return the eval set of a test that is there, unless it is the one that is written as a placeholder."""
    place = _place()
    named = re.search(r'rageval_evalset\(\s*"([^"]+)"', _text(place / TEST_NAME))
    path = Path(named[1]) if named else place / QUESTIONS
    return path if path != place / QUESTIONS and path.exists() else None


def _check_folder() -> None:
    """Raise InputError in a folder of a project, whose settings a new pytest.ini would replace."""
    here = Path.cwd()
    if any(Path(name).exists() for name in PROJECT_FILES) or _settings_file().exists():
        return
    for folder in here.parents:
        with chdir(folder):
            settings = _settings_file()
        if (folder / settings).exists():
            inside = here.relative_to(folder).as_posix()
            raise InputError(
                f"pytest's settings for this folder are in {folder / settings}, and a pytest.ini in {inside} would "
                f"replace them.\nRun rageval init in {folder}."
            )
        if (folder / ".git").exists():
            return


def _place() -> Path:
    """Return the folder for the test: one that pytest collects, and that no build takes for a package.

    This is the first of `testpaths`. Without them it is `tests` if that exists or the project is installed, since some
    build systems refuse two top-level packages; else the current folder.
    """
    for pattern in _setting("testpaths"):
        is_relative = pattern.strip("./") and not Path(pattern).is_absolute()
        found = sorted(path for path in Path().glob(pattern) if path.is_dir()) if is_relative else []
        if found or not set("*?[") & set(pattern):
            return found[0] if found else Path(pattern)
    if Path(TEST_NAME).exists():
        return Path()
    return TESTS if TESTS.is_dir() or is_installed() else Path()


def _next_steps(options: argparse.Namespace, tested: Tested, *, passes: bool) -> list[str]:
    place = _place()
    run = "Run `pytest`: it passes. Without a baseline, max_drop only warns."
    if not passes:
        run = "Do what the warning above says; until then the test does not run. Then run `pytest`."
    baseline = "Run `pytest --rageval-update-baseline`, and commit rageval_baseline.json: CI needs it."
    file = (place / QUESTIONS).as_posix()
    questions = f"Write your own questions into {file}, each with the passages that answer it (gold)."
    small = 'policy="snapshot" fails if any question gets worse. Leave it out when you have 100 questions or more.'
    if tested.is_example:
        return [
            run,
            f"Return your own retriever from the fixture in {tested.conftest.as_posix()}.",
            questions,
            baseline,
            small,
        ]
    if options.evalset is None:
        return [
            f"{questions} Until then `pytest` fails: the eval set is a placeholder.",
            run,
            baseline,
            small,
        ]
    return [
        run,
        baseline,
        *([small] if len(load(options.evalset)) < SMALL_SET else []),
        f"Add min=… to the threshold in {(place / TEST_NAME).as_posix()} when you know the mean.",
    ]


def _tested(options: argparse.Namespace) -> Tested:
    """Return what the test is of: what --retriever names, a fixture that pytest finds for the test, or the example."""
    place = _place()
    found: dict[str, Path] = {}
    for folder in (place, *place.parents):  # pytest takes the nearest
        text = _text(folder / "conftest.py")
        for name in (RETRIEVER, APPLICATION):
            if re.search(HAS_FIXTURE.format(name), text, re.MULTILINE):
                found.setdefault(name, folder / "conftest.py")
    own, application = found.get(RETRIEVER), found.get(APPLICATION)
    if options.retriever is not None:
        if application is not None:
            raise InputError(
                f"{application.as_posix()} has {APPLICATION}, and a {RETRIEVER} would take its place: the application "
                f"would not be tested.\nLeave --retriever out, or take {APPLICATION} out."
            )
        return Tested(RETRIEVER, place / "conftest.py")
    if own is not None:
        note = "" if application is None else f", and {APPLICATION} is not asked: remove one"
        is_example = EXAMPLE_PASSAGES.strip() in _text(own)
        return Tested(
            RETRIEVER, own, is_example, RETRIEVER, note and f". The test uses its {RETRIEVER}{note}."
        )
    if application is not None:
        return Tested(APPLICATION, application, mark=APPLICATION, note=f". The test uses its {APPLICATION}.")
    return Tested(RETRIEVER, place / "conftest.py", is_example=True)


def _text(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")
    return ""


def _files(options: argparse.Namespace, tested: Tested) -> dict[Path, ProjectFile]:
    if options.evalset is not None and tested.is_example:
        raise InputError(
            f"--evalset {options.evalset} needs --retriever: the example's retriever knows three passages, not yours.\n"
            "Name yours, such as: --retriever support_bot.search:search; or write its fixture in conftest.py first, "
            f"{RETRIEVER} or {APPLICATION}."
        )
    place = _place()
    evalset = place / QUESTIONS if options.evalset is None else options.evalset
    if options.framework is not None and not tested.is_example:
        named = (
            "--retriever names"
            if options.retriever
            else f"{tested.fixture} in {tested.conftest.as_posix()} is"
        )
        raise InputError(
            f"--framework {options.framework} writes an example retriever, and {named} yours.\n"
            "Leave --framework out: a retriever of LangChain, LlamaIndex or Haystack is recognised by its methods."
        )
    conftest = _conftest(options)
    examples = None if options.evalset is None else list(load(options.evalset))
    bounds = "min=0.9, max_drop=0.02" if tested.is_example else "max_drop=0.02"
    # The score needs no model. On a small set the test of a drop misses most real ones, and nothing is lost by chance.
    if examples is None or len(examples) < SMALL_SET:
        bounds += ', policy="snapshot"'
    spec, order = _score_specs(options.evalset, examples, tested.k)
    is_application = tested.fixture == APPLICATION
    has_answers = examples is None or any(example.wanted for example in examples)
    # Of NDCG, a passage that falls from rank 1 to 2 costs 0.37: 0.05 is one such fall in seven questions.
    test = TEST_FILE.format(
        subject="application" if is_application else "retriever",
        evalset=_path_literal(evalset),
        spec=spec,
        bounds=bounds,
        order=order,
        measure=spec.partition("@")[0],
        answer=ANSWER_THRESHOLD.format(k=tested.k) if is_application and has_answers else "",
    )
    files = {
        tested.conftest: ProjectFile(
            "the fixture that returns your retriever", conftest, conftest, mark=tested.mark, note=tested.note
        ),
        place / TEST_NAME: ProjectFile("the test", test, test, mark="@pytest.mark.rageval_evalset("),
    }
    if options.evalset is None:
        records = EXAMPLE_RECORDS if tested.is_example else [PLACEHOLDER_RECORD]
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        purpose = (
            "three questions, each with the passage that answers it"
            if tested.is_example
            else "a placeholder for your questions"
        )
        files[place / QUESTIONS] = ProjectFile(purpose, lines, "")
    ini, replies = _settings_file(), (place / REPLIES).as_posix()
    files[ini] = ProjectFile(
        "pytest's settings",
        INI_FILE.format(replies=replies),
        "\n".join(_missing_lines(ini, options.retriever)),
    )
    attributes = GITATTRIBUTES.format(replies=replies)
    files[Path(".gitattributes")] = ProjectFile("how git merges recorded replies", attributes, attributes)
    example = FRAMEWORKS[options.framework] if tested.is_example else None
    requires = None if example is None else [example.requires] if example.requires else []
    files[repository_root() / ".github" / "workflows" / "rageval.yml"] = workflow(requires)
    return files


def _conftest(options: argparse.Namespace) -> str:
    if options.retriever is None:
        example = FRAMEWORKS[options.framework]
        return CONFTEST_FILE.format(imports=example.imports, body=example.body)
    match = parse_retriever_name(options.retriever)
    return CONFTEST_FILE.format(
        imports=f"\nfrom {match['module']} import {match['name']}\n",
        body=f"return {match['name']}{match['rest']}",
    )


def _score_specs(evalset: Path | None, examples: Sequence[Example] | None, k: int) -> tuple[str, str]:
    """Return two scores that the eval set allows without a model; the second sees the order, at the same k."""
    if examples is None or any(example.gold for example in examples):
        return f"recall@{k}", f"ndcg@{k}"
    if any(example.wanted for example in examples):
        return f"contains.hit@{k}", f"contains.mrr@{k}"
    raise InputError(
        f"No question of {evalset} has gold passages or answers, so its rankings cannot be scored.\n"
        'Add to each line "gold": [{"id": "…"}], the passages that answer the question.'
    )


def _path_literal(path: Path) -> str:
    absolute = path.resolve()
    with suppress(ValueError):
        absolute = absolute.relative_to(Path.cwd().resolve())
    return json.dumps(absolute.as_posix(), ensure_ascii=False)


def _settings_file() -> Path:
    """Return the file that pytest reads its settings from; a new one if there is none."""
    if own := next(filter(os.path.lexists, ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")), ""):
        return Path(own)
    others = map(Path, ("pyproject.toml", "tox.ini", "setup.cfg"))
    return next((path for path in others if _read_settings(path) is not None), Path("pytest.ini"))


def _read_settings(path: Path) -> Mapping[str, object] | None:
    """Return pytest's settings in a file; None if it has none, or cannot be read."""
    with suppress(OSError, ValueError, configparser.Error):
        if path.suffix == ".toml":
            content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
            table = (content.get("tool", {}) if path.name == "pyproject.toml" else content).get("pytest")
            return table and {**table, **table.get("ini_options", {})}
        parser = configparser.RawConfigParser()
        parser.read(path, encoding="utf-8")
        section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
        return dict(parser[section]) if section in parser else None
    return None


def _missing_lines(settings: Path, retriever: str | None) -> list[str]:
    """Return the lines that the settings lack. A setting that is there has to be replaced: two would be an error."""
    missing = []
    for line in TOML_ADDITION if settings.suffix == ".toml" else INI_ADDITION:
        name, _, value = line.partition(" = ")
        values, own = _setting(name), "." if name == "pythonpath" else "pytest-rageval"
        if any(named == own or named.startswith((f"{own}>", f"{own}=")) for named in values):
            continue
        if values:
            # The folders that are there are enough, unless the retriever is in this folder alone.
            alone = not any(_has_module(Path(folder), retriever) for folder in values)
            if own == "." and not (alone and _has_module(Path(), retriever)):
                continue
            missing.append(f"# In place of its {name}:")
            value = json.dumps([*values, own]) if settings.suffix == ".toml" else " ".join([*values, own])
        missing.append(f"{name} = {value}")
    return missing


def _has_module(folder: Path, retriever: str | None) -> bool:
    name = (retriever or "").partition(":")[0].partition(".")[0]
    return bool(name) and ((folder / name).is_dir() or (folder / f"{name}.py").exists())


def _setting(name: str) -> list[str]:
    value: Any = (_read_settings(_settings_file()) or {}).get(name) or ()
    return value.split() if isinstance(value, str) else [*map(str, value)]


def _write(path: Path, file: ProjectFile) -> bool:
    """Write the file, or print the lines that an existing one lacks; False if the user has to add them."""
    if not os.path.lexists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as new:
            new.write(file.content)
        echo(f"wrote {path.as_posix()}: {file.purpose}")
        return True
    text = _text(path)
    if text != file.content and not file.addition:
        echo(f"kept {path.as_posix()}, which exists")
    elif (file.mark or file.addition.strip()) in text:
        echo(f"unchanged {path.as_posix()}: it has the lines already{file.note}")
    else:
        place = f" {file.place}" if file.place else ""
        echo(f"kept {path.as_posix()}, which exists. Add to it{place} ({file.purpose}):")
        echo(indent(file.addition.rstrip(), "    "))
        return False
    return True
