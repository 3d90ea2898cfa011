"""Access to language models: what is asked, what came back, and where it is kept."""
