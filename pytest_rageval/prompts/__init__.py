"""Prompts for generators and judges.

- `templates`: the templates, and the fences around quoted texts.
- `examples`: worked examples in prompts.
- `rendering`: fills the templates.

A prompt is part of the key of each request, so a changed template requests new replies.
"""
