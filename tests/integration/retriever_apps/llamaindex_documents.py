"""LlamaIndex: nodes that a splitter made of documents. Their ids are random; the ids of the documents are given."""

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding

from handbook import PASSAGES, embed


class Words(BaseEmbedding):
    def _get_text_embedding(self, text):
        return embed(text)

    def _get_query_embedding(self, query):
        return embed(query)

    async def _aget_query_embedding(self, query):
        return embed(query)


documents = [Document(id_=name, text=text) for name, text in PASSAGES.items()]
index = VectorStoreIndex.from_documents(documents, embed_model=Words())
