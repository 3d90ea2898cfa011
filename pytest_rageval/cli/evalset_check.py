"""`rageval evalset check`: mistakes in an eval set, and the smallest drop it can show."""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from pytest_rageval.answers.overlap import containment, normalize
from pytest_rageval.cli.console import echo, format_count, to_one_line
from pytest_rageval.cli.evalset_reading import read_evalset
from pytest_rageval.cli.quotes import QuoteIndex, SearchableText
from pytest_rageval.datatypes import Document, EvalSet, Example, Gold, Span, excerpt
from pytest_rageval.digests import digest
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.corpus import is_folder_of_files, read_corpus
from pytest_rageval.evalsets.field_map import near_misses
from pytest_rageval.gate.drop_tests import GOLD, question_clusters
from pytest_rageval.gate.verdict import FEW_CLUSTERS
from pytest_rageval.measures.gold_matching import files_named, normal_path
from pytest_rageval.measures.near_duplicates import similar_questions
from pytest_rageval.stats.power import POWER, design_effect, detectable_drop_unpaired

__all__ = ["check_command"]

IMBALANCE: Final = 10  # a tag's commonest value has over this many times the examples of its rarest
ALPHA: Final = 0.05  # significance level of the drop that an eval set can show
YES_OR_NO: Final = frozenset({"yes", "no"})
MAX_FINDINGS: Final = 5  # findings of a kind that are shown
MAX_IDS: Final = 4  # examples of a finding that are named


def check_command(options: argparse.Namespace) -> int:
    """Print the mistakes that are found; 1 if there are errors."""
    evalset, places = read_evalset(options)
    corpus = None if options.corpus is None else read_corpus(options.corpus)
    of_files = options.corpus is not None and is_folder_of_files(options.corpus)
    kinds = [*_question_findings(evalset), *_gold_findings(evalset, corpus, of_files=of_files)]
    kinds = sorted((kind for kind in kinds if kind.found), key=lambda kind: not kind.error)
    # Each example scores 0 or 1, and half of them 1.
    scores = [0.0, 1.0] * (len(evalset) // 2) + [0.5] * (len(evalset) % 2)
    drop = detectable_drop_unpaired(scores, alpha=ALPHA)
    shared = dict(_shared_gold(evalset))
    errors, notes = (sum(len(kind.found) for kind in kinds if kind.error is error) for error in (True, False))
    if options.json:
        document = {
            "evalset": evalset.name,
            "examples": len(evalset),
            "findings": [_entry(kind, places) for kind in kinds],
            "detectable_drop": {
                "drop": 1.0 if drop is None else drop,
                "power": POWER,
                "alpha": ALPHA,
                "mean": 0.5,
                "paired": False,
            },
            "design_effect": {by: effect for by, (_, _, effect) in shared.items()},
        }
        echo(json.dumps(document, indent=2))
        return int(errors > 0)
    for kind in kinds:
        echo(f"{'error' if kind.error else 'note'}: {kind.title}: {len(kind.found):,}")
        for line in _lines(kind.found, places):
            echo(f"  {to_one_line(line)}")
    echo(
        f"{to_one_line(evalset.name)}: {format_count(len(evalset), 'example')}, {format_count(errors, 'error')}, {format_count(notes, 'note')}"
        + ("" if options.corpus else "; gold passages were not looked up, without --corpus")
    )
    if drop is None or drop >= 1:
        echo(
            f"With {format_count(len(evalset), 'example')} no drop can be distinguished from chance; write more."
        )
    else:
        echo(f"A drop of {drop:.3f} or more is found in {POWER:.0%} of runs, if the mean was 0.5 before.")
        echo(
            f"  That is for scores of 0 and 1, a test at {ALPHA:g}, and two unrelated retrievers. "
            "Two versions of one agree on most examples, so that smaller drops are found."
        )
    for by, (largest, clusters, effect) in shared.items():
        unrelated = format_count(round(len(evalset) / effect), "unrelated one")
        echo(
            f"Up to {format_count(largest, 'question')} share a {by} ({format_count(clusters, 'group')}). If these get worse "
            f"together, {format_count(len(evalset), 'example')} tell as much as {unrelated} "
            f"(design effect {effect:.1f})"
            + (f". Then test with cluster={by!r}." if clusters >= FEW_CLUSTERS else ".")
        )
    return int(errors > 0)


def _shared_gold(evalset: EvalSet) -> Iterator[tuple[str, tuple[int, int, float]]]:
    """Yield for each kind of shared gold the largest group of questions, the number of groups and the design effect."""
    for by in GOLD:
        with suppress(InputError):
            sizes = Counter(question_clusters(evalset.examples, by)).values()
            if max(sizes) > 1:
                yield by, (max(sizes), len(sizes), design_effect(list(sizes)))


class Finding(NamedTuple):
    """A mistake: the ids of the examples concerned, and a description."""

    ids: tuple[str, ...]
    what: str


class Kind(NamedTuple):
    """The findings of one kind. Scores are wrong with an error; others are notes."""

    name: str
    title: str
    found: Sequence[Finding]
    error: bool = False


def _lines(found: Sequence[Finding], places: Mapping[str, str]) -> Iterator[str]:
    for finding in found[:MAX_FINDINGS]:
        named = [f"{identifier} ({places[identifier]})" for identifier in finding.ids[:MAX_IDS]]
        more = len(finding.ids) - len(named)
        yield f"{', '.join(named)}{f' and {more:,} more' if more else ''}: {finding.what}"
    if len(found) > MAX_FINDINGS:
        yield f"and {len(found) - MAX_FINDINGS:,} more (all with --json)"


def _entry(kind: Kind, places: Mapping[str, str]) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "title": kind.title,
        "error": kind.error,
        "count": len(kind.found),
        "found": [
            {"ids": list(ids), "places": [places[identifier] for identifier in ids], "what": what}
            for ids, what in kind.found
        ],
    }


