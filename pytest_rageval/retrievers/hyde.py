"""HyDE: search with a passage that a model imagines, instead of the question."""

from pytest_rageval.llm.complete import LLM
from pytest_rageval.model import Document
from pytest_rageval.prompts.continuing import passage_prompt
from pytest_rageval.retrievers.written import MAX_TOKENS, Search, search_each, searching, unsettled, write

__all__ = ["HyDERetriever"]


class HyDERetriever:
    """Hypothetical document embeddings: a written passage that might answer is nearer to real ones.

    What it says may be wrong; it is only searched with. One passage a question,
    and the question itself is not searched with.

    Args:
        search: a retriever, sync or async. One with a method `nearest(passage, k)`, as `DenseRetriever`,
            is asked by that: an encoder that reads questions otherwise then reads a passage.
        llm: the fixture `rageval_llm`; so each passage is paid once.
        max_tokens: of the passage; None leaves it to the server. A model that thinks before it
            writes needs more than the default.

    Raises:
        InputError: `search` cannot be called.

    Source: Gao et al. (2023), with one passage at temperature 0.
    """

    def __init__(self, search: Search, llm: LLM, *, max_tokens: int | None = MAX_TOKENS) -> None:
        self._search = searching(getattr(search, "nearest", search))
        self._llm = llm
        self._max_tokens = max_tokens

    async def __call__(self, query: str, k: int) -> list[Document]:
        """The k documents that the written passage finds, best first.

        Raises:
            Unscored: there is no such passage: its request failed, or the model wrote nothing.
        """
        passage = await write(self._llm, passage_prompt(query), temperature=0.0, max_tokens=self._max_tokens)
        (found,) = await search_each(self._search, [passage], k)
        return unsettled(found, passage)
