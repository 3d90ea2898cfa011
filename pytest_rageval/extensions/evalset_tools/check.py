"""`rageval evalset check`: finds mistakes in an eval set, and computes the smallest drop that it can show."""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

from pytest_rageval.answers.overlap import containment, normalize
from pytest_rageval.cli.console import echo, format_count, to_one_line
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.ranking import Document, excerpt
from pytest_rageval.evalsets.corpus import is_folder_of_files, read_corpus
from pytest_rageval.evalsets.field_map import near_misses
from pytest_rageval.evalsets.formats.peers import find_assertion
from pytest_rageval.evalsets.formats.table import is_list_cell
from pytest_rageval.extensions.evalset_tools.anchor import GoldIndex, GoldKey, GoldLookup
from pytest_rageval.extensions.evalset_tools.reading import read_evalset
from pytest_rageval.gate.drop_tests import GOLD_CLUSTERS, MIN_CLUSTERS, question_clusters
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import FLOAT_OF_INTEGER, MISSING_WORDS
from pytest_rageval.scores.near_duplicates import similar_questions
from pytest_rageval.stats.power import POWER, design_effect, detectable_drop_unpaired

MAX_IMBALANCE: Final = 10
"""Maximum ratio of the number of examples with a tag's most frequent value to the number with its rarest value."""
ALPHA: Final = 0.05  # significance level of the drop that an eval set can show
MEAN: Final = 0.5  # assumed mean before the drop; a larger drop is impossible
YES_OR_NO: Final = frozenset({"yes", "no"})
WORDS_FOR_MISSING: Final = MISSING_WORDS | {"null", "NULL", "n/a", "N/A", "#N/A"}
"""What is written for a missing value; it may also be an answer ("None")."""
UNUSED: Final[Mapping[str, Collection[str]]] = {
    "gold.id": (
        "gold_ids", "relevant_ids", "relevant_docs", "relevant_documents", "doc_id", "doc_ids", "document_id",
        "document_ids", "chunk_id", "chunk_ids", "passage_id", "passage_ids", "source_id", "source_ids", "evidence",
        "expected_ids", "reference_context_ids", "positive_ids", "positive_passages", "supporting_facts", "qrels",
    ),
    "gold.text": (
        "context", "contexts", "reference_contexts", "gold_context", "gold_contexts", "gold_passages",
        "expected_context", "expected_contexts", "ground_truth_context", "ground_truth_contexts", "positive",
        "positives",
    ),
    "gold.source": ("source", "source_file", "file", "file_name", "file_path", "filename", "url"),
    "answers": (
        "answer", "short_answer", "short_answers", "ground_truth", "ground_truths", "label", "expected_answer",
        "expected_answers", "correct_answer", "correct_answers", "gold_answer", "gold_answers", "target", "output",
    ),
    "reference": (
        "expected_output", "reference_answer", "long_answer", "ideal_answer", "expected", "golden_answer",
        "response_reference", "expected_response",
    ),
    "tags.topic": ("topic", "category", "categories", "domain", "query_type", "question_type"),
    "history": ("chat_history", "messages", "conversation"),
}  # fmt: skip
"""Names of a field in other files, by our name. A key of such a name that is not read may be meant as the field."""
TITLES: Final[Mapping[str, str]] = {
    "duplicate": "the same question, except for case, punctuation and articles",
    "near_duplicate": "nearly the same question",
    "leak": "the question contains an answer",
    "unanswerable": "no answers, gold passages, reference or nuggets: few scores can use these (sufficient, udcg)",
    "no_gold": "no gold passage of a grade above 0",
    "no_answers": "no answers",
    "unreviewed_nuggets": 'nuggets that a model proposed: review them, and take "nuggets_reviewed" out',
    "suspect_value": "a value that looks like something that was turned into a text",
    "misspelt": "a key that is not read, and resembles a key that is",
    "unused": "a key that is not read, and looks as if it should be",
    "unread_context": "not a list of messages, or not an object of filters, and not read",
    "unbalanced": "a tag's value that few examples have: their mean is imprecise",
    "gold_not_in_corpus": "a gold passage is not in the corpus",
    "equal_ids": "several ids of the corpus are equal to that of a gold passage",
    "answer_not_in_gold": "no gold passage contains the answer",
}
"""The kinds of findings, by their names in JSON output."""
ERRORS: Final = {"duplicate", "gold_not_in_corpus", "equal_ids"}  # make scores wrong; the others are notes
MAX_FINDINGS: Final = 5  # number of findings of a kind that are printed
MAX_IDS: Final = 4  # number of example ids of a finding that are printed


