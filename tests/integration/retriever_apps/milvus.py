"""Milvus: a collection in a file of Milvus Lite."""

from pymilvus import MilvusClient

from handbook import DIMENSIONS, PASSAGES, embed

client = MilvusClient("milvus.db")
client.create_collection("passages", dimension=DIMENSIONS, id_type="string", max_length=64)
client.insert(
    "passages", [{"id": name, "text": text, "vector": embed(text)} for name, text in PASSAGES.items()]
)