def _question_findings(evalset: EvalSet) -> list[Kind]:
    # With another context it is another search.
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
    bare = {
        example.id
        for example in evalset
        if not (example.wanted or example.relevant or example.reference or example.nuggets)
    }
    others = [example for example in evalset if example.id not in bare]
    return [
        Kind("duplicate", "the same question, but for case, punctuation and articles", same, error=True),
        Kind("near_duplicate", "nearly the same question", near),
        Kind("leak", "the question contains an answer", list(_leaks(evalset))),
        Kind(
            "unanswerable",
            "no answers, gold passages, reference or nuggets: few scores can use these (sufficient, udcg)",
            _where(evalset, lambda example: example.id in bare),
        ),
        Kind("no_gold", "no gold passage of a grade above 0", _where(others, lambda each: not each.relevant)),
        Kind("no_answers", "no answers", _where(others, lambda example: not example.wanted)),
        Kind(
            "unreviewed_nuggets",
            'nuggets that a model proposed: review them, and take "nuggets_reviewed" out',
            _where(evalset, lambda example: example.extra.get("nuggets_reviewed") is False),
        ),
        Kind("misspelt", "a key that is not read, and nearly has the name of one that is", misspelt),
        Kind("unread_context", "not a list of messages, or not an object of filters, and not read", unread),
        Kind(
            "unbalanced",
            "a tag's value that few examples have: their mean is imprecise",
            list(_unbalanced_tags(evalset)),
        ),
    ]


def _where(examples: Iterable[Example], condition: Callable[[Example], bool]) -> list[Finding]:
    return [Finding((example.id,), excerpt(example.question)) for example in examples if condition(example)]


def _leaks(evalset: EvalSet) -> Iterator[Finding]:
    for example in evalset:
        answers = chain(example.answers, *example.answer_set)
        leak = next((answer for answer in answers if containment(example.question, [answer])), None)
        if leak is not None:
            yield Finding((example.id,), f"{excerpt(leak, 30)} in {excerpt(example.question)}")


