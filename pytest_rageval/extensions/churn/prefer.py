"""`rageval prefer`: a judge compares the passages of two runs, for the questions whose passages changed."""

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_rageval.answers.judge import JudgeTask, Verdict
from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, format_count, reason_lines
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.models.prompt_rendering import read_prompts
from pytest_rageval.reports.document import ReportDocument
from pytest_rageval.reports.reading import read_report
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.stats.mcnemar import binomial_tail

ALPHA: Final = 0.05
MAX_NAMED: Final = 5  # questions in the output
BETTER: Final[JudgeTask[Verdict]] = replace(
    PREFER,
    name="better_passages",
    template="better_passages",
    texts=("question", "first passages*", "second passages*"),
    decides="Which of two lists of passages is better",
    instead="compare the reports with `rageval diff`",
)
"""1 if the first of two lists of passages is better, 2 if the second is, 0 if neither is."""


class Changed(NamedTuple):
    """A question with the texts of its passages in both runs."""

    question: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Preference(NamedTuple):
    """What the judge prefers in both orders: 1 for the passages of after, -1 for those of before, 0 for neither."""

    changed: Changed
    value: int = 0
    depends_on_order: bool = False
    why: str = ""
    unscored: str = ""


def prefer_command(options: argparse.Namespace) -> int:
    before, after = (_questions(read_report(path), options) for path in (options.before, options.after))
    both = [key for key in before if key in after]
    if not both:
        raise InputError(
            f"{options.before} and {options.after} have no question of the same test in common.\n"
            "Write both with the same tests: pytest --rageval-report report.json"
        )
    # Tests of one eval set share their questions.
    changed = list(dict.fromkeys(
        Changed(before[key][0], before[key][1], after[key][1])
        for key in both
        if before[key][0] == after[key][0] and before[key][1] != after[key][1]
    ))  # fmt: skip
    without = sum(not all((*each.before, *each.after)) for each in changed)
    if without:
        raise InputError(
            f"{without} of {format_count(len(changed), 'question')} whose passages changed have some without text.\n"
            "A judge reads texts: let the retriever return them."
        )
    settings = command_settings(options)
    with closing(session_for(settings)) as session:
        judge = DefaultJudge(session.models, read_prompts(settings.prompts))
        judge.require(BETTER)
        judged = session.loop.run(gather_all(_preference(judge, each) for each in changed))
    echo_request_count(session)
    return _print_result(judged, len(both))


def _questions(
    document: ReportDocument, options: argparse.Namespace
) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """Return by test and id each question, after the messages before it, with the texts of its first passages."""
    return {
        (test["nodeid"], each["id"]): (
            "\n".join([*each.get("history", ()), each["question"]]),
            tuple(passage.get("text", "") for passage in each["retrieved"][: options.first]),
        )
        for test in document["tests"]
        if options.test is None or options.test in test["nodeid"]
        for each in test.get("questions", ())
        if "retrieved" in each
    }


async def _preference(judge: DefaultJudge, changed: Changed) -> Preference:
    async def ask(first: tuple[str, ...], second: tuple[str, ...]) -> Verdict:
        return await judge.ask(BETTER, changed.question, first, second)

    try:
        one, other = await gather_all(
            [ask(changed.before, changed.after), ask(changed.after, changed.before)]
        )
    except Unscored as error:
        return Preference(changed, unscored=str(error))
    sign = {0: 0, 1: -1, 2: 1}
    values = {sign[int(one.value)], -sign[int(other.value)]}
    if len(values) > 1:
        return Preference(changed, depends_on_order=values == {1, -1})
    return Preference(changed, values.pop(), why=one.explanation)


def _print_result(judged: list[Preference], compared: int) -> int:
    scored = [each for each in judged if not each.unscored]
    counts = Counter(each.value for each in scored)
    echo(
        f"{len(judged)} of {format_count(compared, 'question')} have other passages: those of after are better for "
        f"{counts[1]}, those of before for {counts[-1]}, neither for {counts[0]}"
    )
    if flips := sum(each.depends_on_order for each in scored):
        echo(f"of the last, {flips} where the judge changed its mind with the order")
    if len(scored) < len(judged):
        echo(f"{len(judged) - len(scored)} without a verdict:")
        echo(*reason_lines(each.unscored for each in judged if each.unscored))
    p_value = binomial_tail(counts[1] + counts[-1], counts[-1], 0.5)
    is_worse = counts[-1] > counts[1] and p_value <= ALPHA
    echo(*_examples([each for each in scored if each.value < 0]))
    echo(f"{'worse' if is_worse else 'not shown to be worse'}: p = {p_value:.2g}, sign test")
    return int(is_worse)


def _examples(lost: list[Preference]) -> Iterator[str]:
    if lost:
        yield "better before:"
    for each in lost[:MAX_NAMED]:
        yield f"  {each.changed.question.rpartition(chr(10))[2]}"
        yield from [f"    {each.why}"] if each.why else []
    if lost[MAX_NAMED:]:
        yield f"  and {len(lost) - MAX_NAMED} more"