def check_command(options: argparse.Namespace) -> int:
    evalset, places = read_evalset(options)
    corpus = None if options.corpus is None else read_corpus(options.corpus)
    of_files = options.corpus is not None and is_folder_of_files(options.corpus)
    found = _question_findings(evalset) | _gold_findings(evalset, corpus, of_files=of_files)
    groups = [FindingGroup(name, findings) for name, items in found.items() if (findings := list(items))]
    groups.sort(key=lambda group: not group.error)
    # Assume the scores with the largest variance: 0 for half of the examples, and 1 for the other half.
    scores = [0.0, 1.0] * (len(evalset) // 2) + [0.5] * (len(evalset) % 2)
    drop = detectable_drop_unpaired(scores, alpha=ALPHA)
    shared = dict(_shared_gold(evalset))
    errors, notes = (
        sum(len(group.findings) for group in groups if group.error is error) for error in (True, False)
    )
    if options.json:
        document = {
            "evalset": evalset.name,
            "examples": len(evalset),
            "findings": [_json_entry(group, places) for group in groups],
            "detectable_drop": {
                "drop": 1.0 if drop is None else drop,
                "power": POWER,
                "alpha": ALPHA,
                "mean": MEAN,
                "paired": False,
            },
            "design_effect": {by: effect for by, (_, _, effect) in shared.items()},
        }
        echo(json.dumps(document, indent=2))
        return int(errors > 0)
    for group in groups:
        echo(f"{'error' if group.error else 'note'}: {TITLES[group.name]}: {len(group.findings):,}")
        echo(*(f"  {to_one_line(line)}" for line in _finding_lines(group.findings, places)))
    examples = format_count(len(evalset), "example")
    echo(
        f"{to_one_line(evalset.name)}: {examples}, {format_count(errors, 'error')}, {format_count(notes, 'note')}"
        + ("" if options.corpus else "; gold passages were not looked up, without --corpus")
    )
    if drop is None or drop > MEAN:
        shows = f"a drop of less than {MEAN:g} is found in fewer than {POWER:.0%} of runs: write more."
    else:
        shows = f"a drop of {drop:.3f} from a mean of {MEAN:g} is found in {POWER:.0%} of runs."
    echo(
        f"With {examples}, {shows}",
        f"  This assumes scores of 0 and 1, a test at {ALPHA:g}, and two unrelated retrievers. "
        "Two versions of one retriever agree on most examples, so smaller drops are found.",
    )
    for by, (largest, clusters, effect) in shared.items():
        unrelated = format_count(round(len(evalset) / effect), "unrelated one")
        echo(
            f"Up to {format_count(largest, 'question')} share a {by} ({format_count(clusters, 'group')}). If these get "
            f"worse together, {examples} tell as much as {unrelated} (design effect {effect:.1f})"
            + (f'. Then test with the policy\'s cluster = "{by}".' if clusters >= MIN_CLUSTERS else ".")
        )
    return int(errors > 0)


def _shared_gold(evalset: EvalSet) -> Iterator[tuple[str, tuple[int, int, float]]]:
    """Yield by each way to share gold passages: size of the largest group, number of groups, design effect."""
    for by in GOLD_CLUSTERS:
        with suppress(InputError):
            sizes = Counter(question_clusters(evalset.examples, by)).values()
            if max(sizes) > 1:
                yield by, (max(sizes), len(sizes), design_effect(list(sizes)))


class Finding(NamedTuple):
    ids: tuple[str, ...]
    what: str


class FindingGroup(NamedTuple):
    name: str
    findings: Sequence[Finding]

    @property
    def error(self) -> bool:
        return self.name in ERRORS


def _finding_lines(findings: Sequence[Finding], places: Mapping[str, str]) -> Iterator[str]:
    for finding in findings[:MAX_FINDINGS]:
        examples = [f"{identifier} ({places[identifier]})" for identifier in finding.ids[:MAX_IDS]]
        more = len(finding.ids) - len(examples)
        yield f"{', '.join(examples)}{f' and {more:,} more' if more else ''}: {finding.what}"
    if len(findings) > MAX_FINDINGS:
        yield f"and {len(findings) - MAX_FINDINGS:,} more (all with --json)"


def _json_entry(group: FindingGroup, places: Mapping[str, str]) -> dict[str, object]:
    return {
        "kind": group.name,
        "title": TITLES[group.name],
        "error": group.error,
        "count": len(group.findings),
        "found": [
            {"ids": list(ids), "places": [places[identifier] for identifier in ids], "what": what}
            for ids, what in group.findings
        ],
    }


def _question_findings(evalset: EvalSet) -> dict[str, Iterable[Finding]]:
    # The same question with another history, filters or metadata is another search.
    by_question: dict[tuple[str, str], list[Example]] = defaultdict(list)
    by_context: dict[str, list[Example]] = defaultdict(list)
    for example in evalset:
        context = digest([list(map(dict, example.history)), dict(example.filters), dict(example.metadata)])
        question = normalize(example.question), context
        if question not in by_question:
            by_context[context].append(example)
        by_question[question].append(example)
    same = [
        Finding(tuple(example.id for example in examples), excerpt(examples[0].question))
        for examples in by_question.values()
        if len(examples) > 1
    ]
    near = [
        Finding(tuple(first[i].id for i in group), " / ".join(excerpt(first[i].question) for i in group[:2]))
        for first in by_context.values()
        for group in similar_questions([example.question for example in first])
    ]
    unread = [
        Finding((example.id,), f'"{name}" is {type(example.extra[name]).__name__}')
        for example in evalset
        for name in ("history", "filters")
        if example.extra.get(name)
    ]
    misspelt = [
        Finding(miss.ids, f'"{miss.key}"; if "{miss.meant}" is meant, say --field {miss.meant}={miss.key}')
        for miss in near_misses(evalset)
    ]
    unanswerable = {
        example.id
        for example in evalset
        if not (example.wanted or example.relevant or example.reference or example.nuggets)
    }
    answerable = [example for example in evalset if example.id not in unanswerable]
    return {
        "duplicate": same,
        "near_duplicate": near,
        "leak": _leaks(evalset),
        "unanswerable": _find_examples(evalset, lambda example: example.id in unanswerable),
        "no_gold": _find_examples(answerable, lambda example: not example.relevant),
        "no_answers": _find_examples(answerable, lambda example: not example.wanted),
        "unreviewed_nuggets": _find_examples(
            evalset, lambda example: example.extra.get("nuggets_reviewed") is False
        ),
        "suspect_value": _suspect_values(evalset),
        "misspelt": misspelt,
        "unused": _unused_keys(evalset, {miss.key for miss in near_misses(evalset)}),
        "unread_context": unread,
        "unbalanced": _unbalanced_tags(evalset),
    }


def _unused_keys(evalset: EvalSet, named: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each key under `extra`, but those `named` already, in `UNUSED` whose field is missing."""
    meant = {key: ours for ours, keys in UNUSED.items() for key in keys}
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for example in evalset:
        for key, value in example.extra.items():
            ours = meant.get(key.lower().replace(" ", "_").replace("-", "_"))
            if ours is None or key in named or value in (None, "", [], {}):
                continue
            field_name = ours.partition(".")[0]
            if not (example.wanted if field_name == "answers" else getattr(example, field_name)):
                ids[key, ours].append(example.id)
    for (key, ours), examples in ids.items():
        yield Finding(tuple(examples), f'"{key}"; if it is {ours}, say --field {ours}={key}')


def _find_examples(examples: Iterable[Example], condition: Callable[[Example], bool]) -> list[Finding]:
    return [Finding((example.id,), excerpt(example.question)) for example in examples if condition(example)]


def _suspect_values(evalset: EvalSet) -> Iterator[Finding]:
    for example in evalset:
        texts = [
            ("question", example.question),
            *(("an answer", answer) for answer in chain(example.answers, *example.answer_set)),
            *(("a nugget", nugget.text) for nugget in example.nuggets),
            ("reference", example.reference),
            *(("gold.id", gold.id) for gold in example.gold),
            *(("gold.text", gold.text) for gold in example.gold),
        ]
        for name, text in texts:
            looks_like = None if text is None else _suspicion(text.strip())
            if text is not None and looks_like is not None:
                yield Finding((example.id,), f"{name} is {excerpt(text)}: {looks_like}")


def _suspicion(text: str) -> str | None:
    if text in WORDS_FOR_MISSING:
        return "a missing value?"
    if FLOAT_OF_INTEGER.fullmatch(text):
        return f"the integer {text[:-2]}, which a data frame made a float?"
    if ":" in text and find_assertion(text) is not None:
        return 'an assertion of promptfoo? Such files are read with format="promptfoo"'
    # An object may be an answer of a program. A printed set has quotes after its brace.
    if is_list_cell(text) and not (text[0] == "{" and text[1:].lstrip()[:1] != "'"):
        return "a list that was printed?"
    return None


def _leaks(evalset: EvalSet) -> Iterator[Finding]:
    for example in evalset:
        answers = chain(example.answers, *example.answer_set)
        leak = next((answer for answer in answers if containment(example.question, [answer])), None)
        if leak is not None:
            yield Finding((example.id,), f"{excerpt(leak, 30)} in {excerpt(example.question)}")


def _unbalanced_tags(evalset: EvalSet) -> Iterator[Finding]:
    """Yield each tag with a very rare value, such as a missing one; not tags that are ids."""
    for tag in dict.fromkeys(tag for example in evalset for tag in example.tags):
        # Values are compared by their digests, since a value may be a list, which cannot be hashed.
        keys = [digest(example.tags.get(tag)) for example in evalset]
        counts = Counter(keys)
        (most, often), (least, seldom) = counts.most_common()[0], counts.most_common()[-1]
        if len(counts) > len(evalset) / 2 or often <= MAX_IMBALANCE * seldom:
            continue
        value_texts = {
            key: repr(example.tags[tag]) if tag in example.tags else "missing"
            for key, example in zip(keys, evalset, strict=True)
        }
        yield Finding(
            tuple(example.id for key, example in zip(keys, evalset, strict=True) if key == least),
            f"{tag} is {value_texts[least]} in {format_count(seldom, 'example')}, and {value_texts[most]} in {often}",
        )


def _gold_findings(
    evalset: EvalSet, corpus: Iterable[Document] | None, *, of_files: bool
) -> dict[str, Iterable[Finding]]:
    """Return mistakes in gold passages; without a corpus, only mistakes that the texts of the gold passages show.

    - A gold passage with a span is in the corpus if exactly one file is named by its source (see `files_named`), and
      this file is long enough for the span.
    - A gold passage with an id is in the corpus if a passage has this id.
    - Any other gold passage is in the corpus if its text occurs in the corpus.

    If a gold passage with a span or an id also has a text, the corpus must have this text at that place (see
    `SearchableText`). If the ids of the corpus are paths of files (`of_files`), and no gold passage has such an id,
    gold passages with a text are searched by their text.
    """
    lookups: dict[GoldKey, GoldLookup] = {}
    if corpus is not None:
        index = GoldIndex(evalset, of_files=of_files)
        for document in corpus:
            index.compare(document)
        lookups = index.results()
    absent = [
        Finding((identifier,), f"{lookup.gold.label}: {lookup.difference or lookup.why}")
        for (identifier, _), lookup in lookups.items()
        if lookup.difference or not lookup.present
    ]
    ambiguous = [
        Finding(
            (identifier,), f"{lookup.gold.label}: the corpus has {', '.join(map(repr, sorted(lookup.ids)))}"
        )
        for (identifier, _), lookup in lookups.items()
        if len(lookup.ids) > 1
    ]
    return {
        "gold_not_in_corpus": absent,
        "equal_ids": ambiguous,
        "answer_not_in_gold": _answers_not_in_gold(evalset, lookups),
    }


def _answers_not_in_gold(evalset: EvalSet, lookups: Mapping[GoldKey, GoldLookup]) -> Iterator[Finding]:
    for example in evalset:
        texts = [
            gold.text or (lookups[example.id, n].text if lookups else None)
            for n, gold in enumerate(example.gold)
            if gold.grade > 0
        ]
        known = [text for text in texts if text is not None]
        # If the text of a gold passage is unknown, it may contain the answer.
        if known and len(known) == len(texts):
            for aliases in example.wanted:
                # A passage that answers a yes-or-no question rarely contains the word "yes" or "no".
                if {*map(normalize, aliases)} <= YES_OR_NO:
                    continue
                if not any(containment(text, aliases) for text in known):
                    yield Finding((example.id,), excerpt(aliases[0]))
                    break
