"""Runs a retriever in other processes: `executor` in the process of the run, `worker` in the others."""
