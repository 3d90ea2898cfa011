"""The grammar of score names."""

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.spec import Spec


@pytest.mark.parametrize(
    ("text", "name", "part", "k"),
    [
        ("recall@5", "recall", None, 5),
        ("llm_reteval@10", "llm_reteval", None, 10),
        ("answer.rougeL@5", "answer", "rougeL", 5),
        ("rel.citation_precision@1", "rel", "citation_precision", 1),
        ("f1", "f1", None, None),
        ("erag.p", "erag", "p", None),
        ("a.b.c@3", "a", "b.c", 3),
    ],
)
def test_a_score_is_taken_apart_and_put_together(text, name, part, k):
    spec = Spec.parse(text)
    assert spec == Spec(name, part, k)
    assert str(spec) == text
    assert spec.measure == text.partition("@")[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@5",
        "Recall@5",
        "recall@",
        "recall@x",
        "recall@5.0",
        "recall 5",
        " recall@5",
        "recall@5\n",
        "recall@\u0665",
        "a.b.c.d@5",
        "a..c@5",
        "a.b.@5",
        ".f1@5",
        "answer.@5",
        "recall@5@5",
        None,
        5,
        b"recall@5",
    ],
)
def test_another_form_is_refused_with_examples(text: object) -> None:
    with pytest.raises(InputError) as caught:
        Spec.parse(text)
    assert str(caught.value).startswith(f"{text!r} is not a score.")
    assert "such as recall@5" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Recall@3", "recall@3"),
        ("NDCG@3", "ndcg@3"),
        ("recall @ 3", "recall@3"),
        (" recall@3\n", "recall@3"),
        ("Answer.rougeL @5", "answer.rougeL@5"),
        ("recall 5", None),
        ("recall@3 or mrr@3", None),
    ],
)
def test_another_spelling_of_a_name_has_a_hint(text: str, meant: str | None) -> None:
    """Capitals and spaces, the usual mistakes, get a hint."""
    with pytest.raises(InputError) as caught:
        Spec.parse(text)
    hint = f" Did you mean {meant}?" if meant else ""
    assert str(caught.value).startswith(f"{text!r} is not a score.{hint} A score is written ")


def test_a_cut_off_of_thousands_of_digits_is_refused() -> None:
    """A cut-off with too many digits raises InputError: Python converts at most 4,300 digits."""
    with pytest.raises(InputError) as caught:
        Spec.parse(f"recall@{'9' * 5000}")
    assert str(caught.value) == (
        f"'recall@{'9' * 53}…': the cut-off k has 5000 digits, and at most 18 are allowed."
    )


@pytest.mark.parametrize("text", ["recall@0", "answer.f1@-1"])
def test_a_cut_off_below_1_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="a ranking has at least rank 1"):
        Spec.parse(text)