def _unbalanced_tags(evalset: EvalSet) -> Iterator[Finding]:
    """Tags with very rare values; a missing tag is a value. One with a value for every second example is an id."""
    for tag in dict.fromkeys(tag for example in evalset for tag in example.tags):
        # Digests, since a value may be a list.
        keys = [digest(example.tags.get(tag)) for example in evalset]
        counts = Counter(keys)
        (most, often), (least, seldom) = counts.most_common()[0], counts.most_common()[-1]
        if len(counts) > len(evalset) / 2 or often <= IMBALANCE * seldom:
            continue
        shown = {
            key: repr(example.tags[tag]) if tag in example.tags else "missing"
            for key, example in zip(keys, evalset, strict=True)
        }
        yield Finding(
            tuple(example.id for key, example in zip(keys, evalset, strict=True) if key == least),
            f"{tag} is {shown[least]} in {format_count(seldom, 'example')}, and {shown[most]} in {often}",
        )


GoldKey = tuple[str, int]  # the id of an example, and the index of one of its gold passages


def _gold_findings(evalset: EvalSet, corpus: Iterable[Document] | None, *, of_files: bool) -> list[Kind]:
    """Mistakes in gold passages; without a corpus, those that their texts show.

    A gold passage with a span is in the corpus if the one file that its source names (`files_named`)
    reaches to the span's end; one with an id, if a passage has that id; any other, if its text occurs in
    the corpus. If it has a text too, this must stand at that place (see `SearchableText`). Where the corpus's ids
    are paths of files, and no gold passage has one, those with a text are looked up by the text.
    """
    lookups: dict[GoldKey, _Lookup] = {}
    if corpus is not None:
        index = _GoldIndex(evalset, of_files=of_files)
        for document in corpus:
            index.compare(document)
        lookups = index.results()
    absent = [
        Finding((identifier,), f"{found.gold.label}: {found.differs or found.why}")
        for (identifier, _), found in lookups.items()
        if found.differs or not found.present
    ]
    return [
        Kind("gold_not_in_corpus", "a gold passage is not in the corpus", absent, error=True),
        Kind(
            "answer_not_in_gold", "no gold passage contains the answer", list(_unsupported(evalset, lookups))
        ),
    ]


def _unsupported(evalset: EvalSet, lookups: Mapping[GoldKey, "_Lookup"]) -> Iterator[Finding]:
    for example in evalset:
        texts = [
            gold.text or (lookups[example.id, n].text if lookups else None)
            for n, gold in enumerate(example.gold)
            if gold.grade > 0
        ]
        known = [text for text in texts if text is not None]
        # The answer may be in a passage whose text is unknown.
        if known and len(known) == len(texts):
            for aliases in example.wanted:
                # A passage that settles a question does not say "yes".
                if {*map(normalize, aliases)} <= YES_OR_NO:
                    continue
                if not any(containment(text, aliases) for text in known):
                    yield Finding((example.id,), excerpt(aliases[0]))
                    break


@dataclass(slots=True)
class _Lookup:
    """The search for a gold passage: missing for the reason `why` unless `present`, or because the text `differs`."""

    gold: Gold
    why: str
    text: str | None = None
    present: bool = False
    differs: str | None = None

    def compare(self, text: str) -> None:
        if self.gold.text is None or SearchableText(text).contains(self.gold.text):
            self.present, self.differs = True, None
            self.text = self.text or text
        elif not self.present:
            self.differs = f"the corpus has another text there, {excerpt(text)}"

    def compare_span(self, span: Span, document: Document, place: Span) -> None:
        """Compare the gold passage at a span with a passage of the same file, at its place."""
        exact = place.end - place.start == len(document.text)
        if exact and place.start <= span.start and span.end <= place.end:
            self.compare(document.text[span.start - place.start : span.end - place.start])
        elif span.end <= place.end:
            # The file is long enough. Its text there is cut in two, or has no offsets.
            self.present = self.present or self.differs is None
        elif not self.present:
            self.why = f"it ends at {span.end}, beyond all that the corpus has of {place.source}"


