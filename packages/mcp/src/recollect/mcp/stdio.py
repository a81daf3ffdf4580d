"""Standard input and output as the transport of one host, and the end of the process with them."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, NoReturn

import anyio
from mcp.server.stdio import stdio_server


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield what a host writes and where it reads.

    Ctrl-C, or an output that cannot be written, ends the process at once: a thread of mcp waits for
    the next line of the input, and nothing can cancel it.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    output = _Output(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed must not come between the messages
    file = TextIOWrapper(BufferedWriter(output), encoding="utf-8")
    async with stdio_server(stdout=anyio.wrap_file(file)) as streams:
        yield streams


class _Output(FileIO):
    """The standard output, whose failure ends the process."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            os._exit(0)  # the host is gone, as when it ends the input
        except OSError as error:
            _fail(f"cannot write standard output: {os.strerror(error.errno or 0)}")


def _fail(sentence: str) -> NoReturn:
    sys.stderr.write(f"recollect-mcp: {sentence}\n")
    sys.stderr.flush()
    os._exit(1)
