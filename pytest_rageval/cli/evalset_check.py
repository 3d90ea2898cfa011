"""`rageval evalset check`: what is wrong with an eval set, and how small a drop it can show."""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pytest_rageval.answers.text import containment, normalize
from pytest_rageval.cli.evalset_reading import read_evalset
from pytest_rageval.cli.output import count, plain, say
from pytest_rageval.cli.quotes import Quotable, Quotes
from pytest_rageval.evalsets.corpus import is_of_files, read_corpus
from pytest_rageval.evalsets.field_map import near_misses
from pytest_rageval.fingerprint import digest
from pytest_rageval.measures.gold_matching import files_named, normal_path
from pytest_rageval.measures.near_duplicates import similar_questions
from pytest_rageval.model import Document, EvalSet, Example, Gold, Span, excerpt
from pytest_rageval.stats.power import POWER, detectable_drop_unpaired

__all__ = ["FEWER", "Finding", "Kind", "Seen", "check", "of_the_gold", "of_the_set"]

FEWER: Final = 10
"""A tag is unbalanced where its commonest value has more than this many times the examples of its rarest."""


class Finding(NamedTuple):
    """One thing that was found.

    Attributes:
        ids: of the examples concerned, in their order.
        what: about them.
    """

    ids: tuple[str, ...]
    what: str


class Kind(NamedTuple):
    """A kind of findings.

    Attributes:
        name: for programs.
        title: for people.
        found: whatever there is.
        error: whether scores are wrong with it; else somebody should have a look.
    """

    name: str
    title: str
    found: Sequence[Finding]
    error: bool = False


def of_the_set(evalset: EvalSet) -> list[Kind]:
    """What is wrong with the questions, their tags, and what they can be scored by."""
    return [
        Kind(
            "duplicate",
            "the same question, but for case, punctuation and articles",
            _same_questions(evalset),
            error=True,
        ),
        Kind("near_duplicate", "nearly the same question", _near(evalset)),
        Kind("leak", "an answer stands in the question", _each(evalset, _leaked)),
        Kind("unanswerable", "neither answers nor gold passages nor a reference", _each(evalset, _bare)),
        Kind("no_gold", "no gold passage of a grade above 0", _each(evalset, _without_gold)),
        Kind("no_answers", "no answers", _each(evalset, _without_answers)),
        Kind(
            "misspelt",
            "a key that is not read, and nearly has the name of one that is",
            list(_misspelt(evalset)),
        ),
        Kind("unbalanced", "a tag with very rare values", list(_unbalanced(evalset))),
    ]


def _each(evalset: EvalSet, look: Callable[[Example], str | None]) -> list[Finding]:
    """What is found in each example by itself."""
    looked = ((example, look(example)) for example in evalset)
    return [Finding((example.id,), what) for example, what in looked if what is not None]


def _same_questions(evalset: EvalSet) -> list[Finding]:
    return [
        Finding(tuple(example.id for example in same), excerpt(same[0].question))
        for same in _by_question(evalset).values()
        if len(same) > 1
    ]


def _near(evalset: EvalSet) -> list[Finding]:
    first = [same[0] for same in _by_question(evalset).values()]
    return [
        Finding(tuple(first[i].id for i in group), " / ".join(excerpt(first[i].question) for i in group[:2]))
        for group in similar_questions([example.question for example in first])
    ]


def _by_question(evalset: EvalSet) -> dict[str, list[Example]]:
    found: dict[str, list[Example]] = defaultdict(list)
    for example in evalset:
        found[normalize(example.question)].append(example)
    return found


def _bare(example: Example) -> str | None:
    there = example.answers or example.answer_set or example.relevant or example.reference
    return None if there else excerpt(example.question)


def _without_gold(example: Example) -> str | None:
    return None if example.relevant or _bare(example) else excerpt(example.question)


def _without_answers(example: Example) -> str | None:
    return None if example.answers or example.answer_set or _bare(example) else excerpt(example.question)


def _leaked(example: Example) -> str | None:
    answers = [*example.answers, *(alias for aliases in example.answer_set for alias in aliases)]
    leaked = next((answer for answer in answers if containment(example.question, [answer])), None)
    return None if leaked is None else f"{excerpt(leaked, 30)} in {excerpt(example.question)}"


