"""`new_event_loop`: an asyncio event loop that opens no socket.

asyncio wakes its loop through a pair of sockets. Plugins such as pytest-socket forbid a test to open sockets, so that
not even a test that sends nothing could be evaluated. A pipe does the same, except on Windows, whose loops cannot wait
for a pipe.
"""

import asyncio
import os
import sys
from io import FileIO


class _PipeEnd(FileIO):
    """One end of a pipe that does not block, with the methods of a socket that asyncio calls."""

    def __init__(self, descriptor: int, mode: str) -> None:
        super().__init__(descriptor, mode)
        os.set_blocking(descriptor, False)

    def recv(self, size: int) -> bytes | None:
        """Return the bytes in the pipe, at most `size`; None if there are none."""
        return self.read(size)

    def send(self, data: bytes) -> None:
        """Write bytes; if the pipe is full, nothing needs to be written. OSError if another thread has closed it."""
        try:
            self.write(data)
        except ValueError as error:
            raise OSError(str(error)) from None


class _PipeEventLoop(asyncio.SelectorEventLoop):
    """An event loop that is woken through a pipe."""

    _ssock: _PipeEnd
    _csock: _PipeEnd

    def _make_self_pipe(self) -> None:
        # As the method of asyncio, which other threads and `close` use through these attributes.
        reading, writing = os.pipe()
        self._ssock, self._csock = _PipeEnd(reading, "rb"), _PipeEnd(writing, "wb")
        self._internal_fds += 1  # type: ignore[attr-defined]
        self._add_reader(reading, self._read_from_self)  # type: ignore[attr-defined]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop that opens no socket; on Windows, the usual one."""
    return asyncio.new_event_loop() if sys.platform == "win32" else _PipeEventLoop()
