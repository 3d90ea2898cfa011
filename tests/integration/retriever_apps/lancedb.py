"""LanceDB: a table in a folder."""

import lancedb

from handbook import PASSAGES, embed

table = lancedb.connect("lance").create_table(
    "passages", [{"id": name, "text": text, "vector": embed(text)} for name, text in PASSAGES.items()]
)
