"""Runs coroutines: in a background thread, many concurrently, or without an event loop.

- `event_loop`: `BackgroundEventLoop`, an asyncio event loop in a background thread, for evaluations that wait for
  models or for the user's async code. The user's sync functions still run in the thread of the test.
- `pipe_loop`: `new_event_loop`, an event loop that opens no socket.
- `gathering`: `gather_all`, an `asyncio.gather` without a task per coroutine, for the thousands of coroutines of an
  evaluation.
- `inline`: `run_inline`, which runs a coroutine in the calling thread, for evaluations that wait for nothing. They need
  no thread and no event loop.
- `garbage_collection`: `fewer_collections`, which makes Python's garbage collection rarer during an evaluation.
"""
