"""Prompts for generators and judges.

`templates` holds the texts, `examples` their worked examples, and `rendering` fills them in.

A prompt is part of the key of each request: a changed template requests new replies.
"""
