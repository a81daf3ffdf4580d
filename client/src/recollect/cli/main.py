"""The entry point of `recollect`: runs a command, and turns its failure into a sentence and an exit
code.
"""

import os
import sys
from importlib.util import find_spec

from recollect import __version__
from recollect._shared.startup import INTERRUPTED, open_closed_streams

NEEDS = ("click", "rich")


def main() -> None:
    """Run the command line and exit."""
    open_closed_streams()
    if sys.argv[1:] == ["--version"]:  # without the commands, whose import takes most of a second
        sys.stdout.write(f"recollect, version {__version__}\n")
        return
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        sys.stderr.write(
            f"recollect needs {' and '.join(missing)}: pip install 'recollect-client[cli]'\n"
        )
        sys.exit(1)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    try:
        from recollect.cli.group import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while a module was imported: a command ends by itself
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
