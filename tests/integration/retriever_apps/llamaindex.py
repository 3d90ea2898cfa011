"""LlamaIndex: nodes with ids of their own."""

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from handbook import PASSAGES, embed


class Words(BaseEmbedding):
    def _get_text_embedding(self, text):
        return embed(text)

    def _get_query_embedding(self, query):
        return embed(query)

    async def _aget_query_embedding(self, query):
        return embed(query)


index = VectorStoreIndex(
    [TextNode(id_=name, text=text) for name, text in PASSAGES.items()], embed_model=Words()
)
