"""The program `recollect-server`, or `python -m recollect_server`."""

import os
import sys

# Standard streams that are closed get a place to go: else the next files that are opened, a
# transcript among them, take their descriptors, and what gRPC writes to standard error would stand
# in it.
for descriptor in range(3):
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free

# Before numpy is there: a search's products are small, and threads of one that wait for each other
# cost more than they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# gRPC would write a line of its own to standard error, among the log's, at every handshake that
# fails: a client that connects to a port of TLS without TLS could fill a disk.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# structlog takes rich, and pygments with it, for a renderer that no log of a server uses: 4 MiB and
# 80 modules of each start.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]

from recollect_server.run.commands import commands  # noqa: E402 - after the steps above


def main() -> None:
    """Run the command line."""
    commands(prog_name="recollect-server")


if __name__ == "__main__":
    main()
