"""Pseudo-relevance feedback: search again with what the question found, and what a model knows."""

from typing import Final

from pytest_rageval.errors import InputError
from pytest_rageval.llm.complete import LLM
from pytest_rageval.model import Document
from pytest_rageval.prompts.continuing import passage_prompt
from pytest_rageval.retrievers.written import MAX_TOKENS, Search, search_each, searching, unsettled, write

__all__ = ["FeedbackRetriever"]

SEPARATOR: Final = " [SEP] "
"""Which encoders of BERT's kind read as the end of a text."""


class FeedbackRetriever:
    """The question, a model's passage on it, and the first passages that it finds, joined into one query.

    The joined text is `question [SEP] knowledge [SEP] d1 [SEP] … [SEP] dn`. An
    encoder cuts it where it stops reading, after 256 tokens in the packaged one:
    then the last passages count in part or not at all.

    The knowledge is the passage that `HyDERetriever` writes too: who uses both pays once.

    Args:
        search: a retriever, sync or async, such as a `DenseRetriever`.
        llm: the fixture `rageval_llm`.
        passages: how many of the first passages are taken for relevant.
        max_tokens: of the model's passage; None leaves it to the server. A model that thinks
            before it writes needs more than the default.

    Raises:
        InputError: `search` cannot be called, or `passages` is below 0.
    """

    def __init__(
        self, search: Search, llm: LLM, *, passages: int = 3, max_tokens: int | None = MAX_TOKENS
    ) -> None:
        if passages < 0:
            raise InputError(f"passages is {passages}: feedback takes the first 0 or more passages.")
        self._search = searching(search)
        self._llm = llm
        self._passages = passages
        self._max_tokens = max_tokens

    async def __call__(self, query: str, k: int) -> list[Document]:
        """The k documents that the joined query finds, best first.

        Raises:
            Unscored: there is no knowledge: its request failed, or the model wrote nothing.
        """
        knowledge = await write(
            self._llm, passage_prompt(query), temperature=0.0, max_tokens=self._max_tokens
        )
        (first,) = await search_each(self._search, [query], self._passages)
        joined = SEPARATOR.join([query, knowledge, *(document.text for document in first)])
        (found,) = await search_each(self._search, [joined], k)
        return unsettled(found, knowledge)