def _misspelt(evalset: EvalSet) -> Iterator[Finding]:
    for miss in near_misses(evalset):
        yield Finding(
            miss.ids, f'"{miss.key}"; if "{miss.meant}" is meant, say --field {miss.meant}={miss.key}'
        )


def _unbalanced(evalset: EvalSet) -> Iterator[Finding]:
    """Tags whose commonest value has over ten times the examples of the rarest.

    A missing tag is a value. One that has more values than half as many as there are examples names
    the examples, and divides nothing.
    """
    for tag in dict.fromkeys(tag for example in evalset for tag in example.tags):
        # By digest, since a value may be a list.
        keys = [digest(example.tags.get(tag)) for example in evalset]
        counts = Counter(keys)
        (most, often), (least, seldom) = counts.most_common()[0], counts.most_common()[-1]
        if len(counts) > len(evalset) / 2 or often <= FEWER * seldom:
            continue
        shown = {key: example.tags.get(tag) for key, example in zip(keys, evalset, strict=True)}
        yield Finding(
            tuple(example.id for key, example in zip(keys, evalset, strict=True) if key == least),
            f"{tag}: {shown[most]!r} has {often} examples, {shown[least]!r} {seldom}",
        )


NO_FILE: Final = "the corpus has no such file"


class Seen(NamedTuple):
    """What of a corpus concerns the gold passages of an eval set.

    Attributes:
        missing: the reason, by example and position of the gold passage, why it is not in the corpus.
        texts: likewise the text that the corpus has for it.
    """

    missing: dict[tuple[str, int], str]
    texts: dict[tuple[str, int], str]


def of_the_gold(evalset: EvalSet, corpus: Iterable[Document] | None, *, of_files: bool = False) -> list[Kind]:
    """What is wrong with the gold passages; without a corpus, as far as it shows from their texts.

    A gold passage is in the corpus if the file of its span reaches to its end, which is the one file that
    its source names (`files_named`); without a span, if a passage has its id; without an id, if its text
    stands somewhere word for word. Where it has a text besides, that stands at this place, with other
    white space at most (see `Quotable`).

    Args:
        evalset: whose gold passages are looked up.
        corpus: gone through once; None: it is not known.
        of_files: whether its ids are paths of files. Where the gold passages have none of these, theirs are
            of passages, which the corpus does not know: those with a text are looked up by that.
    """
    seen = Seen({}, {}) if corpus is None else _look(evalset, corpus, of_files=of_files)
    absent = [
        Finding((example.id,), f"{gold.label}: {seen.missing[example.id, n]}")
        for example in evalset
        for n, gold in enumerate(example.gold)
        if (example.id, n) in seen.missing
    ]
    return [
        Kind("gold_not_in_corpus", "a gold passage is not in the corpus", absent, error=True),
        Kind("answer_not_in_gold", "no gold passage holds the answer", list(_lost(evalset, seen))),
    ]


def _lost(evalset: EvalSet, seen: Seen) -> Iterator[Finding]:
    """Examples of which a wanted answer, under all of its names, is in no text of the gold passages."""
    for example in evalset:
        texts = _gold_texts(example, seen)
        if not texts:
            continue
        for aliases in example.wanted:
            if not any(containment(text, aliases) for text in texts):
                yield Finding((example.id,), excerpt(aliases[0]))
                break


def _gold_texts(example: Example, seen: Seen) -> list[str]:
    """The texts of the relevant passages; none unless all are known, since the answer may be in the other."""
    texts = [
        gold.text or seen.texts.get((example.id, n)) for n, gold in enumerate(example.gold) if gold.grade > 0
    ]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else []


@dataclass(slots=True)
class _Sought:
    """A gold passage, and what was seen of it so far.

    Attributes:
        gold: the passage.
        why: it is not in the corpus, as long as nothing else is known.
        text: that the corpus has for it, where it is the right one.
        there: it is in the corpus, as far as can be told.
        differs: the corpus has another text in its place; why this counts as missing.
    """

    gold: Gold
    why: str
    text: str | None = None
    there: bool = False
    differs: str | None = None

    def meet(self, text: str) -> None:
        """The corpus has this text in its place."""
        if self.gold.text is None or Quotable(text).holds(self.gold.text):
            self.there, self.differs = True, None
            self.text = self.text or text
        elif not self.there:
            self.differs = f"the corpus has another text there, {excerpt(text)}"

    def meet_cut(self, span: Span, document: Document) -> None:
        """The corpus has this passage of the file of the gold passage, which is at the span."""
        here = document.span
        if here is None:
            return
        exact = here.end - here.start == len(document.text)
        if exact and here.start <= span.start and span.end <= here.end:
            self.meet(document.text[span.start - here.start : span.end - here.start])
        elif span.end <= here.end:
            # The file is long enough; its text there is cut in two, or has lost its offsets.
            self.there = self.there or self.differs is None
        elif not self.there:
            self.why = f"it ends at {span.end}, beyond all that the corpus has of {here.source}"


