"""Floor 7: `recollect-server`, or `python -m recollect_server`."""

import os

# Before numpy is there: a search's products are small, and threads of one that wait for each other cost more than they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from recollect_server.cli import commands


def main() -> None:
    """Runs the command line."""
    commands(prog_name="recollect-server")


if __name__ == "__main__":
    main()
