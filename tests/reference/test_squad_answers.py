"""Exact match and token F1 of five published systems on 1,190 questions of SQuAD."""

import json

import pytest

from pytest_rageval.answers.overlap import exact_match, token_f1

pytestmark = pytest.mark.slow

# Figures from the notes of the data set, computed with another script.
PUBLISHED = {
    "BERT_ensemble": (74.874, 86.325),
    "r-net+": (72.773, 83.408),
    "SLQA+": (72.185, 82.849),
    "Match-LSTM": (61.092, 72.667),
    "Logistic_Regression": (34.596, 45.930),
}


@pytest.mark.parametrize(("system", "figures"), PUBLISHED.items())
def test_the_published_figures_are_met(data, system: str, figures: tuple[float, float]) -> None:
    """The figures agree in all printed digits; questions that a system did not answer are left out."""
    folder = data("xquad_squad")
    dataset = json.loads((folder / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    (file,) = folder.glob(f"pred_{system}*.json")
    predictions = json.loads(file.read_text(encoding="utf-8"))
    pairs = [
        (predictions[qa["id"]], [answer["text"] for answer in qa["answers"]])
        for article in dataset
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
        if qa["id"] in predictions
    ]
    assert len(pairs) == (1188 if system == "Logistic_Regression" else 1190)
    means = [100 * sum(measure(*pair) for pair in pairs) / len(pairs) for measure in (exact_match, token_f1)]
    assert [f"{mean:.3f}" for mean in means] == [f"{figure:.3f}" for figure in figures]
