"""Every prompt the package sends: templates, and what fills them with texts."""