class _InFiles:
    """A gold passage by span, in each file of the corpus that its source may name.

    Once the file of just its path was met, others do not matter; of those whose path ends so, two
    are one too many, and the second is kept for its name alone.
    """

    def __init__(self, gold: Gold, span: Span) -> None:
        self._gold = gold
        self._span = span
        self._files: dict[str, _Sought] = {}

    def meet(self, document: Document) -> None:
        """The corpus has this passage of a file whose name ends as that of the span."""
        if document.span is None:
            return
        met = normal_path(document.span.source)
        named = files_named(self._span.source, [*self._files, met])
        if met not in named or (met not in self._files and len(self._files) > 1 and len(named) > 1):
            return
        self._files = {file: sought for file, sought in self._files.items() if file in named}
        sought = self._files.setdefault(met, _Sought(self._gold, NO_FILE))
        sought.meet_cut(self._span, document)

    def told(self) -> _Sought:
        """What was seen of the passage in its file."""
        if len(self._files) > 1:
            return _Sought(
                self._gold, f"several files of the corpus may be its source: {', '.join(self._files)}"
            )
        return next(iter(self._files.values()), _Sought(self._gold, NO_FILE))


class _Gold:
    """The gold passages of an eval set, each under what it is looked up by."""

    def __init__(self, evalset: EvalSet, *, of_files: bool) -> None:
        self._every: dict[tuple[str, int], _Sought | _InFiles] = {}
        self._by_id: dict[str, list[_Sought]] = defaultdict(list)
        self._by_file: dict[str, list[_InFiles]] = defaultdict(list)
        self._by_text: dict[str, list[_Sought]] = defaultdict(list)
        self._instead: dict[tuple[str, int], _Sought] = {}
        self._an_id: str | None = None
        for example in evalset:
            for n, gold in enumerate(example.gold):
                self._every[example.id, n] = self._sought(gold)
                if of_files and gold.span is None and gold.id is not None and gold.text is not None:
                    self._instead[example.id, n] = self._sought_by_text(gold)
        self._quotes = Quotes(self._by_text)

    def told(self) -> dict[tuple[str, int], _Sought]:
        """What was seen of each, by example and position."""
        by_id = [sought for each in self._by_id.values() for sought in each]
        if self._an_id is not None and not any(sought.there or sought.differs for sought in by_id):
            # Not a slip here and there: gold and corpus have ids of two kinds.
            self._every |= self._instead
            for sought in by_id:
                sought.why = (
                    f"no passage has this id, or any of the gold's; the corpus has {self._an_id!r}, say"
                )
        return {key: each.told() if isinstance(each, _InFiles) else each for key, each in self._every.items()}

    def _sought(self, gold: Gold) -> _Sought | _InFiles:
        if gold.span is not None:
            in_files = _InFiles(gold, gold.span)
            self._by_file[_name(gold.span.source)].append(in_files)
            return in_files
        if gold.id is not None:
            sought = _Sought(gold, "no passage has this id")
            self._by_id[gold.id].append(sought)
        else:
            sought = self._sought_by_text(gold)
        return sought

    def _sought_by_text(self, gold: Gold) -> _Sought:
        sought = _Sought(gold, "its text is nowhere in the corpus")
        self._by_text[gold.text or ""].append(sought)
        return sought

    def meet(self, document: Document) -> None:
        """The corpus has this passage."""
        self._an_id = self._an_id or document.id
        for sought in self._by_id.get(document.id or "", ()):
            sought.meet(document.text)
        if self._by_text:
            for quote, _ in self._quotes.within(document.text):
                for sought in self._by_text[quote]:
                    sought.meet(quote)
        if document.span is not None:
            for in_files in self._by_file.get(_name(document.span.source), ()):
                in_files.meet(document)


