"""Scores by the containment of answers."""


def test_no_passage_is_searched_for_a_long_form_reference(world, example):
    world.rankings["q"] = ["Ada was the first to program."]
    case = example("q", "gold", reference="Ada was the first to program.")
    (outcome,) = world.evaluate("contains.p@1", case)
    assert (outcome.value, outcome.unscored) == (None, "no reference answers")
    assert world.evaluate("erag.p@1", case)[0].value == 1.0
