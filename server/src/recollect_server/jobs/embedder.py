"""Embeds what was said, behind everything else."""

import threading

from recollect_server.services.embedding import Embedding

_SECONDS = 0.25
_MOST_SECONDS = 15.0  # between two tries of what still fails


class EmbedderJob:
    """A thread that looks for what is to be embedded. Started when made."""

    def __init__(self, embedding: Embedding, seconds: float = _SECONDS) -> None:
        self._embedding = embedding
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work_until_stopped, name="embedder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, between two batches if it is at work."""
        self._stopping.set()
        self._embedding.stop()
        self._thread.join()

    def _work_until_stopped(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            worked = self._embedding.tend()
            wait = 0.0 if worked else self._seconds if self._embedding.well else min(max(2 * wait, 1.0), _MOST_SECONDS)
