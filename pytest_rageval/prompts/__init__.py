"""Prompts for generators and judges.

`templates` holds the texts and their worked examples, `rendering` fills them (or a user's) for models at a server,
`few_shot` writes pages that a base model continues, `quoting` puts lines around quoted texts. A prompt is part of
each request's key.
"""
