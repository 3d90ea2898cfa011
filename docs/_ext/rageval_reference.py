"""Directives that write the reference from the package itself: options and commands."""

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pytest_rageval.cli import main
from pytest_rageval.options import Option, all_options

__all__ = ["setup"]


class Generated(SphinxDirective, ABC):
    """Markdown that is computed, in place of the directive."""

    def run(self) -> list[nodes.Node]:
        """Parse the text as if it stood in the page."""
        return self.parse_text_to_nodes("\n".join(self.text()), allow_section_headings=True)

    @abstractmethod
    def text(self) -> Iterator[str]:
        """The lines."""


class OptionsDirective(Generated):
    """Those options whose names are the content, in that order."""

    has_content = True

    def text(self) -> Iterator[str]:
        """A definition each."""
        options = {option.name: option for option in all_options()}
        for name in " ".join(self.content).split():
            yield from _option(options[name])


def _option(option: Option[Any]) -> Iterator[str]:
    ini = f"ini `{option.ini}`" if option.in_ini else "command line only"
    shown = f"; default `{option.shown_default}`" if option.shown_default else ""
    yield f"(option-{option.name})="
    yield f"`{option.example() if option.is_flag else option.name}`"
    yield f": {option.help[0].upper()}{option.help[1:]}. <br>{ini}{shown}"
    yield ""


class CommandsDirective(Generated):
    """What `--help` prints, for each command of `rageval`."""

    def text(self) -> Iterator[str]:
        """A section for `rageval` itself, and one for each command."""
        with patch.dict(os.environ, {"COLUMNS": "80"}):
            main_parser = _parser()
            for parser in (main_parser, *_commands(main_parser)):
                yield f"## `{parser.prog}`"
                yield ""
                yield "```text"
                yield from parser.format_help().splitlines()
                yield "```"
                yield ""


def _parser() -> argparse.ArgumentParser:
    """The parser that the command makes for itself."""
    found: list[argparse.ArgumentParser] = []

    def kept(parser: argparse.ArgumentParser, *_: object) -> None:
        found.append(parser)
        raise SystemExit

    with patch.object(argparse.ArgumentParser, "parse_known_args", kept):
        try:
            main([])
        except SystemExit:
            return found[0]
    message = "rageval parses its arguments in another way: adapt docs/_ext"
    raise RuntimeError(message)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that do something."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not groups:
        yield parser
    for group in groups:
        for name in sorted(group.choices):
            yield from _commands(group.choices[name])


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directives."""
    app.add_directive("rageval-options", OptionsDirective)
    app.add_directive("rageval-commands", CommandsDirective)
    return {"version": "1", "parallel_read_safe": True}
