"""Prompts for generators and judges: `templates` holds the texts, `rendering` fills them (or a user's).

A prompt is part of each request's key.
"""
