"""The entry point of `recollect`: runs a command, and turns its failure into a sentence and an exit
code.
"""

import os
import sys

from recollect import __version__
from recollect._shared.startup import INTERRUPTED, open_closed_streams


def main() -> None:
    """Run the command line and exit."""
    open_closed_streams()
    if sys.argv[1:] == ["--version"]:  # without the commands, whose import takes most of a second
        sys.stdout.write(f"recollect, version {__version__}\n")
        return
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    try:
        from recollect.cli.group import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while a module was imported: a command ends by itself
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