class _SpanLookup:
    """The search for a gold passage by span, in each file that its source may name.

    A file of exactly this path excludes all others; two whose paths end like it are ambiguous.
    """

    def __init__(self, gold: Gold, span: Span) -> None:
        self._gold = gold
        self._span = span
        self._files: dict[str, _Lookup] = {}

    def compare(self, document: Document, place: Span) -> None:
        file = normal_path(place.source)
        named = files_named(self._span.source, [*self._files, file])
        if file not in named or (file not in self._files and len(self._files) > 1 and len(named) > 1):
            return
        self._files = {name: lookup for name, lookup in self._files.items() if name in named}
        lookup = self._files.setdefault(file, _Lookup(self._gold, ""))
        lookup.compare_span(self._span, document, place)

    def result(self) -> _Lookup:
        if len(self._files) > 1:
            files = ", ".join(self._files)
            return _Lookup(self._gold, f"several files of the corpus may be its source: {files}")
        return next(iter(self._files.values()), _Lookup(self._gold, "the corpus has no such file"))


class _GoldIndex:
    def __init__(self, evalset: EvalSet, *, of_files: bool) -> None:
        self._lookups: dict[GoldKey, _Lookup | _SpanLookup] = {}
        self._by_id: dict[str, list[_Lookup]] = defaultdict(list)
        self._by_file: dict[str, list[_SpanLookup]] = defaultdict(list)
        self._by_text: dict[str, list[_Lookup]] = defaultdict(list)
        self._by_text_instead: dict[GoldKey, _Lookup] = {}
        self._an_id: str | None = None
        for example in evalset:
            for n, gold in enumerate(example.gold):
                self._register((example.id, n), gold, of_files=of_files)
        self._quotes = QuoteIndex(self._by_text)

    def _register(self, key: GoldKey, gold: Gold, *, of_files: bool) -> None:
        if gold.span is not None:
            span_lookup = _SpanLookup(gold, gold.span)
            self._lookups[key] = span_lookup
            self._by_file[_file_name(gold.span.source)].append(span_lookup)
            return
        if gold.id is not None:
            lookup = self._lookups[key] = _Lookup(gold, "no passage has this id")
            self._by_id[gold.id].append(lookup)
        if gold.id is None or (of_files and gold.text is not None):
            lookup = _Lookup(gold, "its text is nowhere in the corpus")
            (self._lookups if gold.id is None else self._by_text_instead)[key] = lookup
            self._by_text[gold.text or ""].append(lookup)

    def compare(self, document: Document) -> None:
        self._an_id = self._an_id or document.id
        for lookup in self._by_id.get(document.id or "", ()):
            lookup.compare(document.text)
        for quote, _ in self._quotes.find_in(document.text):
            for lookup in self._by_text[quote]:
                lookup.compare(quote)
        if document.span is not None:
            for span_lookup in self._by_file.get(_file_name(document.span.source), ()):
                span_lookup.compare(document, document.span)

    def results(self) -> dict[GoldKey, _Lookup]:
        by_id = [lookup for lookups in self._by_id.values() for lookup in lookups]
        if self._an_id is not None and not any(lookup.present or lookup.differs for lookup in by_id):
            # Not a few mistakes: gold and corpus use different kinds of ids.
            self._lookups |= self._by_text_instead
            for lookup in by_id:
                lookup.why = (
                    f"no passage has this id, or any of the gold's; the corpus has {self._an_id!r}, say"
                )
        return {
            key: each.result() if isinstance(each, _SpanLookup) else each
            for key, each in self._lookups.items()
        }


def _file_name(source: str) -> str:
    """The last part of a path; all that `files_named` returns for a source have the same."""
    return normal_path(source).rpartition("/")[2]
