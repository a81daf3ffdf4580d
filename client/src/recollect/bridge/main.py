"""Where `recollect-mcp` begins."""

import argparse
import os
import sys
from importlib.util import find_spec

from recollect import InvalidArgument
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET, DEFAULT_TIMEOUT, checked_target
from recollect._shared.retry import checked_timeout


def main() -> None:
    """Serves until its input ends (stdio) or Ctrl-C, and exits: 0 is the end, 1 a failure, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="recollect-mcp", description="Gives an agent three tools to recall the conversations of a Recollect server, over MCP."
    )
    address = os.environ.get(ADDRESS) or DEFAULT_TARGET
    parser.add_argument("--address", default=address, help=f"the server: host:port or unix:PATH [{ADDRESS}, else {DEFAULT_TARGET}]")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="seconds that a call of it may take [%(default)s]")
    parser.add_argument(
        "--http", metavar="HOST:PORT", help="speak streamable HTTP at http://HOST:PORT/mcp, on a loopback address, instead of stdio"
    )
    arguments = parser.parse_args()
    if find_spec("mcp") is None:
        sys.exit("recollect-mcp needs mcp: pip install 'recollect-client[mcp]'")
    from recollect.bridge import server

    try:
        target, timeout = checked_target(arguments.address), checked_timeout(arguments.timeout)
        listen = None if arguments.http is None else server.loopback(arguments.http)
    except (InvalidArgument, ValueError) as error:
        parser.error(str(error))
    try:
        server.run(target, timeout, listen)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"recollect-mcp: cannot listen on {arguments.http}: {os.strerror(error.errno or 0)}")


if __name__ == "__main__":
    main()
