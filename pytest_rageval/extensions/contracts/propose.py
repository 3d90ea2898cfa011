"""`rageval evalset negatives`: proposes passages that are like the gold passages and do not answer the question."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, format_count
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.evalsets import load
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.loading import write_proposals
from pytest_rageval.extensions.contracts.negatives import NEGATIVES, negatives_of
from pytest_rageval.lib.foreign_values import id_key
from pytest_rageval.models.prompt_rendering import read_prompts
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.relevance import RELEVANT


def negatives_command(options: argparse.Namespace) -> int:
    out: Path = options.out
    if out.resolve() == options.file.resolve() or (out.exists() and not options.force):
        raise InputError(f"{out} exists already, nothing was written.\nName another file, or add --force.")
    evalset = load(options.file)
    passages = [each for each in read_corpus(options.corpus) if each.id is not None and each.text.strip()]
    if not passages:
        raise InputError(
            f"The corpus {options.corpus} has no passages with id and text.\nProposals name passages by id."
        )
    texts = {id_key(each.id or ""): each.text for each in passages}
    search = BM25Retriever(passages)
    candidates = {example.id: _like_gold(example, search, texts, options.n) for example in evalset}
    settings = command_settings(options)
    with closing(session_for(settings)) as session:
        judge = DefaultJudge(session.models, read_prompts(settings.prompts))

        async def is_other(example: Example, passage: Document) -> bool:
            return await judge.ask(RELEVANT, example.full_question, passage.text) < YES_THRESHOLD

        asked = [(each, like) for each in evalset for like in candidates[each.id]]
        others = iter(session.loop.run(gather_all(is_other(*pair) for pair in asked)))
    found = {
        key: [{"id": each.id, "why": "proposed"} for each in passages if next(others)]
        for key, passages in candidates.items()
    }
    judged = format_count(sum(map(len, candidates.values())), "passage")
    if proposed := write_proposals(evalset, NEGATIVES, found, out):
        echo(f"{out}: {format_count(proposed, 'negative')} for review, of {judged} like the gold")
    else:
        echo(f"No negatives were proposed, of {judged} like the gold: {out} was not written.")
    echo_request_count(session)
    return int(not proposed)


def _like_gold(
    example: Example, search: BM25Retriever, texts: Mapping[str, str], number: int
) -> Sequence[Document]:
    gold = [each.text or texts.get(id_key(each.id or ""), "") for each in example.relevant]
    query = " ".join(filter(None, gold))
    if not query:
        return ()
    known = {id_key(each.passage.id) for each in negatives_of(example) if each.passage and each.passage.id}
    found = search(query, number + len(gold) + len(known))
    ranking = Ranking.of(query, [each for each in found if each.score and id_key(each.id or "") not in known])
    positions = GoldMatch(ranking, example.gold).positions
    return [each for each, is_gold in zip(ranking, positions, strict=True) if not is_gold][:number]
