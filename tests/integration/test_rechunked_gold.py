"""Gold passages given by source span, with a retriever that returns its framework's passages."""

import pytest

CONFTEST = """
import pytest
from types import SimpleNamespace

HANDBOOK = "Of all things, item-1 has the code c1x. " * 10

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        metadata = {"source": "/srv/corpus/handbook.md"OFFSET}
        return [SimpleNamespace(page_content=HANDBOOK[80:160], id="f3c1", metadata=metadata)]
    return search
"""
GATE = '@pytest.mark.rageval_threshold("recall@2", min=0.9)\ndef test_gate(): pass\n'
SPAN = {"source": "handbook.md", "start": 100, "end": 200}


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        ((), "passed", "    recall@2: 4 matched by span, 4 by end of path"),
        (("--rageval=match_share=0.7",), "failed", "*recall@2*0.000*4*"),
        (("--rageval=match_share=0",), "error", "*--rageval match_share is '0': expected a share above 0*"),
    ],
)
def test_a_passage_is_found_by_the_offset_of_its_splitter(project, arguments, status, line) -> None:
    """A gold span with 60 of its 100 characters in the chunk matches at a share of 0.5 and not at 0.7."""
    project.pytester.makeconftest(CONFTEST.replace("OFFSET", ', "start_index": 80'))
    project.evalset(4, gold=[SPAN])
    project.test(GATE)
    result = project.run(*arguments)
    if status != "error":
        result.assert_outcomes(**{status: 1})
    (result.stderr if status == "error" else result.stdout).fnmatch_lines([line])


def test_without_offsets_a_span_alone_is_an_error_that_says_what_is_missing(project) -> None:
    project.pytester.makeconftest(CONFTEST.replace("OFFSET", ""))
    project.evalset(4, gold=[SPAN])
    project.test(GATE)
    project.run(errors=1, shows="*4 × no retrieved document has a span to find the gold passage by*")


def test_without_offsets_the_text_of_the_passage_is_what_it_is_found_by(project) -> None:
    project.pytester.makeconftest(CONFTEST.replace("OFFSET", ""))
    project.evalset(4, gold=[{**SPAN, "text": "item-1 has the code c1x. Of all things, item-1"}])
    project.test(GATE)
    project.run(passed=1, shows="    recall@2: 4 matched by text")
