"""Which names may have been seen: a Bloom filter (Bloom 1970), so that a new one needs no question to the database.

Sixteen bits and two hashes a name: about one new name in seventy is taken for one that may have been seen, and then the database is
asked. One that was added is never missed.
"""

import mmap
import threading

_BITS = 16
_LEAST = 1 << 20  # 2 MB


class Seen:
    """A set of names (texts, or numbers as `domain.routing.mail_number` makes them) that may say "perhaps" wrongly and never "no"
    wrongly.
    """

    def __init__(self, expected: int) -> None:
        """Room for twice as many names as expected; beyond that "perhaps" grows more frequent, until the next start."""
        self._size = max(_LEAST, 2 * expected) * _BITS
        self._bits = mmap.mmap(-1, self._size // 8 + 1)  # takes memory as it fills
        self._guard = threading.Lock()  # guards the bits while they change

    def add(self, name: str | int) -> None:
        """Adds a name."""
        first, second = self._places(name)
        with self._guard:
            self._bits[first >> 3] |= 1 << (first & 7)
            self._bits[second >> 3] |= 1 << (second & 7)

    def __contains__(self, name: str | int) -> bool:
        first, second = self._places(name)
        return bool(self._bits[first >> 3] >> (first & 7) & self._bits[second >> 3] >> (second & 7) & 1)

    def _places(self, name: str | int) -> tuple[int, int]:
        # The two halves of Python's hash. That of a text is keyed anew in every process; a number is part of a hash already.
        value = hash(name)
        return (value & 0xFFFFFFFF) % self._size, (value >> 32 & 0xFFFFFFFF) % self._size
