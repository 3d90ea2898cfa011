"""LangChain: documents with ids of their own."""

from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from handbook import PASSAGES, embed


class Words(Embeddings):
    def embed_query(self, text):
        return embed(text)

    def embed_documents(self, texts):
        return [embed(text) for text in texts]


embedding = Words()
documents = [Document(id=name, page_content=text) for name, text in PASSAGES.items()]
store = InMemoryVectorStore.from_documents(documents, embedding)
