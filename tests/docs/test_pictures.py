"""The picture of a red build, on the front page and in the README, shows what the code beside it prints.

`RAGEVAL_DOCS=update pytest -m '' tests/docs/test_pictures.py` draws it again.
"""

import re
import subprocess
from html import escape
from itertools import takewhile
from typing import Final

import pytest

from tests.docs.pages import ROOT, UPDATE, Page

pytestmark = pytest.mark.slow

PICTURE: Final = ROOT / "docs" / "_static" / "red-build.svg"

TEST: Final = re.compile(r"```python\n# test_retriever.py\n.*?```", re.DOTALL)

STYLE: Final = """
rect { fill: #16181d }
text { fill: #d7dae0; font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre }
.c1 { font-weight: bold } .c31 { fill: #ff6b6b } .c32 { fill: #7bd88f } .c33 { fill: #e5c07b } .c36 { fill: #67c8d4 }
"""

WIDTH: Final = 8.4
HEIGHT: Final = 19
MARGIN: Final = 16


def draw(lines: list[str], title: str) -> str:
    """Return lines of a terminal, with their colours, as an SVG that needs no font and no other file."""
    texts = []
    for row, line in enumerate(lines, 1):
        column, codes = 0, set[str]()
        for code, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b]+)", line):
            if not text:
                codes = codes | set(code.split(";")) if code.strip("0") else set()
                continue
            # The length of each piece is given, so that columns are straight in every font.
            if text.strip():
                names = " ".join(f"c{code}" for code in sorted(codes))
                texts.append(
                    f'<text x="{MARGIN + column * WIDTH:.1f}" y="{MARGIN + row * HEIGHT - 5}" '
                    f'textLength="{len(text) * WIDTH:.1f}" class="{names}">{escape(text)}</text>'
                )
            column += len(text)
    columns = max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in lines)
    width, height = round(columns * WIDTH + 2 * MARGIN), len(lines) * HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" rx="8"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


def test_the_picture_shows_what_the_test_on_the_front_page_prints(tmp_path):
    page = Page(ROOT / "README.md", tmp_path)
    page.check()
    search = page.folder / "support_bot" / "search.py"
    broken = search.read_text(encoding="utf-8")
    (page.folder / "rageval_baseline.json").unlink()

    def run(*options: str) -> list[str]:
        command = ["pytest", "--color=yes", *options, "test_retriever.py"]
        done = subprocess.run(
            command, cwd=page.folder, env=page.env, capture_output=True, text=True, check=False
        )
        return done.stdout.splitlines()

    # The baseline is that of the page's test, whose retriever is not broken yet.
    search.write_text(
        (ROOT / "example_project/support_bot/search.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    run("--rageval-update-baseline")
    search.write_text(broken, encoding="utf-8")
    lines = run()
    failures = next(number for number, line in enumerate(lines) if " FAILURES " in line)
    shown = [
        "$ pytest test_retriever.py",
        *takewhile(lambda line: not line.startswith("legend:"), lines[failures:]),
    ]
    picture = draw(shown, "pytest fails: recall@3 fell from 0.940 to 0.593, and the lost questions are named")
    if UPDATE:
        PICTURE.write_text(picture, encoding="utf-8")
    assert picture == PICTURE.read_text(encoding="utf-8")
    assert "recall@3 fell from 0.940 to 0.593" in picture
    readme, front = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md"))
    assert PICTURE.name in readme
    assert PICTURE.name in front
    assert TEST.search(readme)[0] == TEST.search(front)[0]
