"""`DefaultJudge`: the value of the fixture `rageval_judge` of a user who has no judge, from the options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_rageval.core.errors import InputError
from pytest_rageval.models import NO_MODEL_FOR_CLIENT, ConfiguredModels
from pytest_rageval.options.settings import EMBEDDED

if TYPE_CHECKING:
    from pytest_rageval.answers.judge import Comparator, JudgeTask, Text
    from pytest_rageval.answers.judge.llm_judge import LLMJudge
    from pytest_rageval.models.prompt_rendering import Prompts

V = TypeVar("V")


def configured_judge(models: ConfiguredModels) -> "LLMJudge | None":
    """Return the judge of the options; None without a model."""
    settings, names, configured = models.settings, models.settings.judge_models, models.settings.judge
    if names:
        from pytest_rageval.answers.judge.llm_judge import LLMJudge, Voting  # noqa: PLC0415 - many runs need no model

        voting = Voting(settings.judge_votes)
        return LLMJudge(
            models.gateway(),
            models.server("judge"),
            names[0],
            settings.max_tokens,
            voting,
            parameters=configured.parameters,
            other_models=names[1:],
        )
    if "judge" in models.clients and settings.generator.model != EMBEDDED:
        raise InputError(NO_MODEL_FOR_CLIENT.format(" that judges", "judge-"))
    if configured.server != settings.generator.server or configured.parameters:
        raise InputError(
            "The judge has a server, a key or parameters of its own, but no model is named that judges.\n"
            "Name one with --rageval-judge-model NAME or rageval_judge_model in the ini file."
        )
    if not settings.embedded:
        # No model is named at all. The generator's error explains how to name one.
        _ = models.generator
    return None


@dataclass(frozen=True)
class DefaultJudge:
    """The default value of the fixture `rageval_judge`. `repeat` is the number of the repeat, from 0.

    If the options name no model for the judge, `compare` is canonical comparison, and other judgements raise
    InputError.
    """

    models: ConfiguredModels
    prompts: "Prompts | None" = None
    repeat: int = 0

    @property
    def _comparator(self) -> "Comparator":
        if self._judge is not None:
            return self._judge
        from pytest_rageval.answers.comparators import CanonicalComparator  # noqa: PLC0415 - ranking scores compare no answers

        return CanonicalComparator()

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        return await self._comparator.compare(question, references, prediction)

    async def compare_in_turn(self, question: str, references: Sequence[str], prediction: str) -> float:
        """As `compare`, after rules have refused the prediction: several models are asked one after the other."""
        from pytest_rageval.answers.comparators import in_turn  # noqa: PLC0415 - as above

        return await in_turn(self._comparator)(question, references, prediction)

    async def ask(self, task: "JudgeTask[V]", question: str, *texts: "Text") -> V:
        return await self._model(task).ask(task, question, *texts)

    def require(self, task: "JudgeTask[Any]") -> None:
        """Raise InputError if no model judges; whether an answer is right is decided by rules then."""
        if task.name != "compare":
            self._model(task)

    @property
    def model_names(self) -> frozenset[str]:
        return frozenset() if self._judge is None else self._judge.model_names

    def repetition(self, n: int) -> "DefaultJudge":
        return replace(self, repeat=n)

    def identity(self, task: "JudgeTask[Any]") -> Mapping[str, object]:
        if self._judge is not None:
            return self._judge.identity(task)
        from pytest_rageval.answers.comparators import CANONICAL_RULES  # noqa: PLC0415 - as above

        return {"": f"canonical comparison, rules {CANONICAL_RULES}"}

    def template(self, task: "JudgeTask[Any]") -> str:
        return "" if self._judge is None else self._judge.template(task)

    @cached_property
    def _prompts(self) -> "Prompts | None":
        if not self.models.settings.arena_examples:
            return self.prompts
        from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS  # noqa: PLC0415 - many runs need no model

        return (self.prompts or DEFAULT_PROMPTS).with_examples()

    @cached_property
    def _judge(self) -> "LLMJudge | None":
        judge = self.models.shared(configured_judge)
        if judge is None:
            return None
        judge = judge if self._prompts is None else replace(judge, prompts=self._prompts)
        return judge.repetition(self.repeat) if self.repeat else judge

    def _model(self, task: "JudgeTask[Any]") -> "LLMJudge":
        if self._judge is None:
            raise InputError(
                f"{task.decides} is decided by a model, and this run has no model as judge.\n"
                f"Name one with --rageval-judge-model, or {task.instead}."
            )
        return self._judge
