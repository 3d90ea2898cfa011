"""Tantivy: a full-text index in memory."""

import tantivy

from handbook import PASSAGES

schema = (
    tantivy.SchemaBuilder()
    .add_text_field("id", stored=True, tokenizer_name="raw")
    .add_text_field("text", stored=True)
    .build()
)
index = tantivy.Index(schema)
writer = index.writer()
for name, text in PASSAGES.items():
    writer.add_document(tantivy.Document(id=name, text=text))
writer.commit()
index.reload()
searcher = index.searcher()
