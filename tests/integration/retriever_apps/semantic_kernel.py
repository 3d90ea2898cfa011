"""Semantic Kernel: a collection in memory."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from semantic_kernel.connectors.ai.embedding_generator_base import EmbeddingGeneratorBase
from semantic_kernel.connectors.in_memory import InMemoryCollection
from semantic_kernel.data.vector import VectorStoreField, vectorstoremodel

from handbook import DIMENSIONS, PASSAGES, embed


class Words(EmbeddingGeneratorBase):
    async def generate_embeddings(self, texts, settings=None, **_):
        return np.array([embed(text) for text in texts])


@vectorstoremodel
@dataclass
class Passage:
    id: Annotated[str, VectorStoreField("key")]
    text: Annotated[str, VectorStoreField("data")]
    embedding: Annotated[list[float] | str | None, VectorStoreField("vector", dimensions=DIMENSIONS)] = None


collection = InMemoryCollection(
    record_type=Passage, collection_name="passages", embedding_generator=Words(ai_model_id="words")
)


async def fill():
    await collection.ensure_collection_exists()
    await collection.upsert([Passage(name, text, text) for name, text in PASSAGES.items()])


asyncio.run(fill())
