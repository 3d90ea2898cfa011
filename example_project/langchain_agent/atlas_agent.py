"""An agent on LangChain for questions that need two searches: it finds a name, searches for it, and answers."""

from __future__ import annotations

import re
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI

ATLAS = Path(__file__).with_name("atlas.txt")
FIRST = """\
Text: The Kite is a bakery. It belongs to Ada Lund.
Question: In which year was the owner of the Kite born?
Look up: Ada Lund

Text: The Rooks are a choir. They sing in Elmstead.
Question: On which lake do the Rooks sing?
Look up: Elmstead

Text: {text}
Question: {question}
Look up:"""
SECOND = """\
Text: The Kite is a bakery. It belongs to Ada Lund. Ada Lund is a baker. She was born in 1971.
Question: In which year was the owner of the Kite born?
Answer: 1971

Text: The Rooks are a choir. They sing in Elmstead. Elmstead is a village on the lake Norr. It has 90 houses.
Question: On which lake do the Rooks sing?
Answer: Norr

Text: {text}
Question: {question}
Answer:"""


class WordCounts(Embeddings):
    """Embeds a text as the counts of its words, so that the example needs no embedding model."""

    def __init__(self, texts: list[str]) -> None:
        self.words = sorted({word for text in texts for word in words_of(text)})

    def embed_query(self, text: str) -> list[float]:
        """Count each known word."""
        words = words_of(text)
        return [0.01 + words.count(word) for word in self.words]  # a text of other words is no zero

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Count the words of each text."""
        return [self.embed_query(text) for text in texts]


def words_of(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 3]


def build_index(path: Path = ATLAS) -> InMemoryVectorStore:
    """Index the paragraphs of a file; the name of each stands before its text."""
    pairs = (line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    documents = [Document(id=name, page_content=text) for name, text in pairs]
    return InMemoryVectorStore.from_documents(
        documents, WordCounts([document.page_content for document in documents])
    )


class Agent:
    """Answers a question in two hops. The retriever, its k and the queries are the agent's own."""

    def __init__(self, index: InMemoryVectorStore, k: int = 2) -> None:
        self.retriever = index.as_retriever(search_kwargs={"k": k})
        model = ChatOpenAI(model="gemma-3-270m", temperature=0, max_retries=0).bind(
            stop=["\n"], max_tokens=12
        )
        self.first, self.second = (
            ChatPromptTemplate.from_template(prompt) | model | StrOutputParser() for prompt in (FIRST, SECOND)
        )

    def ask(self, question: str) -> str:
        """Search for the question, then for the name that it leads to, and answer from both passages."""
        found = self.retriever.invoke(question)
        name = self.first.invoke({"text": found[0].page_content, "question": question})
        more = [document for document in self.retriever.invoke(name) if document.id != found[0].id]
        text = " ".join(document.page_content for document in (found[0], *more[:1]))
        return self.second.invoke({"text": text, "question": question}).strip()
