"""From a question and passages to an answer: a model's, or the user's own function."""

from pytest_rageval.generator.generator import Generator
from pytest_rageval.generator.models import EmbeddedGenerator, LLMGenerator
from pytest_rageval.generator.own import CallableGenerator, adapt_generator

__all__ = ["CallableGenerator", "EmbeddedGenerator", "Generator", "LLMGenerator", "adapt_generator"]
