"""What splitting a text into words rests on, in any script; `tokenize` is the only module.

Five parts of the package split texts: answer measures, overlap measures, near-duplicates, BM25 and canonical
comparison. They share the functions here. Where they differ, each says why.
"""
