"""The list of features: what each registers with the kernel of a space (log, order, index, erase,
stream), which knows none of them.
"""

from recollect_server.storage.logs.communications import COMMUNICATIONS
from recollect_server.storage.logs.entries import register
from recollect_server.storage.logs.threads import THREADS


def register_features() -> None:
    """Let the process read and write what features have in logs. To call it again is harmless."""
    for vocabulary in (COMMUNICATIONS, THREADS):
        register(vocabulary)
