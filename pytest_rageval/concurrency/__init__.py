"""Concurrency: coroutines in a background thread, many at once, or without an event loop.

- `event_loop`: `BackgroundEventLoop`, the event loop of evaluations, in a background thread.
- `gathering`: `gather_all`, which runs many coroutines without a task for each.
- `inline`: `run_inline`, which runs a coroutine in the calling thread as long as it need not wait.
- `garbage_collection`: collects less often during an evaluation.
"""
