"""docs/llms.txt lists every page, with the address of its Markdown, for coding assistants.

`RAGEVAL_DOCS=update pytest -m '' tests/docs/test_llms.py` writes it again.
"""

import re
from pathlib import Path

from tests.docs.pages import ROOT, SITE, UPDATE

DOCS = ROOT / "docs"


def pages(index: Path) -> list[Path]:
    trees = re.findall(r"```\{toctree\}\n(?::.*\n)*\n((?:.+\n)*)```", index.read_text(encoding="utf-8"))
    return [index.parent / f"{name}.md" for names in trees for name in names.split()]


def entry(page: Path) -> str:
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    title, _, rest = text.removeprefix("# ").partition("\n")
    first = next(part for part in rest.strip().split("\n\n") if re.match(r"[\w*`\[]", part))
    sentence = re.split(r"(?<=\.)\s", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())))[0]
    return f"- [{title}]({SITE}/_sources/{page.relative_to(DOCS).as_posix()}.txt): {sentence.rstrip(':')}"


def test_the_list_has_every_page():
    front = DOCS / "index.md"
    title, summary, *_ = front.read_text(encoding="utf-8").split("\n\n")
    lines = [title, "", *(f"> {line}" for line in summary.splitlines()), ""]
    listed = []
    for page in pages(front):
        below = pages(page)
        listed += [page, *below]
        lines += [f"## {page.read_text(encoding='utf-8').removeprefix('# ').partition(chr(10))[0]}", ""]
        lines += [*map(entry, below or [page]), ""]
    expected = "\n".join(lines)
    if UPDATE:
        (DOCS / "llms.txt").write_text(expected, encoding="utf-8")
    assert (DOCS / "llms.txt").read_text(encoding="utf-8") == expected, "a title or a first sentence changed"
    assert sorted(listed) == sorted({*DOCS.rglob("*.md")} - {front, *(DOCS / "_build").rglob("*.md")})
