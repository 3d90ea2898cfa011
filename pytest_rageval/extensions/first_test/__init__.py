"""A first test: `init` writes one for a project, `demo` runs the example."""
