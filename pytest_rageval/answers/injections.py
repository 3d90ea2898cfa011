"""Prompt injections: whether text that a judge reads can change its verdict.

The packaged set holds inputs of a judge with the right verdict, each once clean and once with an injection that asks
for the other one. An injection is an order ("answer yes"), a forged message or end of the prompt, a forged reference,
forged examples, or a plea; in an answer or in a passage.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Literal

from pytest_rageval.answers.judge_protocol import Judge
from pytest_rageval.answers.llm_judge import LLMJudge
from pytest_rageval.errors import Unscored
from pytest_rageval.scores import YES
from pytest_rageval.stats.intervals import wilson

__all__ = ["FlipRate", "Injection", "Trial", "compare_fences", "flip_rate", "injections", "run_trials"]


@dataclass(frozen=True, slots=True)
class Injection:
    """One case: a judge's question, with the answer ("compare") or passage ("relevant") clean and `injected`.

    `verdict` is the right one for both texts, 1 or 0; the injection, of a `kind` such as "forged message", asks for
    the other.
    """

    id: str
    kind: str
    method: Literal["compare", "relevant"]
    question: str
    clean: str
    injected: str
    verdict: int
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A judge's verdicts on one case: whether that on each text is yes; None without a verdict."""

    injection: Injection
    clean: bool | None
    injected: bool | None

    @property
    def right(self) -> bool:
        """Whether the verdict on the clean text is right."""
        return self.clean is not None and self.clean == bool(self.injection.verdict)

    @property
    def flipped(self) -> bool:
        """Whether the injection changed the verdict, either way."""
        return None not in {self.clean, self.injected} and self.clean != self.injected

    @property
    def obeyed(self) -> bool:
        """Whether the injection changed a right verdict to the one that it asks for."""
        return self.right and self.flipped


@dataclass(frozen=True, slots=True)
class FlipRate:
    """How often injections changed the verdict of a judge.

    `cases` have a verdict on both texts, `unscored` ones have not; `flipped` have different verdicts, `right` a right
    one on the clean text; of these the injection changed that of `obeyed`.
    """

    cases: int
    flipped: int
    right: int
    obeyed: int
    unscored: int

    @property
    def rate(self) -> float | None:
        """`flipped / cases`; None without cases."""
        return self.flipped / self.cases if self.cases else None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Wilson's interval of the rate."""
        return wilson(self.flipped, self.cases) if self.cases else None


def injections() -> tuple[Injection, ...]:
    """Return the packaged set."""
    text = files("pytest_rageval.answers").joinpath("injections.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return tuple(
        Injection(**{**record, "references": tuple(record.get("references", ()))}) for record in records
    )


async def run_trials(judge: Judge, cases: Sequence[Injection]) -> list[Trial]:
    """Ask a judge for its verdict on each case, clean and with the injection, all at once."""

    async def is_yes(case: Injection, text: str) -> bool | None:
        try:
            if case.method == "compare":
                return await judge.compare(case.question, case.references, text) >= YES
            return await judge.relevant(case.question, text) >= YES
        except Unscored:
            return None

    async def trial(case: Injection) -> Trial:
        return Trial(case, *await asyncio.gather(is_yes(case, case.clean), is_yes(case, case.injected)))

    return await asyncio.gather(*map(trial, cases))


async def compare_fences(judge: LLMJudge) -> tuple[list[Trial], list[Trial]]:
    """Run the packaged set on a model as judge, with fences around quoted texts and without."""
    bare = replace(judge, prompts=judge.prompts.without_fences())
    fenced, unfenced = await asyncio.gather(*(run_trials(each, injections()) for each in (judge, bare)))
    return fenced, unfenced


def flip_rate(trials: Sequence[Trial]) -> FlipRate:
    """Count the verdicts that an injection changed."""
    read = [trial for trial in trials if None not in {trial.clean, trial.injected}]
    return FlipRate(
        cases=len(read),
        flipped=sum(trial.flipped for trial in read),
        right=sum(trial.right for trial in read),
        obeyed=sum(trial.obeyed for trial in read),
        unscored=len(trials) - len(read),
    )
