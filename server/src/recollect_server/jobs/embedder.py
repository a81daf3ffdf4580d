"""Embeds what was said, behind everything else."""

from recollect_server.jobs.loop import Loop
from recollect_server.services.recall.embedding import Embedding

_SECONDS = 0.25
_MOST_SECONDS = 15.0  # between two tries of what still fails


class EmbedderJob:
    """A thread that looks for what is to be embedded. Started when made."""

    def __init__(self, embedding: Embedding, seconds: float = _SECONDS) -> None:
        self._embedding = embedding
        self._seconds = seconds
        self._wait = 0.0
        self._loop = Loop("embedder", self._tend)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, between two batches if it is working."""
        self._loop.stopping.set()
        self._embedding.stop()
        self._loop.stop()

    def _tend(self) -> float:
        worked = self._embedding.tend()
        self._wait = (
            0.0
            if worked
            else self._seconds
            if self._embedding.well
            else min(max(2 * self._wait, 1.0), _MOST_SECONDS)
        )
        return self._wait
