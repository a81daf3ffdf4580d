"""The entry point of `recollect-mcp`."""

import argparse
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from recollect import InvalidArgument
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET, DEFAULT_TIMEOUT, checked_target
from recollect._shared.retry import checked_timeout

T = TypeVar("T")


def main() -> None:
    """Serve until the input ends (stdio) or Ctrl-C, and exit: 0 is the end, 1 a failure, 2 wrong
    usage.
    """
    parser = argparse.ArgumentParser(
        prog="recollect-mcp",
        description="Gives an agent three tools to recall the conversations of a Recollect"
        " server, over MCP.",
    )
    address = os.environ.get(ADDRESS) or DEFAULT_TARGET
    text = f"the server: host:port or unix:PATH [{ADDRESS}, else {DEFAULT_TARGET}]"
    parser.add_argument("--address", type=_given(checked_target), default=address, help=text)
    text = "seconds that a call of it may take [%(default)s]"
    parser.add_argument("--timeout", type=_given(_seconds), default=DEFAULT_TIMEOUT, help=text)
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="speak streamable HTTP at http://HOST:PORT/mcp, on a loopback address, instead of"
        " stdio",
    )
    arguments = parser.parse_args()
    if find_spec("mcp") is None:
        sys.exit("recollect-mcp needs mcp: pip install 'recollect-client[mcp]'")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    from recollect.mcp import server

    try:
        listen = None if arguments.http is None else server.loopback(arguments.http)
    except ValueError as error:
        parser.error(str(error))
    try:
        server.run(arguments.address, arguments.timeout, listen)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(
            f"recollect-mcp: cannot listen on {arguments.http}: {os.strerror(error.errno or 0)}"
        )


def _given(check: Callable[[str], T]) -> Callable[[str], T]:
    """Return the check as a type of argparse, which names the flag of a value that is refused."""

    def convert(text: str) -> T:
        try:
            return check(text)
        except InvalidArgument as error:
            raise argparse.ArgumentTypeError(error.violations[0].description) from None

    return convert


def _seconds(text: str) -> float:
    return checked_timeout(float(text))


if __name__ == "__main__":
    main()
