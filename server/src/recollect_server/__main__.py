"""Floor 7: `recollect-server`, or `python -m recollect_server`."""

import gc
import os

# Before numpy is there: a search's products are small, and threads of one that wait for each other cost more than they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

gc.disable()  # what is imported stays: going through it again and again is an eighth of what importing takes
from recollect_server.cli import commands  # noqa: E402 - as is said above

gc.enable()


def main() -> None:
    """Runs the command line."""
    commands(prog_name="recollect-server")


if __name__ == "__main__":
    main()
