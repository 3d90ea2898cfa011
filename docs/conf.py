"""Builds the documentation: `sphinx-build -W docs docs/_build`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pytest-rageval"
author = "the pytest-rageval contributors"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx reads this name
release = version_of("pytest-rageval")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "rageval_reference",
]

# Pages are Markdown.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Docstrings: Google's sections, and backticks for code as in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# An unknown target of a link is an error.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"pytest-rageval {release}"
html_static_path = ["_static"]
html_css_files = ["rageval.css"]
html_extra_path = ["../pytest_rageval/report.schema.json", "llms.txt"]
html_theme_options = {
    "source_repository": "https://github.com/pytest-rageval/pytest-rageval/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_show_sphinx = False

# Copies the commands of a console block, without prompts and without what they print.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
