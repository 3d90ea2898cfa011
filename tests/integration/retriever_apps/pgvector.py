"""PostgreSQL with pgvector. The variables PGHOST, PGPORT and PGUSER name the server."""

import psycopg
from pgvector.psycopg import register_vector

from handbook import DIMENSIONS, PASSAGES, embed

connection = psycopg.connect(dbname="postgres", autocommit=True)
connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
register_vector(connection)
connection.execute(f"CREATE TEMPORARY TABLE passages (id text, text text, embedding vector({DIMENSIONS}))")
for name, text in PASSAGES.items():
    connection.execute("INSERT INTO passages VALUES (%s, %s, %s)", (name, text, embed(text)))
sql = "SELECT id, text FROM passages ORDER BY embedding <=> %s::vector LIMIT %s"
