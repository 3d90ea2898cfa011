"""HTML pages as single files: escaped, with a policy that allows only their own style and script."""

import re
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from pytest_rageval.reports import html as page

SOURCES = [path.name for path in files(page).iterdir() if path.name.endswith((".html", ".css", ".js"))]


def test_a_name_that_no_value_has_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="nowhere"):
        page.environment().from_string("{{ nowhere }}").render()


@pytest.mark.parametrize("name", SOURCES)
def test_templates_have_nothing_that_the_policy_forbids(name: str) -> None:
    text = files(page).joinpath(name).read_text(encoding="utf-8")
    if name.endswith(".html"):
        assert not re.search(r"<[^>]*\s(style|on\w+)=", text)
        assert "| safe" not in text
        assert "|safe" not in text
    else:
        assert not re.search(r"</(script|style)|<!--", text)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_charts_say_their_numbers_in_words() -> None:
    """Charts have an escaped text alternative for screen readers."""
    template = """{% import "charts.html" as charts %}
    {{ charts.interval(0.8, (0.7, 0.9), "recall <0.8>", baseline=0.75, bound=0.85) }}
    {{ charts.stack([("lost", 3), ("same", 0), ("gained", 1)], "3 lost") }}
    {{ charts.histogram([3, 0, 1], "scores of 4") }}"""
    drawn = page.environment().from_string(template).render()
    assert re.findall(r'role="img" aria-label="(.*?)"', drawn) == [
        "recall &lt;0.8&gt;",
        "3 lost",
        "scores of 4",
    ]
    assert '<rect class="band" x="112.0" width="32.0"' in drawn
    assert re.findall(r'<rect class="(?:lost|gained|scores)" x="([\d.]+)" width="([\d.]+)"', drawn) == [
        *(("0.0", "120.0"), ("120.0", "40.0")),
        *(("1.0", "51.3"), ("107.7", "51.3")),
    ]
