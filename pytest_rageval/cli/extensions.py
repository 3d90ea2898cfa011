"""`rageval extensions`: lists the extensions of this package and the plugins of others, with what each adds."""

import argparse
import inspect
import json
from types import ModuleType
from typing import Any

from pytest_rageval import hookspecs
from pytest_rageval.cli.console import echo
from pytest_rageval.core.extensions import installed, others


def extensions_command(options: argparse.Namespace) -> int:
    """Print each extension with its commands, options and hooks."""
    entries = [_entry(name, module) for name, module in {**installed(), **others()}.items()]
    if options.json:
        echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return 0
    for entry in entries:
        echo(f"{entry['name']}: {entry['summary']}")
        for kind in ("commands", "options", "hooks"):
            if entry[kind]:
                echo(f"  {kind}: {', '.join(entry[kind])}")
    return 0


def _entry(name: str, module: ModuleType) -> dict[str, Any]:
    return {
        "name": name,
        "module": module.__name__,
        "summary": (inspect.getdoc(module) or "").partition("\n")[0],
        "commands": [f"rageval {command.title}" for command in getattr(module, "COMMANDS", ())],
        "options": [option.typed for option in getattr(module, "OPTIONS", ())],
        "hooks": [
            hook for hook in vars(hookspecs) if hook.startswith("pytest_rageval_") and hasattr(module, hook)
        ],
    }
