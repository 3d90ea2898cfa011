"""Qdrant: a collection in memory. Its points have numbers, so that the ids of the passages are in the payload."""

from qdrant_client import QdrantClient, models

from handbook import DIMENSIONS, PASSAGES, embed

client = QdrantClient(":memory:")
client.create_collection(
    "passages", vectors_config=models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
)
client.upsert(
    "passages",
    [
        models.PointStruct(id=number, vector=embed(text), payload={"doc_id": name, "text": text})
        for number, (name, text) in enumerate(PASSAGES.items())
    ],
)
