"""The eval-set formats: one file each, tried in the order of `FORMATS`."""

from collections.abc import Mapping
from typing import Final

from pytest_rageval.evalsets.format import Format
from pytest_rageval.evalsets.formats import (
    alce,
    beir,
    kilt,
    lfrqa,
    ms_marco,
    ms_marco_answers,
    native,
    nq_open,
    openqa,
    qampari,
    squad,
    table,
    trec,
)

__all__ = ["FORMATS"]

FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        Format("native", native.recognises, native.read, general=True),
        Format("table", table.recognises, table.read, general=True),
        Format("beir", beir.recognises, beir.read),
        Format("trec", trec.recognises, trec.read),
        Format("kilt", kilt.recognises, kilt.read),
        Format("alce", alce.recognises, alce.read),
        Format("qampari", qampari.recognises, qampari.read),
        Format("ms_marco", ms_marco.recognises, ms_marco.read),
        Format("ms_marco_answers", ms_marco_answers.recognises, ms_marco_answers.read),
        Format("nq_open", nq_open.recognises, nq_open.read),
        Format("lfrqa", lfrqa.recognises, lfrqa.read),
        Format("squad", squad.recognises, squad.read),
        Format("openqa", openqa.recognises, openqa.read),
    )
}
"""By the name that users type."""
