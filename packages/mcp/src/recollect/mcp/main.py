"""The entry point of `recollect-mcp`."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from recollect import InvalidArgument, Unavailable
from recollect._embedded import Embedded
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET, DEFAULT_TIMEOUT, checked_target
from recollect._shared.moments import local_zone
from recollect._shared.retry import checked_timeout
from recollect._shared.startup import open_closed_streams

T = TypeVar("T")

_ACCESS = ("space", "ca", "insecure", "time_zone")
"""Options that are those of its client."""


def main() -> None:
    """Serve until the input ends (stdio) or Ctrl-C, and exit: 0 is the end, 1 a failure, 2 wrong
    usage.
    """
    open_closed_streams()
    parser = argparse.ArgumentParser(
        prog="recollect-mcp",
        description="Gives an agent tools to recall the conversations of a Recollect"
        " server, over MCP. The token of a server that asks for one is read from RECOLLECT_TOKEN.",
    )
    address = os.environ.get(ADDRESS) or DEFAULT_TARGET
    text = f"the server: host:port or unix:PATH [{ADDRESS}, else {DEFAULT_TARGET}]"
    parser.add_argument("--address", type=_given(checked_target), default=address, help=text)
    text = (
        "the server of a data folder, which is started if none runs, and stops with its last client"
    )
    parser.add_argument("--embedded", metavar="DIR", type=Path, help=text)
    text = "seconds that a call of it may take [%(default)s]"
    parser.add_argument("--timeout", type=_given(_seconds), default=DEFAULT_TIMEOUT, help=text)
    text = "the space: whose data is meant [RECOLLECT_SPACE]"
    parser.add_argument("--space", metavar="NAME", help=text)
    text = "the time zone of dates in questions, such as Asia/Tokyo [this machine's]"
    parser.add_argument("--time-zone", metavar="NAME", default=local_zone(), help=text)
    text = "speak TLS to the server: the authority of its certificate, or `system` [RECOLLECT_CA]"
    parser.add_argument("--ca", metavar="FILE", help=text)
    text = "send the token to the server in plain text over a network that is trusted"
    parser.add_argument("--insecure", action="store_true", help=text)
    text = "the tools to offer, separated by commas [those that the token allows]"
    parser.add_argument("--tools", metavar="NAME,…", help=text)
    text = "offer the tools that write, too: remember, correct, forget and append_messages"
    parser.add_argument("--write", action="store_true", help=text)
    text = "speak streamable HTTP at HOST:PORT/mcp, instead of stdio"
    http = parser.add_argument_group(
        "HTTP",
        "Beyond loopback it takes a certificate, and a token in RECOLLECT_MCP_TOKEN that callers"
        " send as `Authorization: Bearer`.",
    )
    http.add_argument("--http", metavar="HOST:PORT", help=text)
    text = "a name by which callers know it [HOST, and on loopback its other names]"
    http.add_argument("--host", metavar="NAME", action="append", default=[], help=text)
    http.add_argument("--tls-cert", metavar="FILE", type=Path, help="its certificate, in PEM")
    http.add_argument("--tls-key", metavar="FILE", type=Path, help="the certificate's key, in PEM")
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    with suppress(KeyboardInterrupt):  # also while a module is imported
        _serve(arguments, parser)


def _serve(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Serve as the arguments ask. Ends the program where that fails."""
    from recollect.mcp import server
    from recollect.mcp.definitions import TOOLS, WRITING
    from recollect.mcp.http import TOKEN, HttpOptions

    choices = (*TOOLS, *(WRITING if arguments.write else ()))
    offered = _names(arguments.tools, choices, parser)
    access = {name: getattr(arguments, name) for name in _ACCESS}
    options = None
    try:
        if arguments.http is not None:
            options = HttpOptions.of(
                arguments.http,
                tuple(arguments.host),
                os.environ.get(TOKEN) or None,
                arguments.tls_cert,
                arguments.tls_key,
            )
        target = arguments.address
        if arguments.embedded is not None:
            held = Embedded(arguments.embedded)  # until the process ends, however it ends
            target = held.target
        server.run(server.Bridge(target, arguments.timeout, access, offered), options)
    except (ValueError, InvalidArgument) as error:
        parser.error(str(error))
    except Unavailable as error:
        sys.exit(f"recollect-mcp: {error}")
    except OSError as error:
        if arguments.http is None:
            sys.exit(f"recollect-mcp: cannot use {error.filename}: {os.strerror(error.errno or 0)}")
        sys.exit(
            f"recollect-mcp: cannot listen on {arguments.http}: {os.strerror(error.errno or 0)}"
        )


def _names(
    text: str | None, choices: tuple[str, ...], parser: argparse.ArgumentParser
) -> tuple[str, ...]:
    """Return the tools of a list. Ends the program for a name that is none."""
    if text is None:
        return choices
    names = tuple(dict.fromkeys(it.strip() for it in text.split(",") if it.strip()))
    if wrong := [it for it in names if it not in choices]:
        parser.error(f"argument --tools: {wrong[0]:.100} is none of {', '.join(choices)}")
    if not names:
        parser.error(f"argument --tools: name some of {', '.join(choices)}")
    return names


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
