"""DuckDB: a table in memory with a column of vectors."""

import duckdb

from handbook import PASSAGES, embed

connection = duckdb.connect()
connection.execute("CREATE TABLE passages (id TEXT, text TEXT, embedding FLOAT[64])")
connection.executemany(
    "INSERT INTO passages VALUES (?, ?, ?)", [(name, text, embed(text)) for name, text in PASSAGES.items()]
)
sql = "SELECT id, text FROM passages ORDER BY array_cosine_distance(embedding, ?::FLOAT[64]) LIMIT ?"
