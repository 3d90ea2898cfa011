"""Chroma: a collection in memory, with an embedding function of its own."""

import chromadb

from handbook import PASSAGES, embed


class Words(chromadb.EmbeddingFunction):
    def __init__(self):
        pass

    def __call__(self, input):  # noqa: A002 - Chroma's name
        return [embed(text) for text in input]

    @staticmethod
    def name():
        return "words"

    def get_config(self):
        return {}

    @staticmethod
    def build_from_config(config):
        return Words()


collection = chromadb.EphemeralClient().create_collection("passages", embedding_function=Words())
collection.add(ids=list(PASSAGES), documents=list(PASSAGES.values()))
