"""`rageval evalset anchor`: gold by id or by quote becomes gold by place in a file."""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_rageval.cli.anchoring import Anchored, anchor
from pytest_rageval.cli.evalset_reading import read_evalset
from pytest_rageval.cli.show import count, say
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.writing import write_jsonl
from pytest_rageval.model import EvalSet, Example

__all__ = ["anchor_", "refuse_existing"]

LEFT: Final = "unanchored"
"""The key under which an example that is left over says why."""


def anchor_(options: argparse.Namespace) -> int:
    """Anchor what the corpus leaves no choice about; the rest goes to a file of its own.

    Returns:
        0; 1 where an example is left over.

    Raises:
        InputError: the eval set or the corpus cannot be used, or a file exists already.
    """
    out, rest = options.out, options.unanchored
    refuse_existing(
        [out, *([rest] if rest else [])], read=[options.file, options.corpus], force=options.force
    )
    evalset, _ = read_evalset(options.file, options.format, options.field, options.option)
    results = list(anchor(evalset, read_corpus(options.corpus)))
    anchored = [_settled(each.example) for each in results if not each.doubts]
    left = [each for each in results if each.doubts]
    _write(out, anchored)
    if rest is not None:
        _write(rest, map(_left_over, left))
    bare = sum(not example.gold for example in anchored)
    say(
        f"{out}: {count(len(anchored) - bare, 'example')} anchored"
        + (f", and {bare:,} without gold passages and answers" if bare else "")
        + ("" if anchored else ", nothing written")
        + (f"; {len(left):,} left over{f', in {rest}' if rest else ''}:" if left else "")
    )
    reasons = Counter(doubt.why for each in left for doubt in each.doubts)
    for why, often in reasons.most_common():
        say(f"  {often:,} × {why}")
    return int(bool(left))


def refuse_existing(files: Sequence[Path], *, read: Sequence[Path], force: bool) -> None:
    """Let no file be overwritten unasked, none be written twice, and none be in a folder that there is not.

    The last would be found when all is done, and paid for.

    Args:
        files: to be written.
        read: what they are made from, which nothing replaces: it holds what none of them may have.
        force: let others be overwritten.

    Raises:
        InputError: one is there or is read, has no folder, or two are one.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise InputError(f"{files[0]} is to be written twice, nothing was written.\nName two files.")
    for file in files:
        if file.resolve() in {source.resolve() for source in read}:
            raise InputError(f"{file} is read and would be lost, nothing was written.\nName another file.")
        if not file.parent.is_dir():
            raise InputError(
                f"{file} cannot be written: there is no folder {file.parent}.\nMake it, or name another file."
            )
        if file.exists() and not force:
            raise InputError(
                f"{file} exists already, nothing was written.\nName another file, or add --force."
            )


def _write(path: Path, examples: "Sequence[Example] | map[Example]") -> None:
    """Write them; where there are none, what was there before is no result of this."""
    evalset = EvalSet(path.name, tuple(examples))
    if evalset.examples:
        write_jsonl(evalset, path)
    else:
        path.unlink(missing_ok=True)


def _settled(example: Example) -> Example:
    return replace(example, extra={key: value for key, value in example.extra.items() if key != LEFT})


def _left_over(each: Anchored) -> Example:
    doubts = [
        {"what": doubt.what, "why": doubt.why}
        | ({"places": [place._asdict() for place in doubt.places]} if doubt.places else {})
        for doubt in each.doubts
    ]
    return replace(each.example, extra={**each.example.extra, LEFT: doubts})
