"""Reads the handbook and cuts it into passages, one for each section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HANDBOOK = Path(__file__).resolve().parent.parent / "handbook"


@dataclass(frozen=True)
class Passage:
    """One section of the handbook."""

    id: str
    heading: str
    text: str


def slug(heading: str) -> str:
    """Return the heading in the form used in passage ids: ``gift-vouchers``."""
    return "-".join(re.findall(r"[a-z0-9]+", heading.lower()))


def read_chapter(path: Path) -> list[Passage]:
    """Split one Markdown file at its second-level headings."""
    sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    passages = []
    for section in sections[1:]:
        heading, _, body = section.partition("\n")
        heading, paragraph = heading.strip(), " ".join(body.split())
        passage_id = f"{path.stem}#{slug(heading)}"
        passages.append(Passage(passage_id, heading, f"{heading}. {paragraph}"))
    return passages


def read_handbook(folder: Path = HANDBOOK) -> list[Passage]:
    """Return the passages of all chapters, in alphabetical order of the files."""
    return [p for path in sorted(folder.glob("*.md")) for p in read_chapter(path)]