def _look(evalset: EvalSet, corpus: Iterable[Document], *, of_files: bool) -> Seen:
    """Go through the corpus once."""
    gold = _Gold(evalset, of_files=of_files)
    for document in corpus:
        gold.meet(document)
    told = gold.told()
    missing = {
        key: sought.differs or sought.why
        for key, sought in told.items()
        if sought.differs or not sought.there
    }
    return Seen(missing, {key: sought.text for key, sought in told.items() if sought.text is not None})


def _name(source: str) -> str:
    """The last step of a path: all that `files_named` may give for a source have it in common."""
    return normal_path(source).rpartition("/")[2]


ALPHA: Final = 0.05
FIRST: Final = 5
"""Findings of a kind that are shown."""
NAMED: Final = 4
"""Examples of a finding that are named."""


def check(options: argparse.Namespace) -> int:
    """Look for what is wrong.

    Returns:
        0; 1 where errors were found.

    Raises:
        InputError: the eval set or the corpus cannot be used.
    """
    evalset, places = read_evalset(options.file, options.format, options.field, options.option)
    corpus = None if options.corpus is None else read_corpus(options.corpus)
    of_files = options.corpus is not None and is_of_files(options.corpus)
    gold = of_the_gold(evalset, corpus, of_files=of_files)
    kinds = [kind for kind in (*of_the_set(evalset), *gold) if kind.found]
    kinds.sort(key=lambda kind: not kind.error)
    drop = _smallest_drop(len(evalset))
    errors = any(kind.error for kind in kinds)
    if options.json:
        say(json.dumps(_report(evalset.name, places, kinds, drop), indent=2))
        return int(errors)
    for kind in kinds:
        say(f"{'error' if kind.error else 'note'}: {kind.title}: {len(kind.found):,}")
        for line in _lines(kind.found, places):
            say(f"  {plain(line)}")
    say(
        f"{plain(evalset.name)}: {count(len(evalset), 'example')}, "
        f"{count(sum(len(kind.found) for kind in kinds if kind.error), 'error')}, "
        f"{count(sum(len(kind.found) for kind in kinds if not kind.error), 'note')}"
        + ("" if options.corpus else "; gold passages were not looked up, without --corpus")
    )
    say(_power(drop, len(evalset)))
    return int(errors)


def _smallest_drop(n: int) -> float:
    """The drop that n examples show in 80% of runs: of a score of 0 or 1 each, half of them 1."""
    scores = [0.0, 1.0] * (n // 2) + [0.5] * (n % 2)
    drop = detectable_drop_unpaired(scores, alpha=ALPHA)
    return 1.0 if drop is None else drop


def _power(drop: float, n: int) -> str:
    assumed = (
        f"(a score of 0 or 1 on each, half of them 1 before; tested at {ALPHA:g}, the two runs independent; runs "
        "of similar retrievers agree on most examples and show smaller ones)"
    )
    if drop >= 1:
        return f"With {count(n, 'example')} no drop can be told from chance {assumed}"
    return f"A drop of {drop:.3f} or more shows in {POWER:.0%} of runs {assumed}"


def _lines(found: Sequence[Finding], places: Mapping[str, str]) -> Iterator[str]:
    for finding in found[:FIRST]:
        named = [f"{identifier} ({places[identifier]})" for identifier in finding.ids[:NAMED]]
        more = len(finding.ids) - len(named)
        yield f"{', '.join(named)}{f' and {more:,} more' if more else ''}: {finding.what}"
    if len(found) > FIRST:
        yield f"and {len(found) - FIRST:,} more (all with --json)"


def _report(name: str, places: Mapping[str, str], kinds: Sequence[Kind], drop: float) -> dict[str, Any]:
    return {
        "evalset": name,
        "examples": len(places),
        "findings": [
            {
                "kind": kind.name,
                "title": kind.title,
                "error": kind.error,
                "count": len(kind.found),
                "found": [
                    {
                        "ids": list(finding.ids),
                        "places": [places[identifier] for identifier in finding.ids],
                        "what": finding.what,
                    }
                    for finding in kind.found
                ],
            }
            for kind in kinds
        ],
        "detectable_drop": {"drop": drop, "power": POWER, "alpha": ALPHA, "mean": 0.5, "paired": False},
    }
