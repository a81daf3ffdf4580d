"""A server process that third parties write to: what comes in by standard input, a JSON list a
line, is received; each is answered.

`receiver.py DATA_DIR` says `ready`, then a line for each message: what became of it.
"""

import json
import sys
from pathlib import Path

from recollect_server import app
from recollect_server.settings import Settings


def main() -> None:
    """Receive until standard input ends, or a failpoint kills the process (see
    `storage.failpoints`).
    """
    running = app.start(
        Settings.load(None, {"listen": "127.0.0.1:0", "data_dir": Path(sys.argv[1])})
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        party, delivered, text = json.loads(line)
        with running.spaces.use("default") as space:
            received = space.external.receive("whatsapp", party, delivered, text, (), None)
        sys.stdout.write(
            json.dumps([delivered, received.communication.id, received.duplicate]) + "\n"
        )
        sys.stdout.flush()
    running.stop()


if __name__ == "__main__":
    main()
