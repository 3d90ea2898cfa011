"""Haystack: a document store, and a pipeline of an embedder and a retriever."""

from haystack import Document, Pipeline, component
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from handbook import PASSAGES, embed


@component
class Words:
    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": embed(text)}


store = InMemoryDocumentStore(embedding_similarity_function="cosine")
store.write_documents(
    [Document(id=name, content=text, embedding=embed(text)) for name, text in PASSAGES.items()]
)
embedder = Words()
pipeline = Pipeline()
pipeline.add_component("embedder", Words())
pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store))
pipeline.connect("embedder.embedding", "retriever.query_embedding")
